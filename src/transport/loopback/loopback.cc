#include "transport/loopback/loopback.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "transport/cursor.h"
#include "transport/loans.h"
#include "transport/path_events.h"
#include "transport/regions.h"

namespace kvferry::transport {
namespace {

constexpr std::uint64_t kQuantum = 1ULL << 20;  // bytes copied by one progress()
constexpr std::uint32_t kDescriptionMagic = 0x4B564C42;
constexpr std::size_t kDescriptionBytes = 13;

Capabilities declared(LoopbackKind kind) {
  Capabilities c;
  c.name = kind == LoopbackKind::kPush   ? "loopback-push"
           : kind == LoopbackKind::kPull ? "loopback-pull"
                                         : "loopback-landed";
  c.memory = static_cast<std::uint8_t>(Memory::kHost);
  c.access = kind == LoopbackKind::kPull ? Access::kRead : Access::kWrite;
  c.visible = kind == LoopbackKind::kLanded ? Visible::kRemoteLanded : Visible::kReceiverPlaced;
  c.revoke = kind == LoopbackKind::kLanded ? RevokeMode::kMoverDrains : RevokeMode::kLenderStops;
  c.fence = kind == LoopbackKind::kLanded ? FenceMode::kBounded : FenceMode::kAtOnce;
  c.same_host_only = true;
  return c;
}

}  // namespace

// Which side calls move(): the target of a kPush (it places), the poster of the other two; see progress().
class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackFabric> fabric, LoopbackKind kind)
      : fabric_(std::move(fabric)),
        kind_(kind),
        capabilities_(declared(kind)),
        address_(fabric_->join(this)),
        regions_(capabilities_.name, capabilities_.memory),
        loans_(capabilities_.name, capabilities_.max_loans) {}
  ~LoopbackTransport() override { fabric_->leave(address_); }  // its operations are gone with it

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<> add_region(RegionId, const RegionView&) override;
  Result<> drop_region(RegionId id) override { return regions_.drop(id); }
  std::vector<std::byte> describe() const override;
  Result<> add_peer(PeerId, std::span<const std::byte>) override;
  void drop_peer(PeerId) override;
  Result<> fence(PeerId) override;
  Result<> lend(const Loan&) override;
  Result<> revoke(LoanId) override;
  Result<> post(const Operation&) override;
  void cancel(OpId) noexcept override;
  std::size_t progress(std::span<Event> out) override;
  bool busy() const noexcept override;
  int wake_fd() const noexcept override { return -1; }

 private:
  struct Op {  // posted here and not ended
    OpId id;
    PeerId peer;
    std::uint64_t target = 0;  // address
    Ticket ticket;
    Notice notice;
    OwnedGroups groups;
    RegionHold hold;
    Cursor cursor;
    std::uint8_t priority = 0;
    bool started = false, cancelled = false;
  };
  struct Peer {
    std::uint64_t address = 0;
    bool fenced = false;
  };

  Event event_of(Event::Kind kind) const {
    Event event;
    event.kind = kind;
    return event;
  }
  Error failure(Code code, Who who, const Op& op, std::string why) const {
    return {code,
            who,
            Next::kNewRoom,
            0,
            capabilities_.name + " operation " + std::to_string(op.id.value),
            std::move(why)};
  }
  std::optional<PeerId> live_peer(
      std::uint64_t address) const;  // as this side knows it; none: unknown or fenced
  Error stopper(const Op&) const;  // why this operation of ours must end; ok: it need not
  void end(const Op&, Error);  // Completed and Quiesced; the caller erases it
  void end_stopped();  // cancelled, fenced, or the peer died
  // Copies up to `budget` bytes of `op` of `poster` from or to this side's lent memory. True: the operation
  // ended.
  bool move(LoopbackTransport& poster, Op& op, std::uint64_t& budget);
  void move_ops_of(LoopbackTransport& poster, std::uint64_t& budget);  // those that name memory of this side
  bool has_ops_to(std::uint64_t address) const;
  bool still_written(LoanId) const;
  void settle_revokes();

  std::shared_ptr<LoopbackFabric> fabric_;
  LoopbackKind kind_;
  Capabilities capabilities_;
  std::uint64_t address_ = 0;
  RegionTable regions_;
  LoanTable loans_;
  std::map<PeerId, Peer> peers_;
  std::deque<Op> ops_;  // by priority, then as posted
  std::deque<Event> events_;
  std::map<LoanId, RegionHold>
      draining_;  // kLanded: revoked, maybe still written by an operation that had begun
};

std::uint64_t LoopbackFabric::join(LoopbackTransport* transport) {
  live_[next_] = transport;
  return next_++;
}
void LoopbackFabric::leave(std::uint64_t address) { live_.erase(address); }
LoopbackTransport* LoopbackFabric::at(std::uint64_t address) const {
  const auto it = live_.find(address);
  return it == live_.end() ? nullptr : it->second;
}

