// Events on their way to the caller, bounded: when nobody takes them, those that a Terminal implies are
// merged into it (a Terminal says that every page is free, so the rooms' older ChunkReturned and Failing add
// nothing). Thread rule: put() and forget() from the progress thread or the closing caller, take() from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "kvferry/manager.h"
#include "runtime/wake_event.h"

namespace kvferry::runtime {

class EventQueue {
 public:
  // `closed` tells whether a handle's events still have a reader; a closed handle's are the first to go.
  EventQueue(std::size_t most, WakeEvent wake, std::function<bool(Handle)> closed);

  void put(ManagerEvent);
  std::size_t take(std::vector<ManagerEvent>& out, std::size_t most);  // appends; oldest first
  int fd() const noexcept { return wake_.fd(); }                      // readable while events wait
  std::uint64_t merged() const;  // events that were merged away so far
  std::size_t waiting() const;

 private:
  void merge();  // with the lock held

  mutable std::mutex mutex_;
  std::deque<ManagerEvent> queue_;
  const std::size_t most_;
  std::size_t merge_at_;
  std::uint64_t merged_ = 0;
  WakeEvent wake_;
  std::function<bool(Handle)> closed_;
};

}  // namespace kvferry::runtime
