// Which pages of a process are free. The free list is kept shuffled, so that neighbours in a prompt are
// scattered in memory as in a server that has run for days. Indices only; the memory is PageMemory's. Thread
// rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "kvferry/types.h"

namespace kvferry::replay {

class PagePool {
 public:
  PagePool(std::uint32_t pages, std::uint64_t seed);

  std::uint32_t pages() const noexcept { return static_cast<std::uint32_t>(out_.size()); }
  std::uint32_t free() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
  std::span<const std::uint32_t> free_pages() const noexcept { return free_; }

  // All or nothing: appends `count` pages to `to`; false when fewer are free.
  bool take(std::uint32_t count, std::vector<std::uint32_t>& to);
  // A page that is not out is a bug of ours and ends the process.
  void give_back(std::uint32_t page);

 private:
  std::vector<std::uint32_t> free_;
  std::vector<bool> out_;  // by page
  Prng prng_;
};

// Page list -> runs of neighbours, in the order given.
PageRuns runs_of(std::span<const std::uint32_t> pages);

}  // namespace kvferry::replay
