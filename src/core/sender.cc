// The sender's grants: found, parked, bound, refused, revoked. What moves under them is in posting.cc.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

using wire::Outcome;
using wire::What;

Leg* Engine::State::leg_of(const GrantIn& g) {
  Room* r = find(g.room);
  if (r == nullptr || g.grant.leg >= r->legs.size()) return nullptr;
  Leg& leg = r->legs[g.grant.leg];
  return leg.number == g.grant.number ? &leg : nullptr;
}

// Rule 18: recalls first, then the highest parked grant of each peer that has our tag.
void Engine::State::open_sender(Room& r) {
  graves.erase({r.id.value, r.tag});
  graves.erase({r.id.value, Tag{}});
  const Tag tag = r.tag;
  for (const Recall& recall : take_recalls(r.id, r.tag)) {
    fail_room(r, recall.cause);
    told_by_revoke(r.id, tag, recall.leg);
  }
  auto waiting = parked[r.id.value];   // a copy: binding changes the list
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return a.second > b.second;
  });
  for (const auto& [peer, number] : waiting) {
    Peer* p = find_peer(peer);
    if (p == nullptr) continue;
    const auto it = p->in.find(number);
    if (it == p->in.end() || it->second.state != GrantIn::State::kParked) continue;
    GrantIn& g = it->second;
    if (!(g.grant.tag == tag) && !mut(Mutant::kNoTag)) continue;
    unpark(*p, g);
    take_grant(*p, g);  // of a room that has failed meanwhile: told why
  }
  if (const auto it = parked.find(r.id.value); it != parked.end() && it->second.empty()) parked.erase(it);
}

// A number that was seen before. Returns true when the GRANT needs no more than the answer given here.
bool Engine::State::answer_repeated(Peer& p, const wire::Grant& g) {
  const auto it = p.in.find(g.number);
  if (it != p.in.end() && it->second.state == GrantIn::State::kCollecting) return false;
  if (!p.seen.test(g.number)) return false;
  if (mut(Mutant::kNoSeenBitmap) && it == p.in.end()) return false;
  if (mut(Mutant::kBelowWindowAccepted) && p.seen.below(g.number) && it == p.in.end()) return false;
  const bool running =
      it != p.in.end() && (it->second.state != GrantIn::State::kEnded || it->second.outstanding > 0);
  if (running && !mut(Mutant::kStaleWhileRunning)) {
    send(p, wire::Ready{g.number});
  } else if (const auto told = p.debts.find({kind_of<wire::Fail>(), g.number, 0}); told != p.debts.end()) {
    send(p, told->second.body);   // the cause, not only the end
  } else if (it == p.in.end() || mut(Mutant::kStaleWhileRunning)) {
    ++count.stale_answered;
    ack(p, What::kGrant, g.number, 0, true, Outcome::kFailed);
  }
  return true;
}

void Engine::State::on_grant(Peer& p, const wire::Grant& g) {
  p.seen.raise(g.floor);
  if (p.seen.above(g.number) || g.parts == 0 || g.parts > cfg.limits.grant_parts || g.part >= g.parts) {
    return refuse_from(p, "GRANT beyond the window or with bad parts");
  }
  if (answer_repeated(p, g)) return;
  GrantIn& in = p.in[g.number];
  if (in.parts.empty()) {
    in.grant = g;
    in.parts.assign(g.parts, false);
    in.part_pages.resize(g.parts);
  }
  if (in.parts.size() != g.parts) return refuse_from(p, "GRANT parts disagree");
  if (in.parts[g.part]) return;
  in.parts[g.part] = true;
  in.part_pages[g.part] = g.pages;
  if (!std::all_of(in.parts.begin(), in.parts.end(), [](bool b) { return b; })) return;
  in.grant.pages.clear();
  for (auto& pages : in.part_pages) in.grant.pages.insert(in.grant.pages.end(), pages.begin(), pages.end());
  in.part_pages.clear();
  p.seen.set(g.number);
  if (p.refused) return refuse_grant(p, g.number, p.refusal);
  if (!p.path_error.ok()) return refuse_grant(p, g.number, p.path_error);
  if (g.path < p.their_path) return refuse_grant(p, g.number, lost_cause(p, "GRANT of an older path"));
  p.their_path = g.path;
  take_grant(p, in);
}

