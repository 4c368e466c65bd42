// Page lists to runs and runs to segments: whatever is merged, the same bytes go the same way, in as few
// pieces as there can be.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "core/runs.h"
#include "property/wire_gen.h"
#include "transport/cursor.h"

namespace kvferry {
namespace {

using Pages = std::vector<std::uint32_t>;

Pages listed(const PageRuns& runs) {
  Pages out;
  for (const PageRun& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      out.push_back(run.first + i);
    }
  }
  return out;
}

// `total` pages in runs whose neighbours are often contiguous.
PageRuns runs_of(std::uint32_t total) {
  PageRuns out;
  std::uint32_t next = gen::between<std::uint32_t>(0, 50);
  while (total > 0) {
    const std::uint32_t count = std::min(total, gen::between<std::uint32_t>(1, 7));
    out.push_back({next, count});
    next += count;
    if (gen::between(0, 2) == 0) {
      next = gen::between<std::uint32_t>(0, 1000);
    }
    total -= count;
  }
  return out;
}

RC_GTEST_PROP(CoalesceProperty, PairedRunsAreThePagesSideBySideInFewestRuns, (bool walked_is_local)) {
  const auto total = gen::between<std::uint32_t>(0, 60);
  const PageRuns walked = runs_of(total);
  core::RunCursor cursor;
  std::uint32_t done = 0;
  while (done < total) {
    const std::uint32_t part = gen::between<std::uint32_t>(1, total - done + 1);
    const PageRuns other = runs_of(part);
    std::vector<RunPair> pairs;
    cursor.pair(walked, other, walked_is_local, pairs);
    Pages mine, theirs;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto& [local, remote, count] = pairs[i];
      RC_ASSERT(count > 0U);
      for (std::uint32_t k = 0; k < count; ++k) {
        mine.push_back((walked_is_local ? local : remote) + k);
        theirs.push_back((walked_is_local ? remote : local) + k);
      }
      const bool merges = i > 0 && pairs[i - 1].local + pairs[i - 1].count == local &&
                          pairs[i - 1].remote + pairs[i - 1].count == remote;
      RC_ASSERT(!merges);
    }
    const Pages all = listed(walked);
    RC_ASSERT(mine == Pages(all.begin() + done, all.begin() + done + part));
    RC_ASSERT(theirs == listed(other));
    done += part;
    RC_ASSERT(cursor.position() == done);
  }
}

RC_GTEST_PROP(CoalesceProperty, TailIsWhatIsLeftBehindTheFirstPages, ()) {
  const auto total = gen::between<std::uint32_t>(0, 60);
  const PageRuns runs = runs_of(total);
  const auto cut = gen::between<std::uint32_t>(0, total + 1);
  const Pages all = listed(runs);
  RC_ASSERT(core::count_of(runs) == total);
  RC_ASSERT(listed(core::tail_of(runs, cut)) == Pages(all.begin() + cut, all.end()));
}

RC_GTEST_PROP(CoalesceProperty, RangeCheckFindsTheFirstIndexOutside, ()) {
  const PageRuns runs = runs_of(gen::between<std::uint32_t>(0, 60));
  const auto items = gen::between<std::uint32_t>(0, 1100);
  const Pages all = listed(runs);
  const auto outside =
      std::find_if(all.begin(), all.end(), [&](std::uint32_t page) { return page >= items; });
  std::uint64_t bad = 0;
  RC_ASSERT(core::in_range(runs, items, bad) == (outside == all.end()));
  if (outside != all.end()) {
    RC_ASSERT(bad == *outside);
  }
}

// An operation of up to two groups, with head slices and strides that leave gaps or not.
struct RandomOperation {
  std::array<std::vector<PlanePair>, 2> planes;
  std::array<std::vector<RunPair>, 2> runs;
  std::vector<PieceGroup> groups;

  RandomOperation() {
    for (std::size_t g = 0; g < planes.size(); ++g) {
      planes[g] = gen::list(3, plane);
      runs[g] = gen::list(4, [] {
        return RunPair{gen::between<std::uint32_t>(0, 30), gen::between<std::uint32_t>(0, 30),
                       gen::between<std::uint32_t>(0, 6)};
      });
      groups.push_back({planes[g], runs[g]});
    }
  }
  RandomOperation(const RandomOperation&) = delete;
  RandomOperation& operator=(const RandomOperation&) = delete;

