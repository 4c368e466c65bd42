#include "replay/decode_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "replay/manifest.h"

namespace kvferry::replay {
namespace {

constexpr std::uint64_t key_of(Handle h) { return (std::uint64_t{h.generation} << 32) | h.slot; }
constexpr char kPlanned[] = "client cancelled the request at decode";

}  // namespace

DecodeWorker::Room* DecodeWorker::find(std::uint32_t request) {
  const auto found = rooms_.find(request);
  return found == rooms_.end() ? nullptr : found->second.get();
}

void DecodeWorker::on_message(const Message& message) {
  switch (message.kind) {
    case Message::Kind::kOpen: open(message); break;
    case Message::Kind::kRelease: release(message.request); break;
    case Message::Kind::kAbort:
      if (Room* room = find(message.request); room != nullptr && room->attempt == message.attempt) {
        core_.abort(room->handle, "the router gave the request up: its prefill process is gone");
      }
      break;
    default: break;
  }
}

void DecodeWorker::open(const Message& message) {
  const TraceRequest& request = core_.area().request(message.request);
  SideRecord& record = core_.begin_record(message.request, message.attempt);
  OpenSpec spec;
  spec.room = RoomId{std::uint64_t{message.request} + 1};
  spec.role = Role::kReceiver;
  spec.tag = Tag{std::uint64_t{message.attempt} + 1, request.input_tokens,
                 core_.area().hashes(message.request).back() + 1};
  spec.senders = {core_.area().worker(message.peer).endpoint};
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
  room->prefill = message.peer;
  room->abort_percent = message.abort_percent;
  record.opened_ns = room->renewed_ns = monotonic_ns();
  record.state = SideState::kOpened;
  core_.tell(Message::Kind::kOpened, room->request, room->attempt);
  if (room->abort_percent == Message::kAtOpen) fail_by_plan(*room);
  by_handle_[key_of(room->handle)] = room->request;
  opening_.push_back(room->request);
  rooms_[room->request] = std::move(room);
}

void DecodeWorker::on_event(const ManagerEvent& event) {
  const auto found = by_handle_.find(key_of(event.handle));
  if (found == by_handle_.end()) return;
  Room& room = *rooms_.at(found->second);
  SideRecord& record = core_.record(room.request);
  if (event.kind == ManagerEvent::Kind::kFailing) {
    room.failing = true;
    core_.note_cause(room.request, core_.manager().error(room.handle));
    record.failing_ns = monotonic_ns();
    record.state = SideState::kFailing;
    core_.tell(Message::Kind::kFailing, room.request, room.attempt);
  }
  if (event.kind != ManagerEvent::Kind::kTerminal) return;
  record.terminal_ns = monotonic_ns();
  if (std::exchange(room.lent, false)) core_.count(Count::kPagesReturned, room.pages.size());
  if (core_.manager().poll(room.handle) == Poll::kSuccess) {
    record.state = SideState::kSuccess;
    core_.tell(Message::Kind::kTerminal, room.request, room.attempt);
    begin_verify(room);
  } else {
    core_.note_cause(room.request, core_.manager().error(room.handle));
    record.state = SideState::kFailed;
    core_.tell(Message::Kind::kTerminal, room.request, room.attempt);
    end_failed(room);
  }
}

bool DecodeWorker::work() {
  bool more = core_.scrub(kSliceBytes);
  more = begin_ready_rooms() || more;
  more = admit() || more;
  more = lend_slice() || more;
  more = verify_slice() || more;
  watch_aborts();
  renew_waiting();
  if (core_.dirty() == 0) {
    const bool short_of_pages = !queued_.empty();
    core_.slot().pages_short.store(short_of_pages ? 1 : 0, std::memory_order_relaxed);
    core_.slot().releases_done.store(releases_asked_, std::memory_order_release);
  }
  return more;
}

bool DecodeWorker::begin_ready_rooms() {
  if (opening_.empty()) return false;
  handles_.clear();
  for (const std::uint32_t request : opening_) handles_.push_back(find(request)->handle);
  polls_.assign(handles_.size(), 0);
  core_.manager().poll_many(handles_, polls_);
  bool any = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < opening_.size(); ++i) {
    if (static_cast<Poll>(polls_[i]) == Poll::kWaitingForInput && !find(opening_[i])->failing) {
      queued_.push_back(opening_[i]);
      any = true;
    } else {
      opening_[kept++] = opening_[i];
    }
  }
  opening_.resize(kept);
  return any;
}

