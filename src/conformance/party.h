// One side of a conformance run: a transport, its memory and what it reported. In this process or in another
// one. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/transport.h"

namespace kvferry::conformance {

// Owned forms of what Transport takes as spans.
struct OpGroup {
  std::vector<PlanePair> planes;
  std::vector<RunPair> runs;
};
struct OpSpec {
  OpId op;
  Access access = Access::kWrite;
  PeerId peer;
  Ticket ticket;
  std::vector<OpGroup> groups;
  Notice notice;
  std::uint8_t priority = 0;
};
struct LoanGroupSpec {
  std::vector<Plane> planes;
  std::vector<std::uint32_t> item_bytes;
  std::vector<PageRun> runs;
};
struct LoanSpec {
  LoanId id;
  std::uint64_t token = 0;
  PeerId peer;
  Access access = Access::kWrite;
  std::vector<LoanGroupSpec> groups;
};

// An event and the hash of the watched range in that very instant, before anything else ran in that process.
struct SeenEvent {
  Event event;
  std::uint64_t watched_hash = 0;
};

// What the calls of one transport cost. CPU time, not wall time: a busy machine must not fail a mover.
struct CallCosts {
  std::uint64_t calls = 0;
  std::uint64_t over_1ms = 0;     // thread CPU time above 1 ms
  std::uint64_t slept = 0;        // the thread was put to sleep inside the call (voluntary context switch)
  std::uint64_t worst_ns = 0;
  std::string worst_call;
};

struct Resources {
  std::uint64_t descriptors = 0, threads = 0, mappings = 0;
};

class Party {
 public:
  virtual ~Party() = default;
  // The calls of Transport. A party that cannot be reached any more answers with Code::kEnvironment.
  virtual Capabilities capabilities() = 0;
  virtual std::vector<std::byte> describe() = 0;
  virtual Result<> add_region(RegionId, std::uint64_t bytes) = 0;  // the party allocates; zeroed
  virtual Result<> add_foreign_region(RegionId, Memory) = 0;       // must be refused by a host-only mover
  virtual Result<> drop_region(RegionId) = 0;
  virtual Result<> add_peer(PeerId, const std::vector<std::byte>&) = 0;
  virtual void drop_peer(PeerId) = 0;
  virtual Result<> fence(PeerId) = 0;
  virtual Result<> lend(const LoanSpec&) = 0;
  virtual Result<> revoke(LoanId) = 0;
  virtual Result<> post(const OpSpec&) = 0;
  virtual void cancel(OpId) = 0;

  // One turn: progress() as often as the transport is busy (a few times at most). A remote party runs by
  // itself.
  virtual void pump() = 0;
  virtual std::vector<SeenEvent> take_events() = 0;  // since the last call, in order
  virtual void hold(bool) = 0;                       // true: progress() is not called until false

  // Memory. fill() writes pattern_byte(seed, i) at byte i of the region.
  virtual void fill(RegionId, std::uint64_t seed) = 0;
  virtual std::uint64_t hash(RegionId) = 0;             // of the whole region
  virtual std::vector<std::byte> read(RegionId, std::uint64_t offset, std::uint64_t length) = 0;
  virtual void watch(RegionId) = 0;  // from now on SeenEvent::watched_hash is the hash of this region

  virtual CallCosts costs() = 0;
  virtual Resources resources() = 0;
  virtual bool wakes() = 0;  // wake_fd() is not -1
  virtual bool wait_wake(int ms) = 0;  // true: it became readable (or the transport is busy) within that time
  virtual Result<>
  restart() = 0;  // the transport is destroyed and made again; memory stays, regions are forgotten
};

// The oracle: what every byte of a filled region is.
std::byte pattern_byte(std::uint64_t seed, std::uint64_t i) noexcept;
std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t bytes);

}  // namespace kvferry::conformance
