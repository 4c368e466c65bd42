// Faults of a mover, laid over a real one. What it keeps it treats as a network card would: a kept operation
// ignores cancel (a hint) and ends when it is released or when the path is fenced.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "kvferry/testkit.h"
#include "testkit/kept_operation.h"
#include "testkit/node_parts.h"

namespace kvferry::testkit {

struct FaultMover::Rep {
  std::unique_ptr<Transport> inner;
  Lander* lander = nullptr;  // null: the inner mover checks every loan itself
  bool holding = false;
  std::uint64_t posts = 0;

  std::optional<Error> next_refused, next_half;
  bool next_late = false, next_lost = false, next_doubled = false;

  std::deque<KeptOperation> held;      // until release()
  std::deque<KeptOperation> going;     // released, on their way to the inner mover
  std::deque<KeptOperation> late;      // completed with an error already, until release_late()
  std::set<std::uint64_t> late_going;  // handed on by release_late(): only Quiesced is still to be said
  std::map<std::uint64_t, Error> half;
  std::set<std::uint64_t> doubled;
  struct Lost {
    PeerId peer;
    std::vector<Event> kept;
  };
  std::map<std::uint64_t, Lost> lost;
  std::deque<Event> events;
  std::vector<Event> buffer = std::vector<Event>(64);

