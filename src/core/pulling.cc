// The receiver's reads (pull): offers checked, read under a window, released.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

namespace {
constexpr auto kP = static_cast<std::size_t>(Space::kPages);
constexpr auto kA = static_cast<std::size_t>(Space::kAux);
constexpr auto kS = static_cast<std::size_t>(Space::kState);
}  // namespace

bool Engine::State::check_offer(const Room& r, const Leg& leg, const Peer& p, const wire::Offer& o,
                                Cause& why) const {
  const auto differ = [&](const std::string& what, std::uint64_t a, std::uint64_t b) {
    why = cause_of(Code::kMismatch, Who::kPeer, Next::kAfterFix, r,
                   "chunk " + std::to_string(o.chunk) + ": " + what + ": " + std::to_string(a) + " and " +
                       std::to_string(b),
                   &leg);
    return false;
  };
  const std::uint64_t page = cfg.layout.page_tokens;
  const std::uint64_t end = std::uint64_t{o.first_token} + o.tokens;
  if (end > r.spec.tokens) return differ("last token offered and tokens granted", end, r.spec.tokens);
  if (o.first_token % page != 0) return differ("first token and page size", o.first_token, page);
  const std::uint64_t pages = count_of(o.pages);
  if (pages != (o.tokens + page - 1) / page) {
    return differ("pages offered and pages needed", pages, (o.tokens + page - 1) / page);
  }
  std::uint64_t bad = 0;
  if (!in_range(o.pages, p.plan.remote_items[kP], bad)) {
    return differ("page index and pages of prefill", bad, p.plan.remote_items[kP]);
  }
  if (o.aux_slot != kNoSlot && o.aux_slot >= p.plan.remote_items[kA]) {
    return differ("aux slot and aux slots of prefill", o.aux_slot, p.plan.remote_items[kA]);
  }
  if (!o.state_slots.empty() && o.state_slots.size() != r.spec.state_slots.size()) {
    return differ("state slots offered and granted", o.state_slots.size(), r.spec.state_slots.size());
  }
  for (const auto s : o.state_slots) {
    if (s >= p.plan.remote_items[kS])
      return differ("state slot and slots of prefill", s, p.plan.remote_items[kS]);
  }
  const bool aux = o.aux_slot != kNoSlot && r.spec.aux_slot != kNoSlot;
  const std::uint64_t bytes = pages * p.plan.item_bytes[kP] + (aux ? p.plan.item_bytes[kA] : 0) +
                              o.state_slots.size() * p.plan.item_bytes[kS];
  if (bytes != o.bytes) return differ("bytes offered and bytes by the layouts", o.bytes, bytes);
  return true;
}

void Engine::State::on_offer(Peer& p, const wire::Offer& o) {
  Leg* leg = nullptr;
  Room* r = room_of(p, o.grant, leg);
  const bool live =
      r != nullptr && !r->failing && (leg->state == LegState::kGranted || leg->state == LegState::kActive);
  if (live && leg->recalled) return;  // the sender recalled a loan of this grant: its FAIL is on its way
  if (!live) {
    send(p, wire::Release{o.grant, o.chunk, o.ticket.loan});
    return;
  }
  pay_all(p, kind_of<wire::Grant>(), o.grant);
  if (o.chunk >= cfg.limits.chunks_per_room) return refuse_from(p, "OFFER beyond chunks_per_room");
  if (leg->proofs.size() <= o.chunk) leg->proofs.resize(o.chunk + 1);
  const Leg::Proof& proof = leg->proofs[o.chunk];
  if (proof.state == Leg::Proof::State::kProven) {
    owe(p, {kind_of<wire::Release>(), o.grant, o.chunk}, wire::Release{o.grant, o.chunk, o.ticket.loan});
    return;
  }
  if (proof.state == Leg::Proof::State::kReading) return;
  if (!p.ready || !window_open(p)) {  // else it would be said again only after resend_first
    if (p.early_offers.size() < cfg.limits.live_grants_per_peer) p.early_offers.push_back(o);
    return;
  }
  Cause why;
  if (!check_offer(*r, *leg, p, o, why)) {
    fail_room(*r, why);
    return;
  }
  if (o.last && !leg->done) {
    leg->done = true;
    leg->manifest = o.manifest;
  }
  post_read(p, *r, *leg, o);
}

