#include "transport/shm/copy_lane.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/copy.h"

namespace kvferry::shm {

namespace {

constexpr std::uint64_t kSlice = 256ULL
                                 << 10;  // the clock is read about once for this many bytes: 25 us at 10 GB/s
constexpr std::uint64_t kPieceCost = 256;  // what one piece counts beside its bytes
constexpr std::uint64_t kSmallOp = 64ULL << 10;  // at most this: a small operation
constexpr std::size_t kAhead = 4;  // lines of the next piece that are asked for early
constexpr std::size_t kBatch = 64;  // pieces that are walked before they are copied
constexpr std::size_t kGather = 64;  // pieces of one process_vm_readv

std::string subject(OpId op) { return "shm operation " + std::to_string(op.value); }

}  // namespace

void CopyLane::add(const Operation& operation, std::shared_ptr<const PeerMemory> memory) {
  auto op = std::make_unique<Op>();
  op->id = operation.op;
  op->peer = operation.peer;
  op->ticket = operation.ticket;
  op->groups = transport::OwnedGroups(operation.groups);
  op->cursor = transport::Cursor(op->groups.view());
  op->hold = regions_.hold_local(operation.groups);
  op->memory = std::move(memory);
  const std::uint32_t size_class = op->groups.bytes() == 0 ? 0 : op->groups.bytes() <= kSmallOp ? 1 : 2;
  op->rank = size_class == 0 ? 0 : (256U - operation.priority) * 4 + size_class;
  peers_[op->peer][op->rank].push_back(op.get());
  ops_.emplace(op->id.value, std::move(op));
}

void CopyLane::cancel(OpId id) noexcept {
  const auto found = ops_.find(id.value);
  if (found == ops_.end() || found->second->cancelled) {
    return;
  }
  found->second->cancelled = true;
  cancelled_.push_back(id);
}

void CopyLane::end_cancelled() {
  for (const OpId id : std::exchange(cancelled_, {})) {
    const auto found = ops_.find(id.value);
    if (found == ops_.end()) continue;
    end(*found->second,
        Error{Code::kAborted, Who::kLocal, Next::kNever, 0, subject(id), "cancelled by its poster"});
  }
}

void CopyLane::end_peer(PeerId peer, const Error& error) {
  std::vector<Op*> list;
  const auto found = peers_.find(peer);
  if (found == peers_.end()) {
    return;
  }
  for (const auto& [rank, queue] : found->second) list.insert(list.end(), queue.begin(), queue.end());
  copy_fence();
  for (Op* op : list) end(*op, error);
}

void CopyLane::quantum() {
  end_cancelled();
  if (ops_.empty()) {
    return;
  }
  Budget budget;
  budget.end = clock_.now() + kQuantumTime;
  while (!peers_.empty() && !budget.spent) {
    auto peer = peers_.upper_bound(turn_);
    if (peer == peers_.end()) peer = peers_.begin();
    turn_ = peer->first;
    std::deque<Op*>& queue = peer->second.begin()->second;
    Op& op = *queue.front();
    Error error;
    if (run(op, budget, error)) {
      end(op, std::move(error));
      charge(budget, kPieceCost);
    } else {
      std::rotate(queue.begin(), queue.begin() + 1, queue.end());
    }
  }
  copy_fence();  // before the caller can see the completions
}

bool CopyLane::run(Op& op, Budget& budget, Error& error) {
  if (!op.checked) {  // an economy: what is dead already is not copied
    op.checked = true;
    const LeaseView::State state = op.memory->lease().look(op.ticket);
    if (state != LeaseView::State::kInForce) {
      error = ended(op, state);
      return true;
    }
  }
  while (!op.cursor.done()) {
    if (budget.spent) {
      return false;
    }
    if (!copy_mapped(op, budget) && !copy_foreign(op, budget, error)) {
      return true;
    }
  }
  error = judge(op);
  return true;
}

// True when it copied something or the budget is spent; false: the next piece is foreign. Works in batches:
// the walk over the pieces is kept away from the copies, so that the processor can overlap them, and the next
// source is asked for early.
bool CopyLane::copy_mapped(Op& op, Budget& budget) {
  struct Step {
    std::byte* to;
    const std::byte* from;
    std::uint64_t bytes;
  };
  std::array<Step, kBatch + 1> steps;
  while (!op.cursor.done() && !budget.spent) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    const std::uint64_t most = std::min(kSlice, budget.bytes);
    while (!op.cursor.done() && count < kBatch && bytes < most) {
      const transport::Segment& piece = op.cursor.front();
      const PeerMemory::Region& from = op.memory->region(piece.remote_region);
      if (from.data == nullptr) break;
      const std::uint64_t part = std::min(piece.bytes, most - bytes);
      steps[count++] = {regions_.at(piece.local_region, piece.local), from.data + piece.remote, part};
      bytes += part;
      op.cursor.consume(part);
    }
    if (count == 0) {
      return false;
    }
    steps[count] = steps[count - 1];
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t line = 0; line < kAhead; ++line) __builtin_prefetch(steps[i + 1].from + line * 64);
      copy_stream(steps[i].to, steps[i].from, steps[i].bytes);
    }
    budget.unseen += count * kPieceCost;
    charge(budget, bytes);
  }
  return true;
}

