#include "transport/tcp/slicer.h"

#include <algorithm>

namespace kvferry::transport::tcp {

void Slicer::settle() {
  for (; group_ < groups_.size(); ++group_, plane_ = 0, measured_ = false) {
    const PieceGroup& group = groups_[group_];
    if (!measured_) {
      group_items_ = 0;
      for (const RunPair& run : group.runs) group_items_ += run.count;
      measured_ = true;
    }
    if (group_items_ == 0) continue;
    for (; plane_ < group.planes.size(); ++plane_, run_ = 0) {
      if (plane().bytes == 0 || plane().repeat == 0) continue;
      while (run_ < group.runs.size() && group.runs[run_].count == 0) ++run_;
      if (run_ < group.runs.size()) return;
    }
  }
}

void Slicer::next(Slice& out) {
  out.planes.clear();
  out.runs.clear();
  if (!whole_planes(out) && !items_of_plane(out) && !repeats_of_item(out)) part_of_piece(out);
  out.bytes = bytes_of(out.group());
  settle();
}

bool Slicer::whole_planes(Slice& out) {
  const PieceGroup& group = groups_[group_];
  const bool at_start =
      item_ == 0 && repeat_ == 0 && byte_ == 0 &&
      std::all_of(group.runs.begin(), group.runs.begin() + static_cast<std::ptrdiff_t>(run_),
                  [](const RunPair& run) { return run.count == 0; });
  if (!at_start || group.runs.size() > kMaxFrameRuns || group_items_ > kMaxFramePieces) return false;
  std::uint64_t bytes = 0, pieces = 0;
  for (; plane_ < group.planes.size() && out.planes.size() < kMaxFramePlanes; ++plane_) {
    const PlanePair& pair = plane();
    if (pair.bytes == 0 || pair.repeat == 0) continue;
    const std::uint64_t more = group_items_ * pair.bytes * pair.repeat,
                        more_pieces = group_items_ * pair.repeat;
    if (bytes + more > most_ || pieces + more_pieces > kMaxFramePieces) break;
    bytes += more;
    pieces += more_pieces;
    out.planes.push_back(pair);
  }
  if (out.planes.empty()) return false;
  run_ = 0;
  std::copy_if(group.runs.begin(), group.runs.end(), std::back_inserter(out.runs),
               [](const RunPair& run) { return run.count != 0; });
  return true;
}

bool Slicer::items_of_plane(Slice& out) {
  const PieceGroup& group = groups_[group_];
  const std::uint64_t item_bytes = std::uint64_t{plane().bytes} * plane().repeat;
  if (repeat_ != 0 || byte_ != 0 || item_bytes > most_ || plane().repeat > kMaxFramePieces) return false;
  std::uint64_t room = std::min<std::uint64_t>(most_ / item_bytes, kMaxFramePieces / plane().repeat);
  out.planes.push_back(plane());
  for (; run_ < group.runs.size() && room != 0 && out.runs.size() < kMaxFrameRuns; ++run_, item_ = 0) {
    const RunPair& run = group.runs[run_];
    if (run.count == 0) continue;
    const auto take = static_cast<std::uint32_t>(std::min<std::uint64_t>(room, run.count - item_));
    out.runs.push_back({run.local + item_, run.remote + item_, take});
    room -= take;
    item_ += take;
    if (item_ < run.count) return true;
  }
  if (run_ < group.runs.size()) return true;
  run_ = 0;
  ++plane_;
  return true;
}

bool Slicer::repeats_of_item(Slice& out) {
  if (byte_ != 0 || plane().bytes > most_) return false;
  PlanePair pair = plane();
  pair.local.base += std::uint64_t{repeat_} * pair.local_step;
  pair.remote.base += std::uint64_t{repeat_} * pair.remote_step;
  pair.repeat = std::min({pair.repeat - repeat_, most_ / pair.bytes, kMaxFramePieces});
  const RunPair& run = groups_[group_].runs[run_];
  out.planes.push_back(pair);
  out.runs.push_back({run.local + item_, run.remote + item_, 1});
  repeat_ += pair.repeat;
  if (repeat_ < plane().repeat) return true;
  repeat_ = 0;
  if (++item_ < run.count) return true;
  item_ = 0;
  if (++run_ < groups_[group_].runs.size()) return true;
  run_ = 0;
  ++plane_;
  return true;
}

void Slicer::part_of_piece(Slice& out) {
  PlanePair pair = plane();
  pair.local.base += std::uint64_t{repeat_} * pair.local_step + byte_;
  pair.remote.base += std::uint64_t{repeat_} * pair.remote_step + byte_;
  pair.bytes = std::min(pair.bytes - byte_, most_);
  pair.repeat = 1;
  const RunPair& run = groups_[group_].runs[run_];
  out.planes.push_back(pair);
  out.runs.push_back({run.local + item_, run.remote + item_, 1});
  byte_ += pair.bytes;
  if (byte_ < plane().bytes) return;
  byte_ = 0;
  if (++repeat_ < plane().repeat) return;
  repeat_ = 0;
  if (++item_ < run.count) return;
  item_ = 0;
  if (++run_ < groups_[group_].runs.size()) return;
  run_ = 0;
  ++plane_;
}

}  // namespace kvferry::transport::tcp
