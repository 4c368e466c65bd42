#include "sim/users.h"

#include <algorithm>
#include <numeric>

#include "sim/world.h"

namespace kvferry::sim {
namespace {
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kAuxBlock = 0xffffff;
std::size_t at(Space s) { return static_cast<std::size_t>(s); }
}  // namespace

void Users::begin() {
  nodes_.resize(world_.nodes().size());
  const auto& s = world_.scenario();
  for (std::uint32_t i = 0; i < s.requests; ++i) {
    SimEvent e;
    e.kind = SimEvent::Kind::kRequest;
    e.a = i;
    world_.plan(world_.between(Duration{0}, s.arrivals * 4 / 5), e);
  }
}

void Users::birth(std::uint32_t node) {
  UserNode& n = nodes_[node];
  n = UserNode{};
  n.life = world_.node(node).life;
  const Geometry& g = world_.mover().memory(n.life).geometry();
  for (std::size_t s = 0; s < kSpaces; ++s) {
    n.free[s].resize(g.items[s]);
    std::iota(n.free[s].begin(), n.free[s].end(), 0U);
  }
}

void Users::crash(std::uint32_t node) {
  for (Participant& p : participants_) {
    if (p.node != node || p.life != world_.node(node).life || !p.opened || p.dead) continue;
    if (p.role == Role::kReceiver && p.granted && !p.terminal) p.complete |= content_complete(p);
    if (!p.terminal) --open_;
    if (!p.closed) --unclosed_;
    p.dead = true;
  }
}

Participant* Users::find(std::uint32_t node, Handle h) {
  UserNode& n = nodes_[node];
  if (h.slot >= n.by_slot.size() || n.by_slot[h.slot] == 0) return nullptr;
  Participant& p = participants_[n.by_slot[h.slot] - 1];
  return p.handle == h ? &p : nullptr;
}

bool Users::living(const Participant& p) const {
  const SimNode& n = world_.node(p.node);
  return p.opened && !p.dead && n.up && n.life == p.life;
}

void Users::plan(std::uint32_t participant, UserStep step, Duration after, std::uint64_t detail) {
  SimEvent e;
  e.kind = SimEvent::Kind::kUser;
  e.a = participant;
  e.b = static_cast<std::uint32_t>(step);
  e.c = detail;
  world_.plan(after, e);
}

UserRequest Users::draw_request() {
  Prng& rng = world_.rng();
  const Scenario& s = world_.scenario();
  const ClusterShape& shape = s.shape;
  const bool reuse = !requests_.empty() && world_.roll(Fault::kReuse);
  UserRequest r;
  r.prompt = next_prompt_++;
  r.family = static_cast<std::uint32_t>(0x40000000U + rng.below(3));
  r.shared_blocks = rng.chance(0.4) ? 1 : 0;
  const std::uint32_t most = std::max(1U, shape.pages / 3);
  r.tokens =
      rng.chance(0.08)
          ? 0
          : static_cast<std::uint32_t>(rng.between(1, static_cast<std::uint64_t>(most) * shape.page_tokens));
  r.prefix = rng.chance(0.4) ? static_cast<std::uint32_t>(rng.below(4)) * shape.page_tokens : 0;
  r.chunk_pages = static_cast<std::uint32_t>(rng.between(1, 4));
  r.events = rng.chance(0.25);
  const auto p = static_cast<std::uint32_t>(rng.below(shape.prefill)),
             d = static_cast<std::uint32_t>(rng.below(shape.decode));
  for (std::uint32_t k = 0; k < shape.prefill_ranks; ++k) r.senders.push_back(p * shape.prefill_ranks + k);
  for (std::uint32_t k = 0; k < shape.decode_ranks; ++k)
    r.receivers.push_back(shape.senders() + d * shape.decode_ranks + k);
  if (!reuse) {
    r.room = RoomId{next_room_++};
    if (s.tags) r.tag = Tag{1, r.prefix + r.tokens, r.prompt};
    return r;
  }
  const UserRequest& old =
      requests_[requests_.size() - 1 - rng.below(std::min<std::size_t>(4, requests_.size()))];
  if (!s.tags) return old;  // one prompt per room number, as the engine promises without tags
  r.room = old.room;
  r.senders = old.senders;
  r.receivers = old.receivers;
  r.tag = Tag{old.tag.attempt + 1, r.prefix + r.tokens, r.prompt};
  return r;
}

void Users::on_request(std::uint32_t) {
  const auto index = static_cast<std::uint32_t>(requests_.size());
  requests_.push_back(draw_request());
  ++rooms_;
  const UserRequest r = requests_.back();
  for (std::uint32_t k = 0; k < r.senders.size(); ++k) add_participant(index, r.senders[k], k, Role::kSender);
  for (std::uint32_t k = 0; k < r.receivers.size(); ++k)
    add_participant(index, r.receivers[k], k, Role::kReceiver);
}

void Users::add_participant(std::uint32_t request, std::uint32_t node, std::uint32_t index, Role role,
                            Duration after) {
  if (world_.roll(Fault::kNoShow)) return;
  Participant p;
  p.request = request;
  p.node = node;
  p.index = index;
  p.role = role;
  participants_.push_back(p);
  const auto id = static_cast<std::uint32_t>(participants_.size() - 1);
  const bool slow = world_.roll(Fault::kSlowUser);
  plan(id, UserStep::kOpen,
       after + world_.between(Duration{0}, slow ? Duration(seconds(5)) : Duration(milliseconds(20))));
}

void Users::step(std::uint32_t id, UserStep step, std::uint64_t detail) {
  ++world_.coverage().user_steps;
  if (step == UserStep::kOpen || step == UserStep::kOpenAgain) return open(id);
  Participant& p = participants_[id];
  if (!living(p)) return;
  switch (step) {
    case UserStep::kGrant: return grant(id);
    case UserStep::kPush: return push(id);
    case UserStep::kFired: return fired(id, detail);
    case UserStep::kAbort: return abort(p, Code::kAborted, 0);
    case UserStep::kReject: return abort(p, Code::kRejected, 429);
    case UserStep::kRenew:
      if (!p.closed) world_.feed(p.node, core::in::Renew{p.handle});
      return;
    case UserStep::kClose:
      if (!p.closed && !p.close_asked) {
        p.close_asked = true;
        world_.feed(p.node, core::in::Close{p.handle});
      }
      return;
    case UserStep::kFree:
      for (const std::uint32_t page : p.pages) give(nodes_[p.node], Space::kPages, page);
      if (p.aux != kNoSlot) give(nodes_[p.node], Space::kAux, p.aux);
      for (const std::uint32_t slot : p.states) give(nodes_[p.node], Space::kState, slot);
      p.pages.clear();
      p.states.clear();
      p.aux = kNoSlot;
      return;
    case UserStep::kOpen:
    case UserStep::kOpenAgain: return;
  }
}

void Users::open(std::uint32_t id) {
  Participant& p = participants_[id];
  SimNode& n = world_.node(p.node);
  if (!n.up || p.opened || (closing_ && !p.probe)) return;
  const UserRequest& r = requests_[p.request];
  for (const std::uint32_t s : r.senders) {  // an engine asks the registry first
    if (p.role != Role::kReceiver || world_.directory().knows(p.node, s)) continue;
    return plan(id, UserStep::kOpen, milliseconds(10));
  }
  UserNode& u = nodes_[p.node];
  if (u.free_slots.empty()) {
    if (u.by_slot.size() >= world_.scenario().limits.rooms)
      return;  // the shell's own refusal: no free handle
    u.free_slots.push_back(static_cast<std::uint32_t>(u.by_slot.size()));
    u.by_slot.push_back(0);
    u.generations.push_back(0);
  }
  const std::uint32_t slot = u.free_slots.back();
  u.free_slots.pop_back();
  p.life = n.life;
  p.handle = Handle{slot, ++u.generations[slot]};
  p.opened = true;
  ++open_;
  ++unclosed_;
  u.by_slot[slot] = id + 1;
  core::in::Open in;
  in.handle = p.handle;
  in.room = r.room;
  in.role = p.role;
  in.tag = r.tag;
  if (p.role == Role::kReceiver) {
    for (const std::uint32_t s : r.senders) in.senders.push_back(EndpointId{s});
    in.leg = p.index;
    in.legs = static_cast<std::uint32_t>(r.receivers.size());
  }
  // A prefill engine may compute before it knows that decode is there: then it pushes the whole prompt.
  const bool early = p.role == Role::kSender && !p.probe && world_.rng().chance(0.2);
  if (early) plan(id, UserStep::kPush, world_.between(Duration{0}, milliseconds(10)));
  const bool duplicate = p.duplicate;
  const std::uint32_t first = duplicate ? first_of(p) : id;
  const bool failing = participants_[first].failing;
  world_.feed(p.node, in);
  if (duplicate && participants_[first].failing && !failing)
    world_.laws().broken(Law::kStatus, "a duplicate open fails the room that was there first");
  plan_mischief(id);
}

// The participant whose room a duplicate open names again.
std::uint32_t Users::first_of(const Participant& duplicate) const {
  for (std::uint32_t k = 0; k < participants_.size(); ++k) {
    const Participant& p = participants_[k];
    if (!p.duplicate && p.request == duplicate.request && p.node == duplicate.node &&
        p.role == duplicate.role)
      return k;
  }
  return static_cast<std::uint32_t>(&duplicate - participants_.data());
}

void Users::plan_mischief(std::uint32_t id) {
  const Participant p = participants_[id];
  const auto soon = [&] {
    return world_.between(Duration{0},
                          world_.rng().chance(0.7) ? Duration(milliseconds(30)) : Duration(seconds(3)));
  };
  if (world_.roll(Fault::kAbort)) plan(id, UserStep::kAbort, soon());
  if (p.role == Role::kSender && world_.roll(Fault::kReject)) plan(id, UserStep::kReject, soon());
  if (world_.roll(Fault::kCloseLive)) plan(id, UserStep::kClose, soon());
  if (world_.rng().chance(0.1)) plan(id, UserStep::kRenew, soon());
  if (!p.duplicate && world_.roll(Fault::kDuplicateOpen)) {
    Participant again;
    again.request = p.request;
    again.node = p.node;
    again.index = p.index;
    again.role = p.role;
    again.duplicate = true;
    participants_.push_back(again);
    plan(static_cast<std::uint32_t>(participants_.size() - 1), UserStep::kOpenAgain, soon());
  }
}

void Users::abort(Participant& p, Code code, std::int32_t status) {
  if (p.closed) return;
  Error cause{code,   Who::kLocal, Next::kNewRoom,
              status, "",          code == Code::kRejected ? "queue is full" : "client went away"};
  world_.feed(p.node, core::in::Abort{p.handle, cause});
}

bool Users::take(UserNode& u, Space space, std::size_t count, std::vector<std::uint32_t>& into) {
  auto& free = u.free[at(space)];
  if (free.size() < count) return false;
  for (; count > 0; --count) {
    std::swap(free[world_.rng().below(free.size())], free.back());
    into.push_back(free.back());
    free.pop_back();
  }
  return true;
}

void Users::give(UserNode& u, Space space, std::uint32_t item) {
  world_.mover().memory(u.life).poison(space, item);
  u.free[at(space)].push_back(item);
}

std::uint32_t Users::content(const UserRequest& r, std::uint32_t layer, std::uint32_t block) const {
  return content_of(block < r.shared_blocks ? r.family : r.prompt, Space::kPages, layer, block);
}

PageRuns Users::runs_of(const std::vector<std::uint32_t>& pages) const {
  PageRuns runs;
  for (const std::uint32_t page : pages) {
    if (!runs.empty() && runs.back().first + runs.back().count == page) {
      ++runs.back().count;
    } else {
      runs.push_back({page, 1});
    }
  }
  return runs;
}

// ---- receivers
// ----------------------------------------------------------------------------------------------------

void Users::grant(std::uint32_t id) {
  Participant& p = participants_[id];
  if (p.granted || p.failing || p.terminal || p.close_asked) return;
  const UserRequest& r = requests_[p.request];
  const ClusterShape& shape = world_.scenario().shape;
  UserNode& u = nodes_[p.node];
  const std::size_t need = (r.tokens + shape.page_tokens - 1) / shape.page_tokens;
  const bool enough = u.free[at(Space::kPages)].size() >= need &&
                      (shape.aux == 0 || !u.free[at(Space::kAux)].empty()) &&
                      (shape.states == 0 || !u.free[at(Space::kState)].empty());
  if (!enough && !world_.faulty() && !p.probe)
    return abort(p, Code::kAborted, 0);  // a queue for pages would last too long
  if (!enough) return plan(id, UserStep::kGrant, world_.between(milliseconds(1), milliseconds(60)));
  core::in::GrantPages in;
  in.handle = p.handle;
  take(u, Space::kPages, need, p.pages);
  std::vector<std::uint32_t> aux;
  if (shape.aux > 0 && take(u, Space::kAux, 1, aux)) p.aux = aux[0];
  if (shape.states > 0) take(u, Space::kState, 1, p.states);
  in.spec.pages = runs_of(p.pages);
  in.spec.tokens = r.tokens;
  in.spec.prefix_tokens = r.prefix;
  if (r.receivers.size() > 1 && world_.roll(Fault::kDisagree)) in.spec.prefix_tokens += shape.page_tokens;
  in.spec.aux_slot = p.aux;
  in.spec.state_slots = p.states;
  p.granted = true;
  p.lending = u.next_lending++;
  u.lent += static_cast<std::uint32_t>(need + (p.aux != kNoSlot ? 1 : 0) + p.states.size());
  if (r.events && world_.rng().chance(0.5)) {
    in.spec.event = EventId{next_event_++};
    plan(id, UserStep::kFired, world_.between(microseconds(10), milliseconds(30)), in.spec.event.value);
  } else {
    lend_now(p);
  }
  world_.feed(p.node, in);
}

// From now on the protocol may write the pages: given, and no kernel of the engine writes them any more.
void Users::lend_now(Participant& p) {
  Memory& m = world_.mover().memory(p.life);
  for (const std::uint32_t page : p.pages) m.lend(Space::kPages, page, p.lending);
  if (p.aux != kNoSlot) m.lend(Space::kAux, p.aux, p.lending);
  for (const std::uint32_t slot : p.states) m.lend(Space::kState, slot, p.lending);
}

void Users::take_back(Participant& p) {
  Memory& m = world_.mover().memory(p.life);
  for (const std::uint32_t page : p.pages) m.lend(Space::kPages, page, 0);
  if (p.aux != kNoSlot) m.lend(Space::kAux, p.aux, 0);
  for (const std::uint32_t slot : p.states) m.lend(Space::kState, slot, 0);
  nodes_[p.node].lent -=
      static_cast<std::uint32_t>(p.pages.size() + (p.aux != kNoSlot ? 1 : 0) + p.states.size());
}

std::uint64_t Users::content_complete(const Participant& p) const {
  const UserRequest& r = requests_[p.request];
  const ClusterShape& shape = world_.scenario().shape;
  const Memory& m = world_.mover().memory(p.life);
  const NodePlace& place = world_.node(p.node).place;
  const std::uint32_t first = r.prefix / shape.page_tokens;
  std::uint64_t whole = 0;
  for (std::uint32_t slot = 0; slot < place.layers.size(); ++slot) {
    bool good = true;
    std::uint32_t writer = 0;
    for (std::uint32_t k = 0; k < p.pages.size() && good; ++k) {
      const Tag32& t = m.cell(Space::kPages, slot, p.pages[k]);
      const bool shared = first + k < r.shared_blocks;
      good = t.content == content(r, place.layers[slot], first + k) &&
             (shared || writer == 0 || writer == t.writer);
      if (!shared) writer = t.writer;
    }
    if (good) whole |= 1ULL << place.layers[slot];
  }
  bool aux = p.aux == kNoSlot ||
             m.cell(Space::kAux, 0, p.aux).content == content_of(r.prompt, Space::kAux, 0, kAuxBlock);
  for (const std::uint32_t slot : p.states) {
    aux = aux && m.cell(Space::kState, 0, slot).content == content_of(r.prompt, Space::kState, 0, kAuxBlock);
  }
  if (aux) whole |= 1ULL << 63;
  return whole;
}

// ---- senders
// ------------------------------------------------------------------------------------------------------

bool Users::take_chunk(std::uint32_t id, std::uint32_t tokens, bool last, Participant::Pushed& c) {
  Participant& p = participants_[id];
  const UserRequest& r = requests_[p.request];
  const ClusterShape& shape = world_.scenario().shape;
  UserNode& u = nodes_[p.node];
  const bool aux = last && world_.node(p.node).place.holds_aux;
  c.first_block = p.next_token / shape.page_tokens;
  const std::uint32_t count = (tokens + shape.page_tokens - 1) / shape.page_tokens;
  const bool shares = c.first_block == 0 && count > 0 && r.shared_blocks > 0;
  const bool cached = shares && u.cache.contains(r.family);
  const bool enough = u.free[at(Space::kPages)].size() >= count &&
                      (!aux || !u.free[at(Space::kAux)].empty()) &&
                      (!aux || shape.states == 0 || !u.free[at(Space::kState)].empty());
  if (!enough) return false;
  if (cached) c.pages.push_back(u.cache[r.family]);
  take(u, Space::kPages, count - (cached ? 1 : 0), c.pages);
  if (shares && !cached) u.cache[r.family] = c.pages[0];
  std::vector<std::uint32_t> slot;
  if (aux && take(u, Space::kAux, 1, slot)) c.aux = slot[0];
  if (aux && shape.states > 0) take(u, Space::kState, 1, c.states);
  Memory& m = world_.mover().memory(p.life);
  for (const std::uint32_t page : c.pages) m.hold(Space::kPages, page);
  if (c.aux != kNoSlot) m.hold(Space::kAux, c.aux);
  for (const std::uint32_t s : c.states) m.hold(Space::kState, s);
  return true;
}

void Users::push(std::uint32_t id) {
  Participant& p = participants_[id];
  if (p.pushed_last || p.failing || p.terminal || p.close_asked) return;
  const UserRequest& r = requests_[p.request];
  const ClusterShape& shape = world_.scenario().shape;
  if (!p.started) {
    p.started = true;  // behind the prefix when decode has named it; else the whole prompt
    if (p.shown >= Poll::kWaitingForInput)
      p.next_token = world_.node(p.node).engine->info(p.handle).prefix_tokens;
  }
  const std::uint32_t left = r.prefix + r.tokens - std::min(p.next_token, r.prefix + r.tokens);
  const std::uint32_t tokens = std::min(left, r.chunk_pages * shape.page_tokens);
  const bool last = tokens == left;
  Participant::Pushed c;
  if (!take_chunk(id, tokens, last, c))
    return plan(id, UserStep::kPush, world_.between(milliseconds(1), milliseconds(60)));
  core::in::Push in;
  in.handle = p.handle;
  in.chunk.pages = runs_of(c.pages);
  in.chunk.tokens = tokens;
  in.chunk.last = last;
  in.chunk.aux_slot = c.aux;
  in.chunk.state_slots = c.states;
  p.next_token += tokens;
  p.pushed_last = last;
  if (r.events && world_.rng().chance(0.5)) {
    c.event = next_event_++;
    in.chunk.event = EventId{c.event};
    plan(id, UserStep::kFired, world_.between(microseconds(10), milliseconds(30)), c.event);
  } else {
    write_chunk(p, c);
  }
  p.chunks.push_back(std::move(c));
  if (p.chunks.size() == world_.scenario().limits.chunks_per_room)
    ++world_.coverage().limits["chunks_per_room"];
  if (!last) {
    const bool slow = world_.roll(Fault::kSlowUser);
    plan(id, UserStep::kPush,
         world_.between(microseconds(50), slow ? Duration(seconds(6)) : Duration(milliseconds(8))));
  }
  world_.feed(p.node, in);
}

void Users::write_chunk(const Participant& p, const Participant::Pushed& c) {
  const UserRequest& r = requests_[p.request];
  Memory& m = world_.mover().memory(p.life);
  const auto writer = static_cast<std::uint32_t>(&p - participants_.data()) + 1;
  const NodePlace& place = world_.node(p.node).place;
  for (std::uint32_t k = 0; k < c.pages.size(); ++k) {
    for (std::uint32_t slot = 0; slot < place.layers.size(); ++slot) {
      m.cell(Space::kPages, slot, c.pages[k]) = {content(r, place.layers[slot], c.first_block + k), writer};
    }
  }
  if (c.aux != kNoSlot)
    m.cell(Space::kAux, 0, c.aux) = {content_of(r.prompt, Space::kAux, 0, kAuxBlock), writer};
  for (const std::uint32_t s : c.states) {
    m.cell(Space::kState, 0, s) = {content_of(r.prompt, Space::kState, 0, kAuxBlock), writer};
  }
}

void Users::fired(std::uint32_t id, std::uint64_t event) {
  Participant& p = participants_[id];
  const bool ok = !world_.roll(Fault::kEventFailed);
  if (p.role == Role::kReceiver) {
    if (!p.terminal && ok) lend_now(p);
  } else {
    for (Participant::Pushed& c : p.chunks) {
      if (c.event == event && ok && !c.returned) write_chunk(p, c);
    }
  }
  world_.feed(p.node, core::in::EventFired{EventId{event}, ok});
}

void Users::release_chunk(Participant& p, Participant::Pushed& c) {
  if (c.returned) return;
  c.returned = true;
  UserNode& u = nodes_[p.node];
  Memory& m = world_.mover().memory(p.life);
  const auto back = [&](Space s, std::uint32_t item) {
    m.release(s, item);
    if (m.held(s, item) == 0) give(u, s, item);
  };
  for (const std::uint32_t page : c.pages) {
    if (m.held(Space::kPages, page) == 1)
      std::erase_if(u.cache, [&](const auto& e) { return e.second == page; });
    back(Space::kPages, page);
  }
  if (c.aux != kNoSlot) back(Space::kAux, c.aux);
  for (const std::uint32_t s : c.states) back(Space::kState, s);
}

void Users::chunk_returned(std::uint32_t node, Handle h, std::uint32_t chunk) {
  Participant* p = find(node, h);
  if (p == nullptr || p->role != Role::kSender) return;
  if (chunk >= p->chunks.size() || p->chunks[chunk].returned) {
    return world_.laws().broken(Law::kLedger,
                                "chunk " + std::to_string(chunk) + " is returned twice or was never pushed");
  }
  release_chunk(*p, p->chunks[chunk]);
}

// ---- what the engine says
// -------------------------------------------------------------------------------------------

void Users::publish(std::uint32_t node, Handle h, Poll poll) {
  Participant* p = find(node, h);
  if (p == nullptr) return;
  p->shown = poll;
  const auto id = static_cast<std::uint32_t>(p - participants_.data());
  const bool slow = world_.roll(Fault::kSlowUser);
  const Duration soon =
      world_.between(microseconds(10), slow ? Duration(seconds(6)) : Duration(milliseconds(5)));
  if (p->role == Role::kReceiver) {
    if (poll >= Poll::kWaitingForInput && !p->granted) plan(id, UserStep::kGrant, soon);
    if (poll == Poll::kSuccess || poll == Poll::kFailed) {
      if (p->granted) {
        p->complete |= content_complete(*p);
        take_back(*p);
      }
      plan(id, UserStep::kFree,
           poll == Poll::kSuccess ? world_.between(Duration{0}, seconds(1)) : Duration{0});
    }
    return;
  }
  if (poll == Poll::kWaitingForInput && !p->started) plan(id, UserStep::kPush, soon);
  if (poll == Poll::kSuccess || poll == Poll::kFailed) {
    for (Participant::Pushed& c : p->chunks) release_chunk(*p, c);
  }
}

void Users::failing(std::uint32_t node, Handle h, const Error& cause) {
  if (Participant* p = find(node, h)) {
    p->failing = true;
    p->cause = cause;
  }
}

void Users::terminal(std::uint32_t node, Handle h) {
  Participant* p = find(node, h);
  if (p == nullptr) return;
  p->terminal = true;
  --open_;
  ++(p->shown == Poll::kSuccess ? succeeded : failed);
  const auto id = static_cast<std::uint32_t>(p - participants_.data());
  plan(id, UserStep::kClose,
       world_.between(milliseconds(1),
                      world_.rng().chance(0.2) ? Duration(seconds(5)) : Duration(milliseconds(200))));
}

void Users::closed(std::uint32_t node, Handle h) {
  Participant* p = find(node, h);
  if (p == nullptr) return;
  p->closed = true;
  --unclosed_;
  nodes_[node].by_slot[h.slot] = 0;
  nodes_[node].free_slots.push_back(h.slot);
}

}  // namespace kvferry::sim
