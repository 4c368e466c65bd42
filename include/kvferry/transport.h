// A mover: it moves bytes and declares what it can promise; it has no idea what a room is.
// Thread rule: every call comes from the one progress thread; no call blocks (1 ms of CPU at most).
// The numbered promises are tests/conformance/; docs/transports.md explains them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/export.h"
#include "kvferry/layout.h"
#include "kvferry/types.h"

namespace kvferry {

enum class Visible : std::uint8_t {  // what Completed proves
  kLocalDone = 0,       // nothing about the target: never seals a leg
  kRemoteLanded = 1,    // bytes are in the target's memory; the sender says DONE afterwards
  kRemoteNotified = 2,  // the target gets Arrived with or after the bytes
  kReceiverPlaced = 3,  // the target's own process places the bytes and checks loan and token of each frame
};
enum class RevokeMode : std::uint8_t { kLenderStops = 0, kMoverDrains = 1 };  // how a loan is recalled
enum class FenceMode : std::uint8_t {
  kAtOnce = 0,
  kBounded = 1,
  kNone = 2
};  // can a dead peer be proven silent

struct Capabilities {
  std::string name;  // "shm", "tcp", ...
  std::uint8_t memory = 1;  // bits of Memory, either end
  Access access = Access::kWrite;  // kWrite: push (sender posts writes); kRead: pull (receiver posts reads)
  Visible visible = Visible::kLocalDone;
  RevokeMode revoke = RevokeMode::kMoverDrains;
  FenceMode fence = FenceMode::kNone;
  bool same_host_only = false;
  bool reposts = false;  // a failed operation may be posted again under the same loan
  std::uint32_t max_in_flight = 256;  // operations posted and not yet quiesced; more: kWouldBlock
  std::uint32_t max_loans = 65536;  // LoanId::slot is below this
};

// One side of one layer: item i lies at base + i * stride of region.
struct Plane {
  RegionId region;
  std::uint64_t base = 0, stride = 0;
};
// A layer paired over both sides. An item is `repeat` pieces of `bytes`, `*_step` bytes apart on each side
// (repeat > 1 is for head slices of unequal layouts; equal layouts have repeat = 1).
struct PlanePair {
  Plane local, remote;
  std::uint32_t bytes = 0, repeat = 1, local_step = 0, remote_step = 0;
};
struct RunPair {  // `count` neighbouring items on both sides
  std::uint32_t local = 0, remote = 0, count = 0;
};
// Every plane times every run: the pieces of an operation in product form (no list of pieces exists).
struct PieceGroup {
  std::span<const PlanePair> planes;
  std::span<const RunPair> runs;
};
KVFERRY_API std::uint64_t bytes_of(const PieceGroup&) noexcept;
KVFERRY_API std::uint64_t pieces_of(const PieceGroup&) noexcept;

inline constexpr std::size_t kMaxNotice = 64;
struct Notice {  // opaque to the mover; delivered with Arrived where the mover notifies
  std::array<std::byte, kMaxNotice> bytes{};
  std::uint8_t size = 0;
};

// Local memory lent to one peer. For write: the peer's operations may touch exactly these items. For read:
// likewise.
struct LoanGroup {
  std::span<const Plane> planes;
  std::span<const std::uint32_t> item_bytes;  // per plane
  std::span<const PageRun> runs;
};
struct Loan {
  LoanId id;
  std::uint64_t token = 0;
  PeerId peer;
  Access access = Access::kWrite;
  std::span<const LoanGroup> groups;
};

// The spans of Operation and Loan live for the duration of the call only: copy what is kept.
struct Operation {
  OpId op;
  Access access = Access::kWrite;
  PeerId peer;
  Ticket ticket;  // the peer's loan
  std::span<const PieceGroup> groups;
  Notice notice;
  std::uint8_t priority = 0;  // higher first where the mover can choose
};

struct Event {
  enum class Kind : std::uint8_t {
    // op, error (ok = done); exactly once per accepted post. kRefused by kPeer: the lender recalled its loan,
    // and the core waits for its reason. Any other error of a write fails the room at once; a read is tried
    // again at the next OFFER.
    kCompleted,
    kQuiesced,  // op: nothing of it can move any more; exactly once, with or after kCompleted
    kArrived,  // peer, loan (ours), bytes, notice: these bytes are in place and visible
    kRevoked,  // loan (ours): nothing can land in / be accepted from it any more; exactly once per revoke
    kPeerFenced,  // peer: nothing of that incarnation can land any more (or error: cannot be proven)
    kRegionReady,  // region, error
    kPeerReady,  // peer, error: operations may be posted to it (or why not)
    kPeerLost,  // peer, error: the mover's own evidence that the path is broken; a hint, never a fence
  };
  Kind kind = Kind::kCompleted;
  PeerId peer;
  OpId op;
  LoanId loan;
  RegionId region;
  std::uint64_t bytes = 0;
  Notice notice;
  Error error;
};

class KVFERRY_API Transport {
 public:
  virtual ~Transport() = default;
  virtual const Capabilities& capabilities() const noexcept = 0;

  // Registers memory; kRegionReady follows. Regions are added before describe() is called for a HELLO.
  virtual Result<> add_region(RegionId, const RegionView&) = 0;
  virtual Result<> drop_region(RegionId) = 0;  // refused (kRefused) while an operation or loan touches it
  virtual std::vector<std::byte> describe() const = 0;  // opaque, at most 4 KiB; travels in HELLO

  virtual Result<> add_peer(PeerId, std::span<const std::byte> description) = 0;  // kPeerReady follows
  // After it was fenced, or when it has no operation and no loan. From then on the id is free: add_peer() may
  // name it again at once, which is the next path to the same process (a PeerId is a life, not a connection).
  // No kPeerReady, kPeerLost or kPeerFenced of the old path comes out of progress() after drop_peer() has
  // returned.
  virtual void drop_peer(PeerId) = 0;
  // After kPeerFenced nothing of that path lands: neither what was posted, nor what is posted later under a
  // ticket that was issued before the fence (LoanId::serial grows, so an adapter hands the newest fenced
  // serial to the new path).
  virtual Result<> fence(
      PeerId) = 0;  // kPeerFenced follows; operations to it complete with an error and quiesce

  virtual Result<> lend(const Loan&) = 0;  // in force when it returns
  virtual Result<> revoke(LoanId) = 0;  // kRevoked follows

  virtual Result<> post(const Operation&) = 0;  // all or nothing; kWouldBlock has no effect
  virtual void cancel(OpId) noexcept = 0;  // a hint; never completes inside the call

  virtual std::size_t progress(
      std::span<Event> out) = 0;  // one quantum (at most 1 MiB copied or 100 us); returns events
  virtual bool busy() const noexcept = 0;  // progress() has more to do right now without waiting for an fd
  virtual int wake_fd() const noexcept = 0;  // readable when progress() has work; -1: poll me
};

}  // namespace kvferry
