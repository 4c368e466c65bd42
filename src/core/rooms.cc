// Rooms of both roles: making, joining legs into one status, failing, finishing.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

Room* Engine::State::find(Handle h) {
  if (h.slot >= rooms.size()) return nullptr;
  Room& r = rooms[h.slot];
  return r.used && r.handle == h ? &r : nullptr;
}
const Room* Engine::State::find(Handle h) const { return const_cast<State*>(this)->find(h); }

Room* Engine::State::find_live(RoomId id, Role role) {
  const auto it = by_id.find({id.value, static_cast<std::uint8_t>(role)});
  if (it == by_id.end()) return nullptr;
  Room* r = find(it->second);
  return r != nullptr && !r->failing && !r->terminal ? r : nullptr;
}

Room& Engine::State::make_room(const in::Open& i) {
  if (rooms.size() <= i.handle.slot) rooms.resize(i.handle.slot + 1);
  Room& r = rooms[i.handle.slot];
  const TimerSlot timer = r.timer;   // the slot's entry in the heap is still there
  r = Room{};
  r.timer = timer;
  r.used = true;
  r.handle = i.handle;
  r.id = i.room;
  r.role = i.role;
  r.tag = mut(Mutant::kNoTag) ? Tag{} : i.tag;
  r.created = now;
  r.progressed = acc();
  r.priority = i.priority;
  r.trace_id = i.trace_id;
  r.client_deadline = i.client_deadline;
  r.leg_index = i.leg;
  r.leg_count = i.legs;
  return r;
}

const Capabilities& Engine::State::mover_of(const Peer& p) const {
  static const Capabilities kNone{};
  return p.has_mover ? cfg.movers[p.mover].capabilities : kNone;
}

std::string Engine::State::describe(const Room& r) const {
  return "room " + std::to_string(r.id.value) + " " + name_of(r.role);
}

std::string Engine::State::describe(const Room& r, const Leg& leg) const {
  const auto index = static_cast<std::size_t>(&leg - r.legs.data());
  std::string s = describe(r) + " leg " + std::to_string(index + 1) + "/" + std::to_string(r.legs.size());
  if (const Peer* p = find_peer(leg.peer); p != nullptr) {
    s += " (" + p->name + "@" + p->endpoint + " via " + mover_of(*p).name + ")";
  } else if (r.role == Role::kReceiver && leg.endpoint.value < endpoints.size()) {
    s += " (" + endpoints[leg.endpoint.value].name + ")";
  }
  return s;
}

Cause Engine::State::cause_of(Code code, Who who, Next next, const Room& r, std::string why,
                              const Leg* leg) const {
  Cause c;
  c.code = code;
  c.who = who;
  c.next = next;
  c.what = leg != nullptr ? describe(r, *leg) : describe(r);
  c.why = std::move(why);
  return c;
}

// The only place where a leg changes its state.
void Engine::State::leg_event(Room& r, Leg& leg, LegEvent e) {
  const LegRow& row = leg_row(leg.state, e);
  if (row.cell == Cell::kLocalBug) {
    trace("leg bug", r.id, leg.number, static_cast<std::uint64_t>(leg.state), static_cast<std::uint64_t>(e));
    return;
  }
  const auto cell = static_cast<std::uint64_t>(leg.state) << 8 | static_cast<std::uint64_t>(row.next);
  trace("leg", r.id, leg.number, cell, static_cast<std::uint64_t>(e));  // a: from << 8 | to
  if (row.next == leg.state) return;
  leg.state = row.next;
  if (row.next == LegState::kRevoking) leg.cut_at = acc();
  if (row.next == LegState::kLost) leg.lost_at = now;
}

// Rule 14: a total function of the legs; role-specific beginnings.
Poll Engine::State::wanted(const Room& r) const {
  bool all_sealed = !r.legs.empty(), any_active = false, any_sealed = false;
  for (const Leg& leg : r.legs) {
    all_sealed = all_sealed && leg.state == LegState::kSealed;
    any_sealed = any_sealed || leg.state == LegState::kSealed;
    any_active = any_active || leg.state == LegState::kActive || leg.state == LegState::kSealed;
  }
  if (r.role == Role::kSender && !r.bound_all) return Poll::kBootstrapping;
  if (all_sealed || (any_sealed && mut(Mutant::kSuccessAtFirstLeg))) return Poll::kSuccess;
  if (any_active) return Poll::kTransferring;
  if (r.role == Role::kSender) return Poll::kWaitingForInput;
  for (const Leg& leg : r.legs) {
    if (leg.peer.value == 0) return Poll::kBootstrapping;
  }
  return Poll::kWaitingForInput;
}

void Engine::State::publish(Room& r, Poll p) {
  if (p == r.shown) return;
  if (p != Poll::kFailed && p < r.shown) return;
  r.shown = p;
  emit(out::Publish{r.handle, p});
}

void Engine::State::join(Room& r) {
  if (r.terminal || r.cutting) return;
  if (r.failing) {
    const bool closed =
        std::all_of(r.legs.begin(), r.legs.end(), [](const Leg& l) { return is_closed(l.state); });
    const bool one =
        mut(Mutant::kPageBackAtFirstLeg) &&
        std::any_of(r.legs.begin(), r.legs.end(), [](const Leg& l) { return is_closed(l.state); });
    if (closed || one || mut(Mutant::kFailedBeforeQuiet)) finish(r, Poll::kFailed);
    return;
  }
  const Poll p = wanted(r);
  if (p == Poll::kSuccess) {
    finish(r, p);
  } else {
    publish(r, p);
  }
}

