// The receiver's rooms: peers attached, pages lent, GRANTs emitted; arrivals, offers, DONE and the proof that
// seals.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

using wire::Outcome;
using wire::What;

namespace {
constexpr auto kP = static_cast<std::size_t>(Space::kPages);
constexpr auto kA = static_cast<std::size_t>(Space::kAux);
constexpr auto kS = static_cast<std::size_t>(Space::kState);
}  // namespace

void Engine::State::open_receiver(Room& r, const in::Open& i) {
  if (i.senders.empty() || i.senders.size() > cfg.limits.legs_per_room) {
    fail_room(r, cause_of(Code::kUsage, Who::kLocal, Next::kAfterFix, r,
                          "a room needs 1.." + std::to_string(cfg.limits.legs_per_room) + " senders, got " +
                              std::to_string(i.senders.size())));
    return;
  }
  if (i.legs == 0 || i.legs > cfg.limits.legs_per_room || i.leg >= i.legs) {
    fail_room(r, cause_of(Code::kUsage, Who::kLocal, Next::kAfterFix, r,
                          "receiver index " + std::to_string(i.leg) + " of " + std::to_string(i.legs) +
                              " is not below the number of receivers (1.." +
                              std::to_string(cfg.limits.legs_per_room) + ")"));
    return;
  }
  r.legs.resize(i.senders.size());
  const Handle h = r.handle;
  for (std::size_t k = 0; k < i.senders.size(); ++k) {
    Leg& leg = r.legs[k];
    leg.endpoint = i.senders[k];
    if (leg.endpoint.value >= endpoints.size()) {
      fail_room(r, cause_of(Code::kUsage, Who::kLocal, Next::kAfterFix, r, "unknown endpoint"));
      return;
    }
    Endpoint& e = endpoints[leg.endpoint.value];
    ++e.wanted;
    e.waiters.push_back(h);
  }
  for (std::size_t k = 0; k < r.legs.size(); ++k) {
    const std::uint32_t index = r.legs[k].endpoint.value;
    Endpoint& e = endpoints[index];
    if (Peer* p = find_peer(e.peer); p != nullptr && p->life == Peer::Life::kLive && p->answered) {
      attach_leg(r, r.legs[k], *p);
      if (!r.used || r.failing) return;
    } else {
      dial(e, index);
    }
  }
  join(r);
}

// The leg's endpoint is an agreed peer (or one that cannot be agreed with).
void Engine::State::attach_leg(Room& r, Leg& leg, Peer& p) {
  if (leg.peer.value != 0 || r.failing || r.terminal) return;
  leg.peer = p.id;
  if (p.refused || !p.path_error.ok()) {
    fail_room(r, p.refused ? p.refusal : p.path_error, &leg);
    return;
  }
  join(r);
  if (r.granted) emit_grants(r);
}

// Bad numbers are refused before anything is lent.
bool Engine::State::check_spec(const Room& r, const GrantSpec& s, Cause& why) const {
  const auto bad = [&](const std::string& what, std::uint64_t a, std::uint64_t b) {
    why = cause_of(Code::kUsage, Who::kLocal, Next::kAfterFix, r,
                   what + ": " + std::to_string(a) + " and " + std::to_string(b));
    return false;
  };
  const std::uint64_t page = cfg.layout.page_tokens;
  const std::uint64_t need = (s.tokens + page - 1) / page;
  if (count_of(s.pages) != need)
    return bad("pages granted and pages that the tokens need", count_of(s.pages), need);
  if (s.prefix_tokens % page != 0) return bad("prefix tokens and page size", s.prefix_tokens, page);
  std::uint64_t index = 0;
  const auto items = cfg.layout.items(Space::kPages);
  if (!in_range(s.pages, items, index)) return bad("page index and pages of the pool", index, items);
  const auto aux = cfg.layout.items(Space::kAux);
  if (s.aux_slot != kNoSlot && s.aux_slot >= aux) return bad("aux slot and aux slots", s.aux_slot, aux);
  const auto state = cfg.layout.items(Space::kState);
  for (const auto slot : s.state_slots) {
    if (slot >= state) return bad("state slot and state slots", slot, state);
  }
  return true;
}

