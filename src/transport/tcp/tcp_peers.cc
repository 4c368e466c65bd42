// Dialling, greeting, claiming and losing streams; the timer. See tcp_transport.h.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "transport/tcp/tcp_transport.h"

namespace kvferry::transport::tcp {
namespace {

constexpr std::chrono::milliseconds kTick(20);
constexpr std::uint32_t kLaneEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
constexpr int kAcceptsAtOnce = 16;

}  // namespace

std::uint64_t TcpMover::ticks(Duration duration) const noexcept {
  const auto count = (duration + kTick - Duration(1)) / kTick;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1));
}

TcpMover::Peer* TcpMover::live_peer(const Cookie& cookie) noexcept {
  for (auto& [id, peer] : peers_) {
    if (!peer->fenced && peer->description.cookie == cookie) return peer.get();
  }
  return nullptr;
}

Lane* TcpMover::lane_of(std::uint64_t id) noexcept {
  const auto it = lanes_.find(id);
  return it == lanes_.end() ? nullptr : it->second.get();
}

Lane& TcpMover::adopt(Fd fd, bool dialled) {
  const std::uint64_t id = next_lane_++;
  auto lane = std::make_unique<Lane>(id, std::move(fd), dialled);
  lane->since = ticks_;
  Lane& added = *lane;
  lanes_.emplace(id, std::move(lane));
  if (auto ok = watch(added.fd(), id, kLaneEvents); !ok) added.fail(ok.error());
  return added;
}

void TcpMover::accept_some() {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    for (int n = 0; n < kAcceptsAtOnce; ++n) {
      Fd fd(accept4(listeners_[i].get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          accept_paused_ = true;
          return;
        }
        if (errno == EAGAIN) accept_ready_ = false;
        if (errno == EAGAIN) break;
        continue;  // the connection ended before it was taken
      }
      if (inbound_count_ >= options_.limits.inbound_lanes || !tune(fd, options_)) {
        ++stats_.lanes_refused;
        continue;
      }
      make_room_for_unclaimed();
      Lane& lane = adopt(std::move(fd), false);
      ++inbound_count_;
      unclaimed_.push_back(lane.id);
      schedule(lane);
    }
  }
}

void TcpMover::make_room_for_unclaimed() {
  while (!unclaimed_.empty() && unclaimed_.size() >= options_.limits.unclaimed_lanes) {
    ++stats_.lanes_refused;
    close_lane(unclaimed_.front());
  }
}

void TcpMover::dial_slot(Peer& peer, std::uint32_t index) {
  Peer::Slot& slot = peer.slots[index];
  slot.redial_at = 0;
  auto fd = dial(peer.description.addresses[peer.address], options_);
  if (!fd) return slot_failed(peer, index, fd.error());
  Lane& lane = adopt(std::move(*fd), true);
  lane.index = index;
  lane.peer = peer.id;
  slot.lane = lane.id;
  schedule(lane);
}

void TcpMover::connected(Lane& lane) {
  Peer* peer = peer_of(*lane.peer);
  if (const int error = connect_result(lane.socket()); error != 0 || peer == nullptr) {
    const std::string where =
        peer == nullptr ? "" : " to " + peer->description.addresses[peer->address].text();
    return lane.fail({Code::kTransport, Who::kPeer, Next::kNewRoom, error, "tcp stream",
                      "connect" + where + ": " + errno_text(error)});
  }
  lane.phase = Lane::Phase::kGreeting;
  lane.since = ticks_;
  lane.writable = lane.readable = true;
  HelloFrame hello;
  hello.from = cookie_;
  hello.to = peer->description.cookie;
  hello.lane = static_cast<std::uint16_t>(lane.index);
  hello.lanes = options_.streams;
  lane.send(encode(hello));
}

// The other side has welcomed this stream.
void TcpMover::greeted(Peer& peer, Lane& lane) {
  lane.phase = Lane::Phase::kOpen;
  lane.since = ticks_;
  ++stats_.lanes_opened;
  peer.slots[lane.index].backoff = Duration(0);
  peer.addresses_tried = 0;
  peer.redial_failed = false;
  if (peer.state == Peer::State::kReady) return;
  if (peer.state == Peer::State::kConnecting) push(Event::Kind::kPeerReady).peer = peer.id;
  peer.state = Peer::State::kReady;
  for (std::uint32_t i = 0; i < peer.slots.size(); ++i) {
    if (peer.slots[i].lane == 0) dial_slot(peer, i);
  }
}

