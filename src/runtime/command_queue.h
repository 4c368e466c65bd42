// What callers want, on its way to the progress thread: a mutex and a vector swap, bounded. The thread is
// woken only when it has announced that it sleeps, because a wake-up costs forty times what a command costs.
// Thread rule: lock(), put(), unlock() from any thread; drain(), announce_sleep() and awake() from the
// progress thread.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/wake_event.h"

namespace kvferry::runtime {

template <class T>
class CommandQueue {
 public:
  using Lock = std::unique_lock<std::mutex>;

  CommandQueue(std::size_t most, WakeEvent wake) : most_(most), wake_(std::move(wake)) {}

  // The same mutex guards what callers and the thread share besides the queue: slots and endpoint names.
  Lock lock() { return Lock(mutex_); }

  // With the lock held: is there room for `more` entries beside those that wait?
  bool fits(const Lock&, std::size_t more = 1) const noexcept { return queue_.size() + more <= most_; }
  std::size_t waiting(const Lock&) const noexcept { return queue_.size(); }
  void put(const Lock&, T value) { queue_.push_back(std::move(value)); }

  // Gives the lock back and wakes the thread if it sleeps.
  void unlock(Lock lock) {
    const bool wake = asleep_ && !queue_.empty();
    if (wake) asleep_ = false;
    lock.unlock();
    if (wake) wake_.set();
  }

  // Everything that waits, in order; `out` must be empty and its memory is reused by the next callers.
  void drain(std::vector<T>& out) {
    const Lock held = lock();
    queue_.swap(out);
  }

  // False: something waits already, do not sleep. True: the next unlock() of a queue with an entry sets the
  // event.
  bool announce_sleep() {
    const Lock held = lock();
    asleep_ = queue_.empty();
    return asleep_;
  }
  void awake() {
    {
      const Lock held = lock();
      asleep_ = false;
    }
    wake_.clear();
  }
  void nudge() const noexcept { wake_.set(); }  // wakes the thread without a command
  int wake_fd() const noexcept { return wake_.fd(); }
  std::size_t most() const noexcept { return most_; }

 private:
  std::mutex mutex_;
  std::vector<T> queue_;
  bool asleep_ = false;
  const std::size_t most_;
  WakeEvent wake_;
};

}  // namespace kvferry::runtime
