// The loans in force on one side, and the answer to "may this operation touch them?". The reasons are
// numbered, because they travel back to the peer. Thread rule: belongs to the progress thread of its
// transport.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/footprint.h"
#include "transport/regions.h"

namespace kvferry::transport {

// Why an operation was refused by the side whose memory it names. The numbers are part of the tcp wire.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kNoLoan = 1,       // the slot lends nothing: revoked, or never lent
  kStaleLoan = 2,    // the slot lends another loan
  kWrongToken = 3,
  kWrongPeer = 4,    // lent to another peer
  kWrongAccess = 5,  // lent for reading and written, or the other way
  kOutside = 6,      // a piece lies outside the lent items
  kBroken = 7,       // the operation contradicts itself (more bytes than it announced)
  kBusy = 8,         // more operations at once than the lender follows
};
inline constexpr std::uint8_t kRefusals = 9;
const char* name_of(Refusal) noexcept;
// What the poster is told. `detail` may be empty.
Error error_of(Refusal, const std::string& what, const Ticket&, const std::string& detail);

struct LentLoan {
  LoanId id;
  std::uint64_t token = 0;
  PeerId peer;
  Access access = Access::kWrite;
  Footprint footprint;
  RegionHold hold;
};

class LoanTable {
 public:
  LoanTable(std::string mover, std::uint32_t slots) : mover_(std::move(mover)), most_(slots) {}

  // Checks the loan against the regions, copies it and holds the regions. `offered`: bits of Access that the
  // mover lends.
  Result<> lend(const Loan&, std::uint8_t offered, RegionTable&);
  // kUsage when this very loan is not in force.
  Result<> revoke(LoanId, RegionTable&);
  const LentLoan* find(LoanId) const noexcept;  // null unless in force; slot and serial both count
  std::vector<LoanId> lent_to(PeerId) const;

  // kNone: every byte of the remote side of `groups` may be touched by `peer` in this way.
  Refusal judge(const Ticket&, PeerId, Access, std::span<const PieceGroup>, std::string* detail) const;
  std::size_t size() const noexcept { return live_; }

 private:
  std::string mover_;
  std::uint32_t most_ = 0;
  std::vector<std::optional<LentLoan>> slots_;
  std::vector<std::optional<std::uint64_t>> last_serial_;  // per slot: the newest one lent
  std::size_t live_ = 0;
};

// Shared by the movers: what every post must fulfil before it is looked at further.
Result<> check_operation(const std::string& mover, const Operation&, Access offered, const RegionTable&);

}  // namespace kvferry::transport
