// The movers of a whole cluster as one value: loans, operations in flight, paths and keys, on shadow memory.
// It knows no time: the simulator (random moments) and the explorer (every order) call its steps. What a step
// tells an engine comes back as effects. Works on the engine's outputs directly. A copyable value; no thread
// rule.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/io.h"
#include "core/plan.h"
#include "sim/law.h"
#include "sim/memory.h"
#include "sim/mover_kind.h"

namespace kvferry::sim {

using LifeIndex = std::uint32_t;  // one life of one process; dense from 0, never used twice
using OpIndex = std::uint32_t;  // slot of an operation in flight; reused
inline constexpr LifeIndex kNoLife = ~0U;

// Layers are told apart by the base address of their plane: slot s of space p begins at (s + 64 p) *
// kPlaneBytes.
inline constexpr std::uint64_t kPlaneBytes = 1U << 20;
inline constexpr std::uint32_t kSlotsPerSpace = 64;
inline std::uint64_t plane_base(Space p, std::uint32_t slot) {
  return (static_cast<std::uint64_t>(p) * kSlotsPerSpace + slot) * kPlaneBytes;
}

struct Effect {  // an input that the engine of `life` gets
  LifeIndex life = kNoLife;
  core::Input input;
};
using Effects = std::vector<Effect>;

struct Piece {
  Space space = Space::kPages;
  std::uint32_t from_slot = 0, from_item = 0, to_slot = 0, to_item = 0;
};

// An operation as the hardware sees it. `poster` posted it; bytes go from `source` to `target`.
struct SimOp {
  bool used = false;
  OpId op;
  LifeIndex poster = kNoLife, source = kNoLife, target = kNoLife;
  Access access = Access::kWrite;
  Ticket ticket;
  Notice notice;
  std::uint64_t bytes = 0;
  std::uint32_t lending = 0;  // of the target's items when it was posted (the oracle's knowledge)
  std::uint32_t path = 0;  // path generation between the two when it was posted
  std::uint32_t generation = 0;  // key generation of the target's regions under which the loan was made
  std::vector<Piece> pieces;
  std::uint32_t landed = 0;  // pieces
  bool word_ok = false;  // pull: the check before the copy (mutant only)
  bool completed = false, quiesced = false;
  bool refused = false;  // the target or the path turned it down: it will complete with an error
  bool silent = false;  // nothing of it can land any more
  bool arrival_owed = false;  // landed whole; the target has not been told yet
};

class SimTransport {
 public:
  SimTransport(MoverKind kind, FenceMode fence, MoverMutant mutant)
      : kind_(kind), fence_(fence), mutant_(mutant) {}

  MoverKind kind() const { return kind_; }
  bool one_sided() const { return kind_ == MoverKind::kLanded || kind_ == MoverKind::kNotified; }

  // Processes.
  LifeIndex birth(std::uint32_t node, const Geometry&);
  void die(LifeIndex);  // its memory freezes; what it had in flight may still land elsewhere
  std::size_t lives() const { return lives_.size(); }
  bool alive(LifeIndex l) const { return lives_[l].alive; }
  Memory& memory(LifeIndex l) { return lives_[l].memory; }
  const Memory& memory(LifeIndex l) const { return lives_[l].memory; }
  static std::vector<std::byte> describe(LifeIndex);

  // The engine's outputs. Each answer comes later, by a step below.
  void add_peer(LifeIndex, PeerId, std::span<const std::byte> description);
  void drop_peer(LifeIndex, PeerId);
  void lend(LifeIndex, const core::out::Lend&, Laws&);
  void revoke(LifeIndex, LoanId);
  OpIndex post(LifeIndex, const core::out::Post&, const core::PairPlan&, Laws&);

  // Steps: who calls them chooses when. can_* says which are possible now.
  bool can_land(OpIndex) const;
  void land(OpIndex, std::uint32_t pieces, Laws&);
  bool can_arrive(OpIndex) const;
  void arrive(OpIndex, Effects&);
  bool can_complete(OpIndex) const;  // with the outcome that the bytes deserve
  void complete(OpIndex, Effects&);
  bool can_fail(OpIndex) const;  // an injected error: completed with an error, may still land
  void fail(OpIndex, const char* why, Effects&);
  bool can_quiesce(OpIndex) const;
  void quiesce(OpIndex, Effects&);
  bool orphan(OpIndex i) const { return !lives_[ops_[i].poster].alive; }
  void drop_orphan(OpIndex);  // an operation of a dead process that never lands

  void finish_revoke(LifeIndex, LoanId, Effects&);
  void finish_fence(LifeIndex, PeerId, Effects&);
  void finish_rekey(LifeIndex, std::uint32_t generation, Effects&);
  PeerId peer_id(LifeIndex at, LifeIndex of) const;  // value 0: `at` has not added it
  LifeIndex life_of(LifeIndex at, PeerId) const;  // kNoLife: unknown

  const std::vector<SimOp>& ops() const { return ops_; }
  std::uint32_t in_flight(LifeIndex poster) const;
  // Whether a write that was posted by this life may still read that item of its own memory.
  bool may_read(LifeIndex poster, Space, std::uint32_t item) const;
  void canonical(std::string& bytes) const;

 private:
  struct LoanRecord {
    LoanId id;
    std::uint64_t token = 0;
    LifeIndex peer = kNoLife;
    Access access = Access::kWrite;
    std::uint32_t lending = 0, generation = 0;
    bool live = true, recalled = false;
    std::array<PageRuns, kSpaces> items;
  };
  struct Life {
    std::uint32_t node = 0;
    bool alive = true;
    std::uint32_t generation = 0;
    Memory memory;
    std::vector<std::pair<PeerId, LifeIndex>> peers;
    std::vector<LoanRecord> loans;
    std::uint64_t newest_loan = 0;  // serial
    // Tickets issued up to this serial belong to a path that was fenced: a connection made anew does not take
    // them.
    std::vector<std::pair<LifeIndex, std::uint64_t>> fenced;
  };

  LoanRecord* find_loan(LifeIndex, LoanId);
  const LoanRecord* find_loan(LifeIndex, LoanId) const;
  std::uint32_t& path(LifeIndex a, LifeIndex b);
  std::uint32_t path(LifeIndex a, LifeIndex b) const;
  bool word_alive(const SimOp&) const;
  bool passes_target(SimOp&);
  bool fenced_ticket(const SimOp&) const;
  void place(SimOp&, const Piece&, Laws&);
  void check_post(const SimOp&, const LoanRecord*, Laws&) const;
  void forget_if_over(OpIndex);
  LifeIndex heir(LifeIndex) const;  // the newest life of the same process

  MoverKind kind_;
  FenceMode fence_;
  MoverMutant mutant_;
  std::vector<Life> lives_;
  std::vector<SimOp> ops_;
  std::vector<OpIndex> free_ops_;
  std::vector<std::array<std::uint32_t, 3>> paths_;  // (a, b, generation), a < b; absent: 0
};

}  // namespace kvferry::sim
