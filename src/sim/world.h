// The whole cluster in one thread, driven by one seed, in virtual time: real engines, real codec, modelled
// movers, users and faults. Laws are checked after every event; then faults stop and everything must end.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "core/engine.h"
#include "sim/checkers.h"
#include "sim/cluster.h"
#include "sim/coverage.h"
#include "sim/directory.h"
#include "sim/event_queue.h"
#include "sim/law.h"
#include "sim/net.h"
#include "sim/scenario.h"
#include "sim/sim_transport.h"
#include "sim/text.h"
#include "sim/trace.h"
#include "sim/users.h"

namespace kvferry::sim {

// Which rule is removed; all kNone in a clean run.
struct Removed {
  core::Mutant rule = core::Mutant::kNone;
  MoverMutant mover = MoverMutant::kNone;
};

struct RunResult {
  std::uint64_t seed = 0;
  std::uint64_t events = 0, rooms = 0, succeeded = 0, failed = 0, frames = 0;
  std::uint64_t trace_hash = 0;
  Duration virtual_time{0};
  std::optional<Breach> breach;
  std::vector<std::string> last;  // the last events before the end, when they were asked for
};

// A process: at most one life at a time.
struct SimNode {
  std::uint32_t index = 0;
  NodePlace place;
  bool up = false;
  LifeIndex life = kNoLife;
  std::unique_ptr<core::Engine> engine;
  Duration offset{0};        // its clock = offset + now * (1 + drift)
  double drift = 0;
  TimePoint paused_until;    // a stopped process
  TimePoint tick_at = TimePoint::max();
};

// SimEvent::a of kFault beside the Fault values.
inline constexpr std::uint32_t kFaultTick = 1000, kRekeyDone = 1001, kFenceDone = 1002, kRevokeDone = 1003;

enum class MoverStep : std::uint8_t { kLandSome, kLand, kArrive, kComplete, kFail, kQuiesce, kDropOrphan };

class World {
 public:
  World(const Scenario&, Removed, Coverage&, std::size_t keep_last);
  ~World();
  RunResult run();

  // For net, users and checkers.
  const Scenario& scenario() const { return scenario_; }
  TimePoint now() const { return now_; }
  Prng& rng() { return rng_; }
  Laws& laws() { return laws_; }
  Coverage& coverage() { return coverage_; }
  SimTransport& mover() { return mover_; }
  const Directory& directory() const { return directory_; }
  std::vector<SimNode>& nodes() { return nodes_; }
  SimNode& node(std::uint32_t i) { return nodes_[i]; }
  Trace& trace() { return trace_; }
  bool faulty() const { return faulty_; }
  bool in_tick() const { return in_tick_; }  // a timer fired: its own verdict, not a message of a peer
  bool roll(Fault);  // draws; counts when it strikes; never after the healing
  void plan(Duration after, SimEvent);
  void feed(std::uint32_t node, const core::Input&);
  void feed_later(LifeIndex, core::Input, Duration after);  // dropped if that life is over by then
  TimePoint local(const SimNode& n) const;
  Duration between(Duration low, Duration high);

 private:
  void birth(std::uint32_t node);
  void crash(std::uint32_t node);
  void pause(std::uint32_t node);
  void handle(const SimEvent&);
  bool paused(const SimEvent&);
  std::uint32_t node_of(const SimEvent&) const;  // ~0U: none
  void act(SimNode&, core::Outputs&);
  void plan_tick(SimNode&);
  // world_mover.cc: the data plane in time.
  void post(SimNode&, const core::out::Post&);
  void plan_step(OpIndex, MoverStep, Duration after);
  void mover_step(OpIndex, MoverStep, std::uint64_t which);
  void next_step(OpIndex);
  void plan_fence(SimNode&, PeerId);
  void plan_revoke(SimNode&, LoanId);
  void run_effects();
  void fault_event(const SimEvent&);
  void fault_tick();
  void heal();
  void settle();
  bool run_until(TimePoint, bool stop_when_over);
  Duration patience() const;
  void note_leg(const core::out::Trace&);
  void note_output(const SimNode&, const core::Output&);

  Scenario scenario_;
  Removed removed_;
  Coverage& coverage_;
  Laws laws_;
  Trace trace_;
  Prng rng_;
  TimePoint now_{};
  bool faulty_ = true, in_tick_ = false;
  std::uint64_t events_ = 0, births_ = 0;
  EventQueue queue_;
  std::vector<SimNode> nodes_;
  std::vector<std::uint32_t> node_of_life_;
  SimTransport mover_;
  Net net_;
  Directory directory_;
  Users users_;
  Checkers checkers_;
  struct Prepared {
    LifeIndex life = kNoLife;
    core::Input input;
  };
  std::vector<Prepared> prepared_;
  std::vector<std::uint32_t> free_prepared_;
  Effects effects_;
  core::Outputs outputs_;
};

}  // namespace kvferry::sim
