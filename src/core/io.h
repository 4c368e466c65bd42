// What goes into the engine and what comes out: values only. The shell (runtime/, sim/, tests) feeds inputs
// and carries out outputs in order. Thread rule: none; nothing here is shared.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/layout.h"
#include "kvferry/manager.h"
#include "kvferry/transport.h"
#include "kvferry/types.h"
#include "wire/message.h"

namespace kvferry::core {

namespace in {
// Commands of the engine above. Handles are made by the shell; a handle is used for one open only.
struct Open {
  Handle handle;
  RoomId room;
  Role role = Role::kSender;
  Tag tag;
  std::vector<EndpointId> senders;  // receiver: indices of endpoints named before by Endpoint
  std::uint32_t leg = 0, legs = 1;
  Duration client_deadline{0};
  std::uint8_t priority = 0;
  std::uint64_t trace_id = 0;
};
struct GrantPages {
  Handle handle;
  GrantSpec spec;
};
struct Push {
  Handle handle;
  ChunkSpec chunk;
};
struct Abort {
  Handle handle;
  Error cause;
};  // also reject: code kRejected with status
struct Renew {
  Handle handle;
};
struct Close {
  Handle handle;
};
struct EventFired {
  EventId event;
  bool ok = true;
};
struct Rekey {};
struct Stop {};                                 // abort everything that lives; draining from now on
struct Endpoint {
  EndpointId id;
  std::string name;
};

// The control channel.
struct LinkUp {
  LinkId link;
  EndpointId endpoint;
  bool dialled = false;
};  // dialled: answers out::Dial of `endpoint`
struct LinkDown {
  LinkId link;
  Error error;
};
struct DialFailed {
  EndpointId endpoint;
  Error error;
};
struct Received {
  LinkId link;
  wire::Message message;
};
struct BadFrame {
  LinkId link;
};

// The movers. `mover` is the index in EngineConfig::movers.
struct Completed {
  OpId op;
  Error error;
};     // once per out::Post
struct Quiesced {
  OpId op;
};                   // once per out::Post, not before Completed
struct Arrived {
  PeerId peer;
  LoanId loan;
  std::uint64_t bytes = 0;
  Notice notice;
};
struct Revoked {
  LoanId loan;
};                // once per out::Revoke
struct PeerFenced {
  PeerId peer;
  Error error;
};  // once per out::Fence; error: it could not be proven
struct PeerReady {
  PeerId peer;
  Error error;
};   // once per out::AddPeer
struct MoverPeerLost {
  PeerId peer;
  Error error;
};
struct RegionsRekeyed {
  std::uint32_t generation = 0;
  Error error{};  // ok: all regions have new keys; else nothing changed and re-key may be asked for again
};

struct PeerDead {
  PeerId peer;
  std::string evidence;
};  // the shell saw the process die (pidfd)
struct Tick {};                                 // fires every timer due at `now`
}  // namespace in

using Input =
    std::variant<in::Open, in::GrantPages, in::Push, in::Abort, in::Renew, in::Close, in::EventFired,
                 in::Rekey, in::Stop, in::Endpoint, in::LinkUp, in::LinkDown, in::DialFailed, in::Received,
                 in::BadFrame, in::Completed, in::Quiesced, in::Arrived, in::Revoked, in::PeerFenced,
                 in::PeerReady, in::MoverPeerLost, in::RegionsRekeyed, in::PeerDead, in::Tick>;

namespace out {
struct Send {
  LinkId link;
  wire::Message message;
};
struct Dial {
  EndpointId endpoint;
};           // LinkUp{dialled} or DialFailed follows
struct CloseLink {
  LinkId link;
};
struct AddPeer {
  PeerId peer;
  std::uint32_t mover = 0;
  std::vector<std::byte> description;
};
struct WatchPeer {
  PeerId peer;
  std::uint64_t pid = 0;
};   // same host: tell PeerDead when that process ends
struct DropPeer {
  PeerId peer;
  std::uint32_t mover = 0;
};
struct Fence {
  PeerId peer;
  std::uint32_t mover = 0;
};
struct Lend {  // memory of this side lent to `peer`, in force before later outputs
  std::uint32_t mover = 0;
  LoanId loan;
  std::uint64_t token = 0;
  PeerId peer;
  Handle room;  // whose pages; aborted by the shell when the mover will not lend them
  Access access = Access::kWrite;
  std::array<PageRuns, kSpaces> items;  // by Space; the planes are Engine::plan(peer)'s local ones
};
struct Revoke {
  std::uint32_t mover = 0;
  LoanId loan;
};
struct Post {  // accepted by the shell for certain (it queues on kWouldBlock)
  std::uint32_t mover = 0;
  OpId op;
  Access access = Access::kWrite;
  PeerId peer;
  Ticket ticket;
  std::array<std::vector<RunPair>, kSpaces> runs;  // by Space; planes are Engine::plan(peer)'s
  Notice notice;
  std::uint8_t priority = 0;
};
struct Cancel {
  std::uint32_t mover = 0;
  OpId op;
};  // a hint; Completed and Quiesced still follow
struct Publish {
  Handle handle;
  Poll poll = Poll::kBootstrapping;
};
struct Failing {
  Handle handle;
  Error cause;
};  // readable at once; pages are still held
struct ChunkReturned {
  Handle handle;
  std::uint32_t chunk = 0;
};  // sender's source pages of that chunk
struct Terminal {
  Handle handle;
};  // published Success/Failed and every page is free
struct Closed {
  Handle handle;
};  // the slot may be used again
struct RekeyRegions {
  std::uint32_t generation = 0;
};
struct Trace {
  TimePoint at;
  const char* what = "";
  RoomId room;
  std::uint64_t grant = 0, a = 0, b = 0;
};  // flight recorder
}  // namespace out

using Output =
    std::variant<out::Send, out::Dial, out::CloseLink, out::AddPeer, out::WatchPeer, out::DropPeer,
                 out::Fence, out::Lend, out::Revoke, out::Post, out::Cancel, out::Publish, out::Failing,
                 out::ChunkReturned, out::Terminal, out::Closed, out::RekeyRegions, out::Trace>;
using Outputs = std::vector<Output>;

}  // namespace kvferry::core
