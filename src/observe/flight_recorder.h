// The last N trace events of this process, kept in a ring that never grows, to be read after something went
// wrong. Thread rule: one thread writes and dumps (the progress thread, or a stopped process's reader).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::observe {

struct TraceEvent {
  TimePoint at;
  const char* what = "";  // a literal: it is kept by address
  RoomId room;
  std::uint64_t grant = 0, a = 0, b = 0;
};

class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t events);  // 48 B each, allocated here and never again

  void add(const TraceEvent& event) noexcept {
    ring_[static_cast<std::size_t>(next_ % ring_.size())] = event;
    ++next_;
  }
  std::size_t size() const noexcept {
    return next_ < ring_.size() ? static_cast<std::size_t>(next_) : ring_.size();
  }
  std::uint64_t forgotten() const noexcept { return next_ - size(); }  // events that were overwritten
  std::vector<TraceEvent> events() const;                              // oldest first
  // Chrome trace JSON, which ui.perfetto.dev opens: one track a room, times in microseconds of the monotonic
  // clock.
  std::string json(std::string_view process, std::uint64_t pid) const;

 private:
  std::vector<TraceEvent> ring_;
  std::uint64_t next_ = 0;
};

}  // namespace kvferry::observe
