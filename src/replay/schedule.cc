#include "replay/schedule.h"

#include <algorithm>

namespace kvferry::replay {

std::int64_t TraceClock::now_us(std::int64_t wall_ns) const noexcept {
  if (jumps()) return jumped_us_;
  return static_cast<std::int64_t>(static_cast<double>(wall_ns - start_ns_) * speed_ / 1000.0);
}

void TraceClock::jump_to(std::int64_t us) noexcept { jumped_us_ = std::max(jumped_us_, us); }

std::int64_t TraceClock::wall_ns_of(std::int64_t us) const noexcept {
  return start_ns_ + static_cast<std::int64_t>(static_cast<double>(us) * 1000.0 / speed_);
}

Schedule::Schedule(std::span<const TraceRequest> requests) : requests_(requests) {}

std::optional<std::int64_t> Schedule::next_arrival() const {
  if (arrived_ == requests_.size()) return std::nullopt;
  return requests_[arrived_].arrival_us;
}

std::optional<std::int64_t> Schedule::next_release() const {
  if (releases_.empty()) return std::nullopt;
  return releases_.top().first;
}

std::optional<std::uint32_t> Schedule::take_arrival(std::int64_t now_us) {
  if (arrived_ == requests_.size() || requests_[arrived_].arrival_us > now_us) return std::nullopt;
  return static_cast<std::uint32_t>(arrived_++);
}

std::optional<std::uint32_t> Schedule::take_release(std::int64_t now_us) {
  if (releases_.empty() || releases_.top().first > now_us) return std::nullopt;
  const std::uint32_t request = releases_.top().second;
  releases_.pop();
  return request;
}

void Schedule::hold(std::uint32_t request, std::int64_t until_us) { releases_.push({until_us, request}); }

std::optional<std::int64_t> Schedule::jump(const Situation& now) const {
  if (!now.settled) return std::nullopt;
  if (now.short_of_pages) return next_release();
  if (now.full) return std::nullopt;
  if (const std::optional<std::int64_t> arrival = next_arrival()) return arrival;
  return now.idle ? next_release() : std::nullopt;
}

}  // namespace kvferry::replay
