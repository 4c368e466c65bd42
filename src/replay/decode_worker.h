// A decode process: lends pages to prompts (behind the blocks that it holds already), checks every byte that
// arrived, holds the pages until the parent's clock says so, then frees them. Thread rule: the worker's main
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "replay/prefix_cache.h"
#include "replay/worker_core.h"

namespace kvferry::replay {

class DecodeWorker {
 public:
  explicit DecodeWorker(WorkerCore& core) : core_(core) {}

  void on_message(const Message&);
  void on_event(const ManagerEvent&);
  bool work();                  // one slice; true: there is more that needs no event
  bool polling() const {
    return !opening_.empty() || !watched_.empty() || !lending_.empty();
  }  // look again soon

 private:
  struct Room {
    std::uint32_t request = 0, attempt = 0;
    Handle handle;
    std::uint32_t prefill = 0;               // slot of the sender's process
    std::uint32_t prefix_blocks = 0;         // held blocks in use, from the first on
    std::vector<std::uint32_t> pages;        // behind the prefix
    std::size_t cursor = 0;                  // pages checked or verified so far
    std::uint32_t aux = kNoSlot;
    std::uint64_t wrong = 0;                 // bytes, while verifying
    std::vector<std::size_t> wrong_pages;    // places in `pages`
    bool lent = false, failing = false, waited = false;
    std::int32_t abort_percent = Message::kNever;
    std::int64_t renewed_ns = 0;
    WriteTag write;                          // as proven by the manifest
  };
  struct Held {                              // after a success, until Release
    std::vector<std::uint64_t> blocks;       // users of PrefixCache
    std::vector<std::pair<std::uint32_t, PageTag>> pages;  // not shared
  };

  void open(const Message&);
  bool begin_ready_rooms();
  bool admit();                 // lends pages to the requests that wait, in order; true: it did something
  bool admit_one(Room&);
  bool lend_slice();
  bool verify_slice();
  void watch_aborts();
  void fail_by_plan(const Room&);
  void renew_waiting();
  void begin_verify(Room&);
  void prove(Room&);
  void tell_wrong(const Room&) const;
  void end_failed(Room&);
  void forget(Room&);
  void release(std::uint32_t request);
  void leave_prefix(Room&);
  void refuse_too_large(Room&, std::uint32_t pages);
  std::uint32_t own_tokens(const Room&) const;
  PageTag tag_of(const Room&, std::size_t page) const;
  void drop_block(std::uint64_t hash);
  Room* find(std::uint32_t request);

  WorkerCore& core_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Room>> rooms_;  // by request
  std::unordered_map<std::uint64_t, std::uint32_t> by_handle_;
  std::unordered_map<std::uint32_t, Held> held_;
  PrefixCache cache_;
  std::vector<std::uint32_t> opening_;    // prefill's HELLO has not agreed yet
  std::deque<std::uint32_t> queued_;      // wait for pages, first come first served
  std::deque<std::uint32_t> lending_;  // have pages; their poison is being checked, then they are granted
  std::deque<std::uint32_t> verifying_;
  std::vector<std::uint32_t> watched_;  // will abort when enough has landed
  std::uint64_t releases_asked_ = 0;
  std::int64_t renewed_ns_ = 0;
  std::vector<Handle> handles_;  // scratch
  std::vector<std::uint8_t> polls_;
};

}  // namespace kvferry::replay
