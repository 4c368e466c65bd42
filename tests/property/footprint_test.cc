// Footprint against a set of lent bytes.
#include "transport/footprint.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <vector>

#include "transport/cursor.h"

namespace kvferry::transport {
namespace {

struct OneGroup {
  std::vector<Plane> planes;
  std::vector<std::uint32_t> item_bytes;
  std::vector<PageRun> runs;
  LoanGroup group() const { return {planes, item_bytes, runs}; }
};

// Small worlds, so that every answer can be compared with a set of bytes.
RC_GTEST_PROP(Footprint, AgreesWithASetOfBytes, ()) {
  const auto small = [](std::uint32_t from, std::uint32_t to) {
    return *rc::gen::inRange<std::uint32_t>(from, to);
  };
  std::vector<OneGroup> groups;
  std::set<std::uint64_t> bytes;
  for (std::uint32_t g = small(1, 3); g != 0; --g) {
    OneGroup& one = groups.emplace_back();
    for (std::uint32_t r = small(0, 3); r != 0; --r) one.runs.push_back({small(0, 6), small(0, 3)});
    for (std::uint32_t p = small(1, 3); p != 0; --p) {
      one.planes.push_back({RegionId{0}, small(0, 30), small(0, 12)});
      one.item_bytes.push_back(small(0, 9));
      for (const PageRun& run : one.runs) {
        for (std::uint64_t i = run.first; i < run.first + run.count; ++i) {
          for (std::uint64_t b = 0; b < one.item_bytes.back(); ++b) {
            bytes.insert(one.planes.back().base + i * one.planes.back().stride + b);
          }
        }
      }
    }
  }
  std::vector<LoanGroup> view;
  for (const OneGroup& one : groups) view.push_back(one.group());
  const Footprint print{view};
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t offset = small(0, 90), length = small(1, 12);
    bool inside = true;
    for (std::uint64_t b = offset; b < offset + length; ++b) inside = inside && bytes.contains(b);
    // Overlapping strides (items of one plane on top of each other) may be judged more strictly, never more
    // loosely.
    if (print.contains(RegionId{0}, offset, length)) RC_ASSERT(inside);
    bool overlapping = false;
    for (const OneGroup& one : groups) {
      for (std::size_t p = 0; p < one.planes.size(); ++p)
        overlapping |= one.planes[p].stride < one.item_bytes[p];
    }
    if (inside && !overlapping) RC_ASSERT(print.contains(RegionId{0}, offset, length));
  }
  PlanePair pair;
  pair.remote = {RegionId{0}, small(0, 40), small(0, 12)};
  pair.bytes = small(1, 6);
  pair.repeat = small(1, 3);
  pair.remote_step = small(0, 6);
  const std::vector<RunPair> runs = {{0, small(0, 6), small(1, 3)}};
  const PieceGroup asked{std::span(&pair, 1), runs};
  bool inside = true;
  for (const Segment& piece : pieces_listed(std::span(&asked, 1))) {
    for (std::uint64_t b = 0; b < piece.bytes; ++b) inside = inside && bytes.contains(piece.remote + b);
  }
  if (print.covers(std::span(&asked, 1))) RC_ASSERT(inside);
}

}  // namespace
}  // namespace kvferry::transport
