#include "kvferry/transport.h"

namespace kvferry {

namespace {

std::uint64_t items_of(std::span<const RunPair> runs) noexcept {
  std::uint64_t sum = 0;
  for (const RunPair& run : runs) {
    sum += run.count;
  }
  return sum;
}

}  // namespace

std::uint64_t bytes_of(const PieceGroup& group) noexcept {
  std::uint64_t per_item = 0;
  for (const PlanePair& plane : group.planes) {
    per_item += std::uint64_t{plane.bytes} * plane.repeat;
  }
  return per_item * items_of(group.runs);
}

std::uint64_t pieces_of(const PieceGroup& group) noexcept {
  std::uint64_t per_item = 0;
  for (const PlanePair& plane : group.planes) {
    per_item += plane.repeat;
  }
  return per_item * items_of(group.runs);
}

}  // namespace kvferry
