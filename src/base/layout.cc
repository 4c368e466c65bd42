#include "kvferry/layout.h"

#include <algorithm>

namespace kvferry {

std::uint32_t Layout::items(Space space) const {
  bool any = false;
  std::uint32_t least = ~0U;
  for (const Component& component : components) {
    if (component.space == space) {
      any = true;
      least = std::min(least, component.items);
    }
  }
  return any ? least : 0;
}

std::uint64_t Layout::bytes_per_item(Space space) const {
  std::uint64_t sum = 0;
  for (const Component& component : components) {
    if (component.space == space) {
      sum += std::uint64_t{component.item_bytes} * component.layers.size();
    }
  }
  return sum;
}

}  // namespace kvferry