  static std::uint32_t gap() { return gen::between<std::uint32_t>(0, 2) * 3; }
  static PlanePair plane() {
    PlanePair p;
    p.bytes = gen::between<std::uint32_t>(0, 5) * 4;
    p.repeat = gen::between<std::uint32_t>(0, 4);
    p.local_step = p.bytes + gap();
    p.remote_step = p.bytes + gap();
    p.local = {RegionId{gen::between<std::uint32_t>(0, 2)}, gen::between<std::uint64_t>(0, 50),
               std::uint64_t{p.repeat} * p.local_step + gap()};
    p.remote = {RegionId{gen::between<std::uint32_t>(0, 2)}, gen::between<std::uint64_t>(0, 50),
                std::uint64_t{p.repeat} * p.remote_step + gap()};
    return p;
  }
};

// Byte by byte: where it comes from and where it goes, in order.
using Route = std::array<std::uint64_t, 4>;
void add_route(const transport::Segment& s, std::vector<Route>& out) {
  for (std::uint64_t i = 0; i < s.bytes; ++i) {
    out.push_back({s.local_region.value, s.local + i, s.remote_region.value, s.remote + i});
  }
}

RC_GTEST_PROP(CoalesceProperty, MergedSegmentsTakeEveryByteTheSameWay, ()) {
  const RandomOperation op;
  std::vector<Route> expected, taken;
  for (const transport::Segment& piece : transport::pieces_listed(op.groups)) {
    add_route(piece, expected);
  }
  transport::Cursor cursor(op.groups);
  transport::Segment last;
  while (!cursor.done()) {
    transport::Segment step = cursor.front();
    const bool merges = last.bytes > 0 && last.local_region == step.local_region &&
                        last.remote_region == step.remote_region && last.local + last.bytes == step.local &&
                        last.remote + last.bytes == step.remote;
    RC_ASSERT(!merges);
    last = step;
    while (step.bytes > 0) {  // in bites, as a socket takes them
      const std::uint64_t bite = gen::between<std::uint64_t>(1, step.bytes + 1);
      RC_ASSERT(cursor.front() == step);
      add_route({step.local_region, step.remote_region, step.local, step.remote, bite}, taken);
      cursor.consume(bite);
      step.local += bite;
      step.remote += bite;
      step.bytes -= bite;
    }
  }
  RC_ASSERT(taken == expected);
  std::uint64_t bytes = 0;
  std::uint64_t pieces = 0;
  for (const PieceGroup& group : op.groups) {
    bytes += bytes_of(group);
    for (const PlanePair& plane : group.planes) {
      const std::array one{plane};
      pieces += plane.bytes == 0 ? 0 : pieces_of(PieceGroup{one, group.runs});
    }
  }
  RC_ASSERT(bytes == expected.size());
  RC_ASSERT(pieces == transport::pieces_listed(op.groups).size());
  RC_ASSERT(transport::OwnedGroups(op.groups).bytes() == bytes);
}

RC_GTEST_PROP(CoalesceProperty, MergingOneSideTakesItsBytesInOrder, ()) {
  const RandomOperation op;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> expected, taken;
  for (const transport::Segment& piece : transport::pieces_listed(op.groups)) {
    for (std::uint64_t i = 0; i < piece.bytes; ++i) {
      expected.emplace_back(piece.local_region.value, piece.local + i);
    }
  }
  transport::Cursor cursor(op.groups, transport::Merge::kLocal);
  transport::Segment last;
  while (!cursor.done()) {
    const transport::Segment step = cursor.front();
    const bool merges =
        last.bytes > 0 && last.local_region == step.local_region && last.local + last.bytes == step.local;
    RC_ASSERT(!merges);
    last = step;
    for (std::uint64_t i = 0; i < step.bytes; ++i) {
      taken.emplace_back(step.local_region.value, step.local + i);
    }
    cursor.consume(step.bytes);
  }
  RC_ASSERT(taken == expected);
}

}  // namespace
}  // namespace kvferry
