#include "sim/sim_transport.h"

#include <algorithm>
#include <cstring>

namespace kvferry::sim {
namespace {

std::uint32_t slot_of(const Plane& plane, Space space) {
  return static_cast<std::uint32_t>(plane.base / kPlaneBytes) -
         static_cast<std::uint32_t>(space) * kSlotsPerSpace;
}

bool covers(const PageRuns& runs, std::uint32_t item) {
  return std::any_of(runs.begin(), runs.end(), [&](const PageRun& r) { return item - r.first < r.count; });
}

Error refused(const char* why) {
  return Error{Code::kRefused, Who::kPeer, Next::kNewRoom, 0, "sim mover", why};
}

Error mover_error(const char* why) {
  return Error{Code::kTransport, Who::kTransport, Next::kNewRoom, 0, "sim mover", why};
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

LifeIndex SimTransport::birth(std::uint32_t node, const Geometry& geometry) {
  Life life;
  life.node = node;
  life.memory = Memory(geometry);
  lives_.push_back(std::move(life));
  return static_cast<LifeIndex>(lives_.size() - 1);
}

void SimTransport::die(LifeIndex life) {
  lives_[life].alive = false;
  for (OpIndex i = 0; i < ops_.size(); ++i) {
    SimOp& op = ops_[i];
    if (!op.used) continue;
    if (op.target == life) op.arrival_owed = false;
    if (op.poster == life && op.access == Access::kRead) op.silent = true;
    forget_if_over(i);
  }
}

std::vector<std::byte> SimTransport::describe(LifeIndex life) {
  std::vector<std::byte> bytes(sizeof life);
  std::memcpy(bytes.data(), &life, sizeof life);
  return bytes;
}

void SimTransport::add_peer(LifeIndex at, PeerId peer, std::span<const std::byte> description) {
  LifeIndex of = kNoLife;
  if (description.size() == sizeof of) std::memcpy(&of, description.data(), sizeof of);
  auto& peers = lives_[at].peers;
  std::erase_if(peers, [&](const auto& p) { return p.first == peer; });
  if (of < lives_.size()) peers.emplace_back(peer, of);
}

void SimTransport::drop_peer(LifeIndex at, PeerId peer) {
  std::erase_if(lives_[at].peers, [&](const auto& p) { return p.first == peer; });
}

PeerId SimTransport::peer_id(LifeIndex at, LifeIndex of) const {
  for (const auto& [peer, life] : lives_[at].peers) {
    if (life == of) return peer;
  }
  return PeerId{};
}

LifeIndex SimTransport::life_of(LifeIndex at, PeerId peer) const {
  for (const auto& [id, life] : lives_[at].peers) {
    if (id == peer) return life;
  }
  return kNoLife;
}

void SimTransport::lend(LifeIndex at, const core::out::Lend& lend, Laws& laws) {
  Life& life = lives_[at];
  LoanRecord loan;
  loan.id = lend.loan;
  life.newest_loan = std::max(life.newest_loan, lend.loan.serial);
  loan.token = lend.token;
  loan.peer = life_of(at, lend.peer);
  loan.access = lend.access;
  loan.generation = life.generation;
  loan.items = lend.items;
  for (std::size_t s = 0; s < kSpaces; ++s) {
    for (const PageRun& run : lend.items[s]) {
      for (std::uint32_t i = run.first; i < run.first + run.count; ++i) {
        const auto space = static_cast<Space>(s);
        const std::uint32_t have =
            lend.access == Access::kWrite ? life.memory.lending(space, i) : life.memory.held(space, i);
        if (have == 0)
          laws.broken(Law::kStrangerWrite, "item " + std::to_string(i) + " is lent without being given");
        if (lend.access == Access::kWrite) {
          if (loan.lending != 0 && loan.lending != have) {
            laws.broken(Law::kStrangerWrite, "item " + std::to_string(i) + " of another grant is lent");
          }
          loan.lending = have;
        }
      }
    }
  }
  auto& loans = life.loans;
  const auto where =
      std::upper_bound(loans.begin(), loans.end(), loan.id.serial,
                       [](std::uint64_t serial, const LoanRecord& l) { return serial < l.id.serial; });
  loans.insert(where, std::move(loan));
}

const SimTransport::LoanRecord* SimTransport::find_loan(LifeIndex at, LoanId id) const {
  const auto& loans = lives_[at].loans;
  const auto it =
      std::lower_bound(loans.begin(), loans.end(), id.serial,
                       [](const LoanRecord& l, std::uint64_t serial) { return l.id.serial < serial; });
  return it != loans.end() && it->id == id ? &*it : nullptr;
}

SimTransport::LoanRecord* SimTransport::find_loan(LifeIndex at, LoanId id) {
  return const_cast<LoanRecord*>(std::as_const(*this).find_loan(at, id));
}

void SimTransport::revoke(LifeIndex at, LoanId id) {
  LoanRecord* loan = find_loan(at, id);
  if (loan == nullptr) return;
  loan->recalled = true;  // the contract promises nothing before Revoked is said: until then the loan works
}

void SimTransport::finish_revoke(LifeIndex at, LoanId id, Effects& effects) {
  if (LoanRecord* loan = find_loan(at, id)) {
    const bool keeps = mutant_ == MoverMutant::kRevokeKeepsWord || mutant_ == MoverMutant::kRevokedEarly;
    if (!keeps) loan->live = false;
  }
  effects.push_back({at, core::in::Revoked{id}});
}

std::uint32_t SimTransport::path(LifeIndex a, LifeIndex b) const {
  for (const auto& p : paths_) {
    if (p[0] == std::min(a, b) && p[1] == std::max(a, b)) return p[2];
  }
  return 0;
}

std::uint32_t& SimTransport::path(LifeIndex a, LifeIndex b) {
  for (auto& p : paths_) {
    if (p[0] == std::min(a, b) && p[1] == std::max(a, b)) return p[2];
  }
  paths_.push_back({std::min(a, b), std::max(a, b), 0});
  return paths_.back()[2];
}

OpIndex SimTransport::post(LifeIndex at, const core::out::Post& post, const core::PairPlan& plan,
                           Laws& laws) {
  if (free_ops_.empty()) {
    free_ops_.push_back(static_cast<OpIndex>(ops_.size()));
    ops_.emplace_back();
  }
  const OpIndex index = free_ops_.back();
  free_ops_.pop_back();
  SimOp& op = ops_[index];
  std::vector<Piece> pieces = std::move(op.pieces);  // keeps its capacity
  pieces.clear();
  op = SimOp{};
  op.used = true;
  op.op = post.op;
  op.poster = at;
  op.access = post.access;
  op.ticket = post.ticket;
  op.notice = post.notice;
  const LifeIndex other = life_of(at, post.peer);
  const bool write = post.access == Access::kWrite;
  op.source = write ? at : other;
  op.target = write ? other : at;
  for (std::size_t s = 0; s < kSpaces; ++s) {
    const auto space = static_cast<Space>(s);
    for (const RunPair& run : post.runs[s]) {
      op.bytes += static_cast<std::uint64_t>(run.count) * plan.item_bytes[s];
      for (std::uint32_t k = 0; k < run.count; ++k) {
        for (const PlanePair& plane : plan.planes[s]) {
          const std::uint32_t local = slot_of(plane.local, space), remote = slot_of(plane.remote, space);
          if (write) pieces.push_back({space, local, run.local + k, remote, run.remote + k});
          if (!write) pieces.push_back({space, remote, run.remote + k, local, run.local + k});
        }
      }
    }
  }
  op.pieces = std::move(pieces);
  if (other == kNoLife) {
    op.refused = op.silent = true;
    return index;
  }
  op.path = path(at, other);
  const LoanRecord* loan = find_loan(other, post.ticket.loan);
  op.generation = loan != nullptr ? loan->generation : ~0U;
  if (write) {
    op.lending = loan != nullptr ? loan->lending : 0;
  } else if (!op.pieces.empty()) {
    op.lending = lives_[at].memory.lending(op.pieces[0].space, op.pieces[0].to_item);
  }
  check_post(op, loan, laws);
  op.arrival_owed = op.pieces.empty() && write && kind_ != MoverKind::kLanded;
  return index;
}

// The engine may only post what it holds: its own pages that the user pushed, and items of the peer's loan.
void SimTransport::check_post(const SimOp& op, const LoanRecord* loan, Laws& laws) const {
  const Memory& own = lives_[op.poster].memory;
  for (const Piece& p : op.pieces) {
    if (op.access == Access::kWrite) {
      if (own.held(p.space, p.from_item) == 0) {
        laws.broken(Law::kStrangerWrite,
                    "source item " + std::to_string(p.from_item) + " is posted after its return");
      }
    } else if (own.lending(p.space, p.to_item) != op.lending || op.lending == 0) {
      laws.broken(Law::kStrangerWrite,
                  "a read into item " + std::to_string(p.to_item) + " that is not given");
    }
    const std::uint32_t theirs = op.access == Access::kWrite ? p.to_item : p.from_item;
    if (loan != nullptr && !covers(loan->items[static_cast<std::size_t>(p.space)], theirs)) {
      laws.broken(Law::kStrangerWrite,
                  "item " + std::to_string(theirs) + " is outside the loan that the post names");
    }
  }
}

LifeIndex SimTransport::heir(LifeIndex life) const {
  for (LifeIndex i = static_cast<LifeIndex>(lives_.size()); i-- > life;) {
    if (lives_[i].node == lives_[life].node) return i;
  }
  return life;
}

bool SimTransport::word_alive(const SimOp& op) const {
  const LoanRecord* loan = find_loan(op.source, op.ticket.loan);
  if (mutant_ == MoverMutant::kWordIsLiveBit) {  // any live word in that slot will do
    const auto& loans = lives_[op.source].loans;
    return std::any_of(loans.begin(), loans.end(),
                       [&](const LoanRecord& l) { return l.live && l.id.slot == op.ticket.loan.slot; });
  }
  return loan != nullptr && loan->live && loan->token == op.ticket.token && loan->peer == op.poster;
}

bool SimTransport::fenced_ticket(const SimOp& op) const {
  const LifeIndex other = op.access == Access::kWrite ? op.target : op.source;
  const auto& fenced = lives_[other].fenced;
  return std::any_of(fenced.begin(), fenced.end(), [&](const auto& f) {
    return f.first == op.poster && op.ticket.loan.serial <= f.second;
  });
}

bool SimTransport::passes_target(SimOp& op) {
  const LifeIndex other = op.access == Access::kWrite ? op.target : op.source;
  if (path(op.poster, other) != op.path && mutant_ != MoverMutant::kFenceLies) return false;
  if (fenced_ticket(op)) return false;
  if (op.access == Access::kRead) return true;
  if (!lives_[op.target].alive) {
    if (!one_sided() || mutant_ != MoverMutant::kKeyRepeats) return false;
    op.target = heir(op.target);
    if (!lives_[op.target].alive) return false;
  }
  if (one_sided())
    return lives_[op.target].generation == op.generation || mutant_ == MoverMutant::kOldKeyLands;
  if (mutant_ == MoverMutant::kNoTokenCheck) return true;
  const LoanRecord* loan = find_loan(op.target, op.ticket.loan);
  return loan != nullptr && loan->live && loan->token == op.ticket.token && loan->peer == op.poster;
}

void SimTransport::place(SimOp& op, const Piece& p, Laws& laws) {
  Memory& to = lives_[op.target].memory;
  if (!to.valid(p.space, p.to_slot, p.to_item) || op.lending == 0 ||
      to.lending(p.space, p.to_item) != op.lending) {
    const std::uint32_t now = p.to_item < to.geometry().items[static_cast<std::size_t>(p.space)]
                                  ? to.lending(p.space, p.to_item)
                                  : 0;
    laws.broken(Law::kStrangerWrite, "item " + std::to_string(p.to_item) + " of node " +
                                         std::to_string(lives_[op.target].node) + " is under lending " +
                                         std::to_string(now) + ", the write is for " +
                                         std::to_string(op.lending));
    return;
  }
  to.cell(p.space, p.to_slot, p.to_item) = lives_[op.source].memory.cell(p.space, p.from_slot, p.from_item);
}

bool SimTransport::can_land(OpIndex i) const {
  const SimOp& op = ops_[i];
  return op.used && !op.silent && op.landed < op.pieces.size();
}

void SimTransport::land(OpIndex i, std::uint32_t pieces, Laws& laws) {
  SimOp& op = ops_[i];
  if (!can_land(i)) return;
  if (!passes_target(op)) {
    op.refused = op.silent = true;
    forget_if_over(i);
    return;
  }
  if (op.landed == 0 && op.access == Access::kRead) op.word_ok = word_alive(op);
  const auto all = static_cast<std::uint32_t>(op.pieces.size());
  for (; pieces > 0 && op.landed < all; --pieces, ++op.landed) place(op, op.pieces[op.landed], laws);
  if (op.landed < all) return;
  op.arrival_owed = op.access == Access::kWrite && kind_ != MoverKind::kLanded;
  if (op.completed || orphan(i)) op.silent = true;
  forget_if_over(i);
}

bool SimTransport::can_arrive(OpIndex i) const { return ops_[i].used && ops_[i].arrival_owed; }

void SimTransport::arrive(OpIndex i, Effects& effects) {
  SimOp& op = ops_[i];
  if (!can_arrive(i)) return;
  op.arrival_owed = false;
  const PeerId peer = peer_id(op.target, op.poster);
  if (lives_[op.target].alive && peer.value != 0) {
    effects.push_back({op.target, core::in::Arrived{peer, op.ticket.loan, op.bytes, op.notice}});
  }
  forget_if_over(i);
}

bool SimTransport::can_complete(OpIndex i) const {
  const SimOp& op = ops_[i];
  if (!op.used || op.completed || orphan(i)) return false;
  return op.refused || op.landed == op.pieces.size() ||
         (mutant_ == MoverMutant::kCompletedEarly && one_sided());
}

void SimTransport::complete(OpIndex i, Effects& effects) {
  SimOp& op = ops_[i];
  if (!can_complete(i)) return;
  op.completed = true;
  const bool whole = op.landed == op.pieces.size();
  Error error;
  if (op.refused && !whole) error = refused("the loan or the path is gone");
  if (op.access == Access::kRead && error.ok()) {
    const bool ok = mutant_ == MoverMutant::kWordCheckedBefore ? op.word_ok : word_alive(op);
    if (!ok) error = refused("the lease word is dead");
  }
  if (whole) op.silent = true;
  effects.push_back({op.poster, core::in::Completed{op.op, error}});
}

bool SimTransport::can_fail(OpIndex i) const { return ops_[i].used && !ops_[i].completed && !orphan(i); }

void SimTransport::fail(OpIndex i, const char* why, Effects& effects) {
  SimOp& op = ops_[i];
  if (!can_fail(i)) return;
  op.completed = true;
  if (op.landed == op.pieces.size()) op.silent = true;
  effects.push_back({op.poster, core::in::Completed{op.op, mover_error(why)}});
}

bool SimTransport::can_quiesce(OpIndex i) const {
  return ops_[i].used && ops_[i].completed && !ops_[i].quiesced && !orphan(i);
}

void SimTransport::quiesce(OpIndex i, Effects& effects) {
  SimOp& op = ops_[i];
  if (!can_quiesce(i)) return;
  op.quiesced = true;
  const bool early = mutant_ == MoverMutant::kQuiescedEarly || mutant_ == MoverMutant::kCompletedEarly;
  if (!early) op.silent = true;
  effects.push_back({op.poster, core::in::Quiesced{op.op}});
  forget_if_over(i);
}

void SimTransport::drop_orphan(OpIndex i) {
  if (!ops_[i].used || !orphan(i)) return;
  ops_[i].silent = true;
  forget_if_over(i);
}

void SimTransport::finish_fence(LifeIndex at, PeerId peer, Effects& effects) {
  const LifeIndex other = life_of(at, peer);
  if (other == kNoLife || (one_sided() && fence_ == FenceMode::kNone)) {
    effects.push_back({at, core::in::PeerFenced{peer, mover_error("this mover has no fence")}});
    return;
  }
  if (mutant_ != MoverMutant::kFenceLies) {
    if (mutant_ != MoverMutant::kFenceKeepsPath) {
      ++path(at, other);
      auto& fenced = lives_[at].fenced;
      std::erase_if(fenced, [&](const auto& f) { return f.first == other; });
      fenced.emplace_back(other, lives_[at].newest_loan);
    }
    for (OpIndex i = 0; i < ops_.size(); ++i) {
      SimOp& op = ops_[i];
      const LifeIndex far = op.access == Access::kWrite ? op.target : op.source;
      const bool between = (op.poster == at && far == other) || (op.poster == other && far == at);
      if (!op.used || !between || op.landed == op.pieces.size()) continue;
      op.refused = op.silent = true;
      forget_if_over(i);
    }
    for (LoanRecord& loan : lives_[at].loans) {
      if (loan.peer == other && loan.access == Access::kRead) loan.live = false;
    }
  }
  effects.push_back({at, core::in::PeerFenced{peer, Error{}}});
}

void SimTransport::finish_rekey(LifeIndex at, std::uint32_t generation, Effects& effects) {
  lives_[at].generation = generation;
  effects.push_back({at, core::in::RegionsRekeyed{generation}});
}

std::uint32_t SimTransport::in_flight(LifeIndex poster) const {
  return static_cast<std::uint32_t>(std::count_if(
      ops_.begin(), ops_.end(), [&](const SimOp& op) { return op.used && op.poster == poster; }));
}

bool SimTransport::may_read(LifeIndex poster, Space space, std::uint32_t item) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const SimOp& op) {
    if (!op.used || op.silent || op.poster != poster || op.access != Access::kWrite) return false;
    return std::any_of(op.pieces.begin() + op.landed, op.pieces.end(),
                       [&](const Piece& p) { return p.space == space && p.from_item == item; });
  });
}