void Engine::State::emit_grants(Room& r) {
  if (!r.granted || !r.grant_fired || r.failing || r.terminal) return;
  for (const Leg& leg : r.legs) {
    if (leg.peer.value == 0) return;
  }
  const Handle h = r.handle;
  for (std::size_t k = 0; k < r.legs.size(); ++k) {
    Leg& leg = r.legs[k];
    Peer* p = find_peer(leg.peer);
    if (p == nullptr || leg.state != LegState::kIdle) continue;
    emit_grant(*p, r, leg);
    if (find(h) == nullptr || r.failing) return;
  }
  bool idle = false;
  for (const Leg& leg : r.legs) idle = idle || leg.state == LegState::kIdle;
  if (!idle) forget_waiter(r);
  join(r);
  arm(r);
}

// Every number below it is closed at both ends: no leg of ours lives under it, and no REVOKE of it is
// unanswered (below its floor a sender forgets what it has seen, and a REVOKE would leave no recall).
GrantNumber Engine::State::floor_of(const Peer& p) const {
  GrantNumber floor = p.out.empty() ? p.next_number : p.out.begin()->first;
  if (mut(Mutant::kFloorPassesRevoke)) return floor;
  const auto recalled = p.debts.lower_bound({kind_of<wire::Revoke>(), 0, 0});
  if (recalled != p.debts.end() && recalled->first.kind == kind_of<wire::Revoke>())
    floor = std::min(floor, recalled->first.number);
  return floor;
}

bool Engine::State::window_full(const Peer& p) const {
  return p.next_number >= floor_of(p) + p.grant_window && !mut(Mutant::kNoWindowLimit);
}

// Rule 1: the leg is lent in the very step that emits its GRANT.
void Engine::State::emit_grant(Peer& p, Room& r, Leg& leg) {
  if (p.life == Peer::Life::kDead || rekey_wanted) return;
  if (p.out.size() >= p.max_live_grants) {
    fail_room(r, cause_of(Code::kExhausted, Who::kPeer, Next::kRetry, r,
                          "live grants " + std::to_string(p.out.size()) + " reach what " + p.name +
                              " accepts (" + std::to_string(p.max_live_grants) + ")",
                          &leg));
    return;
  }
  if (window_full(p)) {
    if (!leg.waits_window)
      p.waiting_window.push_back({r.handle, static_cast<std::uint32_t>(&leg - r.legs.data())});
    leg.waits_window = true;
    return;
  }
  const Capabilities& mover = mover_of(p);
  const auto index = static_cast<std::uint32_t>(&leg - r.legs.data());
  leg.waits_window = false;
  leg.number = p.next_number++;
  if (mover.access == Access::kWrite) {
    LoanRec rec;
    rec.peer = p.id;
    rec.grant = leg.number;
    rec.room = r.handle;
    rec.leg = index;
    rec.access = Access::kWrite;
    rec.mover = p.mover;
    leg.loan = take_loan(rec);
    if (leg.loan.serial == 0) {
      fail_room(r, cause_of(Code::kExhausted, Who::kLocal, Next::kRetry, r,
                            "loans (" + std::to_string(cfg.limits.loans) + ") are all in use", &leg));
      return;
    }
    leg.loan_live = true;
    out::Lend lend;
    lend.mover = p.mover;
    lend.loan = leg.loan;
    lend.token = token_of(leg.loan);
    lend.peer = p.id;
    lend.room = r.handle;
    lend.access = Access::kWrite;
    lend.items[kP] = r.spec.pages;
    if (r.spec.aux_slot != kNoSlot) lend.items[kA] = {{r.spec.aux_slot, 1}};
    for (const auto s : r.spec.state_slots) lend.items[kS].push_back({s, 1});
    emit(std::move(lend));
  }
  if (!mut(Mutant::kLentAtReady)) leg_event(r, leg, LegEvent::kGrant);
  p.out[leg.number] = {r.handle, index};
  r.granted_at = acc();
  owe_grant(p, r, leg);
  if (mut(Mutant::kEmptyLegNeedsNoDone)) try_seal(r, leg);
}

