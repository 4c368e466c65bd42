// The sender's bytes: chunks posted (push) or offered (pull), source pages held and returned, DONE and its
// answer.
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

void Engine::State::advance_all(Room& r) {
  const Handle h = r.handle;
  for (std::size_t k = 0; k < r.legs.size(); ++k) {
    Peer* p = find_peer(r.legs[k].peer);
    if (p == nullptr) continue;
    const auto g = p->in.find(r.legs[k].number);
    if (g != p->in.end()) advance(*p, g->second);
    if (find(h) == nullptr || r.failing) return;
  }
}

void Engine::State::advance(Peer& p, GrantIn& g) {
  const Handle h = g.room;
  const GrantNumber number = g.grant.number;
  for (;;) {
    Room* r = find(h);
    if (r == nullptr || r->failing || r->terminal || g.state != GrantIn::State::kBound) return;
    if (g.next_chunk >= r->chunks.size()) break;
    if (!r->chunks[g.next_chunk].fired || !p.ready || !r->legs[g.grant.leg].refusal.ok()) return;
    if (!post_chunk(p, *r, g)) return;
    if (p.in.find(number) == p.in.end()) return;
  }
  Room* r = find(h);
  if (r == nullptr || !r->pushed_last) return;
  g.last_posted = true;
  maybe_done(p, *r, g);
}

// May one more operation go to this peer? If not, the peer is put on the list of those that wait for the
// manager.
bool Engine::State::window_open(Peer& p) {
  const bool peer_full =
      p.ops >= cfg.limits.ops_in_flight_per_peer || p.bytes_in_flight >= cfg.limits.bytes_in_flight_per_peer;
  const bool all_full = ops.size() >= cfg.limits.ops_in_flight;
  if (!peer_full && !all_full) return true;
  const bool listed = std::find(blocked_peers.begin(), blocked_peers.end(), p.id) != blocked_peers.end();
  if (all_full && !listed) blocked_peers.push_back(p.id);
  return false;
}

// Posts (push) or offers (pull) the next chunk to one leg. false: it must wait, or the room failed.
bool Engine::State::post_chunk(Peer& p, Room& r, GrantIn& g) {
  const bool pull = g.grant.access == Access::kRead;
  if (!pull && !window_open(p)) {
    const bool waits = std::find(p.blocked.begin(), p.blocked.end(), g.grant.number) != p.blocked.end();
    if (!waits) p.blocked.push_back(g.grant.number);
    return false;
  }
  Chunk& c = r.chunks[g.next_chunk];
  const bool last = r.pushed_last && g.next_chunk + 1 == r.chunks.size();
  Pieces pieces;
  if (!chunk_pieces(p, r, g, c, last, pieces)) return false;
  ++g.next_chunk;
  ++c.passed;
  g.tokens += pieces.tokens;
  g.entries.push_back({pieces.tokens, pieces.bytes});
  g.loans.push_back({});
  r.posted_any = true;
  r.progressed = acc();
  if (pieces.bytes == 0) {   // nothing to send is still said: DONE lists the chunk
    return_chunks(r);
    return true;
  }
  leg_event(r, r.legs[g.grant.leg], LegEvent::kByte);
  if (pull) {
    if (!offer_chunk(p, r, g, pieces, last)) return false;
  } else {
    post_write(p, r, g, c, pieces);
  }
  join(r);
  return true;
}

void Engine::State::post_write(Peer& p, const Room& r, GrantIn& g, Chunk& c, Pieces& pieces) {
  Op op;
  op.peer = p.id;
  op.grant = g.grant.number;
  op.room = r.handle;
  op.leg = g.grant.leg;
  op.chunk = static_cast<std::uint32_t>(g.entries.size() - 1);
  op.source = g.next_chunk - 1;
  op.bytes = pieces.bytes;
  out::Post post;
  post.mover = p.mover;
  post.op = OpId{++op_serial};
  post.peer = p.id;
  post.ticket = g.grant.ticket;
  post.runs = std::move(pieces.runs);
  post.priority = r.priority;
  for (std::size_t k = 0; k < 8; ++k) post.notice.bytes[k] = static_cast<std::byte>(op.grant >> (8 * k));
  for (std::size_t k = 0; k < 4; ++k) post.notice.bytes[8 + k] = static_cast<std::byte>(op.chunk >> (8 * k));
  post.notice.size = 12;
  ops.emplace(post.op.value, op);
  ++c.holds;
  ++g.outstanding;
  ++g.incomplete;
  ++p.ops;
  p.bytes_in_flight += pieces.bytes;
  ++count.ops_posted;
  emit(std::move(post));
}