// A complete GRANT, new or coming from the parking place.
void Engine::State::take_grant(Peer& p, GrantIn& g) {
  const GrantNumber number = g.grant.number;
  Room* r = find_live(g.grant.room, Role::kSender);
  const bool other = r != nullptr && !(g.grant.tag == r->tag) && !mut(Mutant::kNoTag);
  if ((r == nullptr || other) && answer_from_grave(p, g)) return;
  if (r == nullptr) {
    const auto it = by_id.find({g.grant.room.value, static_cast<std::uint8_t>(Role::kSender)});
    if (it != by_id.end() && mut(Mutant::kTerminalGrantDropped)) {
      p.in.erase(number);
      return;
    }
    return park(p, g);
  }
  if (other) {
    // Another attempt. If this peer holds a lower grant of the room, the attempt that we have is over.
    for (const Leg& leg : r->legs) {
      if (leg.peer != p.id || leg.number == 0 || leg.number > number || is_closed(leg.state)) continue;
      if (was_sealed(p, leg.number, g)) return;
      park(p, g);
      fail_room(*r, cause_of(Code::kSuperseded, Who::kPeer, Next::kNewRoom, *r,
                             "decode granted another attempt of this room number", &leg));
      return;
    }
    return park(p, g);
  }
  if (meet_bound(p, *r, g)) return;
  Cause why;
  if (!check_grant(p, *r, g.grant, why)) {
    fail_room(*r, why);
    return refuse_grant(p, number, why);
  }
  send(p, wire::Ready{number});
  bind(p, *r, g);
}

// Rule 18: another grant of the same (peer, room, tag). Returns true when the new one was dealt with.
bool Engine::State::meet_bound(Peer& p, Room& r, GrantIn& g) {
  if (g.grant.leg >= r.legs.size()) return false;
  Leg& leg = r.legs[g.grant.leg];
  if (leg.peer != p.id || leg.number == 0) return false;
  const GrantNumber number = g.grant.number;
  if (leg.number > number || mut(Mutant::kHigherGrantIgnored)) {
    p.in.erase(number);
    ack(p, What::kGrant, number, 0, true, Outcome::kFailed);
    return true;
  }
  if (was_sealed(p, leg.number, g)) return true;
  if (!r.posted_any || mut(Mutant::kPostedRoomRebinds)) {
    const GrantNumber old = leg.number;
    pay_all(p, kind_of<wire::Done>(), old);
    if (const auto it = p.in.find(old); it != p.in.end()) {
      it->second.state = GrantIn::State::kEnded;
      if (it->second.outstanding == 0) p.in.erase(it);
    }
    leg.number = number;
    r.prefix_tokens = g.grant.prefix_tokens;
    r.tokens = g.grant.tokens;
    for (Chunk& c : r.chunks) c.passed = 0;
    g.state = GrantIn::State::kBound;
    g.room = r.handle;
    send(p, wire::Ready{number});
    ack(p, What::kGrant, old, 0, true, Outcome::kFailed);
    advance(p, g);
    return true;
  }
  park(p, g);
  fail_room(r, cause_of(Code::kSuperseded, Who::kPeer, Next::kNewRoom, r,
                        "decode granted again while this attempt was moving", &leg));
  return true;
}

// The receiver tells that the grant we are bound to ended Sealed: this room is a success (the ACK of its DONE
// was lost), and the new grant is for the next open.
bool Engine::State::was_sealed(Peer& p, GrantNumber bound, GrantIn& g) {
  if (g.grant.sealed != bound || mut(Mutant::kSealedNotTold)) return false;
  if (!p.in.contains(bound)) return false;
  park(p, g);
  const auto old =
      p.in.find(bound);  // parking may end a peer that leaves too much unanswered, and this with it
  if (old == p.in.end()) return true;
  if (old->second.outstanding >
      0) {  // pull: its RELEASEs were lost; DONE follows the loans and is answered Sealed
    pay_all(p, kind_of<wire::Offer>(), bound);
    for (const LoanId loan : old->second.loans) revoke_loan(loan);
    return true;
  }
  wire::Ack a;
  a.grant = bound;
  a.outcome = Outcome::kSealed;
  on_done_ack(p, a);
  return true;
}

