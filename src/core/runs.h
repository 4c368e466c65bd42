// Arithmetic on page runs: cutting, pairing, counting. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "kvferry/transport.h"
#include "kvferry/types.h"

namespace kvferry::core {

std::uint64_t count_of(const PageRuns& runs);

// Walks a page list from the front; a copyable value.
class RunCursor {
 public:
  // Pairs the next pages of `remote` with all pages of `local`, fewest runs, and moves on. The caller made
  // sure that enough pages are left. swap=true: `local` is walked by the cursor and `other` is whole (the
  // receiver's side).
  void skip(const PageRuns& walked, std::uint64_t pages);
  void pair(const PageRuns& walked, const PageRuns& other, bool walked_is_local, std::vector<RunPair>& out);
  std::uint64_t position() const { return position_; }

 private:
  std::size_t run_ = 0;
  std::uint32_t used_ = 0;
  std::uint64_t position_ = 0;
};

// The runs behind the first `pages` pages.
PageRuns tail_of(const PageRuns& runs, std::uint64_t pages);
// True if every index is below `items`; else `bad` is the first index that is not.
bool in_range(const PageRuns& runs, std::uint32_t items, std::uint64_t& bad);

}  // namespace kvferry::core