void SimTransport::forget_if_over(OpIndex i) {
  SimOp& op = ops_[i];
  if (!op.used || !op.silent || op.arrival_owed || !(op.quiesced || orphan(i))) return;
  op.used = false;
  free_ops_.push_back(i);
}

void SimTransport::canonical(std::string& bytes) const {
  for (const Life& life : lives_) {
    put(bytes, static_cast<std::uint32_t>(life.generation * 2 + (life.alive ? 1 : 0)));
    life.memory.canonical(bytes);
    for (const LoanRecord& loan : life.loans) {
      put(bytes, loan.id.serial);
      bytes.push_back(static_cast<char>((loan.live ? 1 : 0) + (loan.recalled ? 2 : 0)));
    }
    bytes.push_back('|');
  }
  std::vector<const SimOp*> ops;
  for (const SimOp& op : ops_) {
    if (op.used) ops.push_back(&op);
  }
  std::sort(ops.begin(), ops.end(), [](const SimOp* a, const SimOp* b) {
    return a->poster != b->poster ? a->poster < b->poster : a->op < b->op;
  });
  for (const SimOp* op : ops) {
    put(bytes, op->op.value);
    put(bytes, op->ticket.loan.serial);
    put(bytes, static_cast<std::uint8_t>(op->poster * 16 + op->target));
    put(bytes, static_cast<std::uint8_t>(op->path * 16 + op->landed));
    put(bytes, static_cast<std::uint8_t>(op->completed + op->quiesced * 2 + op->refused * 4 + op->silent * 8 +
                                         op->arrival_owed * 16 + op->word_ok * 32));
  }
  for (const auto& p : paths_) put(bytes, p);
  for (const Life& life : lives_) {
    for (const auto& f : life.fenced) put(bytes, f);
    bytes.push_back('/');
  }
}

}  // namespace kvferry::sim