bool DecodeWorker::admit() {
  bool any = false;
  while (!queued_.empty()) {
    Room& room = *find(queued_.front());
    if (!room.failing && !admit_one(room)) break;
    queued_.pop_front();
    any = true;
  }
  return any;
}

std::uint32_t DecodeWorker::own_tokens(const Room& room) const {
  return core_.area().request(room.request).input_tokens - room.prefix_blocks * kBlockTokens;
}

bool DecodeWorker::admit_one(Room& room) {
  const std::uint32_t page_tokens = core_.area().config().page_tokens;
  const std::uint32_t tokens = core_.area().request(room.request).input_tokens;
  const std::uint32_t whole = (tokens + page_tokens - 1) / page_tokens;
  if (whole > core_.pool().pages()) {
    refuse_too_large(room, whole);
    return true;
  }
  const std::span<const std::uint64_t> full = core_.area().hashes(room.request).first(tokens / kBlockTokens);
  room.prefix_blocks = cache_.held(full);
  const std::uint32_t needed = (own_tokens(room) + page_tokens - 1) / page_tokens;
  if (needed > core_.pool().free() || !core_.take_aux(room.aux)) {
    if (core_.dirty() == 0 && !std::exchange(room.waited, true)) core_.count(Count::kPageWaits, 1);
    return false;
  }
  core_.pool().take(needed, room.pages);
  for (const std::uint64_t hash : full.first(room.prefix_blocks)) cache_.use(hash);
  lending_.push_back(room.request);
  return true;
}

void DecodeWorker::refuse_too_large(Room& room, std::uint32_t pages) {
  const TraceRequest& request = core_.area().request(room.request);
  const std::uint64_t need = pages * core_.memory().page_bytes();
  const std::uint64_t have = core_.pool().pages() * core_.memory().page_bytes();
  core_.record(room.request).refused = 1;
  core_.abort(
      room.handle,
      fmt::format(
          "trace line {}: a prompt of {} tokens is larger than the pool: it needs {:.1f} MiB of {:.1f} "
          "MiB; give a larger --pool-mib or a smaller --max-input-tokens",
          request.line, request.input_tokens, static_cast<double>(need) / (1 << 20),
          static_cast<double>(have) / (1 << 20)));
}

// Pages are lent only after their poison was found whole.
bool DecodeWorker::lend_slice() {
  if (lending_.empty()) return false;
  Room& room = *find(lending_.front());
  const std::uint64_t step = core_.memory().page_bytes();
  for (std::uint64_t done = 0; done < kSliceBytes && room.cursor < room.pages.size(); done += step) {
    core_.check_free(room.pages[room.cursor++]);
  }
  if (room.cursor < room.pages.size()) return true;
  GrantSpec spec;
  spec.pages = runs_of(room.pages);
  spec.tokens = own_tokens(room);
  spec.prefix_tokens = room.prefix_blocks * kBlockTokens;
  spec.aux_slot = room.aux;
  Result<> granted = core_.manager().grant(room.handle, std::move(spec));
  if (!granted && granted.error().code == Code::kWouldBlock) return false;
  lending_.pop_front();
  room.cursor = 0;
  if (!granted) {
    core_.refused("grant", granted.error());
    core_.abort(room.handle, granted.error().line());
    return true;
  }
  room.lent = true;
  core_.count(Count::kPagesLent, room.pages.size());
  core_.record(room.request).granted_ns = monotonic_ns();
  if (room.abort_percent == 0) fail_by_plan(room);
  if (room.abort_percent > 0) watched_.push_back(room.request);
  return true;
}

