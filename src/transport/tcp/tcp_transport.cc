#include "transport/tcp/tcp_transport.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/endpoint.h"
#include "transport/path_events.h"

namespace kvferry::transport::tcp {
namespace {

constexpr std::uint64_t kListenerId = 1;        // and 2
constexpr std::uint64_t kTimerId = 3;
constexpr std::uint64_t kQuantum = 1ULL << 20;  // spent by one progress(): see Lane::read_some
constexpr std::uint64_t kTurn = 256ULL << 10;  // of it, by one lane in one direction before others get theirs
constexpr std::size_t kTurns = 64;  // lanes looked at in one progress()
constexpr std::size_t kMaxEventsWaiting = 4096;  // more: progress() only hands out events

Capabilities declared(const TcpOptions& options) {
  Capabilities c;
  c.name = "tcp";
  c.memory = static_cast<std::uint8_t>(Memory::kHost);
  c.access = Access::kWrite;
  c.visible = Visible::kReceiverPlaced;
  c.revoke = RevokeMode::kLenderStops;
  c.fence = FenceMode::kAtOnce;
  c.max_in_flight = options.limits.ops_in_flight;
  c.max_loans = options.limits.loans;
  return c;
}

std::string number(PeerId id) { return std::to_string(id.value); }

}  // namespace

TcpMover::TcpMover(TcpOptions options)
    : options_(std::move(options)),
      capabilities_(declared(options_)),
      regions_("tcp", capabilities_.memory),
      loans_("tcp", capabilities_.max_loans) {}

TcpMover::~TcpMover() = default;

Result<> TcpMover::open() {
  if (options_.streams == 0 || options_.streams > kMaxStreams) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "tcp.streams",
                std::to_string(options_.streams) + " streams for each peer; give 1 to " +
                    std::to_string(kMaxStreams));
  }
  if (getrandom(cookie_.data(), cookie_.size(), 0) != static_cast<ssize_t>(cookie_.size())) {
    return tl::unexpected(environment_error("tcp", "getrandom", errno));
  }
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return tl::unexpected(environment_error("tcp", "epoll_create1", errno));
  timer_ = Fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_) return tl::unexpected(environment_error("tcp", "timerfd_create", errno));
  if (auto ok = watch(timer_.get(), kTimerId, EPOLLIN); !ok) return ok;
  return open_listeners();
}

Result<> TcpMover::open_listeners() {
  std::vector<Address> binds;
  const bool any = is_any_host(options_.bind);
  if (any) {
    Address v6;
    v6.v6 = true;
    v6.port = options_.port;
    if (auto fd = listen_on(v6, true, options_); fd) {
      listeners_.push_back(std::move(*fd));
    } else if (fd.error().status != EAFNOSUPPORT && fd.error().status != EADDRNOTAVAIL) {
      return tl::unexpected(fd.error());
    } else {
      Address v4;  // a host without IPv6
      v4.port = options_.port;
      auto only = listen_on(v4, false, options_);
      if (!only) return tl::unexpected(only.error());
      listeners_.push_back(std::move(*only));
    }
  } else {
    auto found = resolve(options_.bind, options_.port, "tcp.bind");
    if (!found) return tl::unexpected(found.error());
    auto fd = listen_on(found->front(), false, options_);
    if (!fd) return tl::unexpected(fd.error());
    listeners_.push_back(std::move(*fd));
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (auto ok = watch(listeners_[i].get(), kListenerId + i, EPOLLIN | EPOLLET); !ok) return ok;
  }
  auto bound = bound_address(listeners_.front());
  if (!bound) return tl::unexpected(bound.error());
  options_.port = bound->port;
  if (!any && options_.advertise.empty()) {
    advertised_ = {*bound};
    return {};
  }
  return open_advertised(any || !bound->v6, bound->v6);
}

Result<> TcpMover::open_advertised(bool v4, bool v6) {
  if (options_.advertise.empty()) advertised_ = interface_addresses(options_.port, v4, v6);
  for (const std::string& text : options_.advertise) {
    std::string host = text;
    std::uint16_t port = options_.port;
    const bool bare_v6 = std::count(text.begin(), text.end(), ':') > 1 && text.front() != '[';
    if (!bare_v6 && text.find(':') != std::string::npos) {
      auto parsed = parse_host_port(text, "tcp.advertise");
      if (!parsed) return tl::unexpected(parsed.error());
      host = parsed->host;
      if (parsed->port != 0) port = parsed->port;
    }
    if (is_any_host(host)) {
      return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "tcp.advertise",
                  "'" + text + "' cannot be dialled; give an address or a name that peers reach");
    }
    auto found = resolve(host, port, "tcp.advertise");
    if (!found) return tl::unexpected(found.error());
    advertised_.insert(advertised_.end(), found->begin(), found->end());
  }
  if (advertised_.size() > kMaxAddresses) advertised_.resize(kMaxAddresses);
  if (!advertised_.empty()) return {};
  return fail(Code::kEnvironment, Who::kConfig, Next::kAfterFix, "tcp.advertise",
              "no interface of this host is up; name an address that peers reach");
}