// An inbound stream turns out to be this peer's.
void TcpMover::claim(Peer& peer, Lane& lane) {
  std::erase(unclaimed_, lane.id);
  const auto index = static_cast<std::uint16_t>(lane.index);
  if (const auto old = peer.inbound.find(index); old != peer.inbound.end()) {
    const std::uint64_t replaced = old->second;  // half-open: its other end has dialled again
    peer.inbound.erase(old);
    close_lane(replaced);
  }
  peer.inbound[index] = lane.id;
  lane.peer = peer.id;
  lane.phase = Lane::Phase::kOpen;
  lane.since = ticks_;
  lane.readable = true;
  WelcomeFrame welcome;
  welcome.from = cookie_;
  lane.send(encode(welcome));
  schedule(lane);
}

void TcpMover::refuse(Lane& lane, WelcomeFrame::Status status, std::string why) {
  WelcomeFrame welcome;
  welcome.status = status;
  welcome.from = cookie_;
  lane.send(encode(welcome));
  lane.writable = true;
  lane.write_some(*this, kFrameCost);
  ++stats_.lanes_refused;
  lane.fail({Code::kRefused, Who::kPeer, Next::kNewRoom, 0, "tcp stream", std::move(why)});
}

void TcpMover::close_lane(std::uint64_t id) {
  const auto it = lanes_.find(id);
  if (it == lanes_.end()) return;
  const std::unique_ptr<Lane> lane = std::move(it->second);
  lanes_.erase(it);
  if (lane->bad_frame()) ++stats_.bad_frames;
  if (lane->phase == Lane::Phase::kOpen) ++stats_.lanes_lost;
  Peer* peer = lane->peer ? peer_of(*lane->peer) : nullptr;
  if (peer != nullptr && peer->fenced) abort_on_close(lane->socket());
  if (lane->dialled()) {
    if (peer != nullptr) lost_dialled(*peer, *lane);
    return;
  }
  --inbound_count_;
  std::erase(unclaimed_, id);
  if (peer == nullptr) return;
  std::erase_if(peer->inbound, [&](const auto& entry) { return entry.second == id; });
  if (peer->inbound.empty()) peer->inbox.clear();
}

// The operations that used this stream have lost frames; others go on.
void TcpMover::lost_dialled(Peer& peer, const Lane& lane) {
  peer.slots[lane.index].lane = 0;
  for (const std::uint64_t sequence : lane.queued_sequences()) {
    if (OutOp* op = peer.outbox.find(sequence); op != nullptr) --op->frames_queued;
  }
  std::vector<std::uint64_t> hit;
  for (const auto& [sequence, op] : peer.outbox.all()) {
    if ((op->lanes >> lane.index & 1U) != 0) hit.push_back(sequence);
  }
  for (const std::uint64_t sequence : hit) {
    OutOp* op = peer.outbox.find(sequence);
    Error error = about(peer, Code::kTransport,
                        "stream " + std::to_string(lane.index) + " was lost: " + lane.error().why);
    error.status = lane.error().status;
    fail_op(peer, *op, std::move(error));
  }
  if (!peer.fenced) slot_failed(peer, lane.index, lane.error());
}

bool TcpMover::has_open_lane(const Peer& peer) noexcept {
  return std::any_of(peer.slots.begin(), peer.slots.end(), [&](const Peer::Slot& slot) {
    const Lane* lane = lane_of(slot.lane);
    return lane != nullptr && lane->phase == Lane::Phase::kOpen && !lane->failed();
  });
}

