#include "runtime/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace kvferry::runtime {
namespace {

constexpr int kRounds = 32;  // of quanta in one turn: a flood cannot keep the tick away for longer
constexpr std::size_t kCommands = 1024;  // in one quantum
constexpr Duration kBlindPoll =
    std::chrono::microseconds(200);  // movers without a descriptor, with work under way
constexpr Duration kBlindIdle = std::chrono::milliseconds(5);  // and without
constexpr Duration kLastWords =
    std::chrono::milliseconds(250);  // for unanswered messages when a manager stops

}  // namespace

Progress::Progress(const ManagerOptions& options, Shared& shared, Parts& parts)
    : shared_(shared),
      parts_(parts),
      shell_(options, shared, parts),
      spin_(options.spin),
      longest_(std::clamp<Duration>(options.deadlines.gap / 2, std::chrono::milliseconds(1),
                                    std::chrono::seconds(1))),
      mark_(parts.clock->now()),
      last_mark_(mark_),
      now_(mark_) {
  sleeper_.watch(shared_.queue.wake_fd());
  sleeper_.watch(parts_.channel->wake_fd());
  for (const auto& mover : parts_.transports) sleeper_.watch(mover->wake_fd());
  sleeper_.watch(shell_.deaths_fd());
}

void Progress::step(core::Input&& input) {
  try {
    {
      const std::lock_guard held(shared_.core);
      shared_.engine.step(input, now_, outputs_);
      if (const auto* open = std::get_if<core::in::Open>(&input)) {
        shared_.known[open->handle.slot] = open->handle.generation;
      }
    }
    acted_ = acted_ || !outputs_.empty();
    shell_.carry_out(outputs_, now_);
  } catch (const std::exception& fault) {
    // The core promises not to throw. If it does, that input is lost, the loop and every other room go on.
    outputs_.clear();
    const std::lock_guard held(shared_.core);
    ++shared_.input_faults;
    shell_.log().line(now_, fmt::format("{}: BUG: an input of kind {} raised: {}; please report it",
                                        shell_.name(), input.index(), fault.what()));
  }
}

// Acting on one input may cause further ones (a refused post completes at once); they are stepped behind it.
bool Progress::drain_feed() {
  bool any = false;
  while (!shell_.feed().empty()) {
    any = true;
    inputs_.clear();
    inputs_.swap(shell_.feed());
    for (core::Input& input : inputs_) step(std::move(input));
  }
  return any;
}

// The next portion of what was queued at the mark. True: something was stepped.
bool Progress::take_commands() {
  const std::size_t first = next_command_;
  const std::size_t end = std::min(commands_.size(), first + kCommands);
  for (; next_command_ < end; ++next_command_) {
    Command& command = commands_[next_command_];
    now_ = std::clamp(command.at, last_mark_, mark_);
    last_mark_ = now_;  // time never runs backwards among commands
    shell_.note_command(command.wish);
    if (std::holds_alternative<core::in::Stop>(command.wish)) stop_seen_ = mark_;
    step(to_input(std::move(command.wish)));
    drain_feed();
  }
  now_ = mark_;
  return end > first;
}

// Round robin: completions that had come before the commands first, then a portion of commands, then of
// frames.
bool Progress::take_world() {
  bool any = false;
  next_command_ = 0;
  for (int round = 0; round < kRounds || next_command_ < commands_.size(); ++round) {
    bool more = false;
    for (std::uint32_t mover = 0; mover < parts_.transports.size(); ++mover) more |= shell_.poll_mover(mover);
    any |= drain_feed();
    any |= take_commands();
    more |= shell_.poll_channel();
    any |= drain_feed();
    if (!more && next_command_ == commands_.size()) break;
  }
  commands_.clear();
  return any;
}

// What a process said before it died lies in our buffers: it is heard first.
bool Progress::take_deaths() {
  deaths_.clear();
  shell_.poll_deaths(deaths_);
  if (deaths_.empty()) return false;
  for (int round = 0; round < kRounds && shell_.poll_channel(); ++round) drain_feed();
  drain_feed();
  for (Death& death : deaths_) {
    step(core::in::PeerDead{death.peer, std::move(death.evidence)});
    drain_feed();
  }
  return true;
}

bool Progress::turn() {
  acted_ = false;
  mark_ = std::max(parts_.clock->now(), last_mark_);
  shared_.queue.drain(commands_);
  now_ = mark_;
  bool did = take_world();
  did |= take_deaths();
  step(core::in::Tick{});
  did |= drain_feed();
  did |= shell_.retry_posts();
  did |= drain_feed();
  did |= acted_;
  last_mark_ = mark_;
  if (did) shell_.report();
  if (stop_seen_) note_stop();
  return did || std::any_of(parts_.transports.begin(), parts_.transports.end(),
                            [](const auto& mover) { return mover->busy(); });
}

bool Progress::settled() const {
  if (!stop_seen_ || shell_.live() != 0) return false;
  const std::lock_guard held(shared_.core);
  return shared_.engine.counters().debts == 0 || mark_ - *stop_seen_ >= kLastWords;
}

void Progress::note_stop() {
  if (!settled()) return;
  const std::lock_guard held(stop_mutex_);
  if (std::exchange(stopped_, true)) return;
  stop_changed_.notify_all();
}

bool Progress::wait_stopped(Duration most) {
  std::unique_lock held(stop_mutex_);
  return stop_changed_.wait_for(held, most, [this] { return stopped_; });
}

void Progress::quit() {
  quit_.store(true, std::memory_order_release);
  shared_.queue.nudge();
}

void Progress::run() {
  TimePoint spin_until;
  while (!quit_.load(std::memory_order_acquire)) {
    if (turn()) {
      spin_until = mark_ + spin_;
    } else if (parts_.clock->now() >= spin_until) {
      sleep();
    }
  }
}

Duration Progress::sleep_most() {
  Duration most = longest_;
  {
    const std::lock_guard held(shared_.core);
    if (const auto due = shared_.engine.next_deadline()) most = std::min(most, *due - parts_.clock->now());
  }
  if (stop_seen_) most = std::min<Duration>(most, std::chrono::milliseconds(10));
  if (parts_.channel->wake_fd() < 0) most = std::min(most, kBlindIdle);
  for (std::uint32_t i = 0; i < parts_.transports.size(); ++i) {
    if (parts_.transports[i]->wake_fd() < 0)
      most = std::min(most, shell_.unquiet(i) ? kBlindPoll : kBlindIdle);
  }
  return most;
}

void Progress::sleep() {
  if (!shared_.queue.announce_sleep()) return;
  if (const Duration most = sleep_most(); most > Duration::zero()) sleeper_.sleep(most);
  shared_.queue.awake();
}

}  // namespace kvferry::runtime
