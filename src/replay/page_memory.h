// Where the bytes of a page are, and what they must be: fills, checks and poisons whole pages over all
// layers. Does not own the memory. Thread rule: one thread for each page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/layout.h"
#include "replay/model.h"
#include "replay/oracle.h"

namespace kvferry::replay {

// What a page is to hold: tokens [first_token, first_token + page_tokens) of a block.
struct PageTag {
  WriteTag write;
  std::uint64_t block_hash = 0;
  std::uint32_t first_token = 0;
};

// How the memory of one process is laid out: layer by layer, each with all pages, then the auxiliary slots.
struct Shape {
  Model model;
  std::uint32_t page_tokens = 16;
  std::uint32_t pages = 0;
  std::uint32_t aux_slots = 0;

  std::uint64_t page_bytes() const { return model.bytes_per_token() * page_tokens; }  // over all layers
  std::uint64_t aux_base() const;  // bytes from the start
  std::uint64_t total_bytes() const;
  Layout layout(RegionId) const;
};

inline constexpr std::uint32_t kAuxBytes = 256;  // one auxiliary slot

class PageMemory {
 public:
  PageMemory(const Shape&, std::byte* memory);  // memory: Shape::total_bytes()

  void fill(std::uint32_t page, const PageTag&) noexcept;
  std::uint64_t wrong(std::uint32_t page, const PageTag&) const noexcept;  // bytes
  void poison(std::uint32_t page) noexcept;
  std::uint64_t stranger(std::uint32_t page) const noexcept;  // bytes of the poison that changed
  // Whose poison this page holds: the number of that page of its process, or -1. Slow; for looking for
  // faults.
  std::int64_t poison_of(std::uint32_t page, std::uint32_t pages) const noexcept;
  std::span<std::byte> aux(std::uint32_t slot) const noexcept;
  std::uint64_t page_bytes() const noexcept { return page_bytes_; }

 private:
  struct Plane {
    std::byte* base = nullptr;
    std::size_t stride = 0;
    std::uint32_t layer = 0, part = 0, row_bytes = 0;
  };
  ItemSpec spec(const Plane&, const PageTag&) const noexcept;

  std::vector<Plane> planes_;
  std::uint32_t page_tokens_ = 0;
  std::uint64_t page_bytes_ = 0;
  std::byte* aux_ = nullptr;
};

}  // namespace kvferry::replay