// A stream is down, or could not be brought up: dial again now, later, or never. While no stream is open only
// the first is dialled, over all addresses in turn; the others follow it.
void TcpMover::slot_failed(Peer& peer, std::uint32_t index, const Error& error) {
  if (peer.state == Peer::State::kDead) return;
  peer.last = about(peer, Code::kTransport, error.why);
  peer.last.status = error.status;
  Peer::Slot& slot = peer.slots[index];
  slot.backoff =
      slot.backoff.count() == 0 ? options_.redial_first : std::min(slot.backoff * 2, options_.redial_most);
  if (has_open_lane(peer)) {
    slot.redial_at = ticks_ + ticks(slot.backoff);
    return;
  }
  if (peer.state == Peer::State::kReady) {  // that was the last one: the path is broken
    peer.state = Peer::State::kLost;
    Event& lost = push(Event::Kind::kPeerLost);
    lost.peer = peer.id;
    lost.error = peer.last;
    lost.error.code = Code::kPeerLost;
  } else if (index == 0) {
    peer.address = (peer.address + 1) % peer.description.addresses.size();
    if (++peer.addresses_tried == peer.description.addresses.size()) return all_addresses_failed(peer);
  }
  Peer::Slot& lead = peer.slots[0];
  if (lead.lane == 0) lead.redial_at = ticks_ + (peer.addresses_tried != 0 ? 1 : ticks(lead.backoff));
}

void TcpMover::all_addresses_failed(Peer& peer) {
  peer.addresses_tried = 0;
  if (peer.state == Peer::State::kConnecting) {
    peer.state = Peer::State::kDead;
    Event& ready = push(Event::Kind::kPeerReady);
    ready.peer = peer.id;
    ready.error = peer.last;
    return;
  }
  peer.redial_failed = true;
  fail_all(peer, peer.last);
  peer.slots[0].redial_at = ticks_ + ticks(peer.slots[0].backoff);
}

void TcpMover::close_all(Peer& peer) {
  std::vector<std::uint64_t> ids;
  for (Peer::Slot& slot : peer.slots) {
    if (slot.lane != 0) ids.push_back(slot.lane);
    slot.redial_at = 0;
  }
  for (const auto& [index, id] : peer.inbound) ids.push_back(id);
  for (const std::uint64_t id : ids) close_lane(id);
  peer.inbox.clear();
}

void TcpMover::check_lane_times() {
  std::vector<std::uint64_t> late;
  for (auto& [id, lane] : lanes_) {
    const std::uint64_t waited = ticks_ - lane->since;
    if (lane->phase == Lane::Phase::kDialling && waited > ticks(options_.connect)) {
      const auto s = std::chrono::duration_cast<std::chrono::milliseconds>(options_.connect).count();
      lane->fail({Code::kTimeout, Who::kPeer, Next::kNewRoom, ETIMEDOUT, "tcp stream",
                  "no connection within " + std::to_string(s) + " ms (tcp.connect)"});
      late.push_back(id);
    } else if (lane->phase != Lane::Phase::kOpen && waited > ticks(options_.handshake)) {
      const auto s = std::chrono::duration_cast<std::chrono::milliseconds>(options_.handshake).count();
      lane->fail({Code::kTimeout, Who::kPeer, Next::kNewRoom, ETIMEDOUT, "tcp stream",
                  "connected, but not welcomed within " + std::to_string(s) + " ms (tcp.handshake)"});
      late.push_back(id);
    }
  }
  for (const std::uint64_t id : late) close_lane(id);
}

void TcpMover::tick() {
  if (accept_paused_) {
    accept_paused_ = false;
    accept_ready_ = true;
  }
  check_lane_times();
  for (auto& [id, peer] : peers_) {
    for (std::uint32_t i = 0; i < peer->slots.size() && !peer->fenced; ++i) {
      if (peer->slots[i].redial_at == 0 || peer->slots[i].redial_at > ticks_) continue;
      ++stats_.redials;
      dial_slot(*peer, i);
    }
  }
}

void TcpMover::arm_timer() {
  bool wanted = accept_paused_ || !unclaimed_.empty();
  for (const auto& [id, peer] : peers_) {
    if (wanted) break;
    wanted =
        !peer->fenced && std::any_of(peer->slots.begin(), peer->slots.end(), [&](const Peer::Slot& slot) {
          const Lane* lane = lane_of(slot.lane);
          return slot.redial_at != 0 || (lane != nullptr && lane->phase != Lane::Phase::kOpen);
        });
  }
  if (wanted == timer_armed_) return;
  timer_armed_ = wanted;
  itimerspec spec{};
  if (wanted) spec.it_interval.tv_nsec = spec.it_value.tv_nsec = std::chrono::nanoseconds(kTick).count();
  timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

}  // namespace kvferry::transport::tcp
