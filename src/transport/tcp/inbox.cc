#include "transport/tcp/inbox.h"

namespace kvferry::transport::tcp {

Refusal Inbox::begin(const WriteFrame& frame, std::uint32_t payload) {
  auto it = open_.find(frame.sequence);
  if (it == open_.end()) {
    if (open_.size() >= most_) return Refusal::kBusy;
    it = open_.emplace(frame.sequence, Open{frame.ticket.loan, frame.op_bytes, 0, 0}).first;
  }
  Open& open = it->second;
  if (open.loan != frame.ticket.loan || open.op_bytes != frame.op_bytes ||
      payload > open.op_bytes - open.begun || (payload == 0 && open.op_bytes != 0)) {
    open_.erase(it);
    return Refusal::kBroken;
  }
  open.begun += payload;
  return Refusal::kNone;
}

bool Inbox::placed(const WriteFrame& frame, std::uint32_t payload) {
  const auto it = open_.find(frame.sequence);
  if (it == open_.end()) return false;
  it->second.placed += payload;
  if (it->second.placed < it->second.op_bytes) return false;
  open_.erase(it);
  return true;
}

void Inbox::forget_loan(LoanId loan) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.loan == loan; });
}

}  // namespace kvferry::transport::tcp
