#include "replay/prefill_worker.h"

#include <algorithm>
#include <utility>

#include "replay/manifest.h"

namespace kvferry::replay {
namespace {

constexpr std::uint64_t key_of(Handle h) { return (std::uint64_t{h.generation} << 32) | h.slot; }
constexpr char kPlanned[] = "client cancelled the request at prefill";

}  // namespace

PrefillWorker::Room* PrefillWorker::find(std::uint32_t request) {
  const auto found = rooms_.find(request);
  return found == rooms_.end() ? nullptr : found->second.get();
}

void PrefillWorker::on_message(const Message& message) {
  switch (message.kind) {
    case Message::Kind::kOpen: open(message); break;
    case Message::Kind::kResume: resume(message.request); break;
    case Message::Kind::kAbort:
      if (Room* room = find(message.request); room != nullptr && room->attempt == message.attempt) {
        core_.abort(room->handle, "the router gave the request up: its decode process is gone");
      }
      break;
    default: break;
  }
}

void PrefillWorker::open(const Message& message) {
  const TraceRequest& request = core_.area().request(message.request);
  const std::span<const std::uint64_t> hashes = core_.area().hashes(message.request);
  SideRecord& record = core_.begin_record(message.request, message.attempt);
  OpenSpec spec;
  spec.room = RoomId{std::uint64_t{message.request} + 1};
  spec.role = Role::kSender;
  spec.tag = Tag{std::uint64_t{message.attempt} + 1, request.input_tokens, hashes.back() + 1};
  spec.trace_id = message.request;
  Result<Handle> handle = core_.manager().open(std::move(spec));
  if (!handle) {
    core_.refused("open", handle.error());
    core_.note_cause(message.request, handle.error());
    record.state = SideState::kFailed;
    record.terminal_ns = monotonic_ns();
    core_.tell(Message::Kind::kTerminal, message.request, message.attempt);
    return;
  }
  auto room = std::make_unique<Room>();
  room->request = message.request;
  room->attempt = message.attempt;
  room->handle = *handle;
  room->write = WriteTag{core_.manager().incarnation(), ++serial_};
  room->abort_percent = message.abort_percent;
  room->pause_percent = message.pause_percent;
  record.writer_started = room->write.writer.started_ms;
  record.writer_random = room->write.writer.random;
  record.serial = room->write.serial;
  record.opened_ns = room->renewed_ns = monotonic_ns();
  record.state = SideState::kOpened;
  core_.tell(Message::Kind::kOpened, room->request, room->attempt);
  if (room->abort_percent == Message::kAtOpen) fail_by_plan(*room);
  by_handle_[key_of(room->handle)] = room->request;
  waiting_.push_back(room->request);
  rooms_[room->request] = std::move(room);
}

void PrefillWorker::resume(std::uint32_t request) {
  Room* room = find(request);
  if (room == nullptr) return;
  room->pause_percent = Message::kNever;
  if (!std::exchange(room->paused, false)) return;
  streaming_.push_back(request);
}

void PrefillWorker::on_event(const ManagerEvent& event) {
  const auto found = by_handle_.find(key_of(event.handle));
  if (found == by_handle_.end()) return;
  Room& room = *rooms_.at(found->second);
  SideRecord& record = core_.record(room.request);
  switch (event.kind) {
    case ManagerEvent::Kind::kChunkReturned:
      if (event.chunk < room.chunks.size()) free_chunk(room.chunks[event.chunk]);
      break;
    case ManagerEvent::Kind::kFailing:
      room.failing = true;
      if (std::exchange(room.made, false)) free_chunk(room.chunks.back());  // never lent
      core_.note_cause(room.request, core_.manager().error(room.handle));
      record.failing_ns = monotonic_ns();
      record.state = SideState::kFailing;
      core_.tell(Message::Kind::kFailing, room.request, room.attempt);
      break;
    case ManagerEvent::Kind::kTerminal: end(room); break;
  }
}

void PrefillWorker::end(Room& room) {
  SideRecord& record = core_.record(room.request);
  const bool success = core_.manager().poll(room.handle) == Poll::kSuccess;
  if (!success) core_.note_cause(room.request, core_.manager().error(room.handle));
  record.terminal_ns = monotonic_ns();
  record.state = success ? SideState::kSuccess : SideState::kFailed;
  for (Chunk& chunk : room.chunks) free_chunk(chunk);
  if (Result<> closed = core_.manager().close(room.handle); !closed) core_.refused("close", closed.error());
  core_.tell(Message::Kind::kTerminal, room.request, room.attempt);
  const std::uint32_t request = room.request;
  std::erase(waiting_, request);
  std::erase(streaming_, request);
  by_handle_.erase(key_of(room.handle));
  rooms_.erase(request);
}

void PrefillWorker::free_chunk(Chunk& chunk) {
  if (std::exchange(chunk.out, false)) core_.count(Count::kPagesReturned, chunk.pages.size());
  core_.retire_all(chunk.pages);
  chunk.pages.clear();
  if (chunk.aux != kNoSlot) core_.give_aux(std::exchange(chunk.aux, kNoSlot));
}

bool PrefillWorker::work() {
  bool more = core_.scrub(kSliceBytes);
  more = poll_waiting() || more;
  const std::int64_t now = monotonic_ns();
  for (std::size_t turns = streaming_.size(); turns > 0 && !streaming_.empty(); --turns) {
    const std::uint32_t request = streaming_.front();
    streaming_.pop_front();
    Room& room = *find(request);
    renew(room, now);
    const bool did = advance(room);
    if (room.failing || room.last_pushed || room.paused) {
      if (did) return true;
      continue;
    }
    if (!did) {  // no pages, or the manager's queue is full: it keeps its place
      streaming_.push_front(request);
      break;
    }
    if (room.made) {
      streaming_.push_front(request);  // finish the chunk before the next room's
    } else {
      streaming_.push_back(request);
    }
    return true;
  }
  return more;
}

// Rooms whose decode has granted become streams. The board is read in one sweep.
bool PrefillWorker::poll_waiting() {
  if (waiting_.empty()) return false;
  handles_.clear();
  for (const std::uint32_t request : waiting_) handles_.push_back(find(request)->handle);
  polls_.assign(handles_.size(), 0);
  core_.manager().poll_many(handles_, polls_);
  bool any = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const auto poll = static_cast<Poll>(polls_[i]);
    Room& room = *find(waiting_[i]);
    if (poll == Poll::kWaitingForInput && !room.failing) {
      begin_stream(room);
      any = true;
    } else {
      waiting_[kept++] = waiting_[i];
    }
  }
  waiting_.resize(kept);
  return any;
}