// What a first GRANT must agree with; nothing moves before it does.
bool Engine::State::check_grant(Peer& p, Room& r, const wire::Grant& g, Cause& why) {
  const auto differ = [&](const std::string& what, std::uint64_t a, std::uint64_t b) {
    why = cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                   what + ": " + std::to_string(a) + " and " + std::to_string(b) + " (from " + p.name + ")");
    return false;
  };
  if (g.legs == 0 || g.legs > cfg.limits.legs_per_room) {
    return differ("receivers of a room and legs_per_room", g.legs, cfg.limits.legs_per_room);
  }
  const bool known = r.legs_required != 0 && !mut(Mutant::kLegsTotalIgnored);
  if (known && g.legs != r.legs_required) return differ("number of receivers", r.legs_required, g.legs);
  if (g.leg >= g.legs) return differ("receiver index and number of receivers", g.leg, g.legs);
  if (g.leg < r.legs.size() && r.legs[g.leg].peer.value != 0 && r.legs[g.leg].peer != p.id) {
    why = cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                   "receiver " + std::to_string(g.leg) + " is claimed by two processes, one is " + p.name);
    return false;
  }
  if (r.prefix_known && r.prefix_tokens != g.prefix_tokens) {
    return differ("decode prefix in tokens", r.prefix_tokens, g.prefix_tokens);
  }
  if (r.prefix_known && r.tokens != g.tokens) return differ("tokens wanted", r.tokens, g.tokens);
  if (g.access != mover_of(p).access)
    return differ("access of the mover", static_cast<unsigned>(mover_of(p).access),
                  static_cast<unsigned>(g.access));
  const std::uint64_t page = cfg.layout.page_tokens;
  if (g.prefix_tokens % page != 0) return differ("decode prefix and page size", g.prefix_tokens, page);
  const std::uint64_t pages = count_of(g.pages);
  const std::uint64_t need = (g.tokens + page - 1) / page;
  if (g.access == Access::kWrite && pages != need) return differ("pages lent and pages needed", pages, need);
  std::uint64_t bad = 0;
  const auto bound = p.plan.remote_items[static_cast<std::size_t>(Space::kPages)];
  if (!in_range(g.pages, bound, bad)) return differ("page index and pages of decode", bad, bound);
  const auto aux = p.plan.remote_items[static_cast<std::size_t>(Space::kAux)];
  if (g.aux_slot != kNoSlot && g.aux_slot >= aux)
    return differ("aux slot and slots of decode", g.aux_slot, aux);
  const auto state = p.plan.remote_items[static_cast<std::size_t>(Space::kState)];
  for (const auto s : g.state_slots) {
    if (s >= state) return differ("state slot and slots of decode", s, state);
  }
  return true;
}

void Engine::State::bind(Peer& p, Room& r, GrantIn& g) {
  if (r.legs_required == 0) r.legs_required = g.grant.legs;
  if (r.legs.size() < g.grant.legs) r.legs.resize(g.grant.legs);
  if (mut(Mutant::kLegsTotalIgnored)) r.legs_required = 1;
  Leg& leg = r.legs[g.grant.leg];
  leg.peer = p.id;
  leg.number = g.grant.number;
  leg_event(r, leg, LegEvent::kGrant);
  g.state = GrantIn::State::kBound;
  g.room = r.handle;
  r.prefix_known = true;
  r.prefix_tokens = g.grant.prefix_tokens;
  r.tokens = g.grant.tokens;
  trace("bind", r.id, g.grant.number, g.grant.leg, g.grant.legs);
  const auto bound = static_cast<std::uint32_t>(
      std::count_if(r.legs.begin(), r.legs.end(), [](const Leg& l) { return l.number != 0; }));
  if (!r.bound_all && bound >= r.legs_required) {
    r.bound_all = true;
    r.bound_at = acc();
  }
  join(r);
  advance(p, g);
  if (Room* again = find(g.room); again != nullptr) arm(*again);
}

void Engine::State::park(Peer& p, GrantIn& g) {
  const GrantNumber number = g.grant.number;
  if (p.parked >= cfg.limits.parked_grants_per_peer) {
    Cause c;
    c.code = Code::kExhausted;
    c.who = Who::kPeer;
    c.next = Next::kRetry;
    c.what = "room " + std::to_string(g.grant.room.value);
    c.why = "parked_grants_per_peer (" + std::to_string(p.parked) + ") is reached at " + cfg.name;
    return refuse_grant(p, number, c);
  }
  g.state = GrantIn::State::kParked;
  ++p.parked;
  parked[g.grant.room.value].emplace_back(p.id, number);
  // A higher grant of that peer replaces its recall, and so does a grant of whoever took a lost peer's place.
  if (const auto it = recalls.find(g.grant.room.value); it != recalls.end()) {
    std::erase_if(it->second, [&](const Recall& c) {
      if (c.leg != g.grant.leg || !(c.tag == g.grant.tag)) return false;
      if (c.peer == p.id) return c.number < number;
      const Peer* other = find_peer(c.peer);
      return other == nullptr || other->ended;
    });
    if (it->second.empty()) recalls.erase(it);
  }
  trace("park", g.grant.room, number);
  send(p, wire::Ready{number});
}