Result<> TcpMover::watch(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return tl::unexpected(environment_error("tcp", "epoll_ctl", errno));
}

Event& TcpMover::push(Event::Kind kind) {
  Event& event = events_.emplace_back();
  event.kind = kind;
  return event;
}

TcpMover::Peer* TcpMover::peer_of(PeerId id) noexcept {
  const auto it = peers_.find(id);
  return it == peers_.end() ? nullptr : it->second.get();
}

const TcpMover::Peer* TcpMover::peer_of(PeerId id) const noexcept {
  const auto it = peers_.find(id);
  return it == peers_.end() ? nullptr : it->second.get();
}

Error TcpMover::about(const Peer& peer, Code code, std::string why) const {
  std::string name = "tcp peer " + number(peer.id);
  if (!peer.description.addresses.empty()) name += " (" + peer.description.addresses.front().text() + ")";
  return {code, Who::kPeer, Next::kNewRoom, 0, std::move(name), std::move(why)};
}

Result<> TcpMover::add_region(RegionId id, const RegionView& view) {
  if (auto ok = regions_.add(id, view); !ok) return ok;
  push(Event::Kind::kRegionReady).region = id;
  return {};
}

std::vector<std::byte> TcpMover::describe() const {
  return encode(Description{kFrameVersion, cookie_, advertised_});
}

std::vector<std::string> TcpMover::endpoints() const {
  std::vector<std::string> list;
  for (const Address& address : advertised_) list.push_back(address.text());
  return list;
}

Result<> TcpMover::add_peer(PeerId id, std::span<const std::byte> bytes) {
  const std::string what = "tcp peer " + number(id);
  auto description = decode_description(bytes, what);
  if (!description) return tl::unexpected(description.error());
  if (peers_.contains(id))
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what, "this id was used before");
  if (const Peer* same = live_peer(description->cookie); same != nullptr) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what,
                "peer " + number(same->id) + " is the same life; fence or drop it first");
  }
  if (peers_.size() >= options_.limits.peers) {
    return fail(Code::kExhausted, Who::kLocal, Next::kRetry, what,
                std::to_string(peers_.size()) + " peers are known (tcp.peers); drop those that are gone");
  }
  auto peer = std::make_unique<Peer>(options_.limits.arriving_per_peer);
  peer->id = id;
  peer->description = std::move(*description);
  peer->slots.resize(options_.streams);
  Peer& added = *peer;
  peers_.emplace(id, std::move(peer));
  const std::deque<std::uint64_t> waiting = unclaimed_;
  for (const std::uint64_t lane_id : waiting) {
    Lane* lane = lane_of(lane_id);
    if (lane != nullptr && lane->phase == Lane::Phase::kUnclaimed &&
        lane->cookie == added.description.cookie) {
      claim(added, *lane);
    }
  }
  dial_slot(added, 0);
  return {};
}

void TcpMover::drop_peer(PeerId id) {
  Peer* peer = peer_of(id);
  if (peer == nullptr) return;
  peer->fenced = true;
  fail_all(*peer, about(*peer, Code::kTransport, "the peer was dropped here"));
  close_all(*peer);  // ends those of which a frame was half sent
  for (const LoanId loan : loans_.lent_to(id)) static_cast<void>(loans_.revoke(loan, regions_));
  peers_.erase(id);
  forget_path(events_, id);
}

Result<> TcpMover::fence(PeerId id) {
  Peer* peer = peer_of(id);
  if (peer == nullptr) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, "tcp peer " + number(id), "no such peer is known");
  }
  if (peer->state == Peer::State::kConnecting && !peer->fenced) {
    Event& ready = push(Event::Kind::kPeerReady);
    ready.peer = id;
    ready.error = about(*peer, Code::kTransport, "the peer was fenced here before it was connected");
  }
  peer->fenced = true;  // the path has ended: no stream of this id is dialled, claimed or read any more
  fail_all(*peer, about(*peer, Code::kTransport, "the peer was fenced here"));
  close_all(*peer);  // ends those of which a frame was half sent
  push(Event::Kind::kPeerFenced).peer = id;
  return {};
}

