#include "core/engine.h"

#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

Engine::Engine(const EngineConfig& config) : s_(std::make_unique<State>(config)) {}
Engine::Engine(const Engine& other) : s_(std::make_unique<State>(*other.s_)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(const Engine& other) {
  if (this != &other) *s_ = *other.s_;
  return *this;
}
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Engine::State::State(const EngineConfig& config) : cfg(config), hash(layout_hash(config.layout)) {
  for (std::size_t s = 0; s < kSpaces; ++s) {
    const auto items = cfg.layout.items(static_cast<Space>(s));
    owner[s].assign(items, 0);
    readers[s].assign(items, 0);
  }
}

void Engine::step(const Input& input, TimePoint now, Outputs& out) {
  s_->now = now;
  s_->out = &out;
  s_->handle(input);
  while (!s_->sweep.empty()) {
    const PeerId id = s_->sweep.back();
    s_->sweep.pop_back();
    s_->drop_if_gone(id);
  }
  s_->maybe_rekey();
  s_->out = nullptr;
}

void Engine::State::handle(const Input& input) {
  std::visit([this](const auto& i) { on(i); }, input);
}

std::optional<TimePoint> Engine::next_deadline() const {
  if (s_->heap.empty()) return std::nullopt;
  return s_->heap.top().at;
}

const PairPlan* Engine::plan(PeerId id) const {
  const Peer* p = s_->find_peer(id);
  return p == nullptr ? nullptr : &p->plan;
}

RoomInfo Engine::info(Handle h) const {
  RoomInfo i;
  const Room* r = s_->find(h);
  if (r == nullptr) {
    i.poll = Poll::kStale;
    return i;
  }
  i.role = r->role;
  i.poll = r->shown;
  i.created = r->created;
  i.legs_required = r->role == Role::kSender ? r->legs_required : static_cast<std::uint32_t>(r->legs.size());
  for (const Leg& leg : r->legs) {
    if (leg.peer.value == 0) continue;
    ++i.legs;
    const Peer* p = s_->find_peer(leg.peer);
    if (p != nullptr && p->has_mover) i.mover = s_->mover_of(*p).name;
    i.bytes += leg.bytes;
  }
  if (r->role == Role::kSender) i.bytes = r->bytes;
  i.prefix_tokens = r->role == Role::kSender ? r->prefix_tokens : r->spec.prefix_tokens;
  i.tokens = r->role == Role::kSender ? r->tokens : r->spec.tokens;
  i.pages = static_cast<std::uint32_t>(count_of(r->spec.pages));
  i.aux_slot = r->spec.aux_slot;
  i.failing = r->failing;
  i.quiet = r->terminal;
  return i;
}

const Error* Engine::error(Handle h) const {
  const Room* r = s_->find(h);
  return r != nullptr && r->failing ? &r->cause : nullptr;
}

Counters Engine::counters() const {
  Counters c = s_->count;
  for (const Room& r : s_->rooms) c.rooms_live += r.used && !r.terminal ? 1U : 0U;
  c.links = s_->links.size();
  c.ops_in_flight = s_->ops.size();
  for (const auto& [id, p] : s_->peers) {
    c.peers += p.life == Peer::Life::kDead ? 0U : 1U;   // the silent dead are remembered until `tombstone`
    c.debts += p.debts.size();
    c.parked += p.parked;
  }
  for (const auto& q : quarantined()) c.pages_quarantined += count_of(q.pages);
  for (const Room& r : s_->rooms) {
    for (const Leg& leg : r.legs) c.legs_lost += r.used && leg.state == LegState::kLost ? 1U : 0U;
  }
  return c;
}

std::vector<Quarantined> Engine::quarantined() const {
  std::vector<Quarantined> all;
  for (const Room& r : s_->rooms) {
    if (!r.used || r.role != Role::kReceiver || !r.lent) continue;
    for (const Leg& leg : r.legs) {
      if (leg.state == LegState::kLost) {
        all.push_back({r.id, peer_name(leg.peer), r.spec.pages});
        break;
      }
    }
  }
  return all;
}

std::string Engine::peer_name(PeerId id) const {
  const Peer* p = s_->find_peer(id);
  return p == nullptr ? "unknown peer" : p->name + "@" + p->endpoint;
}

void Engine::canonical(std::string& bytes) const { s_->canonical(bytes); }

void Engine::State::trace(const char* what, RoomId room, std::uint64_t grant, std::uint64_t a,
                          std::uint64_t b) {
  if (cfg.trace) emit(out::Trace{now, what, room, grant, a, b});
}

// ---- commands ----

void Engine::State::on(const in::Open& i) {
  Room* first = find_live(i.room, i.role);
  if (mut(Mutant::kDuplicateOpenFailsFirst) && first != nullptr) {
    fail_room(*first, cause_of(Code::kRefused, Who::kLocal, Next::kSameRoom, *first, "opened twice"));
  }
  const bool duplicate = first != nullptr;
  Room& r = make_room(i);
  ++count.rooms_opened;
  trace("open", r.id, 0, static_cast<std::uint64_t>(r.role));
  if (duplicate) {
    fail_room(r, cause_of(Code::kRefused, Who::kLocal, Next::kSameRoom, r,
                          "the room number is live under another handle; close that one first"));
    return;
  }
  if (stopping) {
    fail_room(r, cause_of(Code::kAborted, Who::kLocal, Next::kNewRoom, r, "this manager is stopping"));
    return;
  }
  r.registered = true;
  by_id[{r.id.value, static_cast<std::uint8_t>(r.role)}] = r.handle;
  if (r.role == Role::kSender) {
    open_sender(r);
  } else {
    open_receiver(r, i);
  }
  if (find(i.handle) != nullptr) arm(r);
}

void Engine::State::on(const in::GrantPages& i) {
  Room* r = find(i.handle);
  if (r == nullptr || r->failing || r->terminal || r->role != Role::kReceiver) return;
  if (r->granted) {
    fail_room(*r, cause_of(Code::kRefused, Who::kLocal, Next::kNever, *r, "grant was called twice"));
    return;
  }
  Cause why;
  if (!check_spec(*r, i.spec, why)) {
    fail_room(*r, why);
    return;
  }
  r->granted = true;
  r->spec = i.spec;
  std::erase_if(r->spec.pages, [](const PageRun& run) { return run.count == 0; });
  r->granted_at = acc();
  r->grant_fired = i.spec.event.value == 0 || mut(Mutant::kGrantEventIgnored);
  if (!lend_pages(*r, why)) {
    fail_room(*r, why);
    return;
  }
  if (!r->grant_fired) event_waits.emplace_back(i.spec.event, r->handle);
  emit_grants(*r);
  arm(*r);
}

void Engine::State::on(const in::Push& i) {
  Room* r = find(i.handle);
  if (r == nullptr || r->role != Role::kSender) return;
  if (r->failing || r->terminal || r->pushed_last || r->chunks.size() >= cfg.limits.chunks_per_room) {
    // The pages were never held: they go straight back, so that the caller's ledger closes.
    emit(out::ChunkReturned{r->handle, static_cast<std::uint32_t>(r->chunks.size())});
    r->chunks.push_back({});
    r->chunks.back().returned = true;
    if (!r->failing && !r->terminal) {
      fail_room(*r,
                cause_of(Code::kRefused, Who::kLocal, Next::kNever, *r,
                         r->pushed_last ? "push after the last chunk" : "more chunks than chunks_per_room"));
    }
    return;
  }
  if (!r->base_set) {
    r->base_set = true;
    r->base_tokens = r->prefix_known ? r->prefix_tokens : 0;
  }
  Chunk c;
  c.spec = i.chunk;
  std::erase_if(c.spec.pages, [](const PageRun& run) { return run.count == 0; });
  c.first_token = r->pushed_tokens;
  c.fired = i.chunk.event.value == 0 || mut(Mutant::kEventIgnored);
  r->pushed_tokens += i.chunk.tokens;
  r->pushed_last = i.chunk.last;
  hold_source(c.spec, 1);
  if (!c.fired) event_waits.emplace_back(i.chunk.event, r->handle);
  r->chunks.push_back(std::move(c));
  advance_all(*r);
  if (Room* again = find(i.handle); again != nullptr) arm(*again);
}

void Engine::State::on(const in::Abort& i) {
  Room* r = find(i.handle);
  if (r == nullptr || r->terminal) return;
  Cause c = i.cause;
  if (c.what.empty()) c.what = describe(*r);
  fail_room(*r, std::move(c));
}

void Engine::State::on(const in::Renew& i) {
  Room* r = find(i.handle);
  if (r == nullptr || r->failing || r->terminal) return;
  ++r->own_renewals;
  for (Leg& leg : r->legs) {
    Peer* p = find_peer(leg.peer);
    if (p == nullptr || !agreed(*p)) continue;
    if (r->role == Role::kReceiver) {
      send(*p, wire::Renew{{{r->id, r->own_renewals}}});
    } else if (leg.number != 0) {
      send(*p, wire::Computing{leg.number, r->own_renewals});
    }
  }
  r->granted_at = acc();
  r->bound_at = acc();
}

void Engine::State::on(const in::Close& i) {
  Room* r = find(i.handle);
  if (r == nullptr) return;
  r->detached = true;
  if (!r->terminal) {
    if (mut(Mutant::kCloseForgetsOps)) {
      for (Leg& leg : r->legs) leg.state = LegState::kQuiet;
      return_pages(*r);
      return_chunks(*r);
      free_room(*r);
      return;
    }
    fail_room(*r, cause_of(Code::kAborted, Who::kLocal, Next::kNewRoom, *r, "closed by its owner"));
    r = find(i.handle);
  }
  if (r != nullptr && r->terminal) free_room(*r);
}

void Engine::State::on(const in::EventFired& i) {
  std::vector<Handle> hit;
  for (std::size_t k = 0; k < event_waits.size();) {
    if (event_waits[k].first != i.event) {
      ++k;
      continue;
    }
    hit.push_back(event_waits[k].second);
    event_waits.erase(event_waits.begin() + static_cast<std::ptrdiff_t>(k));
  }
  for (const Handle h : hit) {
    Room* r = find(h);
    if (r == nullptr || r->failing || r->terminal) continue;
    if (!i.ok) {
      fail_room(*r, cause_of(Code::kAborted, Who::kLocal, Next::kNewRoom, *r,
                             "a device event of this room failed"));
      continue;
    }
    if (r->role == Role::kReceiver) {
      r->grant_fired = true;
      emit_grants(*r);
    } else {
      for (Chunk& c : r->chunks) c.fired = c.fired || c.spec.event == i.event;
      advance_all(*r);
    }
    if (Room* again = find(h); again != nullptr) arm(*again);
  }
}

void Engine::State::on(const in::Rekey&) { rekey_wanted = true; }

void Engine::State::on(const in::Stop&) {
  stopping = true;
  for (std::size_t k = 0; k < rooms.size(); ++k) {
    if (!rooms[k].used || rooms[k].terminal) continue;
    fail_room(rooms[k],
              cause_of(Code::kAborted, Who::kLocal, Next::kNewRoom, rooms[k], "this manager is stopping"));
  }
}

void Engine::State::on(const in::Endpoint& i) {
  if (endpoints.size() <= i.id.value) endpoints.resize(i.id.value + 1);
  endpoints[i.id.value].name = i.name;
}

// ---- movers ----

void Engine::State::on(const in::Completed& i) {
  const auto it = ops.find(i.op.value);
  if (it == ops.end() || it->second.completed) return;
  Op& op = it->second;
  op.completed = true;
  op.failed = !i.error.ok() && !mut(Mutant::kReadAccepted);
  Room* r = find(op.room);
  if (Peer* p = find_peer(op.peer); p != nullptr && op.access == Access::kWrite) {
    const auto g = p->in.find(op.grant);
    if (g != p->in.end() && g->second.incomplete > 0) --g->second.incomplete;
    if (mut(Mutant::kSourceBackAtPost) && op.holds) {
      op.holds = false;
      chunk_done(op.room, op.source, true);
    }
    if (mut(Mutant::kDoneBeforeQuiesced) && r != nullptr && g != p->in.end()) maybe_done(*p, *r, g->second);
  }
  if (r == nullptr || i.error.ok() || r->failing || r->terminal || mut(Mutant::kReadAccepted)) return;
  Leg& leg = r->legs[op.leg];
  Cause c = cause_of(Code::kTransport, Who::kTransport, Next::kNewRoom, *r, i.error.why, &leg);
  c.status = i.error.status;
  const bool recalled = i.error.code == Code::kRefused && i.error.who == Who::kPeer;
  const bool again = op.access == Access::kRead;  // nobody else touches its pages; the OFFER comes again
  if (!recalled && !again) return fail_room(*r, std::move(c));
  if (recalled && mut(Mutant::kRefusalIsCause)) return fail_room(*r, std::move(c));
  refused(*r, leg, op.chunk, recalled, std::move(c));
}

void Engine::State::refused(Room& r, Leg& leg, std::uint32_t chunk, bool recalled, Cause cause) {
  if (is_closed(leg.state)) return;
  leg.recalled = leg.recalled || recalled;
  if (!leg.refusal.ok()) return;
  leg.refusal = std::move(cause);
  leg.refused_at = acc();
  leg.refused_chunk = chunk;
  arm(r);
}

void Engine::State::on(const in::Quiesced& i) {
  const auto it = ops.find(i.op.value);
  if (it == ops.end()) return;
  Op op = it->second;
  ops.erase(it);
  if (op.access == Access::kWrite) {
    op_ended(i.op, op);
  } else {
    read_ended(i.op, op);
  }
}

void Engine::State::on(const in::Arrived& i) {
  LoanRec* loan = find_loan(i.loan);
  if (loan == nullptr || loan->access != Access::kWrite) return;
  Room* r = find(loan->room);
  if (r == nullptr) return;
  Leg& leg = r->legs[loan->leg];
  if (leg.loan != i.loan) return;
  if (i.notice.size < 12) return refuse_from(*find_peer(leg.peer), "notice of an unknown form");
  std::uint64_t grant = 0;
  std::uint32_t chunk = 0;
  for (std::size_t k = 0; k < 8; ++k) grant |= static_cast<std::uint64_t>(i.notice.bytes[k]) << (8 * k);
  for (std::size_t k = 0; k < 4; ++k) {
    chunk |= static_cast<std::uint32_t>(static_cast<std::uint32_t>(i.notice.bytes[8 + k]) << (8 * k));
  }
  if (grant != leg.number || chunk >= cfg.limits.chunks_per_room) {
    return refuse_from(*find_peer(leg.peer), "notice for another grant");
  }
  proven(*r, leg, chunk, i.bytes);
}

void Engine::State::on(const in::Revoked& i) {
  LoanRec* loan = find_loan(i.loan);
  if (loan == nullptr) return;
  const LoanRec rec = *loan;
  drop_loan(i.loan);
  Room* r = find(rec.room);
  if (rec.access == Access::kWrite) {
    if (r == nullptr) return;
    Leg& leg = r->legs[rec.leg];
    if (leg.loan != i.loan) return;
    leg.loan_live = false;
    leg.loan_revoking = false;
    if (r->failing) {
      maybe_quiet(*r, leg);
    } else {
      try_seal(*r, leg);
    }
    return;
  }
  if (rec.holds) chunk_done(rec.room, rec.source, true);
  Peer* p = find_peer(rec.peer);
  if (p == nullptr) return;
  const auto g = p->in.find(rec.grant);
  if (g == p->in.end()) return;
  if (g->second.outstanding > 0) --g->second.outstanding;
  settle_grant(*p, rec.grant);
}

void Engine::State::on(const in::PeerFenced& i) {
  Peer* p = find_peer(i.peer);
  if (p == nullptr || !p->fencing) return;
  p->fencing = false;
  if (!i.error.ok()) {
    p->fence_failed = true;
    arm(*p);
    return;
  }
  fenced(*p);
}

void Engine::State::on(const in::PeerReady& i) {
  Peer* p = find_peer(i.peer);
  if (p == nullptr || p->ready) return;
  if (!i.error.ok()) {
    Cause c = i.error;
    c.what = "peer " + p->name + "@" + p->endpoint + " over " + mover_of(*p).name;
    p->path_error = c;
    p->path_due = now + cfg.deadlines.redial_most;
    fail_rooms_of(*p, c);
    arm(*p);
    return;
  }
  p->ready = true;
  p->path_error = {};
  take_early_offers(*p);
  std::vector<GrantNumber> numbers;
  for (const auto& [n, g] : p->in) numbers.push_back(n);
  for (const GrantNumber n : numbers) {
    if (const auto g = p->in.find(n); g != p->in.end()) advance(*p, g->second);
  }
}

void Engine::State::on(const in::MoverPeerLost& i) {
  Peer* p = find_peer(i.peer);
  if (p == nullptr || p->life != Peer::Life::kLive || p->fencing) return;
  // The path is broken but the process may live: its rooms fail, the path is fenced and made anew.
  Cause c = lost_cause(*p, "the " + mover_of(*p).name + " mover lost its path: " + i.error.why);
  fail_rooms_of(*p, c);
  fence_peer(*p);
}

void Engine::State::on(const in::RegionsRekeyed& i) {
  if (!rekeying) return;
  rekeying = false;
  rekey_wanted = false;
  if (!i.error.ok()) return;  // the quarantine stays; the operator may ask again
  region_generation = i.generation;
  for (std::size_t k = 0; k < rooms.size(); ++k) {
    if (!rooms[k].used || rooms[k].role != Role::kReceiver) continue;
    for (std::size_t l = 0; l < rooms[k].legs.size(); ++l) {
      Leg& leg = rooms[k].legs[l];
      if (leg.state != LegState::kLost) continue;
      leg.remote_drained = true;
      maybe_quiet(rooms[k], leg);
    }
  }
  for (std::size_t k = 0; k < rooms.size(); ++k) {
    if (rooms[k].used && !rooms[k].failing && rooms[k].granted) emit_grants(rooms[k]);
  }
}

void Engine::State::on(const in::PeerDead& i) {
  Peer* p = find_peer(i.peer);
  if (p != nullptr) peer_dead(*p, i.evidence, true);
}

void Engine::State::on(const in::Tick&) { tick(); }

}  // namespace kvferry::core
