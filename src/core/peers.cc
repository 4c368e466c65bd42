// Lives of other processes: dialling, HELLO and the agreement, loss, death and fences. Peers are keyed by
// incarnation.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

namespace {
// A DONE whose ACK was lost comes again after its number left a very small window: outcomes are kept this
// long at least.
constexpr std::uint32_t kLeastSealed = 64;
}  // namespace

Peer* Engine::State::find_peer(PeerId id) {
  const auto it = peers.find(id.value);
  return it == peers.end() ? nullptr : &it->second;
}
const Peer* Engine::State::find_peer(PeerId id) const { return const_cast<State*>(this)->find_peer(id); }

Peer* Engine::State::peer_of_life(const Incarnation& life) {
  for (auto& [id, p] : peers) {
    if (p.life_id == life) return &p;
  }
  return nullptr;
}

void Engine::State::dial(Endpoint& e, std::uint32_t index) {
  if (e.dialling || e.link.value != 0 || now < e.redial_at) return arm_endpoint(index);
  e.dialling = true;
  emit(out::Dial{EndpointId{index}});
}

void Engine::State::send(Peer& p, wire::Body body) {
  if (p.link.value == 0) return;
  ++count.messages_sent;
  wire::Message m;
  m.header.from = cfg.self;
  m.header.to = p.life_id;
  m.header.session = 1;
  m.body = std::move(body);
  emit(out::Send{p.link, std::move(m)});
}

void Engine::State::say_hello(LinkId link, Peer* p, bool ask) {
  wire::Hello h;
  h.session = 1;
  h.ask = ask;
  h.name = cfg.name;
  h.endpoint = cfg.endpoint;
  h.host_id = cfg.host_id;
  h.pid = cfg.pid;
  h.rank = cfg.rank;
  h.draining = stopping;
  h.max_live_grants = cfg.limits.live_grants_per_peer;
  h.grant_window = cfg.limits.grant_window;
  h.layout_hash = hash;
  h.layout = cfg.layout;
  for (const auto& mover : cfg.movers) {
    const Capabilities& c = mover.capabilities;
    h.movers.push_back(
        {c.name, c.memory, c.access, c.visible, c.revoke, c.fence, c.same_host_only, mover.description});
  }
  wire::Message m;
  m.header.from = cfg.self;
  m.header.session = 1;
  if (p != nullptr) {
    h.answers = p->their_session;
    p->told_session = p->their_session;
    m.header.to = p->life_id;
  }
  m.body = std::move(h);
  ++count.messages_sent;
  emit(out::Send{link, std::move(m)});
}

void Engine::State::on(const in::LinkUp& i) {
  Link link;
  link.dialled = i.dialled;
  link.heard = acc();
  if (i.dialled && i.endpoint.value < endpoints.size()) {
    link.endpoint = i.endpoint;
    Endpoint& e = endpoints[i.endpoint.value];
    e.dialling = false;
    e.link = i.link;
  }
  links[i.link.value] = link;
  say_hello(i.link, nullptr, true);
  if (link.dialled) arm_endpoint(link.endpoint.value);
}

void Engine::State::on(const in::DialFailed& i) {
  if (i.endpoint.value >= endpoints.size()) return;
  Endpoint& e = endpoints[i.endpoint.value];
  e.dialling = false;
  e.last_error = i.error;
  back_off(e);
  arm_endpoint(i.endpoint.value);
}

void Engine::State::back_off(Endpoint& e) const {
  e.backoff = e.backoff.count() == 0 ? cfg.deadlines.redial_first
                                     : std::min<Duration>(e.backoff * 2, cfg.deadlines.redial_most);
  e.redial_at = now + e.backoff;
  const Peer* p = find_peer(e.peer);  // one more dial before its grace ends, whatever the backoff
  const TimePoint last_call = p == nullptr ? now : p->down_at + paused + cfg.deadlines.grace * 7 / 8;
  if (now < last_call) e.redial_at = std::min(e.redial_at, last_call);
}

