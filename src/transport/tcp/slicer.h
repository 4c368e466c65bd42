// Cuts an operation into the parts that become frames: each is a product of planes and runs again, within the
// bounds of a frame. Values; no thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/transport.h"
#include "transport/tcp/frame.h"

namespace kvferry::transport::tcp {

// One part, owned: both sides of it.
struct Slice {
  std::vector<PlanePair> planes;
  std::vector<RunPair> runs;
  std::uint64_t bytes = 0;
  PieceGroup group() const { return {planes, runs}; }
};

// Takes whole planes while they fit; else one plane by its items; else one item by its repeats; else one
// piece by bytes. The groups must outlive it and must have been checked (no overflow). A copyable value.
class Slicer {
 public:
  Slicer() = default;  // done
  // `most`: payload bytes of one slice, 1 to kMaxFramePayload.
  Slicer(std::span<const PieceGroup> groups, std::uint32_t most) : groups_(groups), most_(most) { settle(); }

  bool done() const noexcept { return group_ >= groups_.size(); }
  void next(Slice& out);  // not when done(); reuses the memory of `out`

 private:
  void settle();  // skips what has no bytes and measures the runs of a new group
  bool whole_planes(Slice&);
  bool items_of_plane(Slice&);
  bool repeats_of_item(Slice&);
  void part_of_piece(Slice&);
  const PlanePair& plane() const { return groups_[group_].planes[plane_]; }

  std::span<const PieceGroup> groups_;
  std::uint32_t most_ = kMaxFramePayload;
  std::size_t group_ = 0, plane_ = 0, run_ = 0;
  std::uint32_t item_ = 0, repeat_ = 0, byte_ = 0;
  std::uint64_t group_items_ = 0;
  bool measured_ = false;
};

}  // namespace kvferry::transport::tcp
