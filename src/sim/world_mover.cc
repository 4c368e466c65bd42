// The data plane in time: when operations land, complete and quiesce, and what goes wrong with them.
#include "sim/world.h"

namespace kvferry::sim {
namespace {
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::uint64_t which(const SimOp& op) { return op.op.value | (static_cast<std::uint64_t>(op.poster) << 48); }
}  // namespace

void World::plan_step(OpIndex i, MoverStep step, Duration after) {
  SimEvent e;
  e.kind = SimEvent::Kind::kMoverStep;
  e.a = i;
  e.b = static_cast<std::uint32_t>(step);
  e.c = which(mover_.ops()[i]);
  plan(after, e);
}

void World::post(SimNode& n, const core::out::Post& post) {
  const core::PairPlan* pair = n.engine->plan(post.peer);
  if (pair == nullptr) return laws_.broken(Law::kStatus, "an operation is posted to a peer without a plan");
  const OpIndex i = mover_.post(n.life, post, *pair, laws_);
  const Duration l = scenario_.latency;
  if (roll(Fault::kStall)) return plan_step(i, MoverStep::kLand, between(seconds(1), seconds(9)));
  if (roll(Fault::kWriteError)) return plan_step(i, MoverStep::kFail, between(l / 4, l * 2));
  if (roll(Fault::kTornWrite)) return plan_step(i, MoverStep::kLandSome, between(l / 4, l * 2));
  if (roll(Fault::kPathLost)) {
    const Error broken{Code::kTransport, Who::kTransport,       Next::kNewRoom, 0,
                       "sim mover",      "the connection broke"};
    feed_later(n.life, core::in::MoverPeerLost{post.peer, broken}, between(l / 4, l * 2));
  }
  plan_step(i, MoverStep::kLand, between(l / 4, l * 3));
}

// What an operation does next when nothing strikes it.
void World::next_step(OpIndex i) {
  const SimOp& op = mover_.ops()[i];
  if (!op.used) return;
  const Duration l = scenario_.latency;
  if (mover_.can_complete(i)) return plan_step(i, MoverStep::kComplete, between(Duration{0}, l));
  if (mover_.can_quiesce(i))
    return plan_step(i, MoverStep::kQuiesce, between(Duration{0}, rng_.chance(0.5) ? Duration{0} : l));
}

void World::mover_step(OpIndex i, MoverStep step, std::uint64_t id) {
  const SimOp& op = mover_.ops()[i];
  if (!op.used || which(op) != id) return;
  ++events_;
  ++coverage_.mover_steps;
  trace_.add((id << 8) ^ static_cast<std::uint64_t>(step));
  if (trace_.wanted()) trace_.note(now_, text_of(op, static_cast<std::uint32_t>(step)));
  const Duration l = scenario_.latency;
  switch (step) {
    case MoverStep::kLandSome:
      mover_.land(i, static_cast<std::uint32_t>(rng_.between(1, std::max<std::size_t>(1, op.pieces.size()))),
                  laws_);
      // Half of it is there; the rest follows, or the operation fails and the rest comes late or never.
      if (rng_.chance(0.5)) return plan_step(i, MoverStep::kLand, between(Duration{0}, l * 10));
      return plan_step(i, MoverStep::kFail, between(Duration{0}, l * 4));
    case MoverStep::kLand:
      mover_.land(i, ~0U, laws_);
      if (mover_.can_arrive(i)) plan_step(i, MoverStep::kArrive, between(Duration{0}, l));
      next_step(i);
      return;
    case MoverStep::kArrive:
      mover_.arrive(i, effects_);
      if (!effects_.empty() && roll(Fault::kDoubleNotice)) effects_.push_back(effects_.back());
      return run_effects();
    case MoverStep::kComplete:
      mover_.complete(i, effects_);
      run_effects();
      if (mover_.ops()[i].used && which(mover_.ops()[i]) == id) next_step(i);
      return;
    case MoverStep::kFail: {
      mover_.fail(i, "an injected error", effects_);
      const bool late = roll(Fault::kLateLanding);
      const Duration land =
          between(Duration{0}, rng_.chance(0.8) ? Duration(milliseconds(20)) : Duration(seconds(3)));
      if (late) plan_step(i, MoverStep::kLand, land);
      plan_step(i, MoverStep::kQuiesce,
                late ? land + between(Duration{1}, l * 2) : between(Duration{0}, l * 2));
      return run_effects();
    }
    case MoverStep::kQuiesce: mover_.quiesce(i, effects_); return run_effects();
    case MoverStep::kDropOrphan: return mover_.drop_orphan(i);
  }
}

void World::run_effects() {
  Effects now;
  now.swap(effects_);
  for (Effect& e : now) {
    const std::uint32_t index = node_of_life_[e.life];
    if (!mover_.alive(e.life)) continue;
    if (nodes_[index].paused_until > now_) {
      feed_later(e.life, std::move(e.input), nodes_[index].paused_until - now_);
    } else {
      feed(index, e.input);
    }
  }
}

void World::plan_fence(SimNode& n, PeerId peer) {
  SimEvent e;
  e.kind = SimEvent::Kind::kFault;
  e.a = kFenceDone;
  e.b = n.life;
  e.c = peer.value;
  plan(
      between(microseconds(5), mover_.one_sided() ? Duration(milliseconds(800)) : Duration(microseconds(50))),
      e);
}

void World::plan_revoke(SimNode& n, LoanId loan) {
  mover_.revoke(n.life, loan);
  SimEvent e;
  e.kind = SimEvent::Kind::kFault;
  e.a = kRevokeDone;
  e.b = n.life;
  e.c = (static_cast<std::uint64_t>(loan.slot) << 40) | loan.serial;
  plan(between(Duration{0}, scenario_.latency), e);
}

}  // namespace kvferry::sim
