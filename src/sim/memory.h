// Shadow memory of one process: a small tag instead of the bytes of one item of one layer, and the ledger of
// who may touch which item. A copyable value; no thread rule.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/layout.h"
#include "kvferry/types.h"

namespace kvferry::sim {

// What a cell holds: which block of which prompt (rule 29), written by whom. writer 0: poison.
struct Tag32 {
  std::uint32_t content = 0;  // hash of prompt, block and layer
  std::uint32_t writer = 0;   // one opening of a room by one sender's life
  bool operator==(const Tag32&) const = default;
};

struct Geometry {
  std::array<std::uint32_t, kSpaces> slots{};  // layers of that space that this rank holds
  std::array<std::uint32_t, kSpaces> items{};  // pages, auxiliary slots, state slots
};

class Memory {
 public:
  Memory() = default;
  explicit Memory(const Geometry& g);

  const Geometry& geometry() const { return geometry_; }
  const Tag32& cell(Space s, std::uint32_t slot, std::uint32_t item) const {
    return cells_[at(s)][index(s, slot, item)];
  }
  Tag32& cell(Space s, std::uint32_t slot, std::uint32_t item) { return cells_[at(s)][index(s, slot, item)]; }
  bool valid(Space s, std::uint32_t slot, std::uint32_t item) const {
    return slot < geometry_.slots[at(s)] && item < geometry_.items[at(s)];
  }
  void poison(Space s, std::uint32_t item);  // every layer of the item

  // Destination side: which lending of this life the item is under; 0: the engine above has it.
  std::uint32_t lending(Space s, std::uint32_t item) const { return lending_[at(s)][item]; }
  void lend(Space s, std::uint32_t item, std::uint32_t lending) { lending_[at(s)][item] = lending; }
  // Source side: how many pushed chunks hold the item.
  std::uint32_t held(Space s, std::uint32_t item) const { return held_[at(s)][item]; }
  void hold(Space s, std::uint32_t item) { ++held_[at(s)][item]; }
  void release(Space s, std::uint32_t item) { --held_[at(s)][item]; }

  void canonical(std::string& bytes) const;

 private:
  static std::size_t at(Space s) { return static_cast<std::size_t>(s); }
  std::size_t index(Space s, std::uint32_t slot, std::uint32_t item) const {
    return static_cast<std::size_t>(slot) * geometry_.items[at(s)] + item;
  }
  Geometry geometry_;
  std::array<std::vector<Tag32>, kSpaces> cells_;
  std::array<std::vector<std::uint32_t>, kSpaces> lending_, held_;
};

// The oracle: the content that block `block` of prompt `prompt` has in global layer `layer` of a space.
std::uint32_t content_of(std::uint32_t prompt, Space, std::uint32_t layer, std::uint32_t block) noexcept;

}  // namespace kvferry::sim