void Engine::State::on(const in::LinkDown& i) {
  const auto it = links.find(i.link.value);
  if (it == links.end()) return;
  const Link link = it->second;
  links.erase(it);
  if (link.endpoint.value < endpoints.size()) {
    Endpoint& e = endpoints[link.endpoint.value];
    if (e.link == i.link) {
      e.link = {};
      e.last_error = i.error;
      e.redial_at = now;
    }
  }
  Peer* down = find_peer(link.peer);
  const bool was_agreed = down != nullptr && down->link == i.link && down->answered;
  if (down != nullptr && down->link == i.link) peer_down(*down, i.error);
  if (link.endpoint.value < endpoints.size()) {
    Endpoint& e = endpoints[link.endpoint.value];
    const Peer* p = find_peer(e.peer);
    if (e.wanted > 0 || !e.tells.empty() || (p != nullptr && p->life != Peer::Life::kDead)) {
      if (!was_agreed) back_off(e);  // it says no HELLO, or refuses ours (it fences us, say): do not spin
      dial(e, link.endpoint.value);
    }
  }
}

void Engine::State::on(const in::BadFrame& i) {
  ++count.frames_bad;
  const auto it = links.find(i.link.value);
  if (it == links.end()) return;
  emit(out::CloseLink{i.link});
  on(in::LinkDown{
      i.link, Error{Code::kBadMessage, Who::kPeer, Next::kRetry, 0, "control link", "a malformed frame"}});
}

void Engine::State::on(const in::Received& i) {
  const auto it = links.find(i.link.value);
  if (it == links.end()) return;
  ++count.messages_received;
  it->second.heard = acc();
  const wire::Header& h = i.message.header;
  if (const auto* hello = std::get_if<wire::Hello>(&i.message.body)) return on_hello(i.link, h, *hello);
  if (const auto* who = std::get_if<wire::Who>(&i.message.body)) return on_who(i.link, h, *who);
  const bool for_us = h.to == cfg.self;
  Peer* p = find_peer(it->second.peer);
  if (!for_us && !mut(Mutant::kNoIncarnationCheck)) return answer_who(i.link, h);
  if (mut(Mutant::kNoIncarnationCheck) && p == nullptr) p = peer_of_life(h.from);
  if (p == nullptr) return answer_who(i.link, h);
  if (h.from != p->life_id && !mut(Mutant::kNoIncarnationCheck))
    return refuse_from(*p, "a message of another life");
  if (p->life == Peer::Life::kDead || p->refused) {
    if (p->life == Peer::Life::kDead) return;
  }
  p->heard = acc();
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, wire::Grant>) on_grant(*p, m);
        if constexpr (std::is_same_v<M, wire::Ready>) on_ready(*p, m);
        if constexpr (std::is_same_v<M, wire::Revoke>) on_revoke(*p, m);
        if constexpr (std::is_same_v<M, wire::Revoked>) on_revoked(*p, m);
        if constexpr (std::is_same_v<M, wire::Done>) on_done(*p, m);
        if constexpr (std::is_same_v<M, wire::Fail>) on_fail(*p, m);
        if constexpr (std::is_same_v<M, wire::Offer>) on_offer(*p, m);
        if constexpr (std::is_same_v<M, wire::Release>) on_release(*p, m);
        if constexpr (std::is_same_v<M, wire::Renew>) on_renew(*p, m);
        if constexpr (std::is_same_v<M, wire::Computing>) on_computing(*p, m);
        if constexpr (std::is_same_v<M, wire::Ping>) on_ping(*p, m);
        if constexpr (std::is_same_v<M, wire::Ack>) {
          using wire::What;
          if (m.what == What::kGrant) on_grant_stale(*p, m);
          if (m.what == What::kDone) on_done_ack(*p, m);
          if (m.what == What::kRevoked) pay(*p, kind_of<wire::Revoked>(), m.grant, 0);
          if (m.what == What::kRelease) pay(*p, kind_of<wire::Release>(), m.grant, m.chunk);
          if (m.what == What::kFail) {
            pay(*p, kind_of<wire::Fail>(), m.grant, 0);
            if (const auto g = p->in.find(m.grant); g != p->in.end()) {
              if (Leg* leg = leg_of(g->second); leg != nullptr) leg->evidence = true;
            }
          }
        }
      },
      i.message.body);
}