  void say(Event::Kind kind, OpId op, PeerId peer, Error error = {});
  void end(const KeptOperation&, Error error);
  Result<> hand_on(const KeptOperation&, bool late_one);
  void pump();
  void filter(Event&);
  void forget(OpId);
  void drop_kept(PeerId, const Error& why);
  std::size_t tell_lost(std::optional<PeerId> only);
};

void FaultMover::Rep::say(Event::Kind kind, OpId op, PeerId peer, Error error) {
  Event event;
  event.kind = kind;
  event.op = op;
  event.peer = peer;
  event.error = std::move(error);
  events.push_back(std::move(event));
}

void FaultMover::Rep::end(const KeptOperation& operation, Error error) {
  Event completed;
  completed.kind = Event::Kind::kCompleted;
  completed.op = operation.op;
  completed.peer = operation.peer;
  completed.bytes = operation.groups.bytes();
  completed.error = std::move(error);
  filter(completed);
  Event quiesced;
  quiesced.kind = Event::Kind::kQuiesced;
  quiesced.op = operation.op;
  quiesced.peer = operation.peer;
  filter(quiesced);
}

// Kept operations of a one-sided mover land as a card would place them, whether or not the loan was recalled
// meanwhile.
Result<> FaultMover::Rep::hand_on(const KeptOperation& operation, bool late_one) {
  const bool one_sided = lander != nullptr && inner->capabilities().visible == Visible::kRemoteLanded;
  if (!one_sided) {
    if (late_one) late_going.insert(operation.op.value);
    return inner->post(operation.view());
  }
  const Result<> landed = lander->land(operation.view());
  if (late_one) {
    say(Event::Kind::kQuiesced, operation.op, operation.peer);
  } else {
    end(operation, landed ? Error{} : landed.error());
  }
  return {};
}

void FaultMover::Rep::pump() {
  while (!going.empty()) {
    const Result<> handed = hand_on(going.front(), false);
    if (!handed && handed.error().code == Code::kWouldBlock) return;
    if (!handed) end(going.front(), handed.error());
    going.pop_front();
  }
}

void FaultMover::Rep::filter(Event& event) {
  const std::uint64_t op = event.op.value;
  if (event.kind == Event::Kind::kArrived && KeptOperation::is_half(event.notice)) return;
  if (event.kind != Event::Kind::kCompleted && event.kind != Event::Kind::kQuiesced) {
    events.push_back(std::move(event));
    return;
  }
  const bool completed = event.kind == Event::Kind::kCompleted;
  if (late_going.contains(op)) {
    if (completed) return;
    late_going.erase(op);
  }
  if (const auto torn = half.find(op); completed && torn != half.end()) {
    event.error = std::move(torn->second);
    half.erase(torn);
  }
  if (const auto silent = lost.find(op); silent != lost.end()) {
    silent->second.kept.push_back(std::move(event));
    return;
  }
  if (completed && doubled.erase(op) != 0) events.push_back(event);
  events.push_back(std::move(event));
}

void FaultMover::Rep::forget(OpId op) {
  half.erase(op.value);
  doubled.erase(op.value);
  lost.erase(op.value);
}

void FaultMover::Rep::drop_kept(PeerId peer, const Error& why) {
  for (std::deque<KeptOperation>* queue : {&held, &going}) {
    std::erase_if(*queue, [&](const KeptOperation& operation) {
      if (operation.peer != peer) return false;
      end(operation, why);
      return true;
    });
  }
  std::erase_if(late, [&](const KeptOperation& operation) {
    if (operation.peer != peer) return false;
    say(Event::Kind::kQuiesced, operation.op, operation.peer);
    return true;
  });
}

std::size_t FaultMover::Rep::tell_lost(std::optional<PeerId> only) {
  std::size_t told = 0;
  for (auto silent = lost.begin(); silent != lost.end();) {
    if (only && silent->second.peer != *only) {
      ++silent;
      continue;
    }
    ++told;
    for (Event& event : silent->second.kept) events.push_back(std::move(event));
    silent = lost.erase(silent);
  }
  return told;
}

FaultMover::FaultMover(std::unique_ptr<Transport> inner) : rep_(std::make_unique<Rep>()) {
  rep_->lander = dynamic_cast<Lander*>(inner.get());
  rep_->inner = std::move(inner);
}
FaultMover::~FaultMover() = default;

void FaultMover::hold() { rep_->holding = true; }

std::size_t FaultMover::release() {
  rep_->holding = false;
  const std::size_t count = rep_->held.size();
  for (KeptOperation& operation : rep_->held) rep_->going.push_back(std::move(operation));
  rep_->held.clear();
  rep_->pump();
  return count;
}

std::size_t FaultMover::held() const { return rep_->held.size(); }
void FaultMover::fail_next_submit(Error error) { rep_->next_refused = std::move(error); }
void FaultMover::fail_next_halfway(Error error) { rep_->next_half = std::move(error); }
void FaultMover::land_late() { rep_->next_late = true; }
void FaultMover::lose_next_completion() { rep_->next_lost = true; }
void FaultMover::double_next_completion() { rep_->next_doubled = true; }
std::uint64_t FaultMover::posts() const { return rep_->posts; }

std::size_t FaultMover::release_late() {
  std::deque<KeptOperation> landing;
  landing.swap(rep_->late);
  for (const KeptOperation& operation : landing) {
    if (rep_->hand_on(operation, true)) continue;
    rep_->late_going.erase(operation.op.value);  // its loan is gone: nothing of it can land any more
    rep_->say(Event::Kind::kQuiesced, operation.op, operation.peer);
  }
  return landing.size() + rep_->tell_lost(std::nullopt);
}

const Capabilities& FaultMover::capabilities() const noexcept { return rep_->inner->capabilities(); }
Result<> FaultMover::add_region(RegionId id, const RegionView& view) {
  return rep_->inner->add_region(id, view);
}
Result<> FaultMover::drop_region(RegionId id) { return rep_->inner->drop_region(id); }
std::vector<std::byte> FaultMover::describe() const { return rep_->inner->describe(); }
Result<> FaultMover::add_peer(PeerId peer, std::span<const std::byte> description) {
  return rep_->inner->add_peer(peer, description);
}

void FaultMover::drop_peer(PeerId peer) {
  rep_->drop_kept(peer,
                  Error{Code::kPeerLost, Who::kPeer, Next::kNewRoom, 0, "operation", "the peer was dropped"});
  rep_->tell_lost(peer);
  rep_->inner->drop_peer(peer);
}

Result<> FaultMover::fence(PeerId peer) {
  rep_->drop_kept(
      peer, Error{Code::kTransport, Who::kLocal, Next::kNewRoom, 0, "operation", "the peer was fenced here"});
  rep_->tell_lost(peer);
  return rep_->inner->fence(peer);
}

Result<> FaultMover::lend(const Loan& loan) { return rep_->inner->lend(loan); }
Result<> FaultMover::revoke(LoanId loan) { return rep_->inner->revoke(loan); }

Result<> FaultMover::post(const Operation& operation) {
  Rep& rep = *rep_;
  if (rep.next_refused) {
    Error refused = std::move(*rep.next_refused);
    rep.next_refused.reset();
    return tl::unexpected(std::move(refused));
  }
  if (std::exchange(rep.next_late, false)) {
    ++rep.posts;
    rep.late.push_back(KeptOperation::copy(operation));
    rep.say(Event::Kind::kCompleted, operation.op, operation.peer,
            Error{Code::kTransport, Who::kTransport, Next::kNewRoom, 0, "operation",
                  "failed, and may still land (test kit)"});
    return {};
  }
  if (std::exchange(rep.next_lost, false)) rep.lost[operation.op.value].peer = operation.peer;
  if (std::exchange(rep.next_doubled, false)) rep.doubled.insert(operation.op.value);
  KeptOperation kept;
  if (rep.next_half) {
    kept = KeptOperation::half(operation);
    rep.half.emplace(operation.op.value, std::move(*rep.next_half));
    rep.next_half.reset();
  } else if (!rep.holding && rep.going.empty()) {
    const Result<> posted = rep.inner->post(operation);
    if (posted) {
      ++rep.posts;
    } else {
      rep.forget(operation.op);
    }
    return posted;
  } else {
    kept = KeptOperation::copy(operation);
  }
  ++rep.posts;
  if (kept.empty() && rep.half.contains(kept.op.value)) {
    rep.end(kept, {});
  } else {
    (rep.holding ? rep.held : rep.going).push_back(std::move(kept));
  }
  return {};
}

void FaultMover::cancel(OpId op) noexcept { rep_->inner->cancel(op); }

std::size_t FaultMover::progress(std::span<Event> out) {
  Rep& rep = *rep_;
  rep.pump();
  const std::size_t got = rep.inner->progress(rep.buffer);
  for (std::size_t i = 0; i < got; ++i) {
    rep.filter(rep.buffer[i]);
    rep.buffer[i] = Event{};
  }
  const std::size_t count = std::min(out.size(), rep.events.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = std::move(rep.events.front());
    rep.events.pop_front();
  }
  return count;
}

bool FaultMover::busy() const noexcept {
  return !rep_->events.empty() || !rep_->going.empty() || rep_->inner->busy();
}
int FaultMover::wake_fd() const noexcept { return rep_->inner->wake_fd(); }

}  // namespace kvferry::testkit