Result<> LoopbackTransport::add_region(RegionId id, const RegionView& view) {
  if (auto ok = regions_.add(id, view); !ok) return ok;
  Event event = event_of(Event::Kind::kRegionReady);
  event.region = id;
  events_.push_back(std::move(event));
  return {};
}

std::vector<std::byte> LoopbackTransport::describe() const {
  std::vector<std::byte> description(kDescriptionBytes);
  Writer writer(description);
  writer.u32(kDescriptionMagic);
  writer.u64(address_);
  writer.u8(static_cast<std::uint8_t>(kind_));
  return description;
}

Result<> LoopbackTransport::add_peer(PeerId id, std::span<const std::byte> description) {
  const std::string what = capabilities_.name + " peer " + std::to_string(id.value);
  Reader reader(description);
  const bool ours = reader.u32() == kDescriptionMagic;
  const std::uint64_t address = reader.u64();
  const bool same_kind = reader.u8() == static_cast<std::uint8_t>(kind_);
  if (!ours || !same_kind || !reader.at_end()) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kAfterFix, what,
                "its description of " + std::to_string(description.size()) + " bytes is not of a " +
                    capabilities_.name + " mover");
  }
  if (peers_.contains(id))
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what, "this id was used before");
  if (live_peer(address)) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what,
                "peer " + std::to_string(live_peer(address)->value) +
                    " is the same transport; fence or drop it first");
  }
  peers_[id] = {address, false};
  Event event = event_of(Event::Kind::kPeerReady);
  event.peer = id;
  if (fabric_->at(address) == nullptr) {
    event.error = {Code::kPeerLost,
                   Who::kPeer,
                   Next::kNewRoom,
                   0,
                   what,
                   "nothing lives at address " + std::to_string(address) + " of this fabric"};
  }
  events_.push_back(std::move(event));
  return {};
}

void LoopbackTransport::drop_peer(PeerId id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;
  peer->second.fenced = true;
  end_stopped();
  for (const LoanId loan : loans_.lent_to(id)) static_cast<void>(loans_.revoke(loan, regions_));
  peers_.erase(peer);
  forget_path(events_, id);
}

Result<> LoopbackTransport::fence(PeerId id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever,
                capabilities_.name + " peer " + std::to_string(id.value), "no such peer is known");
  }
  peer->second.fenced = true;  // from here on move() refuses everything of that peer, begun or not
  Event event = event_of(Event::Kind::kPeerFenced);
  event.peer = id;
  end_stopped();
  events_.push_back(std::move(event));
  return {};
}

Result<> LoopbackTransport::lend(const Loan& loan) {
  if (!peers_.contains(loan.peer)) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever,
                capabilities_.name + " loan " + std::to_string(loan.id.slot),
                "peer " + std::to_string(loan.peer.value) + " is not known");
  }
  return loans_.lend(loan, static_cast<std::uint8_t>(capabilities_.access), regions_);
}

Result<> LoopbackTransport::revoke(LoanId id) {
  const LentLoan* loan = loans_.find(id);
  if (loan != nullptr) {
    regions_.retain(loan->hold);
    draining_.emplace(id, loan->hold);
  }
  return loans_.revoke(id, regions_);
}

Result<> LoopbackTransport::post(const Operation& operation) {
  const std::string what = capabilities_.name + " operation " + std::to_string(operation.op.value);
  const auto peer = peers_.find(operation.peer);
  if (peer == peers_.end() || peer->second.fenced) {
    return fail(Code::kTransport, Who::kLocal, Next::kNewRoom, what,
                "peer " + std::to_string(operation.peer.value) +
                    (peer == peers_.end() ? " is not known" : " was fenced"));
  }
  if (auto ok = check_operation(capabilities_.name, operation, capabilities_.access, regions_); !ok)
    return ok;
  if (ops_.size() >= capabilities_.max_in_flight) {
    return fail(Code::kWouldBlock, Who::kLocal, Next::kRetry, what,
                std::to_string(ops_.size()) + " operations are in flight (max_in_flight)");
  }
  Op op{operation.op,
        operation.peer,
        peer->second.address,
        operation.ticket,
        operation.notice,
        OwnedGroups(operation.groups),
        regions_.hold_local(operation.groups),
        {},
        operation.priority,
        false,
        false};
  op.cursor = Cursor(op.groups.view());
  const auto behind =
      std::find_if(ops_.begin(), ops_.end(), [&](const Op& o) { return o.priority < op.priority; });
  ops_.insert(behind, std::move(op));
  return {};
}

void LoopbackTransport::cancel(OpId id) noexcept {
  for (Op& op : ops_) op.cancelled = op.cancelled || op.id == id;
}

std::optional<PeerId> LoopbackTransport::live_peer(std::uint64_t address) const {
  for (const auto& [id, peer] : peers_) {
    if (peer.address == address && !peer.fenced) return id;
  }
  return std::nullopt;
}

Error LoopbackTransport::stopper(const Op& op) const {
  const auto peer = peers_.find(op.peer);
  if (peer == peers_.end() || peer->second.fenced) {
    return failure(Code::kTransport, Who::kLocal, op, "the peer was fenced here");
  }
  if (fabric_->at(op.target) == nullptr)
    return failure(Code::kPeerLost, Who::kPeer, op, "the peer's transport is gone");
  if (op.cancelled) return failure(Code::kAborted, Who::kLocal, op, "cancelled");
  return {};
}

