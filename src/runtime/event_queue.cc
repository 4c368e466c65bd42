#include "runtime/event_queue.h"

#include <algorithm>
#include <unordered_set>

namespace kvferry::runtime {
namespace {

std::uint64_t key_of(Handle handle) noexcept { return std::uint64_t{handle.slot} << 32U | handle.generation; }

}  // namespace

EventQueue::EventQueue(std::size_t most, WakeEvent wake, std::function<bool(Handle)> closed)
    : most_(std::max<std::size_t>(most, 4)),
      merge_at_(most_),
      wake_(std::move(wake)),
      closed_(std::move(closed)) {}

void EventQueue::put(ManagerEvent event) {
  const std::lock_guard held(mutex_);
  if (queue_.size() >= merge_at_) merge();
  if (queue_.empty()) wake_.set();  // under the lock: take() must not clear it in between
  queue_.push_back(event);
}

void EventQueue::merge() {
  const std::size_t before = queue_.size();
  std::unordered_set<std::uint64_t> ended;
  for (const ManagerEvent& event : queue_) {
    if (event.kind == ManagerEvent::Kind::kTerminal) ended.insert(key_of(event.handle));
  }
  std::erase_if(queue_, [&](const ManagerEvent& event) {
    return closed_(event.handle) ||
           (event.kind != ManagerEvent::Kind::kTerminal && ended.contains(key_of(event.handle)));
  });
  // Still full of rooms that live: the oldest words about them go; their Terminal, which is never dropped,
  // says it all.
  const std::size_t keep = most_ - most_ / 4;
  std::size_t surplus = queue_.size() > keep ? queue_.size() - keep : 0;
  std::erase_if(queue_, [&](const ManagerEvent& event) {
    if (surplus == 0 || event.kind == ManagerEvent::Kind::kTerminal) return false;
    --surplus;
    return true;
  });
  merged_ += before - queue_.size();
  // One Terminal a slot can remain even above the limit; do not scan them again for each event.
  merge_at_ = std::max(most_, queue_.size() + most_ / 4);
}

std::size_t EventQueue::take(std::vector<ManagerEvent>& out, std::size_t most) {
  const std::lock_guard held(mutex_);
  const std::size_t count = std::min(most, queue_.size());
  out.insert(out.end(), queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
  if (queue_.empty()) {
    wake_.clear();
    merge_at_ = most_;
  }
  return count;
}

std::uint64_t EventQueue::merged() const {
  const std::lock_guard held(mutex_);
  return merged_;
}

std::size_t EventQueue::waiting() const {
  const std::lock_guard held(mutex_);
  return queue_.size();
}

}  // namespace kvferry::runtime