bool CopyLane::copy_foreign(Op& op, Budget& budget, Error& error) {
  std::array<iovec, kGather> to{}, from{};
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  transport::Cursor ahead = op.cursor;
  const std::uint64_t most = std::min(kSlice, budget.bytes);
  while (!ahead.done() && count < kGather && bytes < most) {
    const transport::Segment piece = ahead.front();
    const PeerMemory::Region& region = op.memory->region(piece.remote_region);
    if (region.data != nullptr) break;
    const std::uint64_t part = std::min(piece.bytes, most - bytes);
    to[count] = {regions_.at(piece.local_region, piece.local), part};
    from[count] = {reinterpret_cast<void*>(region.address + piece.remote), part};
    ++count;
    bytes += part;
    ahead.consume(part);
  }
  op.foreign = true;
  const ssize_t got = ::process_vm_readv(op.memory->pid(), to.data(), count, from.data(), count, 0);
  if (got < 0 || static_cast<std::uint64_t>(got) != bytes) {
    const int number = got < 0 ? errno : EFAULT;
    error =
        system_error(subject(op.id), "process_vm_readv of the peer's foreign memory failed", number).value();
    error.code = number == ESRCH ? Code::kPeerLost : Code::kTransport;
    error.who = Who::kPeer;
    error.next = Next::kNewRoom;
    return false;
  }
  op.cursor = ahead;
  charge(budget, bytes);
  budget.unseen = kSlice;  // a system call: look at the clock next time
  return true;
}

Error CopyLane::judge(const Op& op) const {
  const LeaseView::State state = op.memory->lease().look(op.ticket);
  if (state != LeaseView::State::kInForce) {
    return ended(op, state);
  }
  // The word first: if the process named by the pid still lives now, it lived all the time, and the bytes are
  // its own.
  if (op.foreign && !op.memory->process_lives()) {
    return Error{Code::kPeerLost, Who::kPeer,
                 Next::kNewRoom,  0,
                 subject(op.id),  "the lender's process ended during the copy"};
  }
  return {};
}

Error CopyLane::ended(const Op& op, LeaseView::State state) const {
  const std::string loan =
      "loan slot " + std::to_string(op.ticket.loan.slot) + " serial " + std::to_string(op.ticket.loan.serial);
  if (state == LeaseView::State::kWrongToken) {
    return Error{
        Code::kRefused, Who::kLocal, Next::kNever, 0, subject(op.id), "the token is not the one of " + loan};
  }
  return Error{Code::kRefused, Who::kPeer,
               Next::kNewRoom, 0,
               subject(op.id), "lease ended: the lender recalled " + loan};
}

void CopyLane::charge(Budget& budget, std::uint64_t bytes) {
  budget.bytes -= std::min(budget.bytes, bytes);
  budget.unseen += bytes;
  if (budget.bytes == 0) {
    budget.spent = true;
  } else if (budget.unseen >= kSlice) {
    budget.unseen = 0;
    budget.spent = clock_.now() >= budget.end;
  }
}

void CopyLane::unlink(const Op& op) {
  const auto peer = peers_.find(op.peer);
  const auto queue = peer->second.find(op.rank);
  std::deque<Op*>& list = queue->second;
  list.erase(std::find(list.begin(), list.end(), &op));
  if (list.empty()) peer->second.erase(queue);
  if (peer->second.empty()) peers_.erase(peer);
}

void CopyLane::end(Op& op, Error error) {
  unlink(op);
  regions_.release(op.hold);
  Event event;
  event.kind = Event::Kind::kCompleted;
  event.peer = op.peer;
  event.op = op.id;
  event.bytes = error.ok() ? op.groups.bytes() : 0;
  event.error = std::move(error);
  events_.push_back(event);
  event.kind = Event::Kind::kQuiesced;
  event.error = {};
  event.bytes = 0;
  events_.push_back(std::move(event));
  ops_.erase(op.id.value);
}

}  // namespace kvferry::shm
