// The trace clock and what it rules: arrivals and releases. Pure: wall time is handed in. Thread rule: one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "replay/trace.h"

namespace kvferry::replay {

// Trace time: either wall time times a factor, or ("max") a value that jumps.
class TraceClock {
 public:
  // speed: trace seconds for each wall second; 0: max, the clock stands until jump_to().
  TraceClock(double speed, std::int64_t start_ns) : speed_(speed), start_ns_(start_ns) {}

  bool jumps() const noexcept { return speed_ <= 0; }
  std::int64_t now_us(std::int64_t wall_ns) const noexcept;
  void jump_to(std::int64_t us) noexcept;                  // max only; never backwards
  std::int64_t wall_ns_of(std::int64_t us) const noexcept; // numeric only: when that moment is there

 private:
  double speed_;
  std::int64_t start_ns_;
  std::int64_t jumped_us_ = 0;
};

class Schedule {
 public:
  explicit Schedule(std::span<const TraceRequest> requests);  // sorted by arrival; must outlive this

  std::optional<std::int64_t> next_arrival() const;
  std::optional<std::int64_t> next_release() const;
  std::optional<std::uint32_t> take_arrival(std::int64_t now_us);  // the next request that is due
  std::optional<std::uint32_t> take_release(std::int64_t now_us);
  void hold(std::uint32_t request, std::int64_t until_us);
  std::size_t holds() const noexcept { return releases_.size(); }

  struct Situation {
    bool settled = true;      // every release that was told has been carried out
    bool short_of_pages = false;  // a request waits that no free page can serve
    bool full = false;        // as many rooms live as may be
    bool idle = false;        // no room is live
  };
  // Where a clock that jumps goes next: to the next release when no page is free, else to the next arrival;
  // nowhere while the rooms that live have to get on first.
  std::optional<std::int64_t> jump(const Situation&) const;

 private:
  using Release = std::pair<std::int64_t, std::uint32_t>;
  std::span<const TraceRequest> requests_;
  std::size_t arrived_ = 0;
  std::priority_queue<Release, std::vector<Release>, std::greater<>> releases_;
};

}  // namespace kvferry::replay
