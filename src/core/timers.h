// When somebody is due next: a heap of (time, subject). Entries are only hints: the subject says what is due,
// so an entry that became too early costs one look and a deadline that moves later costs nothing. A copyable
// value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::core {

enum class Subject : std::uint8_t { kRoom, kPeer, kEndpoint, kMemory };

struct TimerEntry {
  TimePoint at;
  Subject subject = Subject::kRoom;
  std::uint32_t index = 0;
};

class TimerHeap {
 public:
  void push(const TimerEntry& e) {
    heap_.push_back(e);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool empty() const { return heap_.empty(); }
  const TimerEntry& top() const { return heap_.front(); }
  TimerEntry pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const TimerEntry e = heap_.back();
    heap_.pop_back();
    return e;
  }
  std::size_t size() const { return heap_.size(); }

 private:
  static bool later(const TimerEntry& a, const TimerEntry& b) { return a.at > b.at; }
  std::vector<TimerEntry> heap_;
};

// Remembers the earliest entry that a subject has in the heap.
struct TimerSlot {
  TimePoint queued = TimePoint::max();
};

}  // namespace kvferry::core