void PrefillWorker::begin_stream(Room& room) {
  const RoomInfo info = core_.manager().info(room.handle);
  room.prefix = room.next = info.prefix_tokens;
  core_.record(room.request).granted_ns = monotonic_ns();
  streaming_.push_back(room.request);
  if (room.abort_percent == 0) fail_by_plan(room);
}

void PrefillWorker::fail_by_plan(Room& room) {
  room.abort_percent = Message::kNever;
  room.failing = true;
  core_.record(room.request).abort_said = 1;
  core_.abort(room.handle, kPlanned);
}

void PrefillWorker::renew(Room& room, std::int64_t now) {
  if (room.failing || room.last_pushed || now - room.renewed_ns < kRenewEveryNs) return;
  room.renewed_ns = now;
  if (Result<> said = core_.manager().renew(room.handle); !said && said.error().code != Code::kWouldBlock) {
    core_.refused("renew", said.error());
  }
}

bool PrefillWorker::advance(Room& room) {
  if (room.failing || room.last_pushed || room.paused) return false;
  if (!room.made && !begin_chunk(room)) return false;
  const std::uint32_t pages = static_cast<std::uint32_t>(room.chunks.back().pages.size());
  if (room.filled < pages) {
    fill_slice(room);
    if (room.filled < pages) return true;
  }
  return push(room);
}