// ---- HELLO ----

// Finds or makes the peer of this life; null when the life is older than one we know at that endpoint.
Peer* Engine::State::welcome(LinkId id, const wire::Header& h, const wire::Hello& m) {
  Peer* p = peer_of_life(h.from);
  if (p != nullptr && p->life == Peer::Life::kDead && (p->ended || p->fencing)) return nullptr;
  Link& link = links[id.value];
  std::vector<PeerId> older;
  for (auto& [pid, other] : peers) {
    const bool same_place =
        (!m.endpoint.empty() && other.endpoint == m.endpoint) ||
        (link.endpoint.value < endpoints.size() && endpoints[link.endpoint.value].peer == other.id);
    if (!same_place || other.life_id == h.from || other.ended) continue;
    if (h.from < other.life_id) return nullptr;
    older.push_back(other.id);
  }
  for (const PeerId dead : older) peer_dead(*find_peer(dead), "its place was taken by a new process", true);
  if (p != nullptr && p->life == Peer::Life::kDead) revive(*p);
  if (p == nullptr) {
    if (peers.size() >= cfg.limits.peers) return nullptr;
    Peer fresh;
    fresh.id = PeerId{next_peer++};
    fresh.life_id = h.from;
    fresh.heard = acc();
    fresh.next_number = next_grant_base;
    fresh.path = path_base;
    fresh.sealed = SeenWindow(std::max(kLeastSealed, cfg.limits.grant_window));
    fresh.seen = SeenWindow(cfg.limits.grant_window);
    p = &peers.emplace(fresh.id.value, std::move(fresh)).first->second;
  }
  return p;
}

void Engine::State::on_hello(LinkId id, const wire::Header& h, const wire::Hello& m) {
  if (!h.from.known() || h.from == cfg.self) {
    emit(out::CloseLink{id});
    return on(
        in::LinkDown{id, Error{Code::kRefused, Who::kPeer, Next::kNever, 0, "HELLO", "from ourselves"}});
  }
  if (h.to.known() && h.to != cfg.self) return answer_who(id, h);
  Peer* p = welcome(id, h, m);
  if (p == nullptr) {
    emit(out::CloseLink{id});
    return on(
        in::LinkDown{id, Error{Code::kRefused, Who::kPeer, Next::kRetry, 0, "HELLO of " + m.name,
                               "an older life, or more peers than " + std::to_string(cfg.limits.peers)}});
  }
  Link& link = links[id.value];
  link.peer = p->id;
  const bool moved = p->link != id;
  p->link = id;
  p->heard = acc();
  p->life = Peer::Life::kLive;
  if (link.endpoint.value < endpoints.size()) endpoints[link.endpoint.value].peer = p->id;
  if (p->their_session == 0) agree(*p, m);
  p->their_session = m.session;
  p->draining = m.draining;
  const bool before = p->answered;
  if (m.answers == 1) p->answered = true;
  if (m.ask || p->told_session != p->their_session || moved) say_hello(id, p, !p->answered);
  if (!p->answered) {
    p->hello_due = now + cfg.deadlines.resend_first;
  } else if (!before || moved) {
    now_agreed(*p);
  }
  arm(*p);
}

