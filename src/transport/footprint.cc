#include "transport/footprint.h"

#include <algorithm>
#include <limits>

namespace kvferry::transport {
namespace {

__extension__ typedef unsigned __int128 Wide;

std::vector<PageRun> sorted_runs(std::span<const PageRun> runs) {
  std::vector<PageRun> sorted(runs.begin(), runs.end());
  std::erase_if(sorted, [](const PageRun& run) { return run.count == 0; });
  std::sort(sorted.begin(), sorted.end());
  std::vector<PageRun> merged;
  for (const PageRun& run : sorted) {
    const std::uint64_t end = std::uint64_t{run.first} + run.count;
    if (!merged.empty() && run.first <= std::uint64_t{merged.back().first} + merged.back().count) {
      const std::uint64_t old = std::uint64_t{merged.back().first} + merged.back().count;
      // A span of 2^32 items (from 0 to the last index) does not fit `count`; it starts a run of its own
      // then.
      if (std::max(end, old) - merged.back().first <= std::numeric_limits<std::uint32_t>::max()) {
        merged.back().count = static_cast<std::uint32_t>(std::max(end, old) - merged.back().first);
        continue;
      }
    }
    merged.push_back(run);
  }
  return merged;
}

// Items [i, ...) that are lent without a gap, counted from item i; 0: i itself is not.
std::uint64_t lent_from(const std::vector<PageRun>& runs, std::uint64_t item) {
  auto after = std::upper_bound(runs.begin(), runs.end(), item,
                                [](std::uint64_t value, const PageRun& run) { return value < run.first; });
  if (after == runs.begin()) return 0;
  const PageRun& run = *std::prev(after);
  const std::uint64_t end = std::uint64_t{run.first} + run.count;
  return item < end ? end - item : 0;
}

}  // namespace

Footprint::Footprint(std::span<const LoanGroup> groups) {
  for (const LoanGroup& group : groups) {
    const auto index = static_cast<std::uint32_t>(runs_.size());
    runs_.push_back(sorted_runs(group.runs));
    for (std::size_t i = 0; i < group.planes.size(); ++i) {
      planes_.push_back({group.planes[i], group.item_bytes[i], index});
    }
  }
  std::sort(planes_.begin(), planes_.end(), [](const Lent& a, const Lent& b) {
    const Key x{a.plane.region.value, a.plane.base}, y{b.plane.region.value, b.plane.base};
    return x != y ? x < y : a.group < b.group;
  });
}

bool Footprint::items_lent(std::uint32_t group, std::uint64_t first, std::uint64_t count) const {
  return lent_from(runs_[group], first) >= count;
}

// How many bytes from `offset` on are lent by the plane that lends most of them.
std::uint64_t Footprint::prefix(RegionId region, std::uint64_t offset, std::uint64_t& effort) const {
  std::uint64_t best = 0;
  auto it = std::lower_bound(
      planes_.begin(), planes_.end(), Key{region.value, 0},
      [](const Lent& lent, const Key& key) { return Key{lent.plane.region.value, lent.plane.base} < key; });
  for (; it != planes_.end() && it->plane.region == region && it->plane.base <= offset; ++it) {
    if (effort == 0) return 0;
    --effort;
    const std::uint64_t stride = it->plane.stride, at = offset - it->plane.base;
    const std::uint64_t item = stride == 0 ? 0 : at / stride, within = stride == 0 ? at : at % stride;
    if (within >= it->item_bytes) continue;
    std::uint64_t items = lent_from(runs_[it->group], item);
    if (stride == 0 && !runs_[it->group].empty()) items = 1;  // every item is the same bytes
    if (items == 0) continue;
    const std::uint64_t whole = stride == it->item_bytes ? items * stride : it->item_bytes;
    best = std::max(best, whole - within);
  }
  return best;
}

bool Footprint::contains(RegionId region, std::uint64_t offset, std::uint64_t length,
                         std::uint64_t& effort) const {
  if (length > std::numeric_limits<std::uint64_t>::max() - offset) return false;
  while (length != 0) {
    const std::uint64_t lent = prefix(region, offset, effort);
    if (lent == 0) return false;
    const std::uint64_t step = std::min(lent, length);
    offset += step;
    length -= step;
  }
  return true;
}

bool Footprint::contains(RegionId region, std::uint64_t offset, std::uint64_t length) const {
  std::uint64_t effort = kFootprintEffort;
  return contains(region, offset, length, effort);
}

// The short cut: the piece lies at the same place in every item of one lent plane.
bool Footprint::plane_lent(const PlanePair& pair, std::span<const RunPair> runs) const {
  auto it = std::upper_bound(
      planes_.begin(), planes_.end(), Key{pair.remote.region.value, pair.remote.base},
      [](const Key& key, const Lent& lent) { return key < Key{lent.plane.region.value, lent.plane.base}; });
  while (it != planes_.begin()) {
    --it;
    if (it->plane.region != pair.remote.region) return false;
    if (it->plane.stride != pair.remote.stride) return false;
    const Wide end =
        Wide{pair.remote.base - it->plane.base} + Wide{pair.repeat - 1} * pair.remote_step + pair.bytes;
    if (end > it->item_bytes) return false;
    const auto lent = [&](const RunPair& run) {
      return run.count == 0 || items_lent(it->group, run.remote, run.count);
    };
    if (std::all_of(runs.begin(), runs.end(), lent)) return true;
    // Another group may lend other items of the same plane; anything else is left to the long way.
    if (it == planes_.begin() || std::prev(it)->plane.base != it->plane.base) return false;
  }
  return false;
}

bool Footprint::pieces_lent(const PlanePair& pair, std::span<const RunPair> runs, std::uint64_t& effort,
                            std::string* why) const {
  for (const RunPair& run : runs) {
    for (std::uint64_t item = 0; item < run.count; ++item) {
      for (std::uint64_t k = 0; k < pair.repeat; ++k) {
        const Wide at = Wide{pair.remote.base} + Wide{run.remote + item} * pair.remote.stride +
                        Wide{k} * pair.remote_step;
        const bool fits = at <= std::numeric_limits<std::uint64_t>::max();
        if (effort != 0 && fits &&
            contains(pair.remote.region, static_cast<std::uint64_t>(at), pair.bytes, effort)) {
          continue;
        }
        if (why != nullptr) {
          *why = "item " + std::to_string(run.remote + item) + " of region " +
                 std::to_string(pair.remote.region.value) + " (" + std::to_string(pair.bytes) + " bytes at " +
                 (fits ? std::to_string(static_cast<std::uint64_t>(at))
                       : std::string("an offset beyond 64 bits")) +
                 (effort == 0 ? ") is too costly to look up in this loan" : ") is not part of this loan");
        }
        return false;
      }
    }
  }
  return true;
}

bool Footprint::covers(std::span<const PieceGroup> groups, std::string* why) const {
  std::uint64_t effort = kFootprintEffort;
  for (const PieceGroup& group : groups) {
    for (const PlanePair& pair : group.planes) {
      if (pair.bytes == 0 || pair.repeat == 0) continue;
      if (plane_lent(pair, group.runs)) continue;
      if (!pieces_lent(pair, group.runs, effort, why)) return false;
    }
  }
  return true;
}

}  // namespace kvferry::transport
