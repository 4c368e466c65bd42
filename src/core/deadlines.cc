// Every wait and its deadline. Only Tick fires timers. Deadlines that accuse a peer of silence run in
// accusing time: a gap in our own turns (a stopped or suspended process) does not count against the peer
// (rule 20).
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

namespace {
std::string seconds(Duration d) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  std::string frac = std::to_string(ms % 1000);
  while (frac.size() < 3) frac.insert(frac.begin(), '0');
  return std::to_string(ms / 1000) + "." + frac + " s";
}
}  // namespace

void Engine::State::dues(const Room& r, std::vector<Due>& due) const {
  const Deadlines& d = cfg.deadlines;
  if (!r.used || r.terminal) return;
  if (!r.failing) {
    if (r.client_deadline.count() > 0) due.push_back({"client", r.created + r.client_deadline});
    if (r.role == Role::kSender) {
      const bool granted = r.bound_all && !mut(Mutant::kBootstrapHitsGranted);
      if (!granted && !mut(Mutant::kNoBootstrap)) {
        TimePoint at = r.created + d.bootstrap;
        if (r.renew_number > 0) at = std::max(at, r.renewed + paused + d.lease);
        due.push_back({"bootstrap", at});
      } else if (!r.posted_any) {
        due.push_back({"waiting", r.bound_at + paused + d.waiting});
      } else if (!r.pushed_last) {
        due.push_back({"waiting", std::max(r.bound_at, r.progressed) + paused + d.waiting});
      } else {
        due.push_back({"progress", r.progressed + paused + d.progress});
      }
    } else {
      const bool agreed_all =
          std::all_of(r.legs.begin(), r.legs.end(), [](const Leg& l) { return l.peer.value != 0; });
      if (!agreed_all) due.push_back({"handshake", r.created + d.handshake});
      if (agreed_all && r.granted && !r.first_byte)
        due.push_back({"waiting", r.granted_at + paused + d.waiting});
      if (r.first_byte)
        due.push_back({"progress", std::max(r.progressed, r.granted_at) + paused + d.progress});
    }
  }
  for (std::uint32_t k = 0; k < r.legs.size(); ++k) {
    if (!r.failing && r.legs[k].recalled)
      due.push_back({"refused", r.legs[k].refused_at + paused + d.drain, k});
    if (r.legs[k].state == LegState::kRevoking)
      due.push_back({"drain", r.legs[k].cut_at + paused + d.drain, k});
  }
}

void Engine::State::dues(const Peer& p, std::vector<Due>& due) const {
  const Deadlines& d = cfg.deadlines;
  if (p.fencing && !p.fence_failed) due.push_back({"fence", p.fence_at + d.fence});
  if (p.life == Peer::Life::kDead) {
    if (!p.ended) due.push_back({"forget", p.dead_at + d.tombstone});
    return;
  }
  if (p.life == Peer::Life::kDown) {
    due.push_back({"grace", p.down_at + paused + d.grace});
    return;
  }
  if (!p.path_error.ok() && p.answered) due.push_back({"path", p.path_due});
  if (!p.answered) due.push_back({"hello", p.hello_due});
  due.push_back({"silence", p.heard + paused + d.heartbeat * d.heartbeats_missed});
  if (p.answered) due.push_back({"heartbeat", p.ping_due});
  if (!p.debts.empty() && p.debt_due != TimePoint::max()) due.push_back({"resend", p.debt_due});
}

void Engine::State::dues(const Endpoint& e, std::vector<Due>& due) const {
  if (e.dialling) return;
  if (e.link.value != 0) {
    const auto it = links.find(e.link.value);
    if (it != links.end() && it->second.peer.value == 0) {
      due.push_back(
          {"mute", it->second.heard + paused + cfg.deadlines.heartbeat * cfg.deadlines.heartbeats_missed});
    }
    return;
  }
  const Peer* p = find_peer(e.peer);
  const bool telling =
      std::any_of(e.tells.begin(), e.tells.end(), [this](const auto& t) { return t.until > now; });
  if (e.wanted > 0 || telling || (p != nullptr && p->life == Peer::Life::kDown))
    due.push_back({"redial", e.redial_at});
}

