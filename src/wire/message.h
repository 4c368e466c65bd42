// One struct per message; a message is a value. docs/protocol.md has the normative table (sender, key,
// answer, re-send rule, bound); src/wire/kvferry.fbs is the published schema; codec.h turns one into the
// other.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/layout.h"
#include "kvferry/transport.h"
#include "kvferry/types.h"

namespace kvferry::wire {

inline constexpr std::uint16_t kMajor = 1;  // different majors refuse each other
inline constexpr std::uint16_t kMinor = 0;  // different minors agree on the smaller one

// Why a room failed; crosses the wire whole. Same struct as the public error.
using Cause = Error;

// Grants are numbered per pair (receiver's life, sender's life), from 1. 0 = none.
using GrantNumber = std::uint64_t;

struct Header {
  Incarnation from;            // the writer's life
  Incarnation to;              // the reader's life as the writer knows it; unknown in a first HELLO
  std::uint32_t session = 0;   // the agreement under which it is said
  bool operator==(const Header&) const = default;
};

struct MoverOffer {
  std::string name;                       // "shm", "tcp", ...
  std::uint8_t memory = 1;                // bits of Memory
  Access access = Access::kWrite;
  Visible visible = Visible::kLocalDone;
  RevokeMode revoke = RevokeMode::kMoverDrains;
  FenceMode fence = FenceMode::kNone;
  bool same_host_only = false;
  std::vector<std::byte> description;     // opaque; <= limits
  bool operator==(const MoverOffer&) const = default;
};

struct Hello {
  std::uint16_t major = kMajor, minor = kMinor;
  std::uint32_t session = 1;       // n-th HELLO content of this life
  std::uint32_t answers = 0;       // the reader's session that this HELLO answers; 0: none yet
  bool ask = false;                // please answer: the writer does not know yet that its session was read
  std::uint64_t capabilities = 0;  // bits; unknown ones are ignored
  std::string name;                // for people: "prefill-0"
  std::string endpoint;            // where this life can be dialled; empty: it cannot
  std::string host_id;             // equal on both sides = same host
  std::uint64_t pid = 0;           // meaningful on the same host only
  std::uint32_t rank = 0;
  bool draining = false;
  std::uint32_t max_live_grants = 0;  // what this side accepts from one receiver
  std::uint32_t grant_window = 0;     // size of this side's seen window
  std::uint64_t layout_hash = 0;      // of the part that both sides must share
  Layout layout;
  std::vector<MoverOffer> movers;
  bool operator==(const Hello&) const = default;
};

struct Who {  // "you spoke to a life that is not mine": evidence of loss for the asker
  Incarnation asked;
  bool operator==(const Who&) const = default;
};

struct Grant {  // receiver -> sender: pages lent (push), or a number under which the sender may offer (pull)
  GrantNumber number = 0;
  RoomId room;
  Tag tag;
  std::uint32_t leg = 0, legs = 1;  // this receiver among the receivers of the sender's room
  std::uint32_t receiver_rank = 0;
  Access access = Access::kWrite;
  std::uint32_t path = 0;  // path generation (rule 7)
  std::uint32_t region_generation = 0;  // key generation of the regions (rule 7)
  Ticket ticket;  // write only
  GrantNumber resumes = 0;  // seam: rule 31
  GrantNumber sealed = 0;  // newest grant of this room number that ended Sealed at the receiver (rule 18)
  GrantNumber floor = 0;  // every grant below is closed at the receiver
  std::uint32_t prefix_tokens = 0;  // tokens that decode holds already; a multiple of the page size
  std::uint32_t tokens = 0;  // tokens wanted behind the prefix
  PageRuns pages;  // destination pages, in token order, behind the prefix
  std::uint32_t aux_slot = kNoSlot;
  std::vector<std::uint32_t> state_slots;
  std::uint8_t priority = 0;
  std::uint64_t trace_id = 0;
  std::uint32_t part = 0, parts = 1;  // long page lists come in parts; one answer when all are there
  bool operator==(const Grant&) const = default;
};
struct Ready {  // answer to GRANT: received (also when parked)
  GrantNumber grant = 0;
  bool operator==(const Ready&) const = default;
};
struct Revoke {  // receiver -> sender: the loan is recalled; answered REVOKED once nothing is outstanding
  GrantNumber grant = 0;
  RoomId room;
  Tag tag;
  std::uint32_t leg = 0;
  Cause cause;
  GrantNumber floor = 0;  // as in GRANT
  bool operator==(const Revoke&) const = default;
};
struct Revoked {  // sender -> receiver: no operation of this grant is outstanding, none will be posted
  GrantNumber grant = 0;
  bool operator==(const Revoked&) const = default;
};

struct ChunkEntry {
  std::uint32_t tokens = 0;
  std::uint64_t bytes = 0;
  bool operator==(const ChunkEntry&) const = default;
};
struct Manifest {  // what a leg consists of; zero chunks allowed
  std::vector<ChunkEntry> chunks;
  std::uint32_t tokens = 0;  // sum, behind the prefix
  std::uint64_t bytes = 0;  // sum over this leg
  bool operator==(const Manifest&) const = default;
};
struct Done {  // sender -> receiver: every operation of the grant is completed and quiesced
  GrantNumber grant = 0;
  Manifest manifest;
  bool operator==(const Done&) const = default;
};
struct Fail {  // sender -> receiver: this grant will not be fulfilled
  GrantNumber grant = 0;
  bool drained = false;  // nothing of it is outstanding
  Cause cause;
  bool operator==(const Fail&) const = default;
};

struct Offer {  // sender -> receiver, pull: one chunk of source pages lent for reading
  GrantNumber grant = 0;
  std::uint32_t chunk = 0;
  Ticket ticket;
  std::uint32_t first_token = 0;  // position of the chunk behind the grant's prefix
  std::uint32_t tokens = 0;
  std::uint64_t bytes = 0;
  PageRuns pages;
  std::uint32_t aux_slot = kNoSlot;  // with the last chunk
  std::vector<std::uint32_t> state_slots;
  bool last = false;
  Manifest manifest;  // with the last chunk
  std::uint64_t digest = 0;  // seam: 0 = none
  bool operator==(const Offer&) const = default;
};
struct Release {  // receiver -> sender, pull: this chunk was taken (or will never be)
  GrantNumber grant = 0;
  std::uint32_t chunk = 0;
  LoanId loan;
  bool operator==(const Release&) const = default;
};

enum class What : std::uint8_t { kGrant = 0, kDone, kFail, kRevoked, kOffer, kRelease };
enum class Outcome : std::uint8_t { kUnknown = 0, kLive, kSealed, kFailed };
struct Ack {  // answer to DONE, FAIL, REVOKED, OFFER, RELEASE; and to a GRANT that is refused (stale =
              // drained)
  What what = What::kDone;
  GrantNumber grant = 0;
  std::uint32_t chunk = 0;  // OFFER, RELEASE
  bool stale = false;  // the key is not live here; for GRANT: a proof that nothing is outstanding
  Outcome outcome = Outcome::kUnknown;
  bool operator==(const Ack&) const = default;
};

struct RenewItem {  // keeps a sender's room from its bootstrap deadline, before and after a grant exists
  RoomId room;
  std::uint64_t number = 0;  // only a higher number extends
  bool operator==(const RenewItem&) const = default;
};
struct Renew {
  std::vector<RenewItem> items;
  bool operator==(const Renew&) const = default;
};
struct Renewed {  // number 0: no such hold here (ended or not yet created)
  std::vector<RenewItem> items;
  bool operator==(const Renewed&) const = default;
};
struct Computing {  // sender -> receiver: still computing; moves the waiting and no-progress deadlines
  GrantNumber grant = 0;
  std::uint64_t number = 0;
  bool operator==(const Computing&) const = default;
};

struct Ping {
  std::uint64_t number = 0;
  bool answer = false;  // true: this is the pong
  GrantNumber floor = 0;  // receiver's floor, so that windows slide while idle
  bool operator==(const Ping&) const = default;
};
struct Stall {  // seam, rule 31: chunks completed and quiesced when a mover failed
  GrantNumber grant = 0;
  std::vector<std::uint32_t> chunks;
  Cause cause;
  bool operator==(const Stall&) const = default;
};
struct Regions {  // seam, rule 7: new key generation of the regions
  std::uint32_t generation = 0;
  std::vector<std::byte> description;
  bool operator==(const Regions&) const = default;
};
struct Resend {  // seam: these pieces did not match their digest
  GrantNumber grant = 0;
  std::vector<std::uint32_t> chunks;
  bool operator==(const Resend&) const = default;
};

using Body = std::variant<Hello, Who, Grant, Ready, Revoke, Revoked, Done, Fail, Offer, Release, Ack, Renew,
                          Renewed, Computing, Ping, Stall, Regions, Resend>;

struct Message {
  Header header;
  Body body;
  bool operator==(const Message&) const = default;
};

const char* name_of(const Body&) noexcept;  // "HELLO", "GRANT", ...; messages.cc
inline constexpr std::size_t kKinds = std::variant_size_v<Body>;

}  // namespace kvferry::wire