// Which items of the chunk go where. Fails the room (and returns false) when both sides' numbers do not fit.
bool Engine::State::chunk_pieces(Peer& p, Room& r, GrantIn& g, Chunk& c, bool last, Pieces& out_pieces) {
  auto& [runs, items, tokens, bytes] = out_pieces;
  const std::uint32_t page = cfg.layout.page_tokens;
  const auto differ = [&](const std::string& what, std::uint64_t a, std::uint64_t b) {
    fail_room(r,
              cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                       what + ": " + std::to_string(a) + " and " + std::to_string(b), &r.legs[g.grant.leg]));
    return false;
  };
  const std::uint32_t at = r.base_tokens + c.first_token;   // position in the prompt
  const std::uint32_t from = g.grant.prefix_tokens;
  if (r.base_tokens > from) return differ("first token pushed and decode's prefix", r.base_tokens, from);
  const std::uint32_t skipped = at >= from ? 0 : std::min(c.spec.tokens, from - at);
  tokens = c.spec.tokens - skipped;
  if (std::uint64_t{g.tokens} + tokens > g.grant.tokens) {
    return differ("tokens pushed and tokens granted", std::uint64_t{g.tokens} + tokens, g.grant.tokens);
  }
  items[kP] = skipped == 0 ? c.spec.pages : tail_of(c.spec.pages, skipped / page);
  const std::uint64_t pages = count_of(items[kP]);
  bytes = pages * p.plan.item_bytes[kP];
  const bool push = g.grant.access == Access::kWrite;
  if (push) {
    g.cursor.pair(g.grant.pages, items[kP], false, runs[kP]);
    if (p.plan.planes[kP].empty()) runs[kP].clear();
  }
  return !last || last_pieces(p, r, g, c, out_pieces);
}

// Aux and state travel with the last chunk and have the same guarantees.
bool Engine::State::last_pieces(Peer& p, Room& r, GrantIn& g, Chunk& c, Pieces& out_pieces) {
  auto& [runs, items, tokens, bytes] = out_pieces;
  const auto differ = [&](const std::string& what, std::uint64_t a, std::uint64_t b) {
    fail_room(r,
              cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                       what + ": " + std::to_string(a) + " and " + std::to_string(b), &r.legs[g.grant.leg]));
    return false;
  };
  if (std::uint64_t{g.tokens} + tokens != g.grant.tokens) {
    return differ("tokens pushed in all and tokens granted", std::uint64_t{g.tokens} + tokens,
                  g.grant.tokens);
  }
  if (g.grant.aux_slot != kNoSlot && p.plan.item_bytes[kA] > 0) {
    if (c.spec.aux_slot == kNoSlot) {
      return differ("aux slots lent by decode and aux slots pushed", 1, 0);
    }
    items[kA] = {{c.spec.aux_slot, 1}};
    runs[kA] = {{c.spec.aux_slot, g.grant.aux_slot, 1}};
    bytes += p.plan.item_bytes[kA];
  }
  if (p.plan.item_bytes[kS] > 0) {
    if (c.spec.state_slots.size() != g.grant.state_slots.size()) {
      return differ("state slots pushed and state slots lent", c.spec.state_slots.size(),
                    g.grant.state_slots.size());
    }
    for (std::size_t k = 0; k < c.spec.state_slots.size(); ++k) {
      items[kS].push_back({c.spec.state_slots[k], 1});
      runs[kS].push_back({c.spec.state_slots[k], g.grant.state_slots[k], 1});
    }
    bytes += p.plan.item_bytes[kS] * c.spec.state_slots.size();
  }
  return true;
}

bool Engine::State::offer_chunk(Peer& p, Room& r, GrantIn& g, Pieces& pieces, bool last) {
  auto& items = pieces.items;
  LoanRec rec;
  rec.peer = p.id;
  rec.grant = g.grant.number;
  rec.room = r.handle;
  rec.leg = g.grant.leg;
  rec.chunk = static_cast<std::uint32_t>(g.entries.size() - 1);
  rec.source = g.next_chunk - 1;
  rec.access = Access::kRead;
  rec.mover = p.mover;
  const LoanId id = take_loan(rec);
  if (id.serial == 0) {
    fail_room(r, cause_of(Code::kExhausted, Who::kLocal, Next::kRetry, r,
                          "loans (" + std::to_string(cfg.limits.loans) + ") are all in use"));
    return false;
  }
  g.loans.back() = id;
  ++g.outstanding;
  ++r.chunks[rec.source].holds;
  out::Lend lend;
  lend.mover = p.mover;
  lend.loan = id;
  lend.token = token_of(id);
  lend.peer = p.id;
  lend.room = rec.room;
  lend.access = Access::kRead;
  lend.items = items;
  emit(std::move(lend));
  wire::Offer o;
  o.grant = g.grant.number;
  o.chunk = rec.chunk;
  o.ticket = {id, token_of(id)};
  o.first_token = g.tokens - pieces.tokens;
  o.tokens = pieces.tokens;
  o.bytes = pieces.bytes;
  o.pages = items[kP];
  const auto& aux = items[kA];
  if (!aux.empty()) o.aux_slot = aux[0].first;
  for (const auto& s : items[kS]) o.state_slots.push_back(s.first);
  o.last = last;
  if (last) {
    o.manifest.chunks = g.entries;
    o.manifest.tokens = g.tokens;
    for (const auto& e : g.entries) o.manifest.bytes += e.bytes;
  }
  owe(p, {kind_of<wire::Offer>(), o.grant, o.chunk}, o);
  return true;
}