void LoopbackTransport::end(const Op& op, Error error) {
  regions_.release(op.hold);
  Event event = event_of(Event::Kind::kCompleted);
  event.op = op.id;
  event.peer = op.peer;
  event.bytes = op.groups.bytes();
  event.error = std::move(error);
  events_.push_back(std::move(event));
  Event quiesced = event_of(Event::Kind::kQuiesced);
  quiesced.op = op.id;
  quiesced.peer = op.peer;
  events_.push_back(std::move(quiesced));
}

void LoopbackTransport::end_stopped() {
  std::erase_if(ops_, [&](const Op& op) {
    Error why = stopper(op);
    if (why.ok()) return false;
    end(op, std::move(why));
    return true;
  });
}

bool LoopbackTransport::move(LoopbackTransport& poster, Op& op, std::uint64_t& budget) {
  const bool writes = capabilities_.access == Access::kWrite;
  const std::optional<PeerId> from = live_peer(poster.address_);
  const bool one_sided = op.started && kind_ == LoopbackKind::kLanded;  // nobody looks at the loan again
  std::string detail = "its peer is fenced or unknown here";
  Refusal refusal = Refusal::kWrongPeer;
  if (from)
    refusal = one_sided ? Refusal::kNone
                        : loans_.judge(op.ticket, *from, capabilities_.access, op.groups.view(), &detail);
  if (refusal != Refusal::kNone) {
    poster.end(op, error_of(refusal, capabilities_.name + " operation " + std::to_string(op.id.value),
                            op.ticket, refusal == Refusal::kOutside || !from ? detail : ""));
    return true;
  }
  op.started = true;
  while (!op.cursor.done() && budget != 0) {
    const Segment& segment = op.cursor.front();
    const std::uint64_t bytes = std::min(segment.bytes, budget);
    std::byte* lent = regions_.at(segment.remote_region, segment.remote);
    std::byte* own = poster.regions_.at(segment.local_region, segment.local);
    std::memmove(writes ? lent : own, writes ? own : lent, bytes);
    budget -= bytes;
    op.cursor.consume(bytes);
  }
  if (!op.cursor.done()) return false;
  if (kind_ == LoopbackKind::kPush) {
    Event event = event_of(Event::Kind::kArrived);
    event.peer = *from;
    event.loan = op.ticket.loan;
    event.bytes = op.groups.bytes();
    event.notice = op.notice;
    events_.push_back(std::move(event));
  }
  poster.end(op, {});
  return true;
}

void LoopbackTransport::move_ops_of(LoopbackTransport& poster, std::uint64_t& budget) {
  std::erase_if(poster.ops_, [&](Op& op) {
    return op.target == address_ && poster.stopper(op).ok() && budget != 0 && move(poster, op, budget);
  });
}

bool LoopbackTransport::has_ops_to(std::uint64_t address) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) { return op.target == address; });
}

bool LoopbackTransport::still_written(LoanId id) const {
  for (const auto& [address, transport] : fabric_->live()) {
    if (!live_peer(address)) continue;
    for (const Op& op : transport->ops_) {
      if (kind_ == LoopbackKind::kLanded && op.target == address_ && op.ticket.loan == id && op.started)
        return true;
    }
  }
  return false;
}

void LoopbackTransport::settle_revokes() {
  std::erase_if(draining_, [&](const auto& entry) {
    if (still_written(entry.first)) return false;
    regions_.release(entry.second);
    Event event = event_of(Event::Kind::kRevoked);
    event.loan = entry.first;
    events_.push_back(std::move(event));
    return true;
  });
}

std::size_t LoopbackTransport::progress(std::span<Event> out) {
  std::uint64_t budget = kQuantum;
  end_stopped();
  for (const auto& [address, transport] : fabric_->live()) {
    if (kind_ == LoopbackKind::kPush) {
      move_ops_of(*transport, budget);
    } else {
      transport->move_ops_of(*this, budget);
    }
  }
  settle_revokes();
  const std::size_t count = std::min(out.size(), events_.size());
  std::move(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count), out.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

bool LoopbackTransport::busy() const noexcept {
  if (!events_.empty()) return true;
  for (const Op& op : ops_) {
    if (kind_ != LoopbackKind::kPush || !stopper(op).ok()) return true;
  }
  for (const auto& [address, transport] : fabric_->live()) {
    if (kind_ == LoopbackKind::kPush && transport->has_ops_to(address_)) return true;
  }
  for (const auto& [loan, hold] : draining_) {
    if (!still_written(loan)) return true;
  }
  return false;
}

std::unique_ptr<Transport> make_loopback(std::shared_ptr<LoopbackFabric> fabric, LoopbackKind kind) {
  return std::make_unique<LoopbackTransport>(std::move(fabric), kind);
}

}  // namespace kvferry::transport
