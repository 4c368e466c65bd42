// What a program links against. One progress thread owns all state; callers enqueue commands through one
// bounded queue and read one atomic word per room. Thread rule: every method may be called from any thread
// unless it says otherwise; none blocks on the network (start and stop are bounded by their deadlines).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvferry/channel.h"
#include "kvferry/clock.h"
#include "kvferry/error.h"
#include "kvferry/export.h"
#include "kvferry/layout.h"
#include "kvferry/limits.h"
#include "kvferry/transport.h"
#include "kvferry/types.h"

namespace kvferry {

struct OpenSpec {
  RoomId room;
  Role role = Role::kSender;
  Tag tag;                            // equal on both sides; see docs/protocol.md "Room reuse"
  std::vector<std::string>
      senders;   // receiver only: "host:port" of every prefill rank it needs, in rank order
  std::uint32_t leg = 0, legs = 1;    // receiver only: which of how many receivers of those senders it is
  Duration client_deadline{0};        // from open; 0 = none
  std::uint8_t priority = 0;
  std::uint64_t trace_id = 0;
};

struct GrantSpec {                    // receiver: pages lent to the senders of the room
  PageRuns pages;  // token order, behind the prefix; indices into the block table of every layer
  std::uint32_t tokens = 0;  // wanted behind the prefix; pages hold ceil(tokens / page_tokens)
  std::uint32_t prefix_tokens = 0;  // already held by decode; a multiple of page_tokens
  std::uint32_t aux_slot = kNoSlot;
  std::vector<std::uint32_t> state_slots;
  EventId event;  // leave only when fired(event); 0 = now
};

struct ChunkSpec {  // sender: pages that are computed; they are held until kChunkReturned
  PageRuns pages;  // token order, right behind the previous chunk (the first: behind the prefix)
  std::uint32_t tokens = 0;  // all chunks but the last cover whole pages; 0 = nothing to send, still said
  bool last = false;
  std::uint32_t aux_slot = kNoSlot;  // with the last chunk
  std::vector<std::uint32_t> state_slots;
  EventId event;  // post only when fired(event); 0 = now
};

struct RoomInfo {
  Role role = Role::kSender;
  Poll poll = Poll::kBootstrapping;
  TimePoint created;
  std::uint32_t legs = 0;  // sender: receivers that registered; receiver: senders
  std::uint32_t legs_required = 0;  // 0 while unknown
  std::uint32_t prefix_tokens = 0;  // sender: what decode said; valid from WaitingForInput on
  std::uint32_t tokens = 0;
  std::uint32_t pages = 0;
  std::uint32_t aux_slot = kNoSlot;  // receiver's own
  std::uint64_t bytes = 0;  // landed (receiver) or quiesced (sender)
  bool failing = false;  // a cause is known; poll may still show the last value
  bool quiet = false;  // no byte can move any more: pages may be used again
  std::string mover;  // "shm", "tcp"; empty until agreed
};

struct ManagerEvent {
  enum class Kind : std::uint8_t {
    kChunkReturned,  // sender: the source pages of chunk `chunk` may be reused
    kFailing,  // a cause is known (error() names it); pages are still held
    kTerminal,  // poll() is Success or Failed and all pages are free of the protocol
  } kind = Kind::kTerminal;
  Handle handle;
  std::uint32_t chunk = 0;
};

struct Counters {  // monotonic unless marked (gauge)
  std::uint64_t rooms_opened = 0, rooms_succeeded = 0, rooms_failed = 0, rooms_live = 0 /*gauge*/;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t messages_sent = 0, messages_received = 0, frames_bad = 0, refused_from_peer = 0,
                stale_answered = 0;
  std::uint64_t debts_resent = 0, debts = 0 /*gauge*/, parked = 0 /*gauge*/;
  std::uint64_t pages_lent = 0, pages_returned = 0, pages_quarantined = 0 /*gauge*/, legs_lost = 0 /*gauge*/;
  std::uint64_t timeouts = 0, gaps = 0, peers_lost = 0, peers = 0 /*gauge*/, links = 0 /*gauge*/;
  std::uint64_t ops_posted = 0, ops_in_flight = 0 /*gauge*/, commands_refused = 0;
};

struct Quarantined {
  RoomId room;
  std::string peer;
  PageRuns pages;
};

struct ManagerOptions {
  std::string name;  // for people: "prefill-0"
  std::uint32_t rank = 0;
  Incarnation self;  // unknown: drawn at start
  std::string host_id;  // empty: boot id + pid namespace of this host
  Layout layout;
  std::vector<RegionView> regions;  // RegionId is the index; must outlive the manager
  Limits limits;
  Deadlines deadlines;
  Duration spin = std::chrono::microseconds(50);  // spin this long after work before sleeping
  std::function<void(std::string_view)> log;  // one line each, rate-limited; from the progress thread
  std::uint32_t log_lines_per_second = 50;    // further lines are counted and said with the next one
  std::uint32_t recorder_events = 0;  // flight recorder: the last N trace events, 48 B each; 0: none
  bool manual = false;  // tests: no thread; the owner calls turn()
};

// Everything impure, handed in; tests hand in fakes.
struct Parts {
  std::shared_ptr<Clock> clock;
  std::unique_ptr<Channel> channel;
  std::vector<std::unique_ptr<Transport>> transports;  // in order of preference
};

class KVFERRY_API Manager {
 public:
  static Result<std::unique_ptr<Manager>> start(ManagerOptions, Parts);
  ~Manager();  // stop() with the drain deadline
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Commands. A full queue is kWouldBlock and has no effect. A bad value is kUsage/kRefused naming both
  // numbers.
  Result<Handle> open(OpenSpec);
  Result<> grant(Handle, GrantSpec);  // receiver, once
  Result<> push(Handle, ChunkSpec);  // sender
  Result<> abort(Handle, std::string why);  // idempotent; a no-op on a failing room
  Result<> reject(Handle, std::int32_t status,
                  std::string text);  // sender: a terminal like any other, with status and text
  Result<> renew(Handle);  // receiver: extend the senders' bootstrap wait; sender: "still computing"
  Result<> close(Handle);  // on a live room: abort and detach
  Result<> fired(EventId, bool ok);  // an event named in a grant or push has fired (or failed)
  Result<> rekey();  // operator: bring quarantined pages back by new region keys