PageTag DecodeWorker::tag_of(const Room& room, std::size_t page) const {
  const std::uint32_t page_tokens = core_.area().config().page_tokens;
  const auto token = static_cast<std::uint32_t>(room.prefix_blocks * kBlockTokens + page * page_tokens);
  return {room.write, core_.area().hashes(room.request)[token / kBlockTokens], token % kBlockTokens};
}

// The manifest must say what the writer noted in the parent's area: a path that no mover touches.
void DecodeWorker::begin_verify(Room& room) {
  const SideRecord& writer = core_.area().side(room.request, Side::kPrefill);
  room.write = WriteTag{{writer.writer_started, writer.writer_random}, writer.serial};
  const Manifest expected{room.write,
                          std::uint64_t{room.request} + 1,
                          room.attempt,
                          core_.area().request(room.request).input_tokens,
                          room.prefix_blocks * kBlockTokens,
                          digest_of(core_.area().hashes(room.request))};
  room.wrong = manifest_wrong(core_.memory().aux(room.aux), expected);
  if (room.wrong > 0) core_.count(Count::kManifestsWrong, 1);
  core_.count(Count::kBytesVerified, kAuxBytes);
  core_.record(room.request).bytes = core_.manager().info(room.handle).bytes;
  room.cursor = 0;
  verifying_.push_back(room.request);
}

bool DecodeWorker::verify_slice() {
  if (verifying_.empty()) return false;
  Room& room = *find(verifying_.front());
  const std::uint64_t step = core_.memory().page_bytes();
  for (std::uint64_t done = 0; done < kSliceBytes && room.cursor < room.pages.size(); done += step) {
    const std::uint64_t wrong = core_.memory().wrong(room.pages[room.cursor], tag_of(room, room.cursor));
    if (wrong > 0) room.wrong_pages.push_back(room.cursor);
    room.wrong += wrong;
    core_.count(Count::kBytesVerified, step);
    ++room.cursor;
  }
  if (room.cursor < room.pages.size()) return true;
  verifying_.pop_front();
  prove(room);
  return !verifying_.empty();
}

// What somebody who looks for the fault wants to know first: which pages, and whether anything ever landed
// there.
void DecodeWorker::tell_wrong(const Room& room) const {
  std::size_t untouched = 0, poisoned = 0;
  for (const std::size_t place : room.wrong_pages) {
    const std::int64_t poison = core_.memory().poison_of(room.pages[place], core_.pool().pages());
    if (poison < 0) continue;
    poison == room.pages[place] ? ++untouched : ++poisoned;
  }
  std::fprintf(stderr,
               "%s: room %u attempt %u: %llu bytes wrong in %zu of %zu pages (places %zu to %zu), %zu of "
               "them untouched, "
               "%zu with a free page of prefill; prefix %u tokens\n",
               core_.name().c_str(), room.request + 1, room.attempt + 1,
               static_cast<unsigned long long>(room.wrong), room.wrong_pages.size(), room.pages.size(),
               room.wrong_pages.empty() ? 0 : room.wrong_pages.front(),
               room.wrong_pages.empty() ? 0 : room.wrong_pages.back(), untouched, poisoned,
               room.prefix_blocks * kBlockTokens);
}

