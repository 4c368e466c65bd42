#include "transport/tcp/outbox.h"

#include <algorithm>

namespace kvferry::transport::tcp {
namespace {

constexpr std::uint64_t kSmallBytes = 64 << 10;
constexpr std::uint32_t kSmallInRow = 16;

bool small(const OutOp& op) { return op.groups.bytes() <= kSmallBytes; }

}  // namespace

void Outbox::add(std::unique_ptr<OutOp> op) {
  requeue(op.get());
  const std::uint64_t sequence = op->sequence;
  ops_.emplace(sequence, std::move(op));
}

void Outbox::requeue(OutOp* op) {
  std::deque<OutOp*>& queue = small(*op) ? small_ : large_;
  const auto behind = std::find_if(queue.begin(), queue.end(),
                                   [&](const OutOp* other) { return other->priority < op->priority; });
  queue.insert(behind, op);
}

OutOp* Outbox::choose() noexcept {
  const bool large_waits = !large_.empty();
  bool take_large = small_.empty();
  if (large_waits && !small_.empty()) {
    take_large = large_.front()->priority > small_.front()->priority || small_in_row_ >= kSmallInRow;
  }
  std::deque<OutOp*>& queue = take_large ? large_ : small_;
  if (queue.empty()) return nullptr;
  small_in_row_ = take_large ? 0 : small_in_row_ + 1;
  OutOp* op = queue.front();
  queue.pop_front();
  return op;
}

OutOp* Outbox::cut(Slice& slice, std::vector<std::byte>& frame) {
  OutOp* op = choose();
  if (op == nullptr) return nullptr;
  slice = Slice{};
  if (!op->slicer.done()) op->slicer.next(slice);
  op->begun = true;
  op->cut = op->slicer.done();
  if (!op->cut) requeue(op);
  WriteFrame head;
  head.sequence = op->sequence;
  head.op_bytes = op->groups.bytes();
  head.ticket = op->ticket;
  head.notice = op->notice;
  head.priority = op->priority;
  frame = encode(head, slice.group());
  return op;
}

OutOp* Outbox::find(std::uint64_t sequence) noexcept {
  const auto it = ops_.find(sequence);
  return it == ops_.end() ? nullptr : it->second.get();
}

OutOp* Outbox::find(OpId id) noexcept {
  for (auto& [sequence, op] : ops_) {
    if (op->id == id) return op.get();
  }
  return nullptr;
}

void Outbox::fail(OutOp& op, Error error) {
  if (op.failed) return;
  op.failed = true;
  op.error = std::move(error);
  std::erase(small_, &op);
  std::erase(large_, &op);
}

std::unique_ptr<OutOp> Outbox::take(std::uint64_t sequence) {
  auto node = ops_.extract(sequence);
  if (node.empty()) return nullptr;
  std::erase(small_, node.mapped().get());
  std::erase(large_, node.mapped().get());
  return std::move(node.mapped());
}

}  // namespace kvferry::transport::tcp
