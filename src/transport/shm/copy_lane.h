// Operations that read from peers, copied in quanta: round robin by peer, within a peer by priority, then
// small ones first, then in turn. Thread rule: belongs to the progress thread; nothing else ever touches the
// destinations, so an operation that this class has ended is quiet.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kvferry/clock.h"
#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/cursor.h"
#include "transport/regions.h"
#include "transport/shm/peer_memory.h"

namespace kvferry::shm {

inline constexpr std::uint64_t kQuantumBytes = 1ULL << 20;
inline constexpr Duration kQuantumTime = std::chrono::microseconds(100);

class CopyLane {
 public:
  // All three outlive this. `events` receives kCompleted and kQuiesced, in this order.
  CopyLane(transport::RegionTable& regions, Clock& clock, std::deque<Event>& events)
      : regions_(regions), clock_(clock), events_(events) {}

  // An operation that was checked against both sides' regions and the peer's loan slots.
  void add(const Operation&, std::shared_ptr<const PeerMemory>);
  bool has(OpId op) const noexcept { return ops_.contains(op.value); }
  void cancel(OpId) noexcept;                    // ends at the next quantum with kAborted
  void end_peer(PeerId, const Error&);           // its operations end now with this error
  void quantum();                                // copies at most kQuantumBytes, for about kQuantumTime
  bool busy() const noexcept { return !ops_.empty(); }
  std::size_t size() const noexcept { return ops_.size(); }  // operations that have not ended

 private:
  struct Op {
    OpId id;
    PeerId peer;
    Ticket ticket;
    std::uint32_t rank = 0;  // lower first; equal ones take turns
    transport::OwnedGroups groups;
    transport::Cursor cursor;
    transport::RegionHold hold;
    std::shared_ptr<const PeerMemory> memory;
    bool checked = false;    // the lease was looked at before the first byte
    bool cancelled = false;
    bool foreign = false;    // read some bytes by process_vm_readv
  };
  using Queue = std::map<std::uint32_t, std::deque<Op*>>;  // by rank; no empty deque is kept
  struct Budget {
    std::uint64_t bytes = kQuantumBytes;
    std::uint64_t unseen = 0;  // work since the clock was read
    TimePoint end;
    bool spent = false;
  };

  void end_cancelled();
  bool run(Op&, Budget&, Error&);  // true: it has ended, with this error
  bool copy_mapped(Op&, Budget&);
  bool copy_foreign(Op&, Budget&, Error&);  // false: failed
  Error judge(const Op&) const;    // after the last byte
  Error ended(const Op&, LeaseView::State) const;
  void charge(Budget&, std::uint64_t bytes);
  void unlink(const Op&);
  void end(Op&, Error);            // tells it and forgets it

  transport::RegionTable& regions_;
  Clock& clock_;
  std::deque<Event>& events_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Op>> ops_;
  std::map<PeerId, Queue> peers_;  // those with operations
  PeerId turn_{};                  // the peer that copied last
  std::vector<OpId> cancelled_;
};

}  // namespace kvferry::shm
