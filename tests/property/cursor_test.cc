// Cursor and Slicer against the naive list of pieces.
#include "transport/cursor.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "transport/tcp/slicer.h"

namespace kvferry::transport {
namespace {

struct Groups {
  struct Group {
    std::vector<PlanePair> planes;
    std::vector<RunPair> runs;
  };
  std::vector<Group> groups;
  std::vector<PieceGroup> view() const {
    std::vector<PieceGroup> out;
    for (const Group& group : groups) out.push_back({group.planes, group.runs});
    return out;
  }
};

// Small numbers, so that neighbours touch often: strides equal to item sizes, runs that follow each other.
Groups any_groups() {
  Groups out;
  const auto small = [](std::uint32_t from, std::uint32_t to) {
    return *rc::gen::inRange<std::uint32_t>(from, to);
  };
  for (std::uint32_t g = small(0, 4); g != 0; --g) {
    Groups::Group& group = out.groups.emplace_back();
    for (std::uint32_t p = small(0, 4); p != 0; --p) {
      PlanePair pair;
      pair.bytes = small(0, 9);
      pair.repeat = small(1, 4);
      const std::uint32_t item = pair.bytes * pair.repeat;
      pair.local_step = small(0, 2) == 0 ? pair.bytes : pair.bytes + small(0, 3);
      pair.remote_step = small(0, 2) == 0 ? pair.bytes : pair.bytes + small(0, 3);
      pair.local = {RegionId{small(0, 2)}, small(0, 64), small(0, 2) == 0 ? item : small(0, 40)};
      pair.remote = {RegionId{small(0, 2)}, small(0, 64), small(0, 2) == 0 ? item : small(0, 40)};
      group.planes.push_back(pair);
    }
    std::uint32_t local = small(0, 8), remote = small(0, 8);
    for (std::uint32_t r = small(0, 5); r != 0; --r) {
      const std::uint32_t count = small(0, 5);
      group.runs.push_back({local, remote, count});
      local += count + (small(0, 2) == 0 ? 0 : small(0, 3));
      remote += count + (small(0, 2) == 0 ? 0 : small(0, 3));
    }
  }
  return out;
}

// One entry per byte, in order: what moves where.
struct ByteMove {
  std::uint32_t local_region, remote_region;
  std::uint64_t local, remote;
  bool operator==(const ByteMove&) const = default;
};
void add_bytes(std::vector<ByteMove>& out, const Segment& s, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) {
    out.push_back({s.local_region.value, s.remote_region.value, s.local + i, s.remote + i});
  }
}

RC_GTEST_PROP(Cursor, MovesTheSameBytesInTheSameOrderAsTheNaiveList, ()) {
  const Groups groups = any_groups();
  const auto view = groups.view();
  const OwnedGroups owned{view};
  std::vector<ByteMove> wanted, walked;
  for (const Segment& piece : pieces_listed(view)) add_bytes(wanted, piece, piece.bytes);
  RC_ASSERT(owned.bytes() == wanted.size());
  for (Cursor cursor(owned.view()); !cursor.done();) {
    const std::uint64_t step = *rc::gen::inRange<std::uint64_t>(1, cursor.front().bytes + 1);
    add_bytes(walked, cursor.front(), step);
    cursor.consume(step);
  }
  RC_ASSERT(walked == wanted);
}

RC_GTEST_PROP(Cursor, LeavesNoNeighboursUnmerged, ()) {
  const Groups groups = any_groups();
  const auto view = groups.view();
  Cursor cursor(view);
  while (!cursor.done()) {
    const Segment a = cursor.front();
    cursor.consume(a.bytes);
    if (cursor.done()) break;
    const Segment b = cursor.front();
    const bool contiguous = a.local_region == b.local_region && a.remote_region == b.remote_region &&
                            a.local + a.bytes == b.local && a.remote + a.bytes == b.remote;
    RC_ASSERT_FALSE(contiguous && a.bytes < kMergeBytes);
  }
}

RC_GTEST_PROP(Cursor, MergesByTheLocalSideAloneWhenAsked, ()) {
  const Groups groups = any_groups();
  const auto view = groups.view();
  std::vector<std::uint64_t> wanted, walked;
  for (const Segment& piece : pieces_listed(view)) {
    for (std::uint64_t i = 0; i < piece.bytes; ++i)
      wanted.push_back(piece.local_region.value * 10'000ULL + piece.local + i);
  }
  std::vector<Segment> segments;
  for (Cursor cursor(view, Merge::kLocal); !cursor.done(); cursor.consume(cursor.front().bytes)) {
    const Segment s = cursor.front();
    segments.push_back(s);
    for (std::uint64_t i = 0; i < s.bytes; ++i)
      walked.push_back(s.local_region.value * 10'000ULL + s.local + i);
  }
  RC_ASSERT(walked == wanted);
  for (std::size_t i = 1; i < segments.size(); ++i) {
    RC_ASSERT_FALSE(segments[i - 1].local_region == segments[i].local_region &&
                    segments[i - 1].local + segments[i - 1].bytes == segments[i].local);
  }
}

RC_GTEST_PROP(Slicer, CutsIntoFramesThatTogetherAreTheOperation, ()) {
  const Groups groups = any_groups();
  const auto view = groups.view();
  const auto most = *rc::gen::inRange<std::uint32_t>(1, 60);
  std::vector<ByteMove> wanted, cut;
  for (const Segment& piece : pieces_listed(view)) add_bytes(wanted, piece, piece.bytes);
  tcp::Slice slice;
  for (tcp::Slicer slicer(view, most); !slicer.done();) {
    slicer.next(slice);
    RC_ASSERT(slice.bytes > 0U);
    RC_ASSERT(slice.bytes <= most);
    const PieceGroup group = slice.group();
    const auto pieces = pieces_listed(std::span(&group, 1));
    RC_ASSERT(pieces.size() <= tcp::kMaxFramePieces);
    std::uint64_t bytes = 0;
    for (const Segment& piece : pieces) {
      add_bytes(cut, piece, piece.bytes);
      bytes += piece.bytes;
    }
    RC_ASSERT(bytes == slice.bytes);
  }
  // Whole planes may be cut in another order than the items of the next: the same moves, each once.
  const auto less = [](const ByteMove& a, const ByteMove& b) {
    return std::tie(a.local_region, a.local, a.remote_region, a.remote) <
           std::tie(b.local_region, b.local, b.remote_region, b.remote);
  };
  std::sort(wanted.begin(), wanted.end(), less);
  std::sort(cut.begin(), cut.end(), less);
  RC_ASSERT(cut == wanted);
}

TEST(Cursor, WalksOneRunWithoutAskingForEachItem) {
  const std::vector<PlanePair> planes = {{{RegionId{0}, 0, 4}, {RegionId{0}, 64, 4}, 4, 1, 0, 0}};
  const std::vector<RunPair> runs = {{0, 0, 1'000'000'000}};
  const PieceGroup group{planes, runs};
  Cursor cursor(std::span(&group, 1));
  EXPECT_EQ(cursor.front().bytes, 4'000'000'000ULL);
  cursor.consume(3'999'999'999ULL);
  EXPECT_EQ(cursor.front().remote, 64 + 3'999'999'999ULL);
  cursor.consume(1);
  EXPECT_TRUE(cursor.done());
}

}  // namespace
}  // namespace kvferry::transport
