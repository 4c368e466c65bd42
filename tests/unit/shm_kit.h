// What the tests of the shm transport share: a transport with a pool of patterned items, and loops with an
// end.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/shm/shm_transport.h"

namespace kvferry::shm_kit {

inline constexpr std::uint32_t kItemBytes = 4096;

// Byte `at` of item `item` as writer `salt` makes it.
inline std::byte pattern(std::uint32_t salt, std::uint64_t item, std::uint64_t at) {
  return static_cast<std::byte>((salt * 131 + item * 29 + at * 7 + (at >> 8)) & 0xff);
}

inline void fill(std::byte* data, std::uint64_t bytes, std::uint32_t salt) {
  for (std::uint64_t i = 0; i < bytes; ++i) data[i] = pattern(salt, i / kItemBytes, i % kItemBytes);
}

// Runs progress() until `want` is seen or ten seconds are over; every event is kept.
struct Side {
  std::unique_ptr<ShmTransport> mover;
  std::vector<Event> seen;

  std::size_t turn() {
    std::array<Event, 64> out;
    const std::size_t count = mover->progress(out);
    seen.insert(seen.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  std::optional<Event> find(Event::Kind kind) const {
    for (const Event& event : seen) {
      if (event.kind == kind) return event;
    }
    return std::nullopt;
  }
  std::optional<Event> find(Event::Kind kind, OpId op) const {
    for (const Event& event : seen) {
      if (event.kind == kind && event.op == op) return event;
    }
    return std::nullopt;
  }
  std::size_t count(Event::Kind kind) const {
    std::size_t sum = 0;
    for (const Event& event : seen) sum += event.kind == kind ? 1U : 0U;
    return sum;
  }
};

template <class Condition>
bool until(std::initializer_list<Side*> sides, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::size_t did = 0;
    for (Side* side : sides) did += side->turn() + (side->mover->busy() ? 1U : 0U);
    if (did == 0) std::this_thread::yield();
  }
  return true;
}

inline Side open_side(const ShmOptions& options = {}) {
  auto mover = open_shm(options);
  if (!mover) {
    ADD_FAILURE() << mover.error().line();
    return {};
  }
  return Side{std::move(*mover), {}};
}

inline ShmOptions with_pool(const std::shared_ptr<SharedPool>& pool) {
  ShmOptions options;
  options.pools.push_back(pool);
  return options;
}

inline std::shared_ptr<SharedPool> pool_of(std::uint64_t bytes) {
  auto pool = allocate_pool(bytes);
  if (!pool) {
    ADD_FAILURE() << pool.error().line();
    return nullptr;
  }
  return *pool;
}

inline constexpr PeerId kPeer{7};

// A loan of items [first, first + count) of region 0, with one plane.
struct LoanBox {
  Plane plane{RegionId{0}, 0, kItemBytes};
  std::uint32_t item_bytes = kItemBytes;
  PageRun run;
  LoanGroup group;
  Loan loan;
  LoanBox(std::uint32_t slot, std::uint64_t serial, std::uint64_t token, std::uint32_t first,
          std::uint32_t count)
      : run{first, count} {
    group = {{&plane, 1}, {&item_bytes, 1}, {&run, 1}};
    loan = {LoanId{slot, serial}, token, kPeer, Access::kRead, {&group, 1}};
  }
  LoanBox(const LoanBox&) = delete;
  Ticket ticket() const { return {loan.id, loan.token}; }
};

// A read of `count` items: remote from `remote` on, local from `local` on, in region 0 of both sides.
struct ReadBox {
  PlanePair plane{{RegionId{0}, 0, kItemBytes}, {RegionId{0}, 0, kItemBytes}, kItemBytes, 1, 0, 0};
  std::vector<RunPair> runs;
  PieceGroup group;
  Operation operation;
  ReadBox(std::uint64_t op, Ticket ticket, std::vector<RunPair> list) : runs(std::move(list)) {
    group = {{&plane, 1}, runs};
    operation.op = OpId{op};
    operation.access = Access::kRead;
    operation.peer = kPeer;
    operation.ticket = ticket;
    operation.groups = {&group, 1};
  }
  ReadBox(const ReadBox&) = delete;
};

}  // namespace kvferry::shm_kit
