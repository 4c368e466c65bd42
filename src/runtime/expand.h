// The engine speaks of items by space; a mover wants planes. This puts the two together, without allocating
// once warm. Thread rule: progress thread only. What is returned points into the arguments and into this
// object: use it at once.
#pragma once

#include <array>
#include <vector>

#include "core/io.h"
#include "core/plan.h"
#include "kvferry/transport.h"

namespace kvferry::runtime {

class Expand {
 public:
  Loan loan(const core::out::Lend&, const core::PairPlan&);
  Operation operation(const core::out::Post&, const core::PairPlan&);

 private:
  std::array<std::vector<Plane>, kSpaces> planes_;
  std::array<std::vector<std::uint32_t>, kSpaces> item_bytes_;
  std::vector<LoanGroup> loan_groups_;
  std::vector<PieceGroup> piece_groups_;
};

}  // namespace kvferry::runtime