// Full blocks become shared; the rest stays with the request.
void DecodeWorker::prove(Room& room) {
  core_.count(Count::kBytesWrong, room.wrong);
  if (room.wrong > 0) tell_wrong(room);
  const std::uint64_t granted = room.pages.size() * core_.memory().page_bytes() + kAuxBytes;
  if (core_.record(room.request).bytes != granted) core_.count(Count::kBytesUnaccounted, 1);
  core_.count(Count::kBytesMoved, granted);
  core_.count(Count::kPrefixHitBytes, std::uint64_t{room.prefix_blocks} * kBlockTokens *
                                          core_.area().shape().model.bytes_per_token());
  const std::span<const std::uint64_t> hashes = core_.area().hashes(room.request);
  const std::uint32_t full = core_.area().request(room.request).input_tokens / kBlockTokens;
  const std::uint32_t per_block = kBlockTokens / core_.area().config().page_tokens;
  Held held;
  held.blocks.assign(hashes.begin(), hashes.begin() + room.prefix_blocks);
  std::size_t page = 0;
  for (std::uint32_t block = room.prefix_blocks; block < full; ++block, page += per_block) {
    const std::span<const std::uint32_t> pages = std::span(room.pages).subspan(page, per_block);
    if (cache_.add(hashes[block], room.write, pages)) {
      held.blocks.push_back(hashes[block]);
    } else {
      for (std::size_t i = page; i < page + per_block; ++i)
        held.pages.emplace_back(room.pages[i], tag_of(room, i));
    }
  }
  for (; page < room.pages.size(); ++page) held.pages.emplace_back(room.pages[page], tag_of(room, page));
  held_[room.request] = std::move(held);
  core_.tell(Message::Kind::kProven, room.request, room.attempt);
  forget(room);
}

void DecodeWorker::end_failed(Room& room) {
  core_.retire_all(room.pages);
  leave_prefix(room);
  forget(room);
}

void DecodeWorker::leave_prefix(Room& room) {
  if (room.pages.empty() && room.aux == kNoSlot) return;  // it was never admitted and uses no block
  for (const std::uint64_t hash : core_.area().hashes(room.request).first(room.prefix_blocks))
    drop_block(hash);
}

void DecodeWorker::forget(Room& room) {
  if (room.aux != kNoSlot) core_.give_aux(room.aux);
  if (Result<> closed = core_.manager().close(room.handle); !closed) core_.refused("close", closed.error());
  const std::uint32_t request = room.request;
  std::erase(opening_, request);
  std::erase(queued_, request);
  std::erase(lending_, request);
  std::erase(watched_, request);
  by_handle_.erase(key_of(room.handle));
  rooms_.erase(request);
}

// Held pages are checked once more: nobody may have written there since.
void DecodeWorker::release(std::uint32_t request) {
  ++releases_asked_;
  const auto found = held_.find(request);
  if (found == held_.end()) return;
  for (const std::uint64_t hash : found->second.blocks) drop_block(hash);
  for (const auto& [page, tag] : found->second.pages) core_.retire(page, true, tag);
  held_.erase(found);
}

void DecodeWorker::drop_block(std::uint64_t hash) {
  const std::optional<PrefixCache::Block> block = cache_.drop(hash);
  if (!block) return;
  std::uint32_t token = 0;
  for (const std::uint32_t page : block->pages) {
    core_.retire(page, true, {block->tag, hash, token});
    token += core_.area().config().page_tokens;
  }
}

void DecodeWorker::fail_by_plan(const Room& room) {
  core_.record(room.request).abort_said = 1;
  core_.abort(room.handle, kPlanned);
}

void DecodeWorker::watch_aborts() {
  for (std::size_t i = 0; i < watched_.size();) {
    Room& room = *find(watched_[i]);
    const std::uint64_t all = room.pages.size() * core_.memory().page_bytes() + kAuxBytes;
    const std::uint64_t landed = core_.manager().info(room.handle).bytes;
    const bool due = landed * 100 >= all * static_cast<std::uint64_t>(room.abort_percent);
    if (due && !room.failing) fail_by_plan(room);
    if (due || room.failing) {
      watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// Requests that wait for pages keep their prefill from giving up on them.
void DecodeWorker::renew_waiting() {
  const std::int64_t now = monotonic_ns();
  if (now - renewed_ns_ < kRenewEveryNs / 10) return;
  renewed_ns_ = now;
  for (auto& [request, room] : rooms_) {
    if (room->lent || room->failing || now - room->renewed_ns < kRenewEveryNs) continue;
    if (core_.record(request).state != SideState::kOpened || core_.record(request).granted_ns != 0) continue;
    room->renewed_ns = now;
    if (Result<> said = core_.manager().renew(room->handle);
        !said && said.error().code != Code::kWouldBlock) {
      core_.refused("renew", said.error());
    }
  }
}

}  // namespace kvferry::replay
