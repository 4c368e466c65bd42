// The words that every layer shares: identifiers, page runs, KVPoll. Values only; no thread rule.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvferry/export.h"

namespace kvferry {

// A strong integer: one tag, one meaning. A raw integer never crosses a function boundary as an id.
template <class Tag, class Rep>
struct Id {
  Rep value{};
  auto operator<=>(const Id&) const = default;
};

using RoomId = Id<struct RoomTag, std::uint64_t>;  // the engine's bootstrap_room; NOT unique in time
using PeerId =
    Id<struct PeerTag, std::uint32_t>;  // one life of one remote process; never used twice in a life of ours
using LinkId = Id<struct LinkTag, std::uint32_t>;  // one control connection; never used twice
using EndpointId =
    Id<struct EndpointTag, std::uint32_t>;  // one "host:port" that we dial; an index given by the caller
using RegionId = Id<struct RegionTag, std::uint32_t>;  // one registered range of memory, dense from 0
using OpId = Id<struct OpTag, std::uint64_t>;  // one posted operation; never used twice in a life
using EventId =
    Id<struct EventTag, std::uint64_t>;  // a device event handed in by the engine above; 0 = ready now

// Time is injected: a clock type on which nobody can call now().
struct Monotonic {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Monotonic>;
  static constexpr bool is_steady = true;
};
using TimePoint = Monotonic::time_point;
using Duration = Monotonic::duration;

// One life of one process. Totally ordered by start time, then by the random part; {0,0} means unknown.
struct Incarnation {
  std::uint64_t started_ms = 0;  // wall clock at start, milliseconds since 1970
  std::uint64_t random = 0;
  auto operator<=>(const Incarnation&) const = default;
  bool known() const { return started_ms != 0 || random != 0; }
};

// SGLang's five values plus kStale: the handle's room was closed, or never existed.
enum class Poll : std::uint8_t {
  kFailed = 0,
  kBootstrapping = 1,
  kWaitingForInput = 2,
  kTransferring = 3,
  kSuccess = 4,
  kStale = 255,
};

enum class Role : std::uint8_t { kSender = 0, kReceiver = 1 };
enum class Access : std::uint8_t { kRead = 1, kWrite = 2 };
enum class Memory : std::uint8_t { kHost = 1, kPinned = 2, kCuda = 4, kRocm = 8 };

// A room as its opener knows it: 8 bytes, copyable, safe to keep too long.
struct Handle {
  std::uint32_t slot = ~0U;
  std::uint32_t generation = 0;
  auto operator<=>(const Handle&) const = default;
};

// A loan of memory as the transports see it. `slot` indexes a bounded table, `serial` is never used twice in
// a life.
struct LoanId {
  std::uint32_t slot = ~0U;
  std::uint64_t serial = 0;
  auto operator<=>(const LoanId&) const = default;
};

// What the mover side shows to touch lent memory. Travels in GRANT (push) and OFFER (pull).
struct Ticket {
  LoanId loan;
  std::uint64_t token = 0;  // unguessable within a run; checked before a byte is placed
  auto operator<=>(const Ticket&) const = default;
};

// `count` neighbouring page indices from `first`. Page lists travel as runs.
struct PageRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  auto operator<=>(const PageRun&) const = default;
};
using PageRuns = std::vector<PageRun>;

inline constexpr std::uint32_t kNoSlot = ~0U;  // "no aux slot"

// What one attempt at a room number is about (rule 18): equal tags may be joined, others wait for the next
// open. Zeroes mean unknown: then the engine promises one prompt per room number.
struct Tag {
  std::uint64_t attempt = 0;
  std::uint64_t tokens = 0;
  std::uint64_t last_block_hash = 0;
  auto operator<=>(const Tag&) const = default;
};

KVFERRY_API const char* name_of(Poll) noexcept;
KVFERRY_API const char* name_of(Role) noexcept;

}  // namespace kvferry
