#include "core/runs.h"

#include <algorithm>

namespace kvferry::core {

std::uint64_t count_of(const PageRuns& runs) {
  std::uint64_t n = 0;
  for (const auto& r : runs) n += r.count;
  return n;
}

void RunCursor::skip(const PageRuns& walked, std::uint64_t pages) {
  position_ += pages;
  while (pages > 0 && run_ < walked.size()) {
    const std::uint64_t left = walked[run_].count - used_;
    const std::uint64_t take = std::min(left, pages);
    used_ += static_cast<std::uint32_t>(take);
    pages -= take;
    if (used_ == walked[run_].count) {
      ++run_;
      used_ = 0;
    }
  }
}

void RunCursor::pair(const PageRuns& walked, const PageRuns& other, bool walked_is_local,
                     std::vector<RunPair>& out) {
  for (const auto& o : other) {
    std::uint32_t done = 0;
    while (done < o.count && run_ < walked.size()) {
      if (walked[run_].count == used_) {   // an empty run
        ++run_;
        used_ = 0;
        continue;
      }
      const std::uint32_t take = std::min(o.count - done, walked[run_].count - used_);
      const std::uint32_t mine = walked[run_].first + used_;
      const std::uint32_t theirs = o.first + done;
      const RunPair p = walked_is_local ? RunPair{mine, theirs, take} : RunPair{theirs, mine, take};
      if (!out.empty() && out.back().local + out.back().count == p.local &&
          out.back().remote + out.back().count == p.remote) {
        out.back().count += take;
      } else if (take > 0) {
        out.push_back(p);
      }
      done += take;
      skip(walked, take);
    }
  }
}

PageRuns tail_of(const PageRuns& runs, std::uint64_t pages) {
  PageRuns tail;
  for (const auto& r : runs) {
    if (pages >= r.count) {
      pages -= r.count;
      continue;
    }
    const auto cut = static_cast<std::uint32_t>(pages);
    tail.push_back({r.first + cut, r.count - cut});
    pages = 0;
  }
  return tail;
}

bool in_range(const PageRuns& runs, std::uint32_t items, std::uint64_t& bad) {
  for (const auto& r : runs) {
    const std::uint64_t end = std::uint64_t{r.first} + r.count;
    if (end > items) {
      bad = std::max<std::uint64_t>(r.first, items);
      return false;
    }
  }
  return true;
}

}  // namespace kvferry::core