void Engine::State::finish(Room& r, Poll p) {
  r.terminal = true;
  if (p == Poll::kSuccess) {
    ++count.rooms_succeeded;
  } else {
    ++count.rooms_failed;
  }
  forget_waiter(r);
  return_pages(r);
  return_chunks(r);
  publish(r, p);
  emit(out::Terminal{r.handle});
  if (r.detached) free_room(r);
}

void Engine::State::free_room(Room& r) {
  const Handle h = r.handle;
  const auto it = by_id.find({r.id.value, static_cast<std::uint8_t>(r.role)});
  if (it != by_id.end() && it->second == h) by_id.erase(it);
  const TimerSlot timer = r.timer;
  r = Room{};
  r.timer = timer;
  emit(out::Closed{h});
}

// Rule 16: the first failure of a room cuts every leg in the same step, with the first cause.
void Engine::State::fail_room(Room& r, Cause cause, const Leg* told_by) {
  if (r.terminal) return;
  if (r.failing) {
    if (mut(Mutant::kLastCauseWins)) {
      r.cause = std::move(cause);
      emit(out::Failing{r.handle, r.cause});
    }
    return;
  }
  r.failing = true;
  if (cause.why.size() > cfg.limits.text_bytes) cause.why.resize(cfg.limits.text_bytes);
  r.cause = std::move(cause);
  if (r.cause.code == Code::kTimeout) ++count.timeouts;
  emit(out::Failing{r.handle, r.cause});
  trace("fail", r.id, 0, static_cast<std::uint64_t>(r.cause.code));
  if (r.role == Role::kSender && r.registered) bury(r);
  const bool siblings =
      r.role == Role::kReceiver ? !mut(Mutant::kReceiverSiblingsGoOn) : !mut(Mutant::kSenderSiblingsGoOn);
  r.cutting = true;
  for (Leg& leg : r.legs) {
    if (!siblings && told_by != nullptr && &leg != told_by) continue;
    cut_leg(r, leg, &leg != told_by || r.role == Role::kReceiver);
  }
  r.cutting = false;
  forget_waiter(r);
  return_chunks(r);
  join(r);
  if (r.used && !r.terminal) arm(r);
}

// `inform`: the peer of this leg does not know the cause yet (sender side; a receiver always says REVOKE).
void Engine::State::cut_leg(Room& r, Leg& leg, bool inform) {
  if (is_closed(leg.state) || leg.state == LegState::kRevoking || leg.state == LegState::kLost) return;
  Peer* p = find_peer(leg.peer);
  const bool idle = leg.state == LegState::kIdle;
  leg_event(r, leg, LegEvent::kCut);
  const Cause told = mut(Mutant::kRevokeWithoutCause) ? Cause{} : r.cause;
  if (r.role == Role::kSender) {
    if (idle || p == nullptr) return;
    const auto it = p->in.find(leg.number);
    if (it == p->in.end()) return leg_event(r, leg, LegEvent::kDrained);
    GrantIn& g = it->second;
    g.state = GrantIn::State::kEnded;
    g.cause = r.cause;
    pay_all(*p, kind_of<wire::Offer>(), leg.number);
    pay_all(*p, kind_of<wire::Done>(), leg.number);
    for (const LoanId loan : g.loans) revoke_loan(loan);
    for (auto& [id, op] : ops) {
      if (op.peer == leg.peer && op.grant == leg.number && op.access == Access::kWrite) {
        emit(out::Cancel{p->mover, OpId{id}});
      }
    }
    if (inform && !p->ended) {
      g.fail_said = g.outstanding > 0;
      owe(*p, {kind_of<wire::Fail>(), leg.number, 0}, wire::Fail{leg.number, g.outstanding == 0, told});
    }
    settle_grant(*p, leg.number);
    return;
  }
  if (p == nullptr) {
    if (idle && r.registered) tell_later(r, leg, told);
    return;
  }
  if (idle) {
    if (!p->ended && !mut(Mutant::kIdleLegUntold)) {
      tell(*p, {r.id, r.tag, r.leg_index, told});
    }
    return;
  }
  pay_all(*p, kind_of<wire::Grant>(), leg.number);
  if (!p->ended) {
    owe(*p, {kind_of<wire::Revoke>(), leg.number, 0},
        wire::Revoke{leg.number, r.id, r.tag, r.leg_index, told, floor_of(*p)});
    if (leg.done_said) ack(*p, wire::What::kDone, leg.number, 0, false, wire::Outcome::kFailed);
  }
  if (leg.done_said) leg.remote_drained = true;
  if (leg.loan_live && !leg.loan_revoking) {
    leg.loan_revoking = true;
    revoke_loan(leg.loan);
  }
  for (auto& [id, op] : ops) {
    if (op.peer == leg.peer && op.grant == leg.number && op.access == Access::kRead) {
      emit(out::Cancel{p->mover, OpId{id}});
    }
  }
  maybe_quiet(r, leg);
}

}  // namespace kvferry::core
