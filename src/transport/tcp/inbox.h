// The operations of one peer that have begun to arrive: an operation has arrived when all of its bytes were
// placed, over whichever streams its frames came. Thread rule: progress thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "transport/loans.h"
#include "transport/tcp/frame.h"

namespace kvferry::transport::tcp {

class Inbox {
 public:
  explicit Inbox(std::uint32_t most) : most_(most) {}

  // A frame whose loan was found in order begins: kBroken when it contradicts earlier frames of its
  // operation, kBusy when too many operations are open. kNone: placed() or dropped() of this frame follows.
  Refusal begin(const WriteFrame&, std::uint32_t payload);
  bool placed(const WriteFrame&,
              std::uint32_t payload);  // true: that was all; the operation has arrived, once
  void forget(std::uint64_t sequence) { open_.erase(sequence); }  // refused: it can never arrive
  void forget_loan(LoanId);
  void clear() { open_.clear(); }
  std::size_t size() const noexcept { return open_.size(); }

 private:
  struct Open {
    LoanId loan;
    std::uint64_t op_bytes = 0;
    std::uint64_t begun = 0, placed = 0;  // bytes
  };
  std::uint32_t most_;
  std::unordered_map<std::uint64_t, Open> open_;
};

}  // namespace kvferry::transport::tcp
