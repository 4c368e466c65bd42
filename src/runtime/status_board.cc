#include "runtime/status_board.h"

#include <algorithm>

namespace kvferry::runtime {
namespace {

constexpr std::uint32_t generation_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 8U);
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
