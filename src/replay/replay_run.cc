#include "replay/replay_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvferry::replay {
namespace {

constexpr std::int64_t kStuckNs =
    30'000'000'000;  // nothing at all moved for so long, though the clock asks for nothing
constexpr int kBusyMs = 1;
constexpr int kIdleMs = 100;

}  // namespace

ReplayRun::ReplayRun(const Trace& trace, const ReplayPlan& plan, Area& area, Referee& referee)
    : trace_(trace),
      plan_(plan),
      area_(area),
      referee_(referee),
      schedule_(trace.requests),
      start_ns_(monotonic_ns()),
      clock_(plan.speed, start_ns_),
      prng_(mix64(plan.seed ^ 0x61626f7274ULL)),
      live_most_(kLiveRoomsPerDecode * area.config().decode),
      progress_(trace.requests.size(), start_ns_) {
  for (const KillSpec& spec : plan.kills) kills_.push_back({spec, false});
}

bool ReplayRun::over() const { return arrived_ == trace_.requests.size() && referee_.unfinished() == 0; }

void ReplayRun::run() {
  for (;;) {
    const std::int64_t wall = monotonic_ns();
    if (clock_.jumps()) jump();
    const std::int64_t now = clock_.now_us(wall);
    fire_releases(now);
    fire_arrivals(now);
    fire_kills(now, wall);
    finished_.clear();
    referee_.pump(timeout_ms(wall), finished_);
    for (const Finished& f : finished_) {
      ++done_;
      const double hold_us = plan_.decode_ms * 1000 * trace_.requests[f.request].output_tokens;
      if (f.succeeded)
        schedule_.hold(f.request, clock_.now_us(monotonic_ns()) + static_cast<std::int64_t>(hold_us));
    }
    progress_.update(wall, done_, area_.total(Count::kBytesMoved), referee_.live(), now);
    if (over()) break;
    if (!referee_.fatal().empty()) {
      ended_early_ = referee_.fatal();
      break;
    }
    if (stuck(wall)) {
      ended_early_ =
          fmt::format("nothing moved for {} s; {}", kStuckNs / 1'000'000'000, referee_.describe_live());
      break;
    }
  }
  while (const std::optional<std::int64_t> at = schedule_.next_release()) fire_releases(*at);
}

void ReplayRun::jump() {
  const Schedule::Situation now{referee_.settled(), referee_.short_of_pages(),
                                referee_.unfinished() >= live_most_, referee_.unfinished() == 0};
  if (const std::optional<std::int64_t> at = schedule_.jump(now)) clock_.jump_to(*at);
}

void ReplayRun::fire_releases(std::int64_t now_us) {
  while (const std::optional<std::uint32_t> request = schedule_.take_release(now_us))
    referee_.release(*request);
}

void ReplayRun::fire_arrivals(std::int64_t now_us) {
  while (referee_.unfinished() < live_most_) {
    const std::optional<std::uint32_t> request = schedule_.take_arrival(now_us);
    if (!request) return;
    ++arrived_;
    referee_.submit(*request, plan_of());
    if (referee_.outcome(*request) == Referee::Outcome::kFailed) ++done_;  // no process is left for it
  }
}

// Where a client goes away: before anything is known, at the grant, in the middle, or after the last chunk.
Plan ReplayRun::plan_of() {
  static constexpr std::array<std::int32_t, 6> kMoments{Message::kAtOpen, 0, 25, 50, 75, 100};
  Plan plan;
  if (!prng_.chance(plan_.abort_rate)) return plan;
  plan.abort_side = prng_.chance(0.5) ? Side::kPrefill : Side::kDecode;
  plan.abort_percent = kMoments[prng_.below(kMoments.size())];
  return plan;
}

void ReplayRun::fire_kills(std::int64_t now_us, std::int64_t wall_ns) {
  const double seconds = static_cast<double>(clock_.jumps() ? (wall_ns - start_ns_) / 1000 : now_us) / 1e6;
  for (Kill& kill : kills_) {
    if (kill.fired) continue;
    const bool due = kill.spec.at_room ? referee_.opens() >= kill.spec.room : seconds >= kill.spec.seconds;
    const std::uint32_t first = kill.spec.side == Side::kPrefill ? 0 : area_.config().prefill;
    if (!due || !referee_.running(first + kill.spec.index)) continue;
    kill.fired = true;
    referee_.kill(first + kill.spec.index, kill.spec.restart);
  }
}

std::vector<std::string> ReplayRun::kills_not_fired() const {
  std::vector<std::string> texts;
  for (const Kill& kill : kills_) {
    if (!kill.fired) texts.push_back(kill.spec.text);
  }
  return texts;
}

int ReplayRun::timeout_ms(std::int64_t wall_ns) const {
  if (clock_.jumps()) return kBusyMs;
  std::int64_t next = wall_ns + kIdleMs * std::int64_t{1'000'000};
  if (const auto at = schedule_.next_arrival(); at && referee_.unfinished() < live_most_)
    next = std::min(next, clock_.wall_ns_of(*at));
  if (const auto at = schedule_.next_release()) next = std::min(next, clock_.wall_ns_of(*at));
  for (const Kill& kill : kills_) {
    if (kill.fired) continue;
    next = std::min(next, kill.spec.at_room
                              ? wall_ns + kBusyMs * std::int64_t{1'000'000}
                              : clock_.wall_ns_of(static_cast<std::int64_t>(kill.spec.seconds * 1e6)));
  }
  return static_cast<int>(std::clamp<std::int64_t>((next - wall_ns + 999'999) / 1'000'000, 1, kIdleMs));
}

// A slow clock is no fault: between two arrivals, or while pages wait for a release, nothing needs to move.
bool ReplayRun::stuck(std::int64_t wall_ns) const {
  if (wall_ns - referee_.last_change_ns() < kStuckNs) return false;
  if (clock_.jumps()) return true;
  return referee_.unfinished() > 0 && !(referee_.short_of_pages() && schedule_.holds() > 0);
}

}  // namespace kvferry::replay
