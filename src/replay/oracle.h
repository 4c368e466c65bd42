// The bytes that a page must hold (protocol rule 29): each is a function of writer's life, write serial,
// block hash, layer, component, token and position in the row (that is: head). Filled and checked at memory
// speed. Pure; no thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvferry/types.h"

namespace kvferry::replay {

// Who wrote it and with which write: serials are never used twice in a life.
struct WriteTag {
  Incarnation writer;
  std::uint64_t serial = 0;
  bool operator==(const WriteTag&) const = default;
};

// One item: `rows` tokens of one layer of one component, each `row_bytes` long, from token `first` of the
// block on.
struct ItemSpec {
  std::uint64_t block_hash = 0;
  std::uint32_t layer = 0;
  std::uint32_t part = 0;       // component: tells K from V
  std::uint32_t first_token = 0;  // within the block of 512
  std::uint32_t rows = 0;
  std::uint32_t row_bytes = 0;
};

void oracle_fill(std::byte* item, const WriteTag&, const ItemSpec&) noexcept;  // writes rows * row_bytes
std::uint64_t oracle_wrong(const std::byte* item, const WriteTag&,
                           const ItemSpec&) noexcept;  // bytes that differ

// Free memory holds a pattern that depends on its place; whoever writes there is a stranger.
void poison_fill(std::span<std::byte> memory, std::uint64_t place) noexcept;
std::uint64_t poison_wrong(std::span<const std::byte> memory, std::uint64_t place) noexcept;

}  // namespace kvferry::replay