Result<> TcpMover::lend(const Loan& loan) {
  if (peer_of(loan.peer) == nullptr) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, "tcp loan " + std::to_string(loan.id.slot),
                "peer " + number(loan.peer) + " is not known");
  }
  return loans_.lend(loan, static_cast<std::uint8_t>(Access::kWrite), regions_);
}

Result<> TcpMover::revoke(LoanId id) {
  const LentLoan* loan = loans_.find(id);
  Peer* peer = loan == nullptr ? nullptr : peer_of(loan->peer);
  if (auto ok = loans_.revoke(id, regions_); !ok) return ok;
  if (peer != nullptr) {
    peer->inbox.forget_loan(id);
    for (const auto& [index, lane_id] : peer->inbound) {
      Lane* lane = lane_of(lane_id);
      if (lane == nullptr) continue;
      if (const auto sequence = lane->stop_placing(id); sequence) {
        ++stats_.frames_refused;
        reject(*lane, *sequence, Refusal::kNoLoan, "revoked while it arrived");
      }
    }
  }
  push(Event::Kind::kRevoked).loan = id;
  return {};
}

Result<> TcpMover::post(const Operation& operation) {
  Peer* peer = peer_of(operation.peer);
  const std::string what = "tcp operation " + std::to_string(operation.op.value);
  if (peer == nullptr) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, what,
                "peer " + number(operation.peer) + " is not known");
  }
  if (peer->fenced || peer->state == Peer::State::kDead ||
      (peer->state == Peer::State::kLost && peer->redial_failed)) {
    Error error = about(*peer, Code::kTransport, peer->fenced ? "the peer was fenced here" : peer->last.why);
    error.status = peer->last.status;
    return tl::unexpected(std::move(error));
  }
  if (auto ok = check_operation("tcp", operation, Access::kWrite, regions_); !ok) return ok;
  if (op_peers_.contains(operation.op.value)) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, what, "this id is in flight already");
  }
  if (peer->state != Peer::State::kReady || op_peers_.size() >= capabilities_.max_in_flight) {
    return fail(Code::kWouldBlock, Who::kLocal, Next::kRetry, what,
                peer->state != Peer::State::kReady
                    ? std::string("the peer is being connected")
                    : std::to_string(op_peers_.size()) + " operations are in flight (tcp.ops_in_flight)");
  }
  auto op = std::make_unique<OutOp>();
  op->id = operation.op;
  op->sequence = next_sequence_++;
  op->ticket = operation.ticket;
  op->notice = operation.notice;
  op->priority = operation.priority;
  op->groups = OwnedGroups(operation.groups);
  op->hold = regions_.hold_local(operation.groups);
  op->slicer = Slicer(op->groups.view(), kMaxFramePayload / 2);
  op_peers_.emplace(operation.op.value, operation.peer);
  peer->outbox.add(std::move(op));
  for (const Peer::Slot& slot : peer->slots) {
    if (Lane* lane = lane_of(slot.lane); lane != nullptr) schedule(*lane);
  }
  return {};
}

void TcpMover::cancel(OpId id) noexcept {
  if (op_peers_.contains(id.value)) hints_.push_back(id);
}

void TcpMover::take_hints() {
  const std::vector<OpId> hints = std::exchange(hints_, {});
  for (const OpId id : hints) {
    const auto it = op_peers_.find(id.value);
    Peer* peer = it == op_peers_.end() ? nullptr : peer_of(it->second);
    OutOp* op = peer == nullptr ? nullptr : peer->outbox.find(id);
    if (op == nullptr) continue;
    // All of it is in the kernel but for the rest of a frame that has begun: it will arrive, so it ends as
    // done.
    if (drop_unsent(*peer, *op) == 0 && op->cut) continue;
    fail_op(*peer, *op,
            {Code::kAborted, Who::kLocal, Next::kNewRoom, 0, "tcp operation " + std::to_string(id.value),
             "cancelled"});
  }
}

// Frames of this operation of which nothing was sent are forgotten; returns how many.
std::uint32_t TcpMover::drop_unsent(Peer& peer, OutOp& op) {
  std::uint32_t dropped = 0;
  for (const Peer::Slot& slot : peer.slots) {
    if (Lane* lane = lane_of(slot.lane); lane != nullptr) {
      dropped += static_cast<std::uint32_t>(lane->drop_unsent(op.sequence));
    }
  }
  op.frames_queued -= dropped;
  return dropped;
}