namespace {
TimePoint earliest(const std::vector<Due>& due) {
  TimePoint at = TimePoint::max();
  for (const Due& d : due) at = std::min(at, d.at);
  return at;
}
}  // namespace

// Never queued for the past: what is overdue when it is armed would look like a pause of ours (see tick).
void Engine::State::arm(Room& r) {
  scratch_.clear();
  dues(r, scratch_);
  const TimePoint at = std::max(now, earliest(scratch_));
  if (at >= r.timer.queued) return;
  r.timer.queued = at;
  heap.push({at, Subject::kRoom, r.handle.slot});
}

void Engine::State::arm(Peer& p) {
  scratch_.clear();
  dues(p, scratch_);
  const TimePoint at = std::max(now, earliest(scratch_));
  if (at >= p.timer.queued) return;
  p.timer.queued = at;
  heap.push({at, Subject::kPeer, p.id.value});
}

void Engine::State::arm_endpoint(std::uint32_t index) {
  Endpoint& e = endpoints[index];
  scratch_.clear();
  dues(e, scratch_);
  const TimePoint at = std::max(now, earliest(scratch_));
  if (at >= e.timer.queued) return;
  e.timer.queued = at;
  heap.push({at, Subject::kEndpoint, index});
}

void Engine::State::arm_memory() {
  const TimePoint at = now + cfg.deadlines.tombstone;
  if (memory_timer.queued != TimePoint::max()) return;
  memory_timer.queued = at;
  heap.push({at, Subject::kMemory, 0});
}

std::string Engine::State::who_is_missing(const Room& r) const {
  std::string who;
  std::size_t missing = 0;
  for (const Leg& leg : r.legs) {
    const bool here = r.role == Role::kSender ? leg.number != 0 : leg.peer.value != 0;
    if (here) continue;
    ++missing;
    if (r.role == Role::kReceiver && leg.endpoint.value < endpoints.size()) {
      const Endpoint& e = endpoints[leg.endpoint.value];
      who += (who.empty() ? "" : ", ") + e.name;
      if (!e.last_error.ok()) who += " (" + e.last_error.why + ")";
    }
  }
  if (r.role == Role::kReceiver)
    return std::to_string(missing) + " of " + std::to_string(r.legs.size()) +
           " prefill ranks did not answer: " + who;
  if (r.legs_required == 0) return "no decode rank registered";
  std::string came;
  for (const Leg& leg : r.legs) {
    const Peer* p = find_peer(leg.peer);
    if (p != nullptr) came += (came.empty() ? "" : ", ") + p->name;
  }
  return std::to_string(missing) + " of " + std::to_string(r.legs_required) +
         " decode ranks did not register (came: " + came + ")";
}

void Engine::State::room_due(Room& r, const Due& due) {
  const std::string_view name = due.name;
  if (name == "drain") return leg_due(r, due.sub);
  if (name == "refused") {
    Cause c = r.legs[due.sub].refusal;
    c.why += "; the lender's reason did not come within " + seconds(cfg.deadlines.drain);
    return fail_room(r, std::move(c));
  }
  std::string why = std::string(name_of(r.shown)) + " timed out after " + seconds(now - r.created) +
                    " (deadline " + due.name + "): ";
  if (name == "bootstrap" || name == "handshake") why += who_is_missing(r);
  if (name == "waiting" && r.role == Role::kReceiver)
    why += "no byte came from prefill within " + seconds(cfg.deadlines.waiting);
  if (name == "waiting" && r.role == Role::kSender)
    why += "nothing was pushed within " + seconds(cfg.deadlines.waiting);
  if (name == "progress") {
    why += "no progress for " + seconds(cfg.deadlines.progress);
    for (const Leg& leg : r.legs) {
      if (!leg.refusal.ok()) why += "; " + leg.refusal.why;
    }
  }
  if (name == "client") why += "the client's deadline is over";
  const Who who =
      name == "client" || (name == "waiting" && r.role == Role::kSender) ? Who::kLocal : Who::kPeer;
  fail_room(r, cause_of(Code::kTimeout, who, Next::kNewRoom, r, std::move(why)));
}