// What both HELLOs fix for good: a symmetric function of the two.
void Engine::State::agree(Peer& p, const wire::Hello& m) {
  p.name = m.name;
  p.endpoint = m.endpoint;
  p.host_id = m.host_id;
  p.pid = m.pid;
  p.rank = m.rank;
  p.max_live_grants = std::min(m.max_live_grants, cfg.limits.live_grants_per_peer);
  p.grant_window = std::max<std::uint32_t>(1, std::min(m.grant_window, cfg.limits.grant_window));
  const auto refuse = [&](Code code, std::string why) {
    p.refused = true;
    p.refusal =
        Error{code, Who::kConfig, Next::kAfterFix, 0, "peer " + p.name + "@" + p.endpoint, std::move(why)};
  };
  if (m.major != wire::kMajor) {
    return refuse(Code::kMismatch, "protocol version " + std::to_string(wire::kMajor) + "." +
                                       std::to_string(wire::kMinor) + " here and " + std::to_string(m.major) +
                                       "." + std::to_string(m.minor) +
                                       " there: run the same major version on both sides");
  }
  auto plan = make_plan(cfg.layout, m.layout);
  if (!plan) return refuse(Code::kMismatch, plan.error().why);
  p.plan = std::move(*plan);
  choose_mover(p, m);
  if (!p.has_mover) {
    std::string here, there;
    for (const auto& c : cfg.movers) here += (here.empty() ? "" : ",") + c.capabilities.name;
    for (const auto& o : m.movers) there += (there.empty() ? "" : ",") + o.name;
    return refuse(Code::kUnsupported, "no mover fits both sides: " + here + " here, " + there + " there" +
                                          (p.host_id == cfg.host_id ? "" : " (different hosts)"));
  }
}

void Engine::State::choose_mover(Peer& p, const wire::Hello& m) {
  // Both sides prefer by the sum of both positions, then by name: the same answer from either end.
  std::size_t best = ~std::size_t{0};
  std::string best_name;
  for (std::size_t k = 0; k < cfg.movers.size(); ++k) {
    const Capabilities& mine = cfg.movers[k].capabilities;
    for (std::size_t j = 0; j < m.movers.size(); ++j) {
      const wire::MoverOffer& theirs = m.movers[j];
      if (theirs.name != mine.name || theirs.access != mine.access || (theirs.memory & mine.memory) == 0)
        continue;
      if (mine.visible == Visible::kLocalDone) continue;
      if (mine.same_host_only && (p.host_id != cfg.host_id || cfg.host_id.empty())) continue;
      if (k + j > best || (k + j == best && mine.name > best_name)) continue;
      best = k + j;
      best_name = mine.name;
      p.has_mover = true;
      p.mover = static_cast<std::uint32_t>(k);
      p.description = theirs.description;
    }
  }
}

// The peer is agreed (again): rooms that wait for it go on, debts are said again.
void Engine::State::now_agreed(Peer& p) {
  trace("agreed", {}, p.id.value, p.refused ? 1 : 0);
  p.ping_due = now + cfg.deadlines.heartbeat;
  p.down_at = {};
  if (!p.refused && !p.added) {
    p.added = true;
    emit(out::AddPeer{p.id, p.mover, p.description});
    if (!p.watched && !p.host_id.empty() && p.host_id == cfg.host_id && p.pid != 0) {
      p.watched = true;
      emit(out::WatchPeer{p.id, p.pid});
    }
  }
  resend(p, true);
  for (Endpoint& e : endpoints) {
    if (e.peer != p.id) continue;
    e.backoff = Duration{0};
    tell_now(p, e);
    const auto waiters = e.waiters;
    for (const Handle h : waiters) {
      Room* r = find(h);
      if (r == nullptr) continue;
      for (std::size_t k = 0; k < r->legs.size(); ++k) {
        Leg& leg = r->legs[k];
        const auto index = static_cast<std::uint32_t>(&e - endpoints.data());
        if (leg.endpoint.value == index && leg.peer.value == 0) attach_leg(*r, leg, p);
        r = find(h);
        if (r == nullptr || r->failing) break;
      }
      if (r != nullptr && r->granted) emit_grants(*r);
    }
  }
}

void Engine::State::answer_who(LinkId id, const wire::Header& h) {
  Link& link = links[id.value];
  ++count.refused_from_peer;
  if (++link.bad > cfg.limits.bad_messages_per_peer) {   // a rate limit and a bound at once
    emit(out::CloseLink{id});
    return on(in::LinkDown{id, Error{Code::kBadMessage, Who::kPeer, Next::kRetry, 0, "control link",
                                     "more than bad_messages_per_peer messages for another life"}});
  }
  wire::Message m;
  m.header.from = cfg.self;
  m.header.to = h.from;
  m.header.session = 1;
  m.body = wire::Who{h.to};
  emit(out::Send{id, std::move(m)});
  say_hello(id, nullptr, true);
}

