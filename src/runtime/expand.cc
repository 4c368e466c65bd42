#include "runtime/expand.h"

namespace kvferry::runtime {

Loan Expand::loan(const core::out::Lend& lend, const core::PairPlan& plan) {
  loan_groups_.clear();
  for (std::size_t space = 0; space < kSpaces; ++space) {
    planes_[space].clear();
    item_bytes_[space].clear();
    if (lend.items[space].empty()) continue;
    for (const PlanePair& pair : plan.planes[space]) {
      planes_[space].push_back(pair.local);
      // The lent stretch of an item reaches from its first piece to the end of its last.
      item_bytes_[space].push_back(pair.bytes + (pair.repeat - 1) * pair.local_step);
    }
    if (planes_[space].empty()) continue;
    loan_groups_.push_back(LoanGroup{planes_[space], item_bytes_[space], lend.items[space]});
  }
  return Loan{lend.loan, lend.token, lend.peer, lend.access, loan_groups_};
}

Operation Expand::operation(const core::out::Post& post, const core::PairPlan& plan) {
  piece_groups_.clear();
  for (std::size_t space = 0; space < kSpaces; ++space) {
    if (post.runs[space].empty() || plan.planes[space].empty()) continue;
    piece_groups_.push_back(PieceGroup{plan.planes[space], post.runs[space]});
  }
  return Operation{post.op, post.access, post.peer, post.ticket, piece_groups_, post.notice, post.priority};
}

}  // namespace kvferry::runtime
