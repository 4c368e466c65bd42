// Loans of this side's memory for reading: a record for each slot beside its lease words. Thread rule:
// progress thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/regions.h"
#include "transport/shm/lease.h"

namespace kvferry::shm {

class Loans {
 public:
  // `regions` outlives this; `most` slots.
  Loans(LeaseWriter words, transport::RegionTable& regions, std::uint32_t most);

  Result<> lend(const Loan&);     // readable when it returns
  Result<> revoke(LoanId);  // dead when it returns; once for each loan, also for one that revoke_peer ended
  void revoke_peer(PeerId);  // ends all loans to that peer
  bool any_to(PeerId) const noexcept;
  std::uint32_t live() const noexcept { return live_; }
  const LeaseWriter& words() const noexcept { return words_; }

 private:
  struct Record {
    std::uint64_t serial = 0;  // the newest of this slot; serials only rise
    PeerId peer;
    bool readable = false;  // the word holds the serial
    bool fenced = false;  // revoke_peer() ended it; revoke() may still be called
    transport::RegionHold hold;
  };
  void end(std::uint32_t slot, Record&);

  LeaseWriter words_;
  transport::RegionTable& regions_;
  std::uint32_t most_ = 0, live_ = 0;
  std::vector<Record> records_;  // grows to the highest slot used
};

}  // namespace kvferry::shm
