// The loop of the one progress thread: take everything that is queued at a mark, step it all, give the tick
// of that mark, act, sleep. docs/protocol.md, rule 20: an answer that had arrived in time is never judged
// late, and a queue that never empties never stops a timer. Thread rule: turn() and run() belong to one
// thread; the requests may come from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/shared.h"
#include "runtime/shell.h"
#include "runtime/sleeper.h"

namespace kvferry::runtime {

class Progress {
 public:
  Progress(const ManagerOptions&, Shared&, Parts&);

  bool turn();                        // true: it did something, turn again before sleeping
  void run();                         // turns until quit()
  void quit();                        // run() returns after its present turn

  // After in::Stop was queued: true once every room has ended and the last words are out, false at `most`
  // (real time).
  bool wait_stopped(Duration most);
  bool settled() const;               // progress thread: the same, asked directly
  std::size_t live() const noexcept { return shell_.live(); }

 private:
  void step(core::Input&&);           // at now_
  bool drain_feed();                  // steps what the shell has collected
  bool take_commands();
  bool take_world();                  // movers, then the channel; bounded
  bool take_deaths();
  void note_stop();
  void sleep();
  Duration sleep_most();

  Shared& shared_;
  Parts& parts_;
  Shell shell_;
  Sleeper sleeper_;
  const Duration spin_;
  const Duration longest_;            // a sleep, so that an idle loop is not taken for a stopped process
  TimePoint mark_, last_mark_, now_;
  std::vector<Command> commands_;   // queued at the mark
  std::size_t next_command_ = 0;
  std::vector<core::Input> inputs_;
  std::vector<Death> deaths_;
  core::Outputs outputs_;
  bool acted_ = false;

  std::atomic<bool> quit_{false};
  std::optional<TimePoint> stop_seen_;
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopped_ = false;
};

}  // namespace kvferry::runtime