void Engine::State::maybe_done(Peer& p, Room& r, GrantIn& g) {
  if (!g.last_posted || g.done_said || g.state != GrantIn::State::kBound || r.failing) return;
  if (!r.legs[g.grant.leg].refusal.ok()) return;
  const std::uint32_t left =
      mut(Mutant::kDoneBeforeQuiesced) && g.grant.access == Access::kWrite ? g.incomplete : g.outstanding;
  if (left > 0) return;
  if (g.tokens != g.grant.tokens) {
    // A last chunk that came before the grant was known to want more.
    fail_room(r, cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                          "tokens pushed in all and tokens granted: " + std::to_string(g.tokens) + " and " +
                              std::to_string(g.grant.tokens),
                          &r.legs[g.grant.leg]));
    return;
  }
  g.done_said = true;
  r.progressed = acc();
  wire::Done d;
  d.grant = g.grant.number;
  d.manifest.chunks = g.entries;
  d.manifest.tokens = g.tokens;
  for (const auto& e : g.entries) d.manifest.bytes += e.bytes;
  owe(p, {kind_of<wire::Done>(), d.grant, 0}, std::move(d));
}

// A push operation has quiesced: nothing of it can move or read any more.
void Engine::State::op_ended(OpId, Op& op) {
  if (op.holds) chunk_done(op.room, op.source, true);
  Peer* p = find_peer(op.peer);
  if (p == nullptr) return;
  if (p->ops > 0) --p->ops;
  p->bytes_in_flight -= std::min(p->bytes_in_flight, op.bytes);
  if (!op.failed) count.bytes_sent += op.bytes;
  if (Room* r = find(op.room); r != nullptr) {
    if (!op.failed) r->bytes += op.bytes;
    r->progressed = acc();
    if (r->role == Role::kSender && mover_of(*p).visible == Visible::kRemoteLanded && !r->failing) {
      send(*p, wire::Computing{op.grant, ++r->own_renewals});   // a word for decode, which sees no byte
    }
  }
  const auto g = p->in.find(op.grant);
  if (g != p->in.end()) {
    if (g->second.outstanding > 0) --g->second.outstanding;
    settle_grant(*p, op.grant);
  }
  unblock(*p);
  sweep.push_back(p->id);
}

// Room in the windows again: first the peer whose operation ended, then the others in turn. Entries may be
// stale.
void Engine::State::unblock(Peer& first) {
  advance_blocked(first);
  for (std::size_t most = blocked_peers.size(); most > 0 && ops.size() < cfg.limits.ops_in_flight; --most) {
    const PeerId next = blocked_peers.front();
    blocked_peers.erase(blocked_peers.begin());
    if (Peer* p = find_peer(next); p != nullptr) advance_blocked(*p);
  }
}

// Stops at the first that finds the window full again: walking the whole list for each operation is
// quadratic.
void Engine::State::advance_blocked(Peer& p) {
  auto numbers = std::move(p.blocked);
  p.blocked.clear();
  std::size_t next = 0;
  while (next < numbers.size() && window_open(p)) {
    if (const auto g = p.in.find(numbers[next++]); g != p.in.end()) advance(p, g->second);
  }
  numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(next));
  numbers.insert(numbers.end(), p.blocked.begin(), p.blocked.end());  // blocked again: behind the others
  p.blocked = std::move(numbers);
  take_early_offers(p);
}