void TcpMover::fail_op(Peer& peer, OutOp& op, Error error) {
  peer.outbox.fail(op, std::move(error));
  drop_unsent(peer, op);
  if (op.ended()) end_op(peer, op.sequence);
}

void TcpMover::fail_all(Peer& peer, const Error& error) {
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, op] : peer.outbox.all()) sequences.push_back(sequence);
  for (const std::uint64_t sequence : sequences) {
    if (OutOp* op = peer.outbox.find(sequence); op != nullptr) fail_op(peer, *op, error);
  }
}

void TcpMover::end_op(Peer& peer, std::uint64_t sequence) {
  const std::unique_ptr<OutOp> op = peer.outbox.take(sequence);
  regions_.release(op->hold);
  op_peers_.erase(op->id.value);
  Event& completed = push(Event::Kind::kCompleted);
  completed.op = op->id;
  completed.peer = peer.id;
  completed.bytes = op->groups.bytes();
  if (op->failed) completed.error = op->error;
  Event& quiesced = push(Event::Kind::kQuiesced);
  quiesced.op = op->id;
  quiesced.peer = peer.id;
}

void TcpMover::schedule(Lane& lane) {
  if (lane.scheduled || !has_work(lane)) return;
  lane.scheduled = true;
  run_.push_back(lane.id);
}

bool TcpMover::has_work(const Lane& lane) const {
  if (lane.failed() || lane.may_read()) return true;
  if (!lane.writable || lane.phase == Lane::Phase::kDialling) return false;
  if (lane.queued() != 0) return true;
  if (!lane.dialled() || lane.phase != Lane::Phase::kOpen) return false;
  const Peer* peer = peer_of(*lane.peer);
  return peer != nullptr && peer->outbox.has_work();
}

void TcpMover::take_events() {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = ready[static_cast<std::size_t>(i)].data.u64;
    const std::uint32_t events = ready[static_cast<std::size_t>(i)].events;
    if (id == kTimerId) {
      std::uint64_t expired = 0;
      if (read(timer_.get(), &expired, sizeof expired) == sizeof expired) ticks_ += expired;
      continue;
    }
    if (id < kTimerId) {
      accept_ready_ = true;
      continue;
    }
    Lane* lane = lane_of(id);
    if (lane == nullptr) continue;
    if (lane->phase == Lane::Phase::kDialling) {
      if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) connected(*lane);
    } else {
      if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) lane->readable = true;
      if ((events & EPOLLOUT) != 0) lane->writable = true;
    }
    schedule(*lane);
  }
}

void TcpMover::run_lanes() {
  std::uint64_t budget = kQuantum;
  for (std::size_t turn = 0; turn < kTurns && budget != 0 && !run_.empty(); ++turn) {
    const std::uint64_t id = run_.front();
    run_.pop_front();
    Lane* lane = lane_of(id);
    if (lane == nullptr) continue;
    lane->scheduled = false;
    std::uint64_t spent = lane->read_some(*this, std::min(budget, kTurn));
    budget -= std::min(budget, spent);
    spent = lane->write_some(*this, std::min(std::max<std::uint64_t>(budget, kFrameCost), kTurn));
    budget -= std::min(budget, spent);
    if (lane->failed()) {
      close_lane(id);
    } else {
      schedule(*lane);
    }
  }
}

std::size_t TcpMover::progress(std::span<Event> out) {
  if (events_.size() < kMaxEventsWaiting) {
    const std::uint64_t before = ticks_;
    take_hints();
    take_events();
    if (accept_ready_ && !accept_paused_) accept_some();
    run_lanes();
    if (ticks_ != before) tick();
    arm_timer();
  }
  const std::size_t count = std::min(out.size(), events_.size());
  const auto end = events_.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(events_.begin(), end, out.begin());
  events_.erase(events_.begin(), end);
  return count;
}

bool TcpMover::busy() const noexcept {
  return !events_.empty() || !hints_.empty() || !run_.empty() || (accept_ready_ && !accept_paused_);
}

}  // namespace kvferry::transport::tcp

namespace kvferry {

Result<std::unique_ptr<TcpTransport>> open_tcp(const TcpOptions& options) {
  auto mover = std::make_unique<transport::tcp::TcpMover>(options);
  if (auto ok = mover->open(); !ok) return tl::unexpected(ok.error());
  return mover;
}

}  // namespace kvferry