void Engine::State::unpark(Peer& p, GrantIn& g) {
  if (g.state != GrantIn::State::kParked) return;
  --p.parked;
  g.state = GrantIn::State::kCollecting;
  const auto it = parked.find(g.grant.room.value);
  if (it == parked.end()) return;
  std::erase(it->second, std::pair{p.id, g.grant.number});
  if (it->second.empty()) parked.erase(it);
}

void Engine::State::refuse_grant(Peer& p, GrantNumber number, Cause cause) {
  p.in.erase(number);
  p.seen.set(number);  // also one that was still coming in parts: FAIL(drained) is a promise
  owe(p, {kind_of<wire::Fail>(), number, 0}, wire::Fail{number, true, std::move(cause)});
}

// Rule 16: the first GRANT of a leg that never registered with a failed room is told why.
bool Engine::State::answer_from_grave(Peer& p, GrantIn& g) {
  auto it = graves.find({g.grant.room.value, g.grant.tag});
  if (it == graves.end()) it = graves.find({g.grant.room.value, Tag{}});
  if (it == graves.end() || mut(Mutant::kLateLegUntold)) return false;
  Grave& grave = it->second;
  if (g.grant.leg >= cfg.limits.legs_per_room) return false;
  if (grave.registered.size() <= g.grant.leg) grave.registered.resize(g.grant.leg + 1, false);
  if (grave.registered[g.grant.leg]) return false;
  grave.registered[g.grant.leg] = true;
  refuse_grant(p, g.grant.number, grave.cause);
  return true;
}

void Engine::State::on_revoke(Peer& p, const wire::Revoke& v) {
  p.seen.raise(v.floor);
  const auto it = p.in.find(v.grant);
  if (it == p.in.end()) {
    const bool known = p.seen.test(v.grant);
    if (p.seen.above(v.grant)) return refuse_from(p, "REVOKE beyond the window");
    if (!mut(Mutant::kRevokeNotSeen)) p.seen.set(v.grant);
    return revoke_unbound(p, v, known);
  }
  GrantIn& g = it->second;
  if (g.state == GrantIn::State::kParked || g.state == GrantIn::State::kCollecting) {
    if (!mut(Mutant::kRevokeNotSeen)) p.seen.set(v.grant);
    unpark(p, g);
    p.in.erase(it);
    return revoke_unbound(p, v, false);
  }
  if (Leg* leg = leg_of(g); leg != nullptr) {
    Room& r = *find(g.room);
    leg->evidence = true;
    g.revoke_asked = true;
    if (mut(Mutant::kRevokedWhileRunning))
      owe(p, {kind_of<wire::Revoked>(), v.grant, 0}, wire::Revoked{v.grant});
    fail_room(r, theirs(v.cause), leg);
  } else {
    g.revoke_asked = true;
  }
  settle_grant(p, v.grant);
}

// REVOKE of a grant that no room holds. `known`: it was bound once and has ended since.
void Engine::State::revoke_unbound(Peer& p, const wire::Revoke& v, bool known) {
  if (known && mut(Mutant::kSealedIgnoresRevoke)) return;
  if (known && mut(Mutant::kUnknownKeyDropped)) return;
  owe(p, {kind_of<wire::Revoked>(), v.grant, 0}, wire::Revoked{v.grant});
  if (known || mut(Mutant::kNoRecall)) return;
  Room* r = find_live(v.room, Role::kSender);
  if (r != nullptr && (r->tag == v.tag || mut(Mutant::kNoTag))) {
    const bool taken = v.leg < r->legs.size() && r->legs[v.leg].peer.value != 0;
    if (!taken) fail_room(*r, theirs(v.cause));
    if (!taken) told_by_revoke(v.room, v.tag, v.leg);
    return;
  }
  if (told_by_revoke(v.room, v.tag, v.leg)) return;
  add_recall(v.room, Recall{p.id, v.grant, v.leg, v.tag, theirs(v.cause), now + cfg.deadlines.tombstone});
}

// The failed room of that attempt: this leg is told by its own REVOKE, so a later GRANT of it is a new
// attempt's.
bool Engine::State::told_by_revoke(RoomId room, const Tag& tag, std::uint32_t leg) {
  const auto it = graves.find({room.value, tag});
  if (it == graves.end() || leg >= cfg.limits.legs_per_room) return false;
  auto& registered = it->second.registered;
  if (registered.size() <= leg) registered.resize(leg + 1, false);
  if (registered[leg]) return false;
  registered[leg] = true;
  return true;
}

}  // namespace kvferry::core
