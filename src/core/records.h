// The engine's records: rooms, legs, peers, grants, operations, loans. Values; only core/*.cc sees them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/io.h"
#include "core/leg_table.h"
#include "core/plan.h"
#include "core/runs.h"
#include "core/seen.h"
#include "core/timers.h"

namespace kvferry::core {

using wire::Cause;
using wire::GrantNumber;

// One (this room, that rank). Receiver: lends pages (push) or reads them (pull). Sender: the other way round.
struct Leg {
  LegState state = LegState::kIdle;
  PeerId peer;  // value 0: not known yet
  GrantNumber number = 0;  // 0: no number taken
  // Receiver.
  EndpointId endpoint;
  LoanId loan;  // push: our pages, lent
  bool loan_live = false;  // until in::Revoked
  bool loan_revoking = false;
  bool remote_drained = false;  // one-sided movers: proven by REVOKED, DONE, FAIL(drained), STALE or a fence
  bool done = false;  // DONE said (or the manifest came with the last OFFER)
  bool done_said = false;  // DONE itself is waiting for its ACK
  bool waits_window = false;  // number not taken: window full
  wire::Manifest manifest;
  struct Proof {
    enum class State : std::uint8_t { kNone, kReading, kProven } state = State::kNone;
    std::uint64_t bytes = 0;
    LoanId loan;  // pull: the sender's loan that was read
  };
  std::vector<Proof> proofs;  // by chunk
  std::uint32_t reads = 0;  // pull: operations not quiesced
  std::uint64_t bytes = 0;  // proven
  RunCursor cursor;  // pull: where the next chunk goes
  // Both.
  TimePoint cut_at;  // accusing time; Revoking since
  TimePoint lost_at;  // Lost since
  bool fence_failed = false;  // quarantined
  bool evidence = false;  // sender: the receiver's leg can no longer become Sealed
  // An operation failed and the room goes on: the lender recalled its loan (its REVOKE or FAIL tells why; the
  // deadline "refused" bounds the wait), or a read may be tried again at the next OFFER (the deadline
  // "progress").
  Cause refusal;
  TimePoint refused_at;  // accusing time
  bool recalled = false;
  std::uint32_t refused_chunk = 0;
};

// A cause that came over the wire: what was local there is the peer's doing here.
inline Cause theirs(Cause c) {
  if (c.who == Who::kLocal) c.who = Who::kPeer;
  return c;
}

struct Chunk {  // sender: one push
  std::uint32_t passed = 0;  // legs that need it no more, apart from holds
  ChunkSpec spec;
  std::uint32_t first_token = 0;  // position in the pushed stream
  std::uint32_t holds = 0;  // unquiesced operations or live loans over all legs
  bool fired = false;
  bool returned = false;
};

struct Room {
  bool used = false;
  Handle handle;
  RoomId id;
  Role role = Role::kSender;
  Tag tag;
  TimePoint created;
  Poll shown = Poll::kBootstrapping;
  bool failing = false;
  bool terminal = false;
  bool cutting = false;  // fail_room is walking the legs: no join yet
  bool detached = false;  // close() was called: the slot is freed as soon as it may be
  bool registered = false;  // reachable by its number
  Cause cause;
  std::vector<Leg> legs;
  std::uint32_t legs_required = 0;  // sender: 0 until the first GRANT
  std::uint8_t priority = 0;
  std::uint64_t trace_id = 0;
  Duration client_deadline{0};
  // Sender.
  std::vector<Chunk> chunks;
  std::size_t first_held = 0;  // every chunk before it is returned
  bool pushed_last = false;
  bool prefix_known = false;
  bool base_set = false;
  std::uint32_t base_tokens = 0;  // position of the first pushed token
  std::uint32_t prefix_tokens = 0, tokens = 0;
  std::uint32_t pushed_tokens = 0;
  std::uint64_t renew_number = 0;
  TimePoint renewed;  // accusing time; zero: never
  bool bound_all = false;
  TimePoint bound_at;  // accusing time
  bool posted_any = false;
  std::uint64_t bytes = 0;
  // Receiver.
  std::uint32_t leg_index = 0, leg_count = 1;
  bool granted = false;  // grant() was called
  bool grant_fired = false;
  bool lent = false;  // pages are registered as lent
  GrantSpec spec;
  TimePoint granted_at;  // accusing time
  std::uint64_t own_renewals = 0;
  // Both.
  TimePoint progressed;  // accusing time of the last byte or word
  bool first_byte = false;
  TimerSlot timer;
};

struct GrantIn {  // sender: one GRANT that was accepted
  enum class State : std::uint8_t { kCollecting, kParked, kBound, kEnded } state = State::kCollecting;
  wire::Grant grant;
  std::vector<bool> parts;  // which parts are here; pages are kept per part until complete
  std::vector<PageRuns> part_pages;
  Handle room;
  std::uint32_t outstanding = 0;  // operations not quiesced (push) or loans not revoked (pull)
  std::uint32_t incomplete = 0;  // operations not completed (statistics; mutant kDoneBeforeQuiesced)
  bool revoke_asked = false;  // REVOKED is owed once outstanding is 0
  bool fail_said = false;  // FAIL was said undrained: say it again, drained, once outstanding is 0
  Cause cause;
  // Posting.
  std::uint32_t next_chunk = 0;
  std::uint64_t skip_pages = 0;  // pages of the pushed stream that the prefix covers
  bool skip_known = false;
  RunCursor cursor;
  std::uint32_t tokens = 0;
  std::vector<wire::ChunkEntry> entries;  // by wire chunk
  std::vector<LoanId> loans;  // pull: by wire chunk
  bool last_posted = false;
  bool done_said = false;
};

struct GrantOut {
  Handle room;
  std::uint32_t leg = 0;
};

struct DebtKey {
  std::uint8_t kind = 0;  // index in wire::Body
  GrantNumber number = 0;
  std::uint32_t sub = 0;  // chunk or part
  auto operator<=>(const DebtKey&) const = default;
};
struct Debt {
  wire::Body body;
  TimePoint due;
  Duration backoff{0};
};

struct Peer {
  enum class Life : std::uint8_t { kLive, kDown, kDead, kGone };
  PeerId id;
  Incarnation life_id;
  Life life = Life::kLive;
  std::string name, endpoint, host_id;
  std::uint64_t pid = 0;
  std::uint32_t rank = 0;
  LinkId link;  // value 0: none
  bool draining = false;
  // Agreement.
  std::uint32_t their_session = 0, told_session = 0;
  bool answered = false;  // they know our session
  bool refused = false;  // the layouts or versions do not fit
  Error refusal;
  std::uint32_t mover = 0;
  bool has_mover = false;
  bool added = false, ready = false, watched = false;
  bool ended = false;  // dead for good: the process is gone, or a newer life has its place
  TimePoint dead_at;
  Error path_error;  // why the mover cannot reach it at present; said again at path_due
  TimePoint path_due;
  std::deque<wire::Offer>
      early_offers;  // wait for the mover or for the window of operations; live_grants_per_peer
  bool fencing = false, fenced = false, fence_failed = false, dropped = false;
  std::uint32_t path = 0;  // our path generation towards them: named in our GRANTs
  std::uint32_t their_path = 0;  // the newest that their GRANTs named
  PairPlan plan;
  std::uint32_t max_live_grants = 0, grant_window = 0;
  std::vector<std::byte> description;
  // As receiver towards them.
  GrantNumber next_number = 1;
  std::map<GrantNumber, GrantOut> out;  // live legs
  std::vector<GrantOut> waiting_window;
  struct Tell {  // a room that ended before its GRANT: told by a REVOKE with a number of its own
    RoomId room;
    Tag tag;
    std::uint32_t leg = 0;
    Cause cause;
  };
  std::deque<Tell> tells;  // wait for the window; at most grant_window
  SeenWindow sealed;  // numbers that ended Sealed, for late questions
  // As sender towards them.
  SeenWindow seen;
  std::map<GrantNumber, GrantIn> in;
  std::uint32_t parked = 0;
  std::uint32_t ops = 0;
  std::uint64_t bytes_in_flight = 0;
  std::vector<GrantNumber> blocked;  // grants that wait for the window of operations
  // Outbox.
  std::map<DebtKey, Debt> debts;
  TimePoint debt_due = TimePoint::max();  // no debt is due earlier (a hint)
  std::map<RoomId, GrantNumber> sealed_rooms;  // rule 18: told in the next GRANT of that room number
  TimePoint heard, hello_due, ping_due, down_at, fence_at;
  Duration hello_backoff{0};
  std::uint32_t bad = 0;
  std::uint32_t who_said = 0;
  TimerSlot timer;
};

struct Link {
  PeerId peer;  // value 0: no HELLO yet
  EndpointId endpoint{~0U};
  bool dialled = false;
  std::uint32_t bad = 0;
  TimePoint heard;
};

struct Endpoint {
  std::string name;
  PeerId peer;  // current life, value 0: none
  LinkId link;  // value 0: none
  bool dialling = false;
  std::uint32_t wanted = 0;  // rooms that need it
  TimePoint redial_at;
  Duration backoff{0};
  Error last_error;
  struct Tell {  // a room that ended before its peer was known here
    RoomId room;
    Tag tag;
    std::uint32_t leg = 0;
    Cause cause;
    TimePoint until;
  };
  std::vector<Tell> tells;
  std::vector<Handle> waiters;  // rooms with an Idle leg to this endpoint
  TimerSlot timer;
};

struct Op {
  PeerId peer;
  GrantNumber grant = 0;
  Handle room;
  std::uint32_t leg = 0;
  std::uint32_t chunk = 0;  // wire chunk
  std::uint32_t source = 0;  // index in Room::chunks (sender)
  std::uint64_t bytes = 0;
  Access access = Access::kWrite;
  bool completed = false;
  bool failed = false;
  bool holds = true;  // still holds its source pages
};

struct LoanRec {
  std::uint64_t serial = 0;  // 0: free
  PeerId peer;
  GrantNumber grant = 0;
  Handle room;
  std::uint32_t leg = 0;
  std::uint32_t chunk = 0, source = 0;
  Access access = Access::kWrite;
  bool holds = true;
  bool revoking = false;
  std::uint32_t mover = 0;
};

// A sender's failed room, remembered until its number and tag are opened again or the tombstone time ends
// (rule 16).
struct Grave {
  Cause cause;
  std::vector<bool> registered;  // by leg index
  TimePoint until;
};
// A REVOKE for a grant that no room was bound to: fails the open that would have bound it (rule 18).
struct Recall {
  PeerId peer;
  GrantNumber number = 0;
  std::uint32_t leg = 0;
  Tag tag;
  Cause cause;
  TimePoint until;
};

}  // namespace kvferry::core
