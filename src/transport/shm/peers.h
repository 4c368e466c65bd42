// The peers of a shm transport and how far each has come: door, hand-over, mapping, ready, lost, fenced.
// Thread rule: progress thread; mapping runs on the Worker.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/shm/peer_link.h"
#include "transport/shm/peer_memory.h"
#include "transport/shm/poller.h"
#include "transport/shm/shm_transport.h"
#include "transport/shm/worker.h"

namespace kvferry::shm {

class Peers {
 public:
  // All outlive this. `events` receives kPeerReady and kPeerLost.
  Peers(const ShmOptions& options, Poller& poller, Worker& worker, std::deque<Event>& events);

  Result<> add(PeerId, std::span<const std::byte> description, TimePoint now);
  Result<> close(PeerId);      // fenced: nothing may be posted to it any more; its memory stays until drop
  void drop(PeerId);
  bool has(PeerId id) const noexcept { return peers_.contains(id); }
  // The memory of a peer that is ready (or lost: its pages stay mapped), else why it cannot be read.
  Result<std::shared_ptr<const PeerMemory>> readable(PeerId) const;

  void on_ready(PeerId, TimePoint now);  // its socket has something
  bool on_time(TimePoint now);           // retries and deadlines; true: wants to be called again
  bool needs_time() const noexcept { return opening_ != 0; }
  std::string report() const;            // one line for each peer

 private:
  enum class State : std::uint8_t { kOpening, kMapping, kReady, kLost, kFailed, kFenced };
  struct Peer {
    State state = State::kOpening;
    std::uint64_t path = 0;  // tells this path from an earlier one of the same id
    TimePoint since;
    std::unique_ptr<PeerLink> link;
    bool watched = false;
    std::shared_ptr<const PeerMemory> memory;
    Error error;  // kFailed
  };
  using Map = std::map<PeerId, Peer>;

  void advance(PeerId, Peer&);
  void start_mapping(PeerId, Peer&);
  void finish_mapping(PeerId, std::uint64_t path, Result<std::shared_ptr<const PeerMemory>>);
  void settle(PeerId, Peer&, State, Error);  // leaves kOpening or kMapping and tells kPeerReady
  void unwatch(Peer&);
  void discard(std::shared_ptr<const PeerMemory>);

  const ShmOptions& options_;
  Poller& poller_;
  Worker& worker_;
  std::deque<Event>& events_;
  Map peers_;
  std::uint64_t last_path_ = 0;
  std::uint32_t opening_ = 0;  // in kOpening
};

}  // namespace kvferry::shm