void Engine::State::on_who(LinkId, const wire::Header& h, const wire::Who& m) {
  if (h.to != cfg.self) return;
  // Whoever answers there is not the life that we asked: evidence of its loss, not of its silence.
  Peer* p = peer_of_life(m.asked);
  if (p != nullptr && p->life != Peer::Life::kDead && m.asked < h.from) {
    peer_dead(*p, "another process answers at its address", true);
  }
}

void Engine::State::on_ping(Peer& p, const wire::Ping& m) { p.seen.raise(m.floor); }

void Engine::State::refuse_from(Peer& p, const char* what) {
  ++count.refused_from_peer;
  trace(what, {}, p.id.value);
  if (++p.bad > cfg.limits.bad_messages_per_peer) {
    peer_dead(p, std::string("it broke the protocol ") + std::to_string(p.bad) + " times, last: " + what,
              false);
  }
}

// ---- loss, death, fences ----

Cause Engine::State::lost_cause(const Peer& p, const std::string& evidence) const {
  return Error{Code::kPeerLost,    Who::kPeer, Next::kNewRoom, 0, "peer " + p.name + "@" + p.endpoint,
               "lost: " + evidence};
}

// Rule 11: a lost connection is not a dead peer. The same life may come back within the grace.
void Engine::State::peer_down(Peer& p, const Error& why) {
  p.link = {};
  if (p.life == Peer::Life::kDead) return;
  p.life = Peer::Life::kDown;
  p.answered = false;
  p.told_session = 0;
  p.down_at = acc();
  trace("down", {}, p.id.value);
  if (mut(Mutant::kDownIsDead)) return peer_dead(p, why.why, false);
  arm(p);
}

void Engine::State::fail_rooms_of(Peer& p, const Cause& cause) {
  std::vector<Handle> hit;
  for (const auto& [n, o] : p.out) hit.push_back(o.room);
  for (const auto& [n, g] : p.in) {
    if (g.state == GrantIn::State::kBound) hit.push_back(g.room);
  }
  for (const Endpoint& e : endpoints) {
    if (e.peer != p.id) continue;
    for (const Handle h : e.waiters) {
      const Room* r = find(h);
      if (r == nullptr) continue;
      for (const Leg& leg : r->legs) {
        if (leg.peer == p.id) hit.push_back(h);
      }
    }
  }
  for (const Handle h : hit) {
    Room* r = find(h);
    if (r == nullptr || r->failing) continue;
    Cause c = cause;
    for (const Leg& leg : r->legs) {
      if (leg.peer == p.id) c.what = describe(*r, leg);
    }
    if (cause.code == Code::kPeerLost) c.why = p.name + "@" + p.endpoint + " " + cause.why;
    fail_room(*r, std::move(c));
  }
}

