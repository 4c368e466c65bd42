// What a rank holds, as data: components, layers, pages. The planner pairs two of these. Values; no thread
// rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/export.h"
#include "kvferry/types.h"

namespace kvferry {

// By which index a component's memory is found.
enum class Space : std::uint8_t {
  kPages = 0,  // the block table: one index per page of tokens
  kAux = 1,    // one auxiliary slot per room (first token, log-probs, hidden states)
  kState = 2,  // constant-size state slots (Mamba, convolution, ...)
};
inline constexpr std::size_t kSpaces = 3;

enum class ComponentKind : std::uint8_t {
  kAttention = 0,
  kMla = 1,
  kIndexer = 2,
  kSlidingWindow = 3,
  kState = 4,
  kBlockScales = 5,
  kDraft = 6,
  kEncoder = 7,
  kAux = 8,
};

// One layer of one component: item i lies at `base + i * stride` of `region` and is `Component::item_bytes`
// long.
struct LayerPlace {
  std::uint32_t layer = 0;  // global layer id
  RegionId region;
  std::uint64_t base = 0;    // bytes
  std::uint64_t stride = 0;  // bytes from item i to item i + 1
  bool operator==(const LayerPlace&) const = default;
};

struct Component {
  ComponentKind kind = ComponentKind::kAttention;
  Space space = Space::kPages;
  std::string name;              // paired by (kind, name), never by position
  std::string dtype;             // "bf16", "fp8_e4m3", "u8", ...
  std::uint32_t item_bytes = 0;  // bytes of one item (page or slot) of one layer
  std::uint32_t items = 0;       // items in each layer: index i is valid when i < items
  std::vector<LayerPlace> layers;
  bool operator==(const Component&) const = default;
};

struct Layout {
  std::uint32_t page_tokens = 1;
  std::vector<Component> components;
  // Coordinates of this rank; equal layouts only need pp for "each leg knows its layers".
  std::uint32_t tp_rank = 0, tp_size = 1, pp_rank = 0, pp_size = 1, dp_rank = 0, dp_size = 1, cp_rank = 0,
                cp_size = 1;
  bool operator==(const Layout&) const = default;

  KVFERRY_API std::uint32_t items(
      Space) const;          // the smallest `items` over components of that space; 0 if none
  KVFERRY_API std::uint64_t bytes_per_item(Space) const; // over all layers and components of that space
};

// A range of memory that the caller registered; RegionId is its index in the list handed to Manager::start.
struct RegionView {
  void* address = nullptr;
  std::uint64_t length = 0;
  Memory memory = Memory::kHost;
};

}  // namespace kvferry
