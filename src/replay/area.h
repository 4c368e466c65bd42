// Memory that the parent holds and its workers map: the plan of the run, what each worker counted, and what
// each side of each request came to. Counters survive SIGKILL because they are here. Thread rule: one writer
// for each word (named below); all words that change are atomic, relaxed, and ordered by the messages on the
// link.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kvferry/error.h"
#include "replay/kill_spec.h"
#include "replay/page_memory.h"
#include "replay/trace.h"

namespace kvferry::replay {

enum class Count : std::uint32_t {
  kBytesMoved = 0,   // landed for rooms that succeeded, auxiliary slots included
  kPrefixHitBytes,
  kBytesVerified,
  kBytesWrong,
  kManifestsWrong,   // the auxiliary slot did not hold what the writer says it wrote
  kBytesUnaccounted, // rooms that succeeded with another size than was granted
  kStrangerWrites,   // bytes of free or held pages that somebody changed
  kPagesLent,        // to the protocol: by grant (decode) and push (prefill)
  kPagesReturned,
  kPagesQuarantined,
  kPageWaits,        // allocations that had to wait for pages
  kChunksPushed,
  kRefused,          // calls that the manager refused for another reason than back-pressure
  kEnd,
};
inline constexpr std::size_t kCounts = static_cast<std::size_t>(Count::kEnd);

// One process of the run. A restarted process goes on with the counters of the one before.
struct WorkerSlot {
  std::array<std::atomic<std::uint64_t>, kCounts> counts;  // writer: the worker
  std::atomic<std::uint64_t> releases_done;                // decode: Release commands carried out
  std::atomic<std::uint32_t> pages_short;  // decode: a request waits that the free pages cannot hold
  std::atomic<std::uint64_t> writer_started, writer_random;  // the present life
  char endpoint[64];  // "host:port", set by the parent before the first life
  char trouble[512];  // worker: why it could not start

  std::uint64_t get(Count c) const {
    return counts[static_cast<std::size_t>(c)].load(std::memory_order_relaxed);
  }
  void add(Count c, std::uint64_t n) {
    counts[static_cast<std::size_t>(c)].fetch_add(n, std::memory_order_relaxed);
  }
};

enum class SideState : std::uint32_t { kNone = 0, kOpened, kFailing, kSuccess, kFailed };

// One side of one request; the worker on that side writes. Times are CLOCK_MONOTONIC nanoseconds, 0 = not
// yet.
struct SideRecord {
  std::atomic<std::uint32_t> attempt;  // the rest speaks of this attempt
  std::atomic<SideState> state;
  std::atomic<std::int64_t> opened_ns, granted_ns, pushed_ns, failing_ns, terminal_ns;
  std::atomic<std::uint64_t> tokens;  // prefill: pushed so far
  std::atomic<std::uint64_t> bytes;  // decode: landed, told at the end
  std::atomic<std::uint32_t> abort_said;  // this side called abort() because the plan says so
  std::atomic<std::uint32_t> refused;  // decode: the prompt is larger than its pool
  std::atomic<std::uint64_t> writer_started, writer_random, serial;  // prefill: who writes this attempt
  std::uint32_t code = 0;  // kvferry::Code of the cause
  std::int32_t status = 0;
  char why[256];  // Error::line(), cut
};

struct AreaConfig {
  std::uint64_t seed = 1;
  std::uint32_t prefill = 1, decode = 1;
  std::uint32_t page_tokens = 16, chunk_tokens = 2048;
  std::uint32_t pages = 0, aux_slots = 0;
  std::uint32_t layers = 1, parts = 1, mla = 0;
  std::uint32_t part_bytes[2] = {0, 0};
  char part_names[2][16] = {};
  char dtype[16] = {};
  char model[64] = {};
  char mover[16] = {};
};

class Area {
 public:
  // Parent: a new area for this trace. Errors: kEnvironment.
  static Result<Area> create(const AreaConfig&, const Trace&);
  // Worker: maps what the parent made; the descriptor is inherited. Errors: kEnvironment, kMismatch.
  static Result<Area> attach(int fd);
  Area(Area&&) noexcept;
  Area& operator=(Area&&) noexcept;
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  ~Area();

  int fd() const noexcept { return fd_; }
  const AreaConfig& config() const noexcept;
  Shape shape() const;
  std::uint32_t workers() const noexcept { return config().prefill + config().decode; }
  std::uint32_t requests() const noexcept;

  WorkerSlot& worker(std::uint32_t slot) const noexcept;  // prefill first, then decode
  SideRecord& side(std::uint32_t request, Side) const noexcept;
  const TraceRequest& request(std::uint32_t index) const noexcept;
  std::span<const std::uint64_t> hashes(std::uint32_t index) const noexcept;
  std::uint64_t total(Count) const noexcept;  // over all workers

 private:
  Area(int fd, std::byte* base, std::size_t size) : fd_(fd), base_(base), size_(size) {}
  struct Header;
  Header& header() const noexcept;

  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

AreaConfig make_config(const Shape&, std::string_view mover, std::uint32_t prefill, std::uint32_t decode,
                       std::uint32_t chunk_tokens, std::uint64_t seed);

// Copies as much as fits and ends it with a zero.
void put_text(std::span<char> to, std::string_view text) noexcept;

std::int64_t monotonic_ns() noexcept;  // CLOCK_MONOTONIC: equal in all processes of the host

}  // namespace kvferry::replay