// The drain deadline: what cannot be proven quiet is fenced; never released anyway (rule 6, 9).
void Engine::State::leg_due(Room& r, std::uint32_t index) {
  Leg& leg = r.legs[index];
  if (leg.state != LegState::kRevoking) return;
  Peer* p = find_peer(leg.peer);
  ++count.timeouts;
  if (mut(Mutant::kDrainTimeoutIsQuiet)) {
    leg_event(r, leg, LegEvent::kDrained);
    if (p != nullptr) close_out(*p, leg);
    return join(r);
  }
  if (r.role == Role::kSender && p != nullptr && leg.evidence) {
    // Decode can no longer seal this leg: a late read or write harms only what already failed. The operations
    // keep their own records until they quiesce; REVOKED is said only then.
    for (auto& [id, op] : ops) {
      if (op.peer != leg.peer || op.grant != leg.number || op.access != Access::kWrite || !op.holds) continue;
      op.holds = false;
      if (op.source < r.chunks.size() && r.chunks[op.source].holds > 0) --r.chunks[op.source].holds;
    }
    leg_event(r, leg, LegEvent::kDrained);
    return_chunks(r);
    return join(r);
  }
  leg_event(r, leg, LegEvent::kDrainTimeout);
  if (p == nullptr) return;
  if (p->life != Peer::Life::kDead) {
    // Fencing a live peer ends its healthy rooms as well: the path is shared.
    fail_rooms_of(*p, lost_cause(*p, "its path is fenced because room " + std::to_string(r.id.value) +
                                         " did not drain within " + seconds(cfg.deadlines.drain)));
  }
  fence_peer(*p);
}

void Engine::State::peer_due(Peer& p, const Due& due) {
  const std::string_view name = due.name;
  if (name == "grace") return peer_dead(p, "no connection for " + seconds(cfg.deadlines.grace), false);
  if (name == "forget") {
    p.dead_at = now;
    if (!p.fenced) return;  // unproven: it may still come back, and its legs keep its record
    p.ended = true;
    p.debts.clear();
    return sweep.push_back(p.id);
  }
  if (name == "fence") {
    p.fence_failed = true;  // its Lost legs stay in quarantine, counted and named
    ++count.timeouts;
    return;
  }
  if (name == "silence") {
    const LinkId link = p.link;
    ++count.timeouts;
    emit(out::CloseLink{link});
    return on(in::LinkDown{
        link, Error{Code::kPeerLost, Who::kPeer, Next::kRetry, 0, "peer " + p.name,
                    "silent for " + seconds(cfg.deadlines.heartbeat * cfg.deadlines.heartbeats_missed)}});
  }
  if (name == "hello") {
    p.hello_due = now + cfg.deadlines.resend_first;
    if (p.link.value != 0) say_hello(p.link, &p, true);
    return;
  }
  if (name == "heartbeat") {
    p.ping_due = now + cfg.deadlines.heartbeat;
    return send(p, wire::Ping{1, false, floor_of(p)});
  }
  if (name == "resend") resend(p, false);
  if (name == "path") new_path(p);
}

void Engine::State::endpoint_due(std::uint32_t index, const Due& due) {
  Endpoint& e = endpoints[index];
  if (std::string_view(due.name) == "mute") {
    const LinkId link = e.link;
    emit(out::CloseLink{link});
    return on(in::LinkDown{
        link, Error{Code::kPeerLost, Who::kPeer, Next::kRetry, 0, e.name, "it does not say HELLO"}});
  }
  e.redial_at = now;
  dial(e, index);
}

