#include "transport/cursor.h"

namespace kvferry::transport {

OwnedGroups::OwnedGroups(std::span<const PieceGroup> groups) {
  std::size_t planes = 0, runs = 0;
  for (const PieceGroup& group : groups) {
    planes += group.planes.size();
    runs += group.runs.size();
  }
  planes_.reserve(planes);  // no growth below: the spans point into these two
  runs_.reserve(runs);
  groups_.reserve(groups.size());
  for (const PieceGroup& group : groups) {
    const std::size_t plane_at = planes_.size(), run_at = runs_.size();
    planes_.insert(planes_.end(), group.planes.begin(), group.planes.end());
    runs_.insert(runs_.end(), group.runs.begin(), group.runs.end());
    groups_.push_back({std::span(planes_).subspan(plane_at), std::span(runs_).subspan(run_at)});
    std::uint64_t items = 0, item_bytes = 0;
    for (const RunPair& run : group.runs) items += run.count;
    for (const PlanePair& plane : group.planes) item_bytes += std::uint64_t{plane.bytes} * plane.repeat;
    bytes_ += items * item_bytes;
  }
}

Cursor::Cursor(std::span<const PieceGroup> groups, Merge merge) : groups_(groups), merge_(merge) {
  if (!next_piece(pending_)) pending_.bytes = 0;
  refill();
}

void Cursor::consume(std::uint64_t bytes) noexcept {
  front_.local += bytes;
  front_.remote += bytes;
  front_.bytes -= bytes;
  if (front_.bytes == 0) refill();
}

void Cursor::refill() noexcept {
  front_ = pending_;
  pending_.bytes = 0;
  if (front_.bytes == 0) return;
  while (next_piece(pending_)) {
    const bool local =
        pending_.local_region == front_.local_region && pending_.local == front_.local + front_.bytes;
    const bool remote =
        pending_.remote_region == front_.remote_region && pending_.remote == front_.remote + front_.bytes;
    if (!local || (merge_ == Merge::kBoth && !remote) || front_.bytes >= kMergeBytes) return;
    front_.bytes += pending_.bytes;
  }
  pending_.bytes = 0;
}

bool Cursor::settle() noexcept {
  for (; group_ < groups_.size(); ++group_, plane_ = 0) {
    const PieceGroup& group = groups_[group_];
    for (; plane_ < group.planes.size(); ++plane_, run_ = 0) {
      if (group.planes[plane_].bytes == 0 || group.planes[plane_].repeat == 0) continue;
      for (; run_ < group.runs.size(); ++run_, item_ = 0) {
        if (item_ < group.runs[run_].count) return true;
      }
    }
  }
  return false;
}

bool Cursor::next_piece(Segment& piece) noexcept {
  if (!settle()) return false;
  const PlanePair& plane = groups_[group_].planes[plane_];
  const RunPair& run = groups_[group_].runs[run_];
  const std::uint64_t item_bytes = std::uint64_t{plane.bytes} * plane.repeat;
  const bool item_whole =
      plane.repeat == 1 ||
      (plane.local_step == plane.bytes && (merge_ == Merge::kLocal || plane.remote_step == plane.bytes));
  const bool run_whole = item_whole && plane.local.stride == item_bytes &&
                         (merge_ == Merge::kLocal || plane.remote.stride == item_bytes);
  piece.local_region = plane.local.region;
  piece.remote_region = plane.remote.region;
  piece.local = plane.local.base + (std::uint64_t{run.local} + item_) * plane.local.stride +
                std::uint64_t{repeat_} * plane.local_step;
  piece.remote = plane.remote.base + (std::uint64_t{run.remote} + item_) * plane.remote.stride +
                 std::uint64_t{repeat_} * plane.remote_step;
  if (run_whole) {
    piece.bytes = (run.count - item_) * item_bytes;
    item_ = run.count;
  } else if (item_whole) {
    piece.bytes = item_bytes;
    ++item_;
  } else {
    piece.bytes = plane.bytes;
    if (++repeat_ == plane.repeat) {
      repeat_ = 0;
      ++item_;
    }
  }
  return true;
}

std::vector<Segment> pieces_listed(std::span<const PieceGroup> groups) {
  std::vector<Segment> list;
  for (const PieceGroup& group : groups) {
    for (const PlanePair& plane : group.planes) {
      for (const RunPair& run : group.runs) {
        for (std::uint64_t item = 0; item < run.count; ++item) {
          for (std::uint64_t k = 0; k < plane.repeat && plane.bytes != 0; ++k) {
            list.push_back(
                {plane.local.region, plane.remote.region,
                 plane.local.base + (run.local + item) * plane.local.stride + k * plane.local_step,
                 plane.remote.base + (run.remote + item) * plane.remote.stride + k * plane.remote_step,
                 plane.bytes});
          }
        }
      }
    }
  }
  return list;
}

}  // namespace kvferry::transport