void Engine::State::owe_grant(Peer& p, Room& r, const Leg& leg) {
  wire::Grant g;
  g.number = leg.number;
  g.room = r.id;
  g.tag = r.tag;
  g.leg = r.leg_index;
  g.legs = r.leg_count;
  g.receiver_rank = cfg.rank;
  g.access = mover_of(p).access;
  g.path = p.path;
  g.region_generation = region_generation;
  if (leg.loan_live) g.ticket = {leg.loan, token_of(leg.loan)};
  if (const auto it = p.sealed_rooms.find(r.id); it != p.sealed_rooms.end()) g.sealed = it->second;
  g.floor = floor_of(p);
  g.prefix_tokens = r.spec.prefix_tokens;
  g.tokens = r.spec.tokens;
  g.aux_slot = r.spec.aux_slot;
  g.state_slots = r.spec.state_slots;
  g.priority = r.priority;
  g.trace_id = r.trace_id;
  const std::size_t per = cfg.limits.page_runs_per_part;
  const std::size_t runs = g.access == Access::kWrite ? r.spec.pages.size() : 0;
  g.parts = static_cast<std::uint32_t>(std::max<std::size_t>(1, (runs + per - 1) / per));
  for (g.part = 0; g.part < g.parts; ++g.part) {
    const std::size_t first = g.part * per;
    const std::size_t last = std::min(runs, first + per);
    g.pages.assign(r.spec.pages.begin() + static_cast<std::ptrdiff_t>(first),
                   r.spec.pages.begin() + static_cast<std::ptrdiff_t>(last));
    owe(p, {kind_of<wire::Grant>(), g.number, g.part}, g);
  }
}

void Engine::State::forget_waiter(Room& r) {
  if (r.role != Role::kReceiver) return;
  const bool over = r.failing || r.terminal;
  for (const Leg& leg : r.legs) {
    if (leg.endpoint.value >= endpoints.size()) continue;
    Endpoint& e = endpoints[leg.endpoint.value];
    const auto it = std::find(e.waiters.begin(), e.waiters.end(), r.handle);
    if (it == e.waiters.end()) continue;
    if (!over && leg.state == LegState::kIdle) continue;
    e.waiters.erase(it);
    if (e.wanted > 0) --e.wanted;
  }
}

Room* Engine::State::room_of(Peer& p, GrantNumber number, Leg*& leg) {
  const auto it = p.out.find(number);
  if (it == p.out.end()) return nullptr;
  Room* r = find(it->second.room);
  if (r == nullptr || it->second.leg >= r->legs.size()) return nullptr;
  leg = &r->legs[it->second.leg];
  return r;
}

void Engine::State::on_ready(Peer& p, const wire::Ready& m) {
  pay_all(p, kind_of<wire::Grant>(), m.grant);
  if (!mut(Mutant::kLentAtReady)) return;
  Leg* leg = nullptr;
  if (Room* r = room_of(p, m.grant, leg); r != nullptr && leg->state == LegState::kIdle) {
    leg_event(*r, *leg, LegEvent::kGrant);
  }
}

// A GRANT that the sender refuses as stale: nothing of it is outstanding there.
void Engine::State::on_grant_stale(Peer& p, const wire::Ack& a) {
  pay_all(p, kind_of<wire::Grant>(), a.grant);
  Leg* leg = nullptr;
  Room* r = room_of(p, a.grant, leg);
  if (r == nullptr) return;
  leg->remote_drained = true;
  if (r->failing) return maybe_quiet(*r, *leg);
  if (leg->done) return try_seal(*r, *leg);
  fail_room(
      *r,
      cause_of(Code::kPeerLost, Who::kPeer, Next::kNewRoom, *r, "prefill no longer holds this grant", leg),
      leg);
}

