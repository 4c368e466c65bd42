// Which bytes a loan lends: a copy of its groups, asked before a byte is placed. Values; no thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kvferry/transport.h"

namespace kvferry::transport {

// Planes looked at for one question that has no short cut; a question that needs more is answered "no". At a
// few nanoseconds each this bounds what a hostile frame can cost to about a millisecond.
inline constexpr std::uint64_t kFootprintEffort = 1ULL << 17;

class Footprint {
 public:
  Footprint() = default;
  explicit Footprint(std::span<const LoanGroup>);  // the groups must have been checked against their regions

  // Does every byte of [offset, offset + length) lie inside lent items? The range may run over neighbouring
  // items.
  bool contains(RegionId, std::uint64_t offset, std::uint64_t length) const;

  // Does every piece of the *remote* side of these groups lie inside lent items? Pieces that follow a lent
  // plane (same region and stride) are judged as a whole plane, others one by one. False: `why` (if given)
  // names the first stranger.
  bool covers(std::span<const PieceGroup>, std::string* why = nullptr) const;

 private:
  struct Lent {  // one plane of one group
    Plane plane;
    std::uint32_t item_bytes = 0;
    std::uint32_t group = 0;
  };
  struct Key {  // where a plane begins
    std::uint32_t region = 0;
    std::uint64_t base = 0;
    auto operator<=>(const Key&) const = default;
  };
  bool items_lent(std::uint32_t group, std::uint64_t first, std::uint64_t count) const;
  std::uint64_t prefix(RegionId, std::uint64_t offset, std::uint64_t& effort) const;
  bool contains(RegionId, std::uint64_t offset, std::uint64_t length, std::uint64_t& effort) const;
  bool plane_lent(const PlanePair&, std::span<const RunPair>) const;
  bool pieces_lent(const PlanePair&, std::span<const RunPair>, std::uint64_t& effort, std::string* why) const;

  std::vector<Lent> planes_;  // by region, then base
  std::vector<std::vector<PageRun>> runs_;  // per group: sorted, merged
};

}  // namespace kvferry::transport
