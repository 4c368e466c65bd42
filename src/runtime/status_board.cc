#include "runtime/status_board.h"

#include <algorithm>

namespace kvferry::runtime {
namespace {

constexpr std::uint32_t generation_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 8U);
}
constexpr bool ended(Poll poll) noexcept {
  return poll == Poll::kSuccess || poll == Poll::kFailed || poll == Poll::kStale;
}
constexpr Poll poll_of(std::uint64_t word) noexcept { return static_cast<Poll>(word & 0xffU); }

}  // namespace

StatusBoard::StatusBoard(std::uint32_t slots) : words_(slots), quiet_(slots) {
  for (std::atomic<std::uint64_t>& word_of_slot : words_) {
    word_of_slot.store(word(0, Poll::kStale), std::memory_order_relaxed);
  }
}

Poll StatusBoard::poll(Handle handle) const noexcept {
  if (handle.slot >= words_.size()) return Poll::kStale;
  const std::uint64_t now = words_[handle.slot].load(std::memory_order_acquire);
  return generation_of(now) == handle.generation ? poll_of(now) : Poll::kStale;
}

Poll StatusBoard::wait(Handle handle, Duration most) const {
  if (const Poll now = poll(handle); ended(now) || most <= Duration::zero()) return now;
  constexpr Duration kLongest = std::chrono::hours(24 * 365);  // the end of the wait must not overflow
  waiters_.fetch_add(1, std::memory_order_seq_cst);  // before the word is looked at again: see tell_waiters()
  std::unique_lock lock(waiting_);
  changed_.wait_for(lock, std::min(most, kLongest), [&] { return ended(poll(handle)); });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return poll(handle);
}

// A waiter counts itself, then reads the word; this side wrote the word, then reads the count: one of them
// sees the other. Passing through the lock makes sure that a waiter which has read the old word already
// sleeps.
void StatusBoard::tell_waiters() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_relaxed) == 0) return;
  { const std::lock_guard passed(waiting_); }
  changed_.notify_all();
}

void StatusBoard::poll_many(std::span<const Handle> handles, std::span<std::uint8_t> out) const noexcept {
  const std::size_t count = std::min(handles.size(), out.size());
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(poll(handles[i]));
}

void StatusBoard::open(Handle handle) noexcept {
  words_[handle.slot].store(word(handle.generation, Poll::kBootstrapping), std::memory_order_release);
}

void StatusBoard::publish(Handle handle, Poll poll) noexcept {
  if (handle.slot >= words_.size()) return;
  std::atomic<std::uint64_t>& slot = words_[handle.slot];
  std::uint64_t now = slot.load(std::memory_order_relaxed);
  do {
    if (generation_of(now) != handle.generation || poll_of(now) == Poll::kStale) return;
  } while (!slot.compare_exchange_weak(now, word(handle.generation, poll), std::memory_order_release,
                                       std::memory_order_relaxed));
  tell_waiters();
}

void StatusBoard::close(Handle handle) noexcept { publish(handle, Poll::kStale); }

void StatusBoard::set_quiet(Handle handle) noexcept {
  if (handle.slot < quiet_.size() && current(handle)) {
    quiet_[handle.slot].store(handle.generation, std::memory_order_release);
  }
}

bool StatusBoard::quiet(Handle handle) const noexcept {
  if (!current(handle)) return true;
  return quiet_[handle.slot].load(std::memory_order_acquire) == handle.generation;
}

bool StatusBoard::current(Handle handle) const noexcept {
  return handle.slot < words_.size() && handle.generation != 0 &&
         generation_of(words_[handle.slot].load(std::memory_order_acquire)) == handle.generation;
}

}  // namespace kvferry::runtime