void Engine::State::on_done(Peer& p, const wire::Done& m) {
  Leg* leg = nullptr;
  Room* r = room_of(p, m.grant, leg);
  if (r == nullptr) {
    if (mut(Mutant::kUnknownKeyDropped)) return;
    const bool sealed = m.grant < p.next_number && p.sealed.test(m.grant) && !p.sealed.below(m.grant);
    const bool known = m.grant < p.next_number && !p.sealed.below(m.grant);
    ack(p, What::kDone, m.grant, 0, true,
        sealed ? Outcome::kSealed : (known ? Outcome::kFailed : Outcome::kUnknown));
    return;
  }
  pay_all(p, kind_of<wire::Grant>(), m.grant);
  leg->done_said = true;
  leg->remote_drained = true;  // rule 3: DONE is said after everything has quiesced
  if (r->failing) {
    if (mut(Mutant::kTerminalNotSticky)) {
      r->failing = false;
      leg->state = LegState::kActive;
      leg->done = true;
      leg->manifest = m.manifest;
      return try_seal(*r, *leg);
    }
    ack(p, What::kDone, m.grant, 0, false, Outcome::kFailed);
    return maybe_quiet(*r, *leg);
  }
  if (m.manifest.chunks.size() > cfg.limits.chunks_per_room)
    return refuse_from(p, "DONE with too many chunks");
  if (!leg->done) {
    leg->done = true;
    leg->manifest = m.manifest;
  }
  r->progressed = acc();
  if (mover_of(p).visible == Visible::kRemoteLanded) {
    for (std::uint32_t k = 0; k < leg->manifest.chunks.size(); ++k) {
      if (leg->manifest.chunks[k].bytes > 0) proven(*r, *leg, k, leg->manifest.chunks[k].bytes);
    }
  }
  try_seal(*r, *leg);
}

// One chunk is in place. Completions are counted by chunk, never by number of messages.
void Engine::State::proven(Room& r, Leg& leg, std::uint32_t chunk, std::uint64_t bytes) {
  if (r.failing || (leg.state != LegState::kGranted && leg.state != LegState::kActive)) return;
  if (leg.proofs.size() <= chunk) leg.proofs.resize(chunk + 1);
  Leg::Proof& proof = leg.proofs[chunk];
  if (proof.state == Leg::Proof::State::kProven) return;
  proof.state = Leg::Proof::State::kProven;
  proof.bytes = bytes;
  leg.bytes += bytes;
  count.bytes_received += bytes;
  r.first_byte = true;
  r.progressed = acc();
  leg_event(r, leg, LegEvent::kByte);
  join(r);
  try_seal(r, leg);
}

std::uint64_t Engine::State::expected_bytes(const Room& r, const Peer& p) const {
  std::uint64_t bytes = count_of(r.spec.pages) * p.plan.item_bytes[kP];
  if (r.spec.aux_slot != kNoSlot) bytes += p.plan.item_bytes[kA];
  return bytes + p.plan.item_bytes[kS] * r.spec.state_slots.size();
}

// The manifest against what was lent and what came. Fails the room when they differ.
bool Engine::State::manifest_fits(Room& r, Leg& leg) {
  const Peer* p = find_peer(leg.peer);
  if (p == nullptr) return false;
  const auto differ = [&](const std::string& what, std::uint64_t a, std::uint64_t b) {
    fail_room(r, cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                          what + ": " + std::to_string(a) + " and " + std::to_string(b), &leg));
    return false;
  };
  std::uint64_t bytes = 0, tokens = 0, came = 0;
  for (std::size_t k = 0; k < leg.manifest.chunks.size(); ++k) {
    bytes += leg.manifest.chunks[k].bytes;
    tokens += leg.manifest.chunks[k].tokens;
    const std::uint64_t got = k < leg.proofs.size() ? leg.proofs[k].bytes : 0;
    if (got != leg.manifest.chunks[k].bytes) {
      return differ("bytes of chunk " + std::to_string(k) + " announced and arrived",
                    leg.manifest.chunks[k].bytes, got);
    }
  }
  for (const auto& proof : leg.proofs) came += proof.bytes;
  if (came != bytes) return differ("bytes announced and arrived", bytes, came);
  if (tokens != r.spec.tokens) return differ("tokens announced and granted", tokens, r.spec.tokens);
  const std::uint64_t expected = expected_bytes(r, *p);
  if (bytes != expected) return differ("bytes announced and expected by the layouts", bytes, expected);
  return true;
}