void Engine::State::post_read(Peer& p, Room& r, Leg& leg, const wire::Offer& o) {
  out::Post post;
  post.mover = p.mover;
  post.op = OpId{++op_serial};
  post.access = Access::kRead;
  post.peer = p.id;
  post.ticket = o.ticket;
  post.priority = r.priority;
  const std::uint64_t page = o.first_token / cfg.layout.page_tokens;
  if (leg.cursor.position() != page) {
    leg.cursor = RunCursor{};
    leg.cursor.skip(r.spec.pages, page);
  }
  leg.cursor.pair(r.spec.pages, o.pages, true, post.runs[kP]);
  if (p.plan.planes[kP].empty()) post.runs[kP].clear();
  if (o.aux_slot != kNoSlot && r.spec.aux_slot != kNoSlot) post.runs[kA] = {{r.spec.aux_slot, o.aux_slot, 1}};
  for (std::size_t k = 0; k < o.state_slots.size(); ++k) {
    post.runs[kS].push_back({r.spec.state_slots[k], o.state_slots[k], 1});
  }
  Op op;
  op.peer = p.id;
  op.grant = o.grant;
  op.room = r.handle;
  op.leg = static_cast<std::uint32_t>(&leg - r.legs.data());
  op.chunk = o.chunk;
  op.bytes = o.bytes;
  op.access = Access::kRead;
  ops.emplace(post.op.value, op);
  ++count.ops_posted;
  ++p.ops;
  p.bytes_in_flight += o.bytes;
  ++leg.reads;
  leg.proofs[o.chunk].state = Leg::Proof::State::kReading;
  leg.proofs[o.chunk].loan = o.ticket.loan;
  leg_event(r, leg, LegEvent::kByte);
  r.first_byte = true;
  r.progressed = acc();
  emit(std::move(post));
  join(r);
}

void Engine::State::take_early_offers(Peer& p) {
  while (p.ready && !p.early_offers.empty() && window_open(p)) {
    const wire::Offer o = std::move(p.early_offers.front());
    p.early_offers.pop_front();
    on_offer(p, o);
  }
}

void Engine::State::read_ended(OpId id, Op& op) {
  if (Peer* p = find_peer(op.peer); p != nullptr) {
    if (p->ops > 0) --p->ops;
    p->bytes_in_flight -= std::min(p->bytes_in_flight, op.bytes);
  }
  read_done(id, op);
  if (Peer* p = find_peer(op.peer); p != nullptr) unblock(*p);
}

void Engine::State::read_done(OpId, Op& op) {
  Room* r = find(op.room);
  if (r == nullptr) return;
  Leg& leg = r->legs[op.leg];
  if (leg.reads > 0) --leg.reads;
  Peer* p = find_peer(op.peer);
  if (p == nullptr) return;
  if (r->failing) return maybe_quiet(*r, leg);
  Leg::Proof& proof = leg.proofs[op.chunk];
  if (op.failed) {
    // Its lease ended under us (the sender's FAIL names the cause), or it may be read again when the OFFER
    // comes again: the deadlines "refused" and "progress" bound these waits.
    proof.state = Leg::Proof::State::kNone;
    return;
  }
  if (!leg.recalled && leg.refused_chunk == op.chunk) leg.refusal = {};
  const LoanId loan = proof.loan;
  proof.state = Leg::Proof::State::kNone;
  owe(*p, {kind_of<wire::Release>(), op.grant, op.chunk}, wire::Release{op.grant, op.chunk, loan});
  proven(*r, leg, op.chunk, op.bytes);
}

}  // namespace kvferry::core
