// A prefill process: "computes" prompts chunk by chunk (oracle bytes into pages of its pool), pushes them,
// and takes the pages back as their chunks are sealed. Thread rule: the worker's main thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "replay/worker_core.h"

namespace kvferry::replay {

class PrefillWorker {
 public:
  explicit PrefillWorker(WorkerCore& core) : core_(core) {}

  void on_message(const Message&);
  void on_event(const ManagerEvent&);
  bool work();                  // one slice; true: there is more that needs no event
  bool polling() const { return !waiting_.empty() || !streaming_.empty(); }  // look again soon

 private:
  struct Chunk {
    std::vector<std::uint32_t> pages;
    std::uint32_t aux = kNoSlot;
    bool out = false;           // lent to the protocol
  };
  struct Room {
    std::uint32_t request = 0, attempt = 0;
    Handle handle;
    WriteTag write;
    std::uint32_t prefix = 0, next = 0;  // tokens: held by decode; filled and pushed so far (prefix included)
    std::uint32_t filled = 0;  // pages of the chunk in the making
    std::uint32_t making = 0;  // tokens of it; its pages are the last of `chunks`
    bool made = false;  // a chunk is in the making
    bool waited = false;  // counted as page wait
    bool last_pushed = false, failing = false, paused = false;
    std::int32_t abort_percent = Message::kNever, pause_percent = Message::kNever;
    std::int64_t renewed_ns = 0;
    std::vector<Chunk> chunks;
  };

  void open(const Message&);
  void resume(std::uint32_t request);
  bool poll_waiting();
  void begin_stream(Room&);
  bool advance(Room&);  // true: it did something
  bool begin_chunk(Room&);
  void fill_slice(Room&);
  bool push(Room&);
  void after_push(Room&, std::uint32_t tokens, bool last);
  void fail_by_plan(Room&);
  void renew(Room&, std::int64_t now);
  void end(Room&);
  void free_chunk(Chunk&);
  std::uint32_t percent(const Room&) const;
  Room* find(std::uint32_t request);

  WorkerCore& core_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Room>> rooms_;  // by request
  std::unordered_map<std::uint64_t, std::uint32_t> by_handle_;  // slot and generation -> request
  std::vector<std::uint32_t> waiting_;  // opened, decode has not granted yet
  std::deque<std::uint32_t> streaming_;  // round robin
  std::vector<Handle> handles_;  // scratch of poll_waiting
  std::vector<std::uint8_t> polls_;
  std::uint64_t serial_ = 0;
};

}  // namespace kvferry::replay
