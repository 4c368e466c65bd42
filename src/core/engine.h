// The protocol: one engine for both roles. step(input, now) -> outputs; total, never throws, never blocks.
// No thread, clock, socket, log or environment. An ordinary copyable value: the explorer copies it freely.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io.h"
#include "core/mutants.h"
#include "core/plan.h"
#include "kvferry/limits.h"

namespace kvferry::core {

struct MoverConfig {
  Capabilities capabilities;
  std::vector<std::byte> description;
};

struct EngineConfig {
  Incarnation self;
  std::string name, endpoint, host_id;
  std::uint64_t pid = 0;
  std::uint32_t rank = 0;
  Layout layout;
  std::vector<MoverConfig> movers;  // in order of preference
  Limits limits;
  Deadlines deadlines;
  std::uint64_t token_seed = 0;     // tokens of loans are drawn from it
  bool trace = false;               // emit out::Trace
#ifdef KVFERRY_MUTANTS
  Mutant mutant = Mutant::kNone;    // the rule to remove (kvferry-sim only)
#endif
};

// A timer that is armed: which wait, about whom. The explorer fires any of them; Tick fires those that are
// due.
struct TimerRef {
  enum class Kind : std::uint8_t { kRoom = 0, kLeg, kPeer, kDebts, kEndpoint, kMemory } kind = Kind::kRoom;
  std::uint32_t a = 0, b = 0;       // subject, internal
  const char* name = "";            // "bootstrap", "waiting", "progress", "drain", ...
  TimePoint at;
};

class Engine {
 public:
  explicit Engine(const EngineConfig&);
  Engine(const Engine&);
  Engine(Engine&&) noexcept;
  Engine& operator=(const Engine&);
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  void step(const Input&, TimePoint now, Outputs& out);  // appends to out
  std::optional<TimePoint> next_deadline() const;        // when a Tick is due

  // Reads for the shell; none changes anything.
  const PairPlan* plan(PeerId) const;  // planes for Lend and Post of that peer; null: unknown peer
  RoomInfo info(Handle) const;
  const Error* error(Handle) const;  // the room's first cause; null: none or unknown
  Counters counters() const;
  std::vector<Quarantined> quarantined() const;
  std::string peer_name(PeerId) const;

  // For the explorer and the simulator's checkers.
  void armed(std::vector<TimerRef>&) const;
  void fire(const TimerRef&, TimePoint now, Outputs& out);
  void canonical(std::string& bytes) const;  // the state without times and statistics, ids renamed

 private:
  struct State;
  std::unique_ptr<State> s_;
};

}  // namespace kvferry::core
