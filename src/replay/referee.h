// The parent's judge: gives requests to workers as attempts, kills and restarts, retries what a kill failed,
// and counts what became of everything. Thread rule: the parent's main thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/limits.h"
#include "replay/area.h"
#include "replay/fleet.h"
#include "replay/tally.h"

namespace kvferry::replay {

// What is to go wrong with one request on purpose.
struct Plan {
  Side abort_side = Side::kPrefill;
  std::int32_t abort_percent = Message::kNever;
  std::int32_t pause_percent = Message::kNever;
};

struct Finished {
  std::uint32_t request = 0;
  bool succeeded = false;
};

class Referee {
 public:
  Referee(Area& area, Fleet& fleet);

  // Starts all workers and waits for them. Errors: what the first worker with trouble said, or a time-out.
  Result<> start();
  void submit(std::uint32_t request, const Plan& = {});  // it begins as soon as both its workers are ready
  void release(std::uint32_t request);                   // decode frees the pages of a success
  void resume(std::uint32_t request);
  void kill(std::uint32_t slot, bool restart);           // the slot must be running
  void pump(int timeout_ms, std::vector<Finished>& finished);
  void finish();                                         // ends the workers in order, then counts

  std::uint32_t live() const noexcept { return live_; }          // rooms that are open
  std::uint64_t unfinished() const noexcept { return live_ + backlog_.size(); }
  std::uint64_t opens() const noexcept { return opens_; }        // attempts open on both sides so far
  bool running(std::uint32_t slot) const { return fleet_.state(slot) == Fleet::State::kReady; }
  bool settled() const;         // every Release was carried out
  bool short_of_pages() const;  // some decode has a request that waits for pages
  std::int64_t last_change_ns() const noexcept { return last_change_ns_; }
  const std::string& fatal() const noexcept { return fatal_; }   // a worker could not be started again

  enum class Outcome : std::uint8_t { kNone, kSucceeded, kFailed };
  Outcome outcome(std::uint32_t request) const { return requests_[request].outcome; }
  const std::string& reason(std::uint32_t request) const { return requests_[request].reason; }
  std::uint32_t decode_slot(std::uint32_t request) const { return requests_[request].decode; }
  std::uint32_t tries(std::uint32_t request) const { return requests_[request].attempt + 1; }
  std::uint64_t live_max() const noexcept { return live_max_; }

  std::string describe_live()
      const;  // where the rooms that are open stand, counted by state; for a run that is stuck

  Tally tally() const;          // at any time; complete after finish()

 private:
  struct Half {                 // one side of the present attempt
    bool opened = false, ended = false, gone = false;
    bool over() const { return ended || gone; }
  };
  struct Request {
    Outcome outcome = Outcome::kNone;
    bool live = false, proven = false, kill_hit = false, contact = false, given_up = false, hung = false,
         held = false;
    bool bereaved =
        false;      // one of its processes died during the attempt, or what it said may have been lost
    std::uint32_t attempt = 0;
    std::uint32_t prefill = 0, decode = 0, prefill_life = 0, decode_life = 0;
    Half half[2];
    Plan plan;
    std::int64_t kill_ns = 0;
    std::string reason;
  };

  void begin_backlog();
  enum class Choice : std::uint8_t { kFound, kWait, kNone };
  Choice choose(Side, std::uint32_t request, std::uint32_t& slot);
  void begin(std::uint32_t index, Request&);
  void on_message(const FleetEvent&);
  void on_died(const FleetEvent&);
  void lose_half(std::uint32_t index, Request&, Side dead);
  void end_if_over(std::uint32_t index, std::vector<Finished>& finished);
  void conclude(std::uint32_t index, Request&, std::vector<Finished>& finished);
  void succeed(std::uint32_t index, Request&);
  std::string cause_of(std::uint32_t index, Request&);
  bool cancelled(std::uint32_t index, const Request&) const;
  void measure_kill(std::uint32_t index, const Request&);
  void look_for_hung();
  const char* state_of(std::uint32_t index, Side side) const;
  std::string describe(std::uint32_t index) const;
  SideRecord& record(std::uint32_t index, Side side) const { return area_.side(index, side); }

  Area& area_;
  Fleet& fleet_;
  Deadlines deadlines_;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> live_list_;
  std::deque<std::uint32_t> backlog_;
  std::vector<bool> restart_;                 // by slot
  std::vector<std::uint64_t> lost_, releases_asked_;
  std::vector<FleetEvent> events_;
  std::uint32_t live_ = 0, next_prefill_ = 0;
  std::uint64_t live_max_ = 0, opens_ = 0;
  std::int64_t last_change_ns_ = 0, looked_ns_ = 0;
  std::uint64_t last_activity_ = 0;
  std::string fatal_;
  Tally tally_;
};

}  // namespace kvferry::replay
