// Two layouts -> which planes of one go with which planes of the other, for one pair of ranks. Pure.
// This version pairs equal layouts (same page size, same item bytes) over the layers that both ranks hold.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/layout.h"
#include "kvferry/transport.h"

namespace kvferry::core {

// A layout must fit one HELLO, which is at most 1 MiB: 32768 layers of 24 bytes, 64 components with two texts
// of 255 bytes and the descriptions of 16 movers are 0.9 MB. The first two are also wire::FrameLimits of the
// same names.
inline constexpr std::size_t kMaxComponents = 64;
inline constexpr std::size_t kMaxLayers = 1024;  // of one component
inline constexpr std::size_t kMaxLayersInAll = 32768;  // of all components
inline constexpr std::size_t kMaxNameBytes = 255;  // a component's name; its dtype

struct PairPlan {
  std::array<std::vector<PlanePair>, kSpaces> planes;  // by Space
  std::array<std::uint64_t, kSpaces> item_bytes{};  // bytes of one item over all planes of that space
  std::array<std::uint32_t, kSpaces> local_items{};  // index bound on this side
  std::array<std::uint32_t, kSpaces> remote_items{};  // index bound on the other side
  bool operator==(const PairPlan&) const;
};

// Refused (kMismatch) with both values in the text; an empty intersection of layers is legal (an idle leg).
Result<PairPlan> make_plan(const Layout& local, const Layout& remote);

// Hash of what both sides must share: page size, component names, kinds, dtypes, item bytes. Not of layers or
// memory.
std::uint64_t layout_hash(const Layout&);

// A layout that cannot be used (no components, duplicate names, stride < item bytes, region out of range):
// kUsage.
Result<> check_layout(const Layout&, const std::vector<std::uint64_t>& region_bytes);

}  // namespace kvferry::core
