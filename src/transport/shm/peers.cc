#include "transport/shm/peers.h"

#include <utility>
#include <vector>

namespace kvferry::shm {

namespace {

std::string subject(PeerId id) { return "shm peer " + std::to_string(id.value); }

}  // namespace

Peers::Peers(const ShmOptions& options, Poller& poller, Worker& worker, std::deque<Event>& events)
    : options_(options), poller_(poller), worker_(worker), events_(events) {}

Result<> Peers::add(PeerId id, std::span<const std::byte> bytes, TimePoint now) {
  if (has(id)) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, subject(id), "this peer was added already");
  }
  if (peers_.size() >= options_.limits.peers) {
    return fail(Code::kExhausted, Who::kLocal, Next::kRetry, subject(id),
                std::to_string(peers_.size()) + " peers are known (shm.peers); drop ended ones first");
  }
  auto description = decode_description(bytes);
  if (!description) {
    return tl::unexpected(description.error());
  }
  const std::string what = subject(id) + " (pid " + std::to_string(description->pid) + ")";
  Peer& peer = peers_[id];
  peer.path = ++last_path_;
  peer.since = now;
  peer.link = std::make_unique<PeerLink>(*description, options_.socket_directory, what);
  ++opening_;
  advance(id, peer);
  return {};
}

void Peers::advance(PeerId id, Peer& peer) {
  auto step = peer.link->advance();
  if (!step) {
    settle(id, peer, State::kFailed, std::move(step.error()));
    return;
  }
  if (peer.link->connected() && !peer.watched) {
    if (auto watched = poller_.add(peer.link->fd(), Source::kPeer, id.value); !watched) {
      settle(id, peer, State::kFailed, std::move(watched.error()));
      return;
    }
    peer.watched = true;
  }
  if (*step == PeerLink::Step::kComplete) {
    start_mapping(id, peer);
  }
}

void Peers::start_mapping(PeerId id, Peer& peer) {
  --opening_;
  peer.state = State::kMapping;
  poller_.watch_nothing(peer.link->fd(), Source::kPeer, id.value);  // a hang-up is told behind kPeerReady
  auto handed = std::make_shared<Handed>(peer.link->take());
  auto result = std::make_shared<Result<std::shared_ptr<const PeerMemory>>>();
  worker_.submit([handed, result, what = subject(id)](
                     const Stop& stop) { *result = PeerMemory::open(std::move(*handed), stop, what); },
                 [this, result, id, path = peer.path] { finish_mapping(id, path, std::move(*result)); });
}

void Peers::finish_mapping(PeerId id, std::uint64_t path, Result<std::shared_ptr<const PeerMemory>> memory) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second.path != path || found->second.state != State::kMapping) {
    if (memory) discard(std::move(*memory));  // fenced or dropped meanwhile, or dropped and added again
    return;
  }
  Peer& peer = found->second;
  if (!memory) {
    settle(id, peer, State::kFailed, std::move(memory.error()));
    return;
  }
  peer.memory = std::move(*memory);
  settle(id, peer, State::kReady, {});
  poller_.watch_output(peer.link->fd(), Source::kPeer, id.value, false);
}

void Peers::settle(PeerId id, Peer& peer, State state, Error error) {
  if (peer.state == State::kOpening) --opening_;
  peer.state = state;
  peer.error = error;
  if (state != State::kReady) {
    unwatch(peer);
    peer.link.reset();
  }
  Event event;
  event.kind = Event::Kind::kPeerReady;
  event.peer = id;
  event.error = std::move(error);
  events_.push_back(std::move(event));
}

void Peers::unwatch(Peer& peer) {
  if (peer.watched) poller_.remove(peer.link->fd());
  peer.watched = false;
}

Result<> Peers::close(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, subject(id), "no such peer was added");
  }
  Peer& peer = found->second;
  if (peer.state == State::kOpening || peer.state == State::kMapping) {
    settle(id, peer, State::kFenced,
           Error{Code::kPeerLost, Who::kLocal, Next::kNewRoom, 0, subject(id),
                 "it was fenced before it was ready"});
    return {};
  }
  unwatch(peer);
  peer.link.reset();
  peer.state = State::kFenced;
  return {};
}

void Peers::drop(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) {
    return;
  }
  if (found->second.state == State::kOpening) --opening_;
  unwatch(found->second);
  if (found->second.memory != nullptr) discard(std::move(found->second.memory));
  peers_.erase(found);
}

void Peers::discard(std::shared_ptr<const PeerMemory> memory) {
  worker_.discard(std::const_pointer_cast<PeerMemory>(std::move(memory)));
}

Result<std::shared_ptr<const PeerMemory>> Peers::readable(PeerId id) const {
  const auto found = peers_.find(id);
  if (found == peers_.end()) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, subject(id), "no such peer was added");
  }
  const Peer& peer = found->second;
  switch (peer.state) {
    case State::kReady:
    case State::kLost: return peer.memory;
    case State::kFailed: return tl::unexpected(peer.error);
    case State::kFenced:
      return fail(Code::kPeerLost, Who::kLocal, Next::kNewRoom, subject(id), "it was fenced");
    case State::kOpening:
    case State::kMapping: break;
  }
  return fail(Code::kRefused, Who::kLocal, Next::kRetry, subject(id),
              "its memory is not mapped yet; post after kPeerReady");
}

void Peers::on_ready(PeerId id, TimePoint) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) {
    return;
  }
  Peer& peer = found->second;
  if (peer.state == State::kOpening) {
    advance(id, peer);
  } else if (peer.state == State::kReady && peer.link->hung_up()) {
    unwatch(peer);
    peer.link.reset();
    peer.state = State::kLost;
    Event event;
    event.kind = Event::Kind::kPeerLost;
    event.peer = id;
    event.error = Error{Code::kPeerLost, Who::kPeer,
                        Next::kNewRoom,  0,
                        subject(id),     "its connection hung up: the process or its transport has ended"};
    events_.push_back(std::move(event));
  }
}

bool Peers::on_time(TimePoint now) {
  std::vector<PeerId> opening;
  for (const auto& [id, peer] : peers_) {
    if (opening_ == 0) break;
    if (peer.state == State::kOpening) opening.push_back(id);
  }
  for (const PeerId id : opening) {
    Peer& peer = peers_.at(id);
    if (!peer.link->connected()) advance(id, peer);
    if (peer.state != State::kOpening || now - peer.since < options_.handover) continue;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - peer.since).count();
    settle(id, peer, State::kFailed,
           Error{Code::kTimeout, Who::kPeer, Next::kNewRoom, 0, subject(id),
                 "its memory was not handed over within " + std::to_string(ms) +
                     " ms (shm.handover): the process is stopped, or its regions are still being prepared"});
  }
  return needs_time();
}

std::string Peers::report() const {
  static constexpr const char* kNames[] = {"opening", "mapping", "ready", "lost", "failed", "fenced"};
  std::string text;
  for (const auto& [id, peer] : peers_) {
    text += subject(id) + ": " + kNames[static_cast<std::size_t>(peer.state)];
    if (peer.memory != nullptr) {
      text +=
          ", " + std::to_string(peer.memory->mapped() >> 20) + " MiB mapped, " + peer.memory->huge().text();
    }
    if (!peer.error.ok()) text += ", " + peer.error.why;
    text += "\n";
  }
  return text;
}

}  // namespace kvferry::shm
