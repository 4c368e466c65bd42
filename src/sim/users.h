// The engines above: a router that draws requests, prefill users that compute chunks and push them, decode
// users that lend pages, take the result and free it. They abort, stall, reuse room numbers, share cached
// pages, close early. They keep their own ledger of every page. Thread rule: the world's thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/io.h"
#include "kvferry/manager.h"
#include "sim/sim_transport.h"

namespace kvferry::sim {

class World;

enum class UserStep : std::uint8_t {
  kOpen,
  kGrant,
  kPush,
  kFired,
  kAbort,
  kReject,
  kRenew,
  kClose,
  kFree,
  kOpenAgain
};

struct UserRequest {
  RoomId room;
  Tag tag;
  std::uint32_t prompt = 0, family = 0;  // blocks below shared_blocks belong to the family's prompt
  std::uint32_t shared_blocks = 0;
  std::uint32_t tokens = 0, prefix = 0;  // tokens behind the prefix
  std::uint32_t chunk_pages = 4;
  bool events = false;                   // chunks and grants wait for device events
  std::vector<std::uint32_t> senders, receivers;  // nodes
};

// One rank's part in one request: one handle.
struct Participant {
  std::uint32_t request = 0, node = 0, index = 0;  // index among its side's ranks
  Role role = Role::kSender;
  LifeIndex life = kNoLife;
  Handle handle;
  bool opened = false, closed = false, dead = false, terminal = false, close_asked = false;
  bool granted = false, pushed_last = false, stuck = false, duplicate = false;
  Poll shown = Poll::kBootstrapping;
  bool failing = false;
  Error cause;
  // Receiver.
  std::uint32_t lending = 0;
  std::vector<std::uint32_t> pages;
  std::uint32_t aux = kNoSlot;
  std::vector<std::uint32_t> states;
  std::uint64_t complete = 0;  // bit per layer: its content was whole when the pages were last seen
  // Sender.
  struct Pushed {
    std::vector<std::uint32_t> pages;
    std::uint32_t first_block = 0;
    std::uint32_t aux = kNoSlot;
    std::vector<std::uint32_t> states;
    std::uint64_t event = 0;
    bool returned = false;
  };
  std::vector<Pushed> chunks;
  std::uint32_t next_token = 0;  // of the whole prompt
  bool started = false;
  bool probe = false;
};

class Users {
 public:
  Participant* find(std::uint32_t node, Handle);  // null: closed or never opened
  explicit Users(World& world) : world_(world) {}

  void begin();  // plans the requests
  void on_request(std::uint32_t request);
  void step(std::uint32_t participant, UserStep, std::uint64_t detail);
  void birth(std::uint32_t node);
  void crash(std::uint32_t node);

  // What the engine of a node says.
  void publish(std::uint32_t node, Handle, Poll);
  void failing(std::uint32_t node, Handle, const Error&);
  void chunk_returned(std::uint32_t node, Handle, std::uint32_t chunk);
  void terminal(std::uint32_t node, Handle);
  void closed(std::uint32_t node, Handle);

  bool all_over() const { return open_ == 0; }  // every handle of a living process is terminal
  bool all_closed() const { return unclosed_ == 0; }
  void close_all();
  void probe();  // after the healing: one plain room between every two instances
  std::string failed_probe() const;  // empty: every probe succeeded
  std::string first_open() const;  // the handle that did not end, for a person
  const std::vector<Participant>& participants() const { return participants_; }
  const std::vector<UserRequest>& requests() const { return requests_; }
  std::uint64_t content_complete(
      const Participant&) const;  // layers whose granted pages hold the right content
  std::string node_ledger(std::uint32_t node) const;  // empty: every page is accounted for
  std::uint32_t lent_items(std::uint32_t node) const;  // under a grant, by the user's book
  std::uint64_t rooms() const { return rooms_; }
  std::uint64_t succeeded = 0, failed = 0;

 private:
  struct UserNode {
    LifeIndex life = kNoLife;
    std::array<std::vector<std::uint32_t>, kSpaces> free;
    std::vector<std::uint32_t> by_slot;  // participant + 1
    std::vector<std::uint32_t> generations, free_slots;
    std::map<std::uint32_t, std::uint32_t> cache;  // family -> page of its block 0
    std::uint32_t next_lending = 1;
    std::uint32_t lent = 0;  // items under a grant
  };

  UserRequest draw_request();
  void probe_pair(std::uint32_t prefill, std::uint32_t decode, Duration after);
  void plan(std::uint32_t participant, UserStep, Duration after, std::uint64_t detail = 0);
  bool take(UserNode&, Space, std::size_t count, std::vector<std::uint32_t>& into);
  void give(UserNode&, Space, std::uint32_t item);
  std::uint32_t content(const UserRequest&, std::uint32_t layer, std::uint32_t block) const;
  void open(std::uint32_t participant);
  void grant(std::uint32_t participant);
  void push(std::uint32_t participant);
  void fired(std::uint32_t participant, std::uint64_t event);
  void write_chunk(const Participant&, const Participant::Pushed&);
  bool take_chunk(std::uint32_t participant, std::uint32_t tokens, bool last, Participant::Pushed&);
  void lend_now(Participant&);
  void take_back(Participant&);
  void release_chunk(Participant&, Participant::Pushed&);
  void abort(Participant&, Code, std::int32_t status);
  std::uint32_t first_of(const Participant& duplicate) const;
  void plan_mischief(std::uint32_t participant);
  void add_participant(std::uint32_t request, std::uint32_t node, std::uint32_t index, Role,
                       Duration after = Duration{0});
  PageRuns runs_of(const std::vector<std::uint32_t>&) const;
  bool living(const Participant&) const;
  void over(Participant&);

  World& world_;
  std::vector<UserRequest> requests_;
  std::vector<Participant> participants_;
  std::vector<UserNode> nodes_;
  std::uint64_t next_event_ = 1, next_room_ = 1000;
  std::uint32_t next_prompt_ = 1;
  std::uint32_t open_ = 0, unclosed_ = 0;
  bool closing_ = false;  // requests that were not opened yet never will be; probes are
  std::uint64_t rooms_ = 0;
};

}  // namespace kvferry::sim
