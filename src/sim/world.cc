#include "sim/world.h"

#include <algorithm>

namespace kvferry::sim {
namespace {
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
}  // namespace

World::World(const Scenario& scenario, Removed removed, Coverage& coverage, std::size_t keep_last)
    : scenario_(scenario),
      removed_(removed),
      coverage_(coverage),
      trace_(keep_last),
      rng_(scenario.seed * 2 + 2),
      mover_(scenario.shape.mover, scenario.shape.fence, removed.mover),
      net_(*this),
      directory_(*this),
      users_(*this),
      checkers_(*this, users_) {}

World::~World() = default;

Duration World::between(Duration low, Duration high) {
  if (high <= low) return low;
  return low + Duration{static_cast<Duration::rep>(
                   rng_.below(static_cast<std::uint64_t>((high - low).count()) + 1))};
}

bool World::roll(Fault f) {
  const double rate = scenario_.rate(f);
  if (!faulty_ || rate <= 0 || !rng_.chance(rate)) return false;
  ++coverage_.faults[static_cast<std::size_t>(f)];
  return true;
}

void World::plan(Duration after, SimEvent e) {
  e.at = now_ + after;
  queue_.push(e);
}

// ---- processes
// ----------------------------------------------------------------------------------------------------

TimePoint World::local(const SimNode& n) const {
  const auto passed = now_.time_since_epoch();
  return TimePoint{} + n.offset + passed +
         Duration{static_cast<Duration::rep>(static_cast<double>(passed.count()) * n.drift)};
}

void World::birth(std::uint32_t index) {
  SimNode& n = nodes_[index];
  n.life = mover_.birth(index, geometry_of(scenario_.shape, n.place));
  node_of_life_.push_back(index);
  LifeSpec life;
  life.node = index;
  life.life = n.life;
  life.self = Incarnation{1'700'000'000'000ULL + births_, mix64(scenario_.seed ^ (births_ << 20))};
  life.token_seed = mix64(scenario_.seed * 1000 + births_);
  ++births_;
  core::EngineConfig config = config_of(scenario_.shape, life);
  config.limits = scenario_.limits;
  config.deadlines = scenario_.deadlines;
  config.trace = true;
#ifdef KVFERRY_MUTANTS
  config.mutant = removed_.rule;
#endif
  n.engine = std::make_unique<core::Engine>(config);
  n.up = true;
  n.tick_at = TimePoint::max();
  n.paused_until = TimePoint{};
  net_.birth(index);
  users_.birth(index);
  directory_.birth(index, life.self);
}

void World::crash(std::uint32_t index) {
  SimNode& n = nodes_[index];
  if (!n.up) return;
  const bool silent = roll(Fault::kPowerLoss);
  if (trace_.wanted())
    trace_.note(now_, name_of_node(scenario_.shape, index) + (silent ? " loses power" : " crashes"));
  net_.crash(index, silent);
  users_.crash(index);
  mover_.die(n.life);
  for (OpIndex i = 0; i < mover_.ops().size(); ++i) {  // what is in flight may land for a while, or never
    const SimOp& op = mover_.ops()[i];
    if (!op.used || op.poster != n.life) continue;
    SimEvent e;
    e.kind = SimEvent::Kind::kMoverStep;
    e.a = i;
    e.b = static_cast<std::uint32_t>(rng_.chance(0.6) ? MoverStep::kLand : MoverStep::kDropOrphan);
    e.c = op.op.value | (static_cast<std::uint64_t>(op.poster) << 48);
    plan(between(Duration{0}, seconds(1)), e);
  }
  for (SimNode& other : nodes_) {
    const PeerId peer = other.up ? mover_.peer_id(other.life, n.life) : PeerId{};
    if (other.index == index || peer.value == 0 || silent || !rng_.chance(0.5)) continue;
    feed_later(other.life, core::in::PeerDead{peer, "its process ended"},
               between(microseconds(50), milliseconds(300)));
  }
  n.up = false;
  n.engine.reset();
  SimEvent restart;
  restart.kind = SimEvent::Kind::kFault;
  restart.a = static_cast<std::uint32_t>(Fault::kCrash);
  restart.b = index;
  plan(between(milliseconds(5), seconds(4)), restart);
}

void World::pause(std::uint32_t index) {
  SimNode& n = nodes_[index];
  if (!n.up) return;
  n.paused_until = now_ + between(milliseconds(5), seconds(8));
  if (trace_.wanted()) trace_.note(now_, name_of_node(scenario_.shape, index) + " is stopped");
}

// ---- inputs and outputs
// -------------------------------------------------------------------------------------------

void World::feed(std::uint32_t index, const core::Input& input) {
  SimNode& n = nodes_[index];
  if (!n.up) return;
  ++events_;
  trace_.add((static_cast<std::uint64_t>(index) << 56) ^ (static_cast<std::uint64_t>(input.index()) << 48) ^
             static_cast<std::uint64_t>(now_.time_since_epoch().count()));
  if (trace_.wanted()) trace_.note(now_, name_of_node(scenario_.shape, index) + " <- " + text_of(input));
  outputs_.clear();
  in_tick_ = std::holds_alternative<core::in::Tick>(input);
  n.engine->step(input, local(n), outputs_);
  act(n, outputs_);
  plan_tick(n);
}

void World::feed_later(LifeIndex life, core::Input input, Duration after) {
  if (free_prepared_.empty()) {
    free_prepared_.push_back(static_cast<std::uint32_t>(prepared_.size()));
    prepared_.emplace_back();
  }
  const std::uint32_t slot = free_prepared_.back();
  free_prepared_.pop_back();
  prepared_[slot] = {life, std::move(input)};
  SimEvent e;
  e.kind = SimEvent::Kind::kInput;
  e.a = slot;
  plan(after, e);
}

void World::act(SimNode& n, core::Outputs& outputs) {
  namespace out = core::out;
  const std::uint32_t at = n.index;
  for (core::Output& o : outputs) {
    trace_.add(o.index() + 77);
    if (trace_.wanted()) note_output(n, o);
    std::visit(Overloaded{
                   [&](out::Send& x) { net_.send(at, x.link, x.message); },
                   [&](out::Dial& x) { net_.dial(at, x.endpoint); },
                   [&](out::CloseLink& x) { net_.close(at, x.link); },
                   [&](out::AddPeer& x) {
                     mover_.add_peer(n.life, x.peer, x.description);
                     feed_later(n.life, core::in::PeerReady{x.peer, Error{}},
                                between(microseconds(1), milliseconds(2)));
                   },
                   [&](out::WatchPeer&) {},
                   [&](out::DropPeer& x) { mover_.drop_peer(n.life, x.peer); },
                   [&](out::Fence& x) { plan_fence(n, x.peer); },
                   [&](out::Lend& x) { mover_.lend(n.life, x, laws_); },
                   [&](out::Revoke& x) { plan_revoke(n, x.loan); },
                   [&](out::Post& x) { post(n, x); },
                   [&](out::Cancel&) {},
                   [&](out::Publish& x) {
                     checkers_.before_publish(at, x.handle, x.poll);
                     users_.publish(at, x.handle, x.poll);
                   },
                   [&](out::Failing& x) {
                     checkers_.before_failing(at, x.handle, x.cause);
                     users_.failing(at, x.handle, x.cause);
                   },
                   [&](out::ChunkReturned& x) { users_.chunk_returned(at, x.handle, x.chunk); },
                   [&](out::Terminal& x) {
                     checkers_.before_terminal(at, x.handle);
                     users_.terminal(at, x.handle);
                   },
                   [&](out::Closed& x) { users_.closed(at, x.handle); },
                   [&](out::RekeyRegions& x) {
                     SimEvent e;
                     e.kind = SimEvent::Kind::kFault;
                     e.a = kRekeyDone;
                     e.b = n.life;
                     e.c = x.generation;
                     plan(between(microseconds(10), milliseconds(5)), e);
                   },
                   [&](out::Trace& x) { note_leg(x); },
               },
               o);
  }
}

void World::note_output(const SimNode& n, const core::Output& o) {
  const std::string text = text_of(o);
  if (!text.empty()) trace_.note(now_, name_of_node(scenario_.shape, n.index) + " " + text);
}

void World::note_leg(const core::out::Trace& t) {
  if (std::string_view(t.what) == "leg bug") {
    laws_.broken(Law::kStatus, "room " + std::to_string(t.room.value) +
                                   ": the leg table calls this impossible here: state " +
                                   core::kLegStateNames[t.a % core::kLegStates] + ", event " +
                                   core::kLegEventNames[t.b % core::kLegEvents]);
  } else if (std::string_view(t.what) == "leg") {
    ++coverage_.legs[(t.a >> 8) % core::kLegStates][t.b % core::kLegEvents];
  }
}

void World::plan_tick(SimNode& n) {
  const auto due = n.engine->next_deadline();
  if (!due) return;
  const auto ahead = static_cast<double>((*due - local(n)).count());
  const auto wait =
      Duration{std::max<Duration::rep>(1, static_cast<Duration::rep>(ahead / (1 + n.drift)) + 1)};
  if (now_ + wait >= n.tick_at) return;
  n.tick_at = now_ + wait;
  SimEvent e;
  e.kind = SimEvent::Kind::kTick;
  e.a = n.index;
  plan(wait, e);
}

// ---- the queue
// ----------------------------------------------------------------------------------------------------

std::uint32_t World::node_of(const SimEvent& e) const {
  switch (e.kind) {
    case SimEvent::Kind::kFrame: return net_.node_of_frame(e.a);
    case SimEvent::Kind::kLinkUp:
    case SimEvent::Kind::kLinkDown: return net_.node_of_link(e.a, e.b);
    case SimEvent::Kind::kDialFailed:
    case SimEvent::Kind::kRegistry:
    case SimEvent::Kind::kTick: return e.a;
    case SimEvent::Kind::kInput: return node_of_life_[prepared_[e.a].life];
    case SimEvent::Kind::kUser: return users_.participants()[e.a].node;
    case SimEvent::Kind::kMoverStep:
    case SimEvent::Kind::kRegistryAsk:
    case SimEvent::Kind::kRequest:
    case SimEvent::Kind::kFault: return ~0U;
  }
  return ~0U;
}

// A stopped process takes nothing in; everything waits in its order until it goes on.
bool World::paused(const SimEvent& e) {
  const std::uint32_t index = node_of(e);
  if (index == ~0U) return false;
  SimNode& n = nodes_[index];
  if (n.paused_until <= now_) return false;
  SimEvent later = e;
  if (e.kind == SimEvent::Kind::kTick && e.at == n.tick_at) n.tick_at = n.paused_until;
  plan(n.paused_until - now_, later);
  return true;
}

void World::handle(const SimEvent& e) {
  if (paused(e)) return;
  switch (e.kind) {
    case SimEvent::Kind::kFrame: return net_.on_frame(e.a);
    case SimEvent::Kind::kLinkUp: return net_.on_up(e.a, e.b);
    case SimEvent::Kind::kLinkDown: return net_.on_down(e.a, e.b);
    case SimEvent::Kind::kDialFailed:
      if (nodes_[e.a].up && nodes_[e.a].life == e.c) {
        const Error refused{Code::kTransport, Who::kTransport,     Next::kRetry, 111,
                            "sim link",       "connection refused"};
        feed(e.a, core::in::DialFailed{EndpointId{e.b}, refused});
      }
      return;
    case SimEvent::Kind::kTick:
      if (!nodes_[e.a].up || nodes_[e.a].tick_at != e.at) return;
      nodes_[e.a].tick_at = TimePoint::max();
      ++coverage_.ticks;
      return feed(e.a, core::in::Tick{});
    case SimEvent::Kind::kMoverStep: return mover_step(e.a, static_cast<MoverStep>(e.b), e.c);
    case SimEvent::Kind::kInput: {
      const Prepared p = std::move(prepared_[e.a]);
      free_prepared_.push_back(e.a);
      ++coverage_.inputs;
      if (mover_.alive(p.life)) feed(node_of_life_[p.life], p.input);
      return;
    }
    case SimEvent::Kind::kUser: return users_.step(e.a, static_cast<UserStep>(e.b), e.c);
    case SimEvent::Kind::kRequest: return users_.on_request(e.a);
    case SimEvent::Kind::kFault: return fault_event(e);
    case SimEvent::Kind::kRegistry: return directory_.on_turn(e);
    case SimEvent::Kind::kRegistryAsk: return directory_.on_ask(e.a);
  }
}

void World::fault_event(const SimEvent& e) {
  if (e.a == kRekeyDone) {
    if (!mover_.alive(e.b)) return;
    mover_.finish_rekey(e.b, static_cast<std::uint32_t>(e.c), effects_);
    return run_effects();
  }
  if (e.a == kFenceDone || e.a == kRevokeDone) {
    if (!mover_.alive(e.b)) return;
    if (e.a == kFenceDone) mover_.finish_fence(e.b, PeerId{static_cast<std::uint32_t>(e.c)}, effects_);
    if (e.a == kRevokeDone)
      mover_.finish_revoke(e.b, LoanId{static_cast<std::uint32_t>(e.c >> 40), e.c & 0xffffffffffULL},
                           effects_);
    return run_effects();
  }
  if (e.a == static_cast<std::uint32_t>(Fault::kCrash)) {  // back at the same address
    if (nodes_[e.b].up) return;
    ++coverage_.restarts;
    return birth(e.b);
  }
  fault_tick();
}

// Once in a while: what strikes a process or a link rather than a frame or an operation. Rates are per
// second.
void World::fault_tick() {
  if (!faulty_) return;
  const auto strikes = [&](Fault f) {
    const double rate = scenario_.rate(f) / 10;
    if (rate <= 0 || !rng_.chance(rate)) return false;
    ++coverage_.faults[static_cast<std::size_t>(f)];
    return true;
  };
  const auto any = static_cast<std::uint32_t>(rng_.below(nodes_.size()));
  if (strikes(Fault::kPartition)) net_.partition_one();
  if (strikes(Fault::kClog)) net_.clog_one();
  if (strikes(Fault::kLinkCut)) net_.cut_one();
  if (strikes(Fault::kStop)) pause(any);
  if (strikes(Fault::kCrash)) crash(any);
  if (strikes(Fault::kRegistryRestart)) directory_.restart();
  SimEvent e;
  e.kind = SimEvent::Kind::kFault;
  e.a = kFaultTick;
  plan(milliseconds(100), e);
}

void World::heal() {
  faulty_ = false;
  net_.heal();
  if (trace_.wanted()) trace_.note(now_, "faults stop");
  for (SimNode& n : nodes_) {
    n.paused_until = std::min(n.paused_until, now_);
    if (!n.up) birth(n.index);
  }
}

bool World::run_until(TimePoint end, bool stop_when_over) {
  std::uint32_t turn = 0;
  while (!queue_.empty() && queue_.top().at <= end && !laws_.breach()) {
    const SimEvent e = queue_.pop();
    now_ = std::max(now_, e.at);
    handle(e);
    if ((++turn & 63U) == 0) checkers_.books(turn / 64 % static_cast<std::uint32_t>(nodes_.size()));
    if (stop_when_over && users_.all_over()) return true;
  }
  if (!laws_.breach()) now_ = std::max(now_, end);
  return users_.all_over();
}

// The longest that a room may live once nothing disturbs it any more: every named deadline once, and the
// resends between.
Duration World::patience() const {
  const Deadlines& d = scenario_.deadlines;
  return d.handshake + d.bootstrap + d.waiting + d.progress + d.drain + d.grace + d.fence + d.lease +
         d.resend_most * 4 + seconds(20);
}

void World::settle() {
  heal();
  bool over = run_until(now_ + patience(), true);
  if (laws_.breach()) return;
  if (!over) {  // what is in quarantine comes back by new region keys, as an operator would do it
    for (SimNode& n : nodes_) {
      if (n.up && n.engine->counters().legs_lost > 0) feed(n.index, core::in::Rekey{});
    }
    over = run_until(now_ + seconds(30), true);
  }
  if (!over && !laws_.breach()) return laws_.broken(Law::kLiveness, "does not end: " + users_.first_open());
  users_.close_all();
  run_until(now_ + seconds(10), false);
  if (laws_.breach()) return;
  if (!users_.all_closed()) return laws_.broken(Law::kLiveness, "a closed handle is not given back");
  checkers_.at_rest();
  directory_.at_rest();
  if (laws_.breach()) return;
  // Without a fence a pair whose path broke stays apart until one side starts again: nothing to probe there.
  if (mover_.one_sided() && scenario_.shape.fence == FenceMode::kNone) return;
  users_.probe();
  run_until(now_ + seconds(15), false);
  const std::string bad = users_.failed_probe();
  if (!laws_.breach() && !bad.empty()) laws_.broken(Law::kLiveness, bad);
}

RunResult World::run() {
  nodes_.resize(scenario_.shape.nodes());
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].index = i;
    nodes_[i].place = place_of(scenario_.shape, i);
    if (roll(Fault::kSkew)) {
      nodes_[i].offset = between(Duration{0}, std::chrono::hours(1));
      nodes_[i].drift = (rng_.unit() - 0.5) * 0.04;
    }
  }
  users_.begin();
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) birth(i);
  for (const Fault f : {Fault::kShrink, Fault::kFastDeadlines}) {
    if (scenario_.rate(f) > 0) ++coverage_.faults[static_cast<std::size_t>(f)];
  }
  fault_tick();
  run_until(TimePoint{} + scenario_.arrivals, false);
  if (!laws_.breach()) settle();
  RunResult r;
  r.seed = scenario_.seed;
  r.events = events_;
  r.rooms = users_.rooms();
  r.succeeded = users_.succeeded;
  r.failed = users_.failed;
  r.trace_hash = trace_.hash();
  r.virtual_time = now_.time_since_epoch();
  r.breach = laws_.breach();
  r.last = trace_.last();
  return r;
}

}  // namespace kvferry::sim
