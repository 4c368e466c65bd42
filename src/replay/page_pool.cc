#include "replay/page_pool.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace kvferry::replay {

PagePool::PagePool(std::uint32_t pages, std::uint64_t seed) : free_(pages), out_(pages), prng_(seed) {
  std::iota(free_.begin(), free_.end(), 0U);
  std::ranges::shuffle(free_, prng_);
}

bool PagePool::take(std::uint32_t count, std::vector<std::uint32_t>& to) {
  if (count > free_.size()) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t page = free_.back();
    free_.pop_back();
    out_[page] = true;
    to.push_back(page);
  }
  return true;
}

void PagePool::give_back(std::uint32_t page) {
  KVF_CHECK(page < out_.size() && out_[page], "a page came back that was not out");
  out_[page] = false;
  free_.push_back(page);
  std::swap(free_.back(), free_[prng_.below(free_.size())]);
}

PageRuns runs_of(std::span<const std::uint32_t> pages) {
  PageRuns runs;
  for (const std::uint32_t page : pages) {
    if (!runs.empty() && runs.back().first + runs.back().count == page) {
      ++runs.back().count;
    } else {
      runs.push_back({page, 1});
    }
  }
  return runs;
}

}  // namespace kvferry::replay
