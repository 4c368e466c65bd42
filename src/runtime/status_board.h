// One atomic word per slot: generation << 8 | Poll. This is what an engine polls thousands of times a second.
// Thread rule: reads from any thread, each is one atomic load. open(), close() and publish() from any thread
// too; publish() never brings a closed or reused slot back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::runtime {

class StatusBoard {
 public:
  explicit StatusBoard(std::uint32_t slots);

  // kStale for a slot out of range, another generation, or a closed handle.
  Poll poll(Handle) const noexcept;
  // Sleeps until poll(handle) is an end (Success, Failed, Stale), at most for `most`; returns poll(handle).
  Poll wait(Handle, Duration most) const;
  // out[i] = poll(handles[i]) as a number; stops at the shorter of the two.
  void poll_many(std::span<const Handle> handles, std::span<std::uint8_t> out) const noexcept;
  std::span<const std::atomic<std::uint64_t>> words() const noexcept { return words_; }

  void open(Handle) noexcept;  // shows Bootstrapping; not quiet
  void publish(Handle, Poll) noexcept;  // no effect on a closed or reused slot
  void close(Handle) noexcept;  // shows Stale from now on
  void set_quiet(Handle) noexcept;  // every page of this handle is free of the protocol
  // True also for handles whose slot serves a later room: a slot is reused only when it is quiet.
  bool quiet(Handle) const noexcept;
  // The slot's present opener is this handle, closed or not.
  bool current(Handle) const noexcept;

  static constexpr std::uint64_t word(std::uint32_t generation, Poll poll) noexcept {
    return std::uint64_t{generation} << 8U | static_cast<std::uint64_t>(poll);
  }

 private:
  void tell_waiters() noexcept;  // after a word changed

  std::vector<std::atomic<std::uint64_t>> words_;
  std::vector<std::atomic<std::uint32_t>> quiet_;  // the newest generation that became quiet

  // Callers inside wait(). The lock is taken by publish() and close() only while there are any.
  mutable std::atomic<std::uint32_t> waiters_{0};
  mutable std::mutex waiting_;
  mutable std::condition_variable changed_;
};

}  // namespace kvferry::runtime