void Engine::State::fire_subject(const TimerEntry& t) {
  std::vector<Due> due;
  if (t.subject == Subject::kMemory) {
    memory_timer.queued = TimePoint::max();
    forget_old();
    if (!graves.empty() || !recalls.empty()) arm_memory();
  } else if (t.subject == Subject::kRoom) {
    if (t.index >= rooms.size()) return;
    Room& r = rooms[t.index];
    if (r.timer.queued != t.at) return;
    r.timer.queued = TimePoint::max();
    if (!r.used) return;
    const Handle h = r.handle;
    dues(r, due);
    for (const Due& d : due) {
      if (d.at <= now && find(h) != nullptr && !r.terminal) room_due(r, d);
    }
    if (find(h) != nullptr) arm(r);
  } else if (t.subject == Subject::kPeer) {
    Peer* p = find_peer(PeerId{t.index});
    if (p == nullptr || p->timer.queued != t.at) return;
    p->timer.queued = TimePoint::max();
    dues(*p, due);
    for (const Due& d : due) {
      if (d.at <= now) peer_due(*p, d);
    }
    arm(*p);
  } else {
    Endpoint& e = endpoints[t.index];
    if (e.timer.queued != t.at) return;
    e.timer.queued = TimePoint::max();
    dues(e, due);
    for (const Due& d : due) {
      if (d.at <= now) endpoint_due(t.index, d);
    }
    arm_endpoint(t.index);
  }
}

void Engine::State::tick() {
  if (!heap.empty() && now - heap.top().at > cfg.deadlines.gap) {
    // We were due and did not come: a pause of ours, not a silence of theirs.
    paused += now - heap.top().at;
    ++count.gaps;
  }
  while (!heap.empty() && heap.top().at <= now) fire_subject(heap.pop());
  if (heap.size() > 64 + 4 * (rooms.size() + peers.size() + endpoints.size())) compact_timers();
}

// Entries that were overtaken by earlier ones are dropped, so that the heap stays in proportion to its
// subjects.
void Engine::State::compact_timers() {
  heap = TimerHeap{};
  const auto keep = [this](const TimerSlot& t, Subject s, std::uint32_t index) {
    if (t.queued != TimePoint::max()) heap.push({t.queued, s, index});
  };
  for (const auto& [id, p] : peers) keep(p.timer, Subject::kPeer, id);
  for (std::uint32_t k = 0; k < rooms.size(); ++k) keep(rooms[k].timer, Subject::kRoom, k);
  for (std::uint32_t k = 0; k < endpoints.size(); ++k) keep(endpoints[k].timer, Subject::kEndpoint, k);
  keep(memory_timer, Subject::kMemory, 0);
}

// ---- the explorer's view ----

void Engine::armed(std::vector<TimerRef>& all) const {
  std::vector<Due> due;
  const auto add = [&](TimerRef::Kind kind, std::uint32_t a) {
    for (const Due& d : due) all.push_back({kind, a, d.sub, d.name, d.at});
    due.clear();
  };
  for (std::uint32_t k = 0; k < s_->rooms.size(); ++k) {
    s_->dues(s_->rooms[k], due);
    add(TimerRef::Kind::kRoom, k);
  }
  for (const auto& [id, p] : s_->peers) {
    s_->dues(p, due);
    add(TimerRef::Kind::kPeer, id);
  }
  for (std::uint32_t k = 0; k < s_->endpoints.size(); ++k) {
    s_->dues(s_->endpoints[k], due);
    add(TimerRef::Kind::kEndpoint, k);
  }
}

// Fires one named timer as if it were due. Time stands still, so that the state space stays finite.
void Engine::fire(const TimerRef& t, TimePoint now, Outputs& out) {
  s_->now = now;
  s_->out = &out;
  const Due due{t.name, t.at, t.b};
  if (t.kind == TimerRef::Kind::kRoom && t.a < s_->rooms.size() && s_->rooms[t.a].used) {
    s_->room_due(s_->rooms[t.a], due);
  } else if (t.kind == TimerRef::Kind::kPeer) {
    if (Peer* p = s_->find_peer(PeerId{t.a}); p != nullptr) {
      if (std::string_view(t.name) == "resend") {
        for (auto& [key, d] : p->debts) d.due = now;
      }
      s_->peer_due(*p, due);
    }
  } else if (t.kind == TimerRef::Kind::kEndpoint && t.a < s_->endpoints.size()) {
    s_->endpoint_due(t.a, due);
  }
  while (!s_->sweep.empty()) {
    const PeerId id = s_->sweep.back();
    s_->sweep.pop_back();
    s_->drop_if_gone(id);
  }
  s_->maybe_rekey();
  s_->out = nullptr;
}

}  // namespace kvferry::core