// Sealed: manifest known, every chunk proven, nothing outstanding, the loan closed.
void Engine::State::try_seal(Room& r, Leg& leg) {
  if (r.failing || (leg.state != LegState::kGranted && leg.state != LegState::kActive)) return;
  const bool empty = leg.manifest.chunks.empty() && expected_bytes(r, *find_peer(leg.peer)) == 0;
  if (!leg.done && !(mut(Mutant::kEmptyLegNeedsNoDone) && empty)) return;
  for (std::size_t k = 0; k < leg.manifest.chunks.size(); ++k) {
    if (leg.manifest.chunks[k].bytes == 0) continue;
    const bool have = k < leg.proofs.size() && leg.proofs[k].state == Leg::Proof::State::kProven;
    if (!have) return;
  }
  if (!manifest_fits(r, leg)) return;
  if (leg.reads > 0) return;
  if (leg.loan_live) {
    if (!leg.loan_revoking) {
      leg.loan_revoking = true;
      revoke_loan(leg.loan);
    }
    if (!mut(Mutant::kReturnBeforeRevoked)) return;
  }
  leg_event(r, leg, LegEvent::kSeal);
  Peer* p = find_peer(leg.peer);
  const bool said = leg.done_said;
  p->sealed.set(leg.number);
  p->sealed_rooms[r.id] = leg.number;
  if (p->sealed_rooms.size() > cfg.limits.grant_window) p->sealed_rooms.erase(p->sealed_rooms.begin());
  if (said) ack(*p, What::kDone, leg.number, 0, false, Outcome::kSealed);
  close_out(*p, leg);
  join(r);
}

// Ended without success: Quiet once nothing can move.
void Engine::State::maybe_quiet(Room& r, Leg& leg) {
  if (leg.state != LegState::kRevoking && leg.state != LegState::kLost) return;
  if (leg.reads > 0) return;
  if (leg.loan_live && !mut(Mutant::kReturnBeforeRevoked)) return;
  Peer* p = find_peer(leg.peer);
  const bool local =
      p == nullptr || mover_of(*p).revoke == RevokeMode::kLenderStops || mover_of(*p).access == Access::kRead;
  if (!local && !leg.remote_drained) return;
  leg_event(r, leg, LegEvent::kDrained);
  if (p != nullptr) close_out(*p, leg);
  join(r);
}

// The number of a closed leg: the floor may move, and with it the window.
void Engine::State::close_out(Peer& p, Leg& leg) {
  p.out.erase(leg.number);
  if (mut(Mutant::kDebtsDieWithRoom)) {
    pay_all(p, kind_of<wire::Revoke>(), leg.number);
    pay_all(p, kind_of<wire::Release>(), leg.number);
  }
  const GrantNumber floor = floor_of(p);
  if (floor > p.sealed.size()) p.sealed.raise(floor - p.sealed.size());
  sweep.push_back(p.id);
  window_moved(p);
}

void Engine::State::on_fail(Peer& p, const wire::Fail& m) {
  Leg* leg = nullptr;
  Room* r = room_of(p, m.grant, leg);
  if (r == nullptr) {
    if (mut(Mutant::kUnknownKeyDropped)) return;
    const bool sealed = m.grant < p.next_number && !p.sealed.below(m.grant) && p.sealed.test(m.grant);
    ack(p, What::kFail, m.grant, 0, true, sealed ? Outcome::kSealed : Outcome::kFailed);
    return;
  }
  pay_all(p, kind_of<wire::Grant>(), m.grant);
  if (m.drained) leg->remote_drained = true;
  if (!r->failing)
    fail_room(*r, theirs(m.cause), leg);
  else if (m.drained)
    maybe_quiet(*r, *leg);
  ack(p, What::kFail, m.grant, 0, false, Outcome::kFailed);
}

void Engine::State::on_revoked(Peer& p, const wire::Revoked& m) {
  ack(p, What::kRevoked, m.grant);
  pay_all(p, kind_of<wire::Revoke>(), m.grant);
  Leg* leg = nullptr;
  Room* r = room_of(p, m.grant, leg);
  if (r == nullptr) return window_moved(p);
  leg->remote_drained = true;
  if (!r->failing) {
    fail_room(*r,
              cause_of(Code::kPeerLost, Who::kPeer, Next::kNewRoom, *r, "prefill dropped this grant", leg),
              leg);
    return;
  }
  maybe_quiet(*r, *leg);
}

void Engine::State::on_computing(Peer& p, const wire::Computing& m) {
  Leg* leg = nullptr;
  Room* r = room_of(p, m.grant, leg);
  if (r == nullptr || r->failing) return;
  r->progressed = acc();
  r->granted_at = acc();
}

}  // namespace kvferry::core
