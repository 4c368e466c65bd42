// One replay from the first arrival to the last page: the trace clock drives the referee. Thread rule: the
// parent's main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"
#include "replay/kill_spec.h"
#include "replay/progress_line.h"
#include "replay/referee.h"
#include "replay/schedule.h"

namespace kvferry::replay {

inline constexpr std::uint32_t kLiveRoomsPerDecode =
    128;  // rooms open at once: an engine's queue is as finite

struct ReplayPlan {
  double speed = 0;           // trace seconds for each wall second; 0: max
  double decode_ms = 30;      // trace time for each output token
  double abort_rate = 0;
  std::uint64_t seed = 1;
  std::vector<KillSpec> kills;
};

class ReplayRun {
 public:
  ReplayRun(const Trace& trace, const ReplayPlan& plan, Area& area, Referee& referee);

  void run();  // returns when every room has ended, or nothing moves any more
  std::vector<std::string> kills_not_fired() const;
  std::string ended_early() const { return ended_early_; }

 private:
  struct Kill {
    KillSpec spec;
    bool fired = false;
  };
  bool over() const;
  void fire_arrivals(std::int64_t now_us);
  void fire_releases(std::int64_t now_us);
  void fire_kills(std::int64_t now_us, std::int64_t wall_ns);
  void jump();
  int timeout_ms(std::int64_t wall_ns) const;
  bool stuck(std::int64_t wall_ns) const;
  Plan plan_of();

  const Trace& trace_;
  const ReplayPlan& plan_;
  Area& area_;
  Referee& referee_;
  Schedule schedule_;
  std::int64_t start_ns_;
  TraceClock clock_;
  Prng prng_;
  std::vector<Kill> kills_;
  std::vector<Finished> finished_;
  std::uint64_t arrived_ = 0, done_ = 0;
  std::uint32_t live_most_;
  ProgressLine progress_;
  std::string ended_early_;
};

}  // namespace kvferry::replay
