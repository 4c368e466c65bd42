// Walks the pieces of an operation (planes x runs x repeat) in the order planes, items, repeats, and hands
// out the longest stretches that are contiguous. No list of pieces is ever made. Values; no thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/transport.h"

namespace kvferry::transport {

// One stretch of bytes, as offsets into one region of each side.
struct Segment {
  RegionId local_region, remote_region;
  std::uint64_t local = 0, remote = 0;  // bytes from the start of the region
  std::uint64_t bytes = 0;
  bool operator==(const Segment&) const = default;
};

// Which sides must be contiguous for two neighbouring pieces to become one segment. With kLocal only
// `local_region` and `local` mean anything behind the first piece of a segment: for movers that gather from
// one side alone.
enum class Merge : std::uint8_t { kBoth, kLocal };

// Merging stops at a segment of this size, so that one step of a cursor stays short. Runs that are contiguous
// as a whole are handed out whole, however long.
inline constexpr std::uint64_t kMergeBytes = 1ULL << 20;

// A copy of the groups of an operation: spans handed to post() live for the call only. Moving it keeps view()
// valid.
class OwnedGroups {
 public:
  OwnedGroups() = default;
  explicit OwnedGroups(std::span<const PieceGroup>);
  OwnedGroups(OwnedGroups&&) noexcept = default;
  OwnedGroups& operator=(OwnedGroups&&) noexcept = default;
  OwnedGroups(const OwnedGroups&) = delete;
  OwnedGroups& operator=(const OwnedGroups&) = delete;

  std::span<const PieceGroup> view() const noexcept {
    return groups_;
  }  // lives as long as *this or what it moved to
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<PlanePair> planes_;
  std::vector<RunPair> runs_;
  std::vector<PieceGroup> groups_;
  std::uint64_t bytes_ = 0;
};

// An ordinary copyable value. The groups must outlive it (OwnedGroups::view()) and must have been checked
// against their regions: offsets are computed without looking for overflow. Pieces of zero bytes are skipped.
class Cursor {
 public:
  Cursor() = default;  // done
  explicit Cursor(std::span<const PieceGroup>, Merge = Merge::kBoth);

  bool done() const noexcept { return front_.bytes == 0; }
  const Segment& front() const noexcept { return front_; }  // bytes > 0 unless done()
  void consume(std::uint64_t bytes) noexcept;  // of front(), at most front().bytes

 private:
  bool next_piece(Segment&) noexcept;  // false: no more
  bool settle() noexcept;  // moves on to a position that has a piece; false: no more
  void refill() noexcept;  // front_ := the pending piece and all that can be merged to it

  std::span<const PieceGroup> groups_;
  Merge merge_ = Merge::kBoth;
  std::size_t group_ = 0, plane_ = 0, run_ = 0;
  std::uint32_t item_ = 0, repeat_ = 0;
  Segment front_, pending_;  // pending_: read already, not contiguous with front_; bytes == 0: none
};

// Every piece by itself, in the order of Cursor, unmerged: the naive reference for tests.
std::vector<Segment> pieces_listed(std::span<const PieceGroup>);

}  // namespace kvferry::transport
