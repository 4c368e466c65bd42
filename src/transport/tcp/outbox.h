// The operations posted to one peer and not ended, and which of them gives the next frame. Thread rule:
// progress thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "transport/cursor.h"
#include "transport/regions.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/slicer.h"

namespace kvferry::transport::tcp {

struct OutOp {
  OpId id;
  std::uint64_t sequence = 0;
  Ticket ticket;
  Notice notice;
  std::uint8_t priority = 0;
  OwnedGroups groups;
  RegionHold hold;
  Slicer slicer;
  bool begun = false;               // a frame was cut; one without payload if there are no bytes
  bool cut = false;                 // the last frame was cut
  std::uint32_t frames_queued = 0;  // in lanes, not yet wholly in the kernel: their source pages are in use
  std::uint32_t lanes = 0;  // bit of each lane that took a frame
  bool failed = false;
  Error error;
  bool ended() const noexcept { return frames_queued == 0 && (cut || failed); }
};

// Order: higher priority first; among equals small operations (zero bytes included) before large ones, but
// never more than kSmallInRow while a large one waits; large ones take turns by frame.
class Outbox {
 public:
  void add(std::unique_ptr<OutOp>);
  bool has_work() const noexcept { return !small_.empty() || !large_.empty(); }
  // Cuts the next frame; null: no operation has one. The caller counts frames_queued and lanes.
  OutOp* cut(Slice&, std::vector<std::byte>& frame);
  OutOp* find(std::uint64_t sequence) noexcept;
  OutOp* find(OpId) noexcept;
  void fail(OutOp&, Error);  // no more frames are cut; the first error stays
  std::unique_ptr<OutOp> take(std::uint64_t sequence);
  const std::map<std::uint64_t, std::unique_ptr<OutOp>>& all() const noexcept { return ops_; }

 private:
  OutOp* choose() noexcept;
  void requeue(OutOp*);

  std::map<std::uint64_t, std::unique_ptr<OutOp>> ops_;
  std::deque<OutOp*> small_, large_;  // those with frames to cut, by priority
  std::uint32_t small_in_row_ = 0;
};

}  // namespace kvferry::transport::tcp