  // Reads. None takes a lock that the progress thread holds for long.
  Poll poll(Handle) const noexcept;  // one atomic load
  // Sleeps until poll() is Success, Failed or Stale, at most for `most`; returns poll(). Takes no event away.
  Poll wait(Handle, Duration most) const;
  void poll_many(std::span<const Handle>, std::span<std::uint8_t> out) const noexcept;
  std::span<const std::atomic<std::uint64_t>> board() const noexcept;  // (generation << 8 | Poll) by slot
  Error error(Handle) const;  // the first root cause; available as soon as the room is failing
  bool quiet(Handle) const noexcept;
  RoomInfo info(Handle) const;
  Counters counters() const;
  std::vector<Quarantined> quarantined() const;
  std::string status_json() const;  // peers, movers, rooms by state, counters
  // What the flight recorder holds, as Chrome trace JSON (ui.perfetto.dev opens it); no events without
  // recorder_events. Also after stop().
  std::string flight_record() const;

  std::size_t take_events(std::vector<ManagerEvent>& out, std::size_t most = 4096);
  int event_fd() const noexcept;  // readable while events wait

  Result<> stop(Duration deadline);  // aborts what lives, waits until quiet or the deadline
  std::string endpoint() const;  // advertised "host:port" of the control channel
  Incarnation incarnation() const noexcept;

  // Manual mode only (tests): one turn of the loop; returns true if it did anything. next_deadline: when a
  // timer is due.
  bool turn();
  TimePoint next_deadline() const;

 private:
  struct __attribute__((visibility("hidden"))) Rep;
  explicit Manager(std::unique_ptr<Rep>);
  std::unique_ptr<Rep> rep_;
};

}  // namespace kvferry