// The count of what may still move under a grant went down.
void Engine::State::settle_grant(Peer& p, GrantNumber number) {
  const auto it = p.in.find(number);
  if (it == p.in.end()) return;
  GrantIn& g = it->second;
  if (g.state == GrantIn::State::kBound) {
    if (Room* r = find(g.room); r != nullptr) maybe_done(p, *r, g);
    return;
  }
  if (g.state != GrantIn::State::kEnded || g.outstanding > 0) return;
  const bool alive = !p.ended;
  if (alive && g.revoke_asked) owe(p, {kind_of<wire::Revoked>(), number, 0}, wire::Revoked{number});
  if (alive && g.fail_said) owe(p, {kind_of<wire::Fail>(), number, 0}, wire::Fail{number, true, g.cause});
  Leg* leg = leg_of(g);
  Room* r = leg != nullptr ? find(g.room) : nullptr;
  p.in.erase(it);
  sweep.push_back(p.id);
  if (r != nullptr) {
    leg_event(*r, *leg, LegEvent::kDrained);
    join(*r);
  }
}

// One hold of a source chunk is gone.
void Engine::State::chunk_done(Handle h, std::uint32_t source, bool held) {
  Room* r = find(h);
  if (r == nullptr || source >= r->chunks.size()) return;
  Chunk& c = r->chunks[source];
  if (held && c.holds > 0) --c.holds;
  if (c.holds == 0) return_chunks(*r);
}

// Rule 9: source pages return when no operation of any leg can touch them, and no leg will need them.
void Engine::State::return_chunks(Room& r) {
  if (r.role != Role::kSender) return;
  while (r.first_held < r.chunks.size() && r.chunks[r.first_held].returned) ++r.first_held;
  for (std::size_t k = r.first_held; k < r.chunks.size(); ++k) {
    Chunk& c = r.chunks[k];
    if (c.returned || c.holds > 0) continue;
    const bool passed = r.legs_required > 0 && c.passed >= r.legs_required;
    if (!passed && !r.failing && !r.terminal) continue;
    c.returned = true;
    hold_source(c.spec, -1);
    emit(out::ChunkReturned{r.handle, static_cast<std::uint32_t>(k)});
  }
}

// Pull: the receiver has taken this chunk, or never will.
void Engine::State::on_release(Peer& p, const wire::Release& m) {
  ack(p, What::kRelease, m.grant, m.chunk);
  pay(p, kind_of<wire::Offer>(), m.grant, m.chunk);
  const auto it = p.in.find(m.grant);
  if (it == p.in.end() || m.chunk >= it->second.loans.size()) return;
  GrantIn& g = it->second;
  const LoanId loan = g.loans[m.chunk];
  if (loan != m.loan && !mut(Mutant::kReleaseByRoom)) return;
  if (LoanRec* rec = find_loan(loan); rec != nullptr && !rec->revoking) {
    if (Room* r = find(g.room); r != nullptr && !r->failing) {
      r->progressed = acc();
      r->bytes += g.entries[m.chunk].bytes;
      count.bytes_sent += g.entries[m.chunk].bytes;
    }
    revoke_loan(loan);
  }
}

void Engine::State::on_done_ack(Peer& p, const wire::Ack& a) {
  pay(p, kind_of<wire::Done>(), a.grant, 0);
  const auto it = p.in.find(a.grant);
  if (it == p.in.end() || it->second.state != GrantIn::State::kBound) return;
  Leg* leg = leg_of(it->second);
  Room* r = leg != nullptr ? find(it->second.room) : nullptr;
  if (r == nullptr) return;
  if (a.outcome == Outcome::kSealed) {
    p.in.erase(it);
    sweep.push_back(p.id);
    leg_event(*r, *leg, LegEvent::kSeal);
    join(*r);
  } else if (a.outcome == Outcome::kUnknown) {
    fail_room(*r, cause_of(Code::kPeerLost, Who::kPeer, Next::kNewRoom, *r,
                           "decode knows nothing of this grant", leg));
  }
  // kFailed: decode's REVOKE brings the cause; the progress deadline bounds the wait.
}

void Engine::State::on_renew(Peer& p, const wire::Renew& m) {
  wire::Renewed answer;
  for (const auto& item : m.items) {
    const auto it = by_id.find({item.room.value, static_cast<std::uint8_t>(Role::kSender)});
    Room* r = it == by_id.end() ? nullptr : find(it->second);
    if (r != nullptr && mut(Mutant::kRenewalRevives) && r->failing) {
      r->failing = false;
      r->terminal = false;
    }
    if (r == nullptr || r->failing || r->terminal) {
      answer.items.push_back({item.room, 0});
      continue;
    }
    if (item.number > r->renew_number) {
      r->renew_number = item.number;
      r->renewed = acc();
    }
    answer.items.push_back({item.room, r->renew_number});
  }
  send(p, std::move(answer));
}

}  // namespace kvferry::core