bool PrefillWorker::begin_chunk(Room& room) {
  const TraceRequest& request = core_.area().request(room.request);
  const std::uint32_t tokens = std::min(core_.area().config().chunk_tokens, request.input_tokens - room.next);
  const std::uint32_t page_tokens = core_.area().config().page_tokens;
  Chunk chunk;
  const bool last = room.next + tokens == request.input_tokens;
  if (core_.pool().take((tokens + page_tokens - 1) / page_tokens, chunk.pages)) {
    if (last && !core_.take_aux(chunk.aux)) {
      for (const std::uint32_t page : chunk.pages) core_.pool().give_back(page);
    } else {
      room.chunks.push_back(std::move(chunk));
      room.making = tokens;
      room.filled = 0;
      room.made = true;
      room.waited = false;
      return true;
    }
  }
  if (!std::exchange(room.waited, true)) core_.count(Count::kPageWaits, 1);
  return false;
}

void PrefillWorker::fill_slice(Room& room) {
  const std::span<const std::uint64_t> hashes = core_.area().hashes(room.request);
  const std::uint32_t page_tokens = core_.area().config().page_tokens;
  const std::vector<std::uint32_t>& pages = room.chunks.back().pages;
  for (std::uint64_t done = 0; done < kSliceBytes && room.filled < pages.size();
       done += core_.memory().page_bytes()) {
    const std::uint32_t token = room.next + room.filled * page_tokens;
    const PageTag tag{room.write, hashes[token / kBlockTokens], token % kBlockTokens};
    core_.check_free(pages[room.filled]);
    core_.memory().fill(pages[room.filled], tag);
    ++room.filled;
  }
}

bool PrefillWorker::push(Room& room) {
  const TraceRequest& request = core_.area().request(room.request);
  Chunk& chunk = room.chunks.back();
  ChunkSpec spec;
  spec.pages = runs_of(chunk.pages);
  spec.tokens = room.making;
  spec.last = room.next + room.making == request.input_tokens;
  spec.aux_slot = chunk.aux;
  if (spec.last) {
    const std::span<const std::uint64_t> hashes = core_.area().hashes(room.request);
    write_manifest(core_.memory().aux(chunk.aux),
                   Manifest{room.write, std::uint64_t{room.request} + 1, room.attempt, request.input_tokens,
                            room.prefix, digest_of(hashes)});
  }
  const bool last = spec.last;
  if (last) core_.record(room.request).pushed_ns = monotonic_ns();
  if (Result<> pushed = core_.manager().push(room.handle, std::move(spec)); !pushed) {
    if (pushed.error().code == Code::kWouldBlock) return false;
    core_.refused("push", pushed.error());
    room.failing = true;
    core_.abort(room.handle, pushed.error().line());
    return true;
  }
  chunk.out = true;
  core_.count(Count::kPagesLent, chunk.pages.size());
  core_.count(Count::kChunksPushed, 1);
  after_push(room, room.making, last);
  return true;
}

void PrefillWorker::after_push(Room& room, std::uint32_t tokens, bool last) {
  room.next += tokens;
  room.made = false;
  room.last_pushed = last;
  core_.record(room.request).tokens = room.next - room.prefix;
  const std::int32_t done = static_cast<std::int32_t>(percent(room));
  if (room.abort_percent >= 0 && done >= room.abort_percent) fail_by_plan(room);
  if (room.pause_percent >= 0 && done >= room.pause_percent && !last) room.paused = true;
}

std::uint32_t PrefillWorker::percent(const Room& room) const {
  const std::uint32_t total = core_.area().request(room.request).input_tokens - room.prefix;
  if (total == 0) return 100;
  return static_cast<std::uint32_t>(std::uint64_t{room.next - room.prefix} * 100 / total);
}

}  // namespace kvferry::replay