// Rule 10: evidence of loss, not of silence. Everything of that life ends with a reason; its path is fenced.
// Unless it has `ended` for good it may come back: its debts and numbers are kept, so that it is told what
// happened meanwhile.
void Engine::State::peer_dead(Peer& p, const std::string& evidence, bool ended) {
  if (ended && !p.ended) {
    p.ended = true;
    p.debts.clear();
    p.tells.clear();
    sweep.push_back(p.id);
  }
  if (p.life == Peer::Life::kDead) return;
  p.life = Peer::Life::kDead;
  p.dead_at = now;
  p.answered = false;
  ++count.peers_lost;
  trace("dead", {}, p.id.value);
  if (p.link.value != 0) {
    emit(out::CloseLink{p.link});
    const auto it = links.find(p.link.value);
    if (it != links.end()) {
      const EndpointId e = it->second.endpoint;
      links.erase(it);
      if (e.value < endpoints.size() && endpoints[e.value].link == p.link) endpoints[e.value].link = {};
    }
    p.link = {};
  }
  std::vector<GrantNumber> unbound;
  for (auto& [n, g] : p.in) {
    if (g.state == GrantIn::State::kParked || g.state == GrantIn::State::kCollecting) unbound.push_back(n);
  }
  for (const GrantNumber n : unbound) {
    GrantIn& g = p.in.at(n);
    const bool parked_here = g.state == GrantIn::State::kParked;
    unpark(p, g);
    if (parked_here && !mut(Mutant::kNoRecall)) {  // the open that would have bound it learns why at once
      add_recall(g.grant.room, Recall{p.id, n, g.grant.leg, g.grant.tag, lost_cause(p, evidence),
                                      now + cfg.deadlines.tombstone});
    }
    refuse_grant(p, n, lost_cause(p, evidence));
  }
  fail_rooms_of(p, lost_cause(p, evidence));
  p.waiting_window.clear();
  for (std::size_t k = 0; k < endpoints.size(); ++k) {
    if (endpoints[k].peer != p.id) continue;
    endpoints[k].peer = {};
    if (endpoints[k].wanted > 0) dial(endpoints[k], static_cast<std::uint32_t>(k));
  }
  fence_peer(p);
  arm(p);
  sweep.push_back(p.id);
}

// The same life is back after it counted as dead: the next path (rule 7), the same numbers and windows.
void Engine::State::revive(Peer& p) {
  trace("revived", {}, p.id.value);
  if (p.added) emit(out::DropPeer{p.id, p.mover});
  p.life = Peer::Life::kDown;
  p.added = p.ready = p.fenced = p.fence_failed = false;
  p.path_error = {};
  p.told_session = 0;
  p.bad = 0;
  p.down_at = acc();
}

void Engine::State::fence_peer(Peer& p) {
  if (p.fencing || p.fenced) return;
  if (mut(Mutant::kDeathIsSilence)) return fenced(p);
  if (!p.added) return fenced(p);   // the mover never heard of it
  p.fencing = true;
  p.ready = false;
  p.fence_at = now;
  emit(out::Fence{p.id, p.mover});
  arm(p);
}

// Nothing of the path can land any more.
void Engine::State::fenced(Peer& p) {
  p.fencing = false;
  p.fence_failed = false;
  const bool dead = p.life == Peer::Life::kDead;
  if (dead) p.fenced = true;
  ++p.path;
  std::vector<GrantOut> legs;
  for (const auto& [n, o] : p.out) legs.push_back(o);
  for (const GrantOut& o : legs) {
    Room* r = find(o.room);
    if (r == nullptr || o.leg >= r->legs.size()) continue;
    r->legs[o.leg].remote_drained = true;
    if (r->failing) maybe_quiet(*r, r->legs[o.leg]);
  }
  for (auto& [n, g] : p.in) {
    if (Leg* leg = leg_of(g); leg != nullptr) leg->evidence = true;
  }
  if (!dead && !p.refused) new_path(p);   // its rooms have failed; new grants name the new path
  sweep.push_back(p.id);
}

void Engine::State::new_path(Peer& p) {
  p.ready = false;
  p.path_error = {};
  emit(out::DropPeer{p.id, p.mover});
  emit(out::AddPeer{p.id, p.mover, p.description});
}

void Engine::State::drop_if_gone(PeerId id) {
  Peer* p = find_peer(id);
  if (p == nullptr || p->life != Peer::Life::kDead || !p->fenced || !p->out.empty()) return;
  if (!p->ended && now < p->dead_at + cfg.deadlines.tombstone) return;
  for (const auto& [n, g] : p->in) {
    if (g.outstanding > 0) return;
  }
  for (const auto& [n, op] : ops) {
    if (op.peer == id) return;
  }
  for (const LoanRec& loan : loans) {
    if (loan.serial != 0 && loan.peer == id) return;
  }
  if (p->added) emit(out::DropPeer{id, p->mover});
  for (auto& list : blocked_peers) {
    if (list == id) list = PeerId{};
  }
  next_grant_base = std::max(next_grant_base, p->next_number);
  path_base = std::max(path_base, p->path);
  peers.erase(id.value);
}

}  // namespace kvferry::core
