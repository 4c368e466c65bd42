// One state of the exhaustive search and the moves out of it: real engines, the set of frames ever sent, the
// mover, the users' programs, what is on its way. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/explore_engines.h"
#include "sim/explore_shape.h"
#include "sim/law.h"
#include "sim/sim_transport.h"
#include "sim/world.h"

namespace kvferry::sim {

// What a user sees of its room.
struct ExploreUser {
  bool opened = false, granted = false, fired = false, failing = false, terminal = false, closed = false,
       gone = false;
  std::uint8_t pushed = 0, returned = 0;  // chunks; returned is a bit set
  Poll shown = Poll::kBootstrapping;
  std::uint32_t cause = 0;                // number of the cause's text; 0: none
  std::uint8_t complete = 0;  // receiver, a bit per sender: its part was whole when the pages were last lent
};

struct ExploreNode {
  bool up = true;
  LifeIndex life = 0;
  EngineId engine = 0;
  std::vector<ExploreUser> users;
};

struct ExploreLink {
  std::uint32_t node[2] = {0, 0};  // 0 dialled
  LinkId id[2];
  bool up[2] = {true, true};  // as that end knows
  bool broken = false;
};

// Something that will be told to a node, at any time.
struct ExplorePending {
  enum class Kind : std::uint8_t { kLinkDown, kFence, kRevoke, kRekey, kPeerDead } kind = Kind::kLinkDown;
  LifeIndex life = 0;
  std::uint64_t a = 0, b = 0;
  auto operator<=>(const ExplorePending&) const = default;
};

struct ExploreState {
  std::vector<ExploreNode> nodes;
  std::shared_ptr<const SimTransport> mover;
  Fingerprint mover_print;
  std::vector<ExploreLink> links;
  std::vector<FrameId> sent;  // sorted
  std::vector<ExplorePending> pending;  // sorted
  std::vector<std::uint32_t> next_link;  // by node
  std::uint8_t aborts = 0, crashes = 0, failures = 0, cuts = 0, timeouts = 0;  // used
};

struct ExploreMove {
  enum class Kind : std::uint8_t {
    kDeliver,
    kTimer,
    kLand,
    kArrive,
    kComplete,
    kFail,
    kQuiesce,
    kPending,
    kOpen,
    kGrant,
    kPush,
    kFired,
    kAbort,
    kClose,
    kCrash,
    kRestart,
    kCut
  } kind = Kind::kDeliver;
  std::uint32_t a = 0, b = 0;
  bool fair = false;  // enough for liveness: no luck, no fault
};

class ExploreModel {
 public:
  ExploreModel(const ExploreShape& shape, Removed removed);

  ExploreState initial(Laws&);
  void moves(const ExploreState&, std::vector<ExploreMove>&);
  // Applies one move. `answered`: also what the other side answers comes back at once (a fair round trip).
  ExploreState apply(const ExploreState&, const ExploreMove&, bool answered, Laws&);
  Fingerprint print(const ExploreState&) const;
  bool closed(const ExploreState&);  // everything has ended and nothing is owed
  std::string text(const ExploreState&, const ExploreMove&);  // for a person
  std::string show(const ExploreState&) const;
  const EngineTable& engines() const { return engines_; }

 private:
  friend class ExploreStep;

  const ExploreRoom& room_of(std::uint32_t node, std::uint32_t user) const {
    return shape_.programs[node][user];
  }
  bool deliverable(const ExploreState&, FrameId, LinkId& at) const;
  bool owed(const ExploreState&, FrameId);
  void timer_moves(const ExploreState&, std::vector<ExploreMove>&);
  void rest_moves(const ExploreState&, std::vector<ExploreMove>&);
  void user_moves(const ExploreState&, std::vector<ExploreMove>&) const;
  void room_moves(const ExploreState&, std::uint32_t node, std::uint32_t user,
                  std::vector<ExploreMove>&) const;
  void mover_moves(const ExploreState&, std::vector<ExploreMove>&) const;
  void fault_moves(const ExploreState&, std::vector<ExploreMove>&) const;
  bool content_complete(const SimTransport&, std::uint32_t node, LifeIndex, std::uint32_t user,
                        const std::vector<std::uint32_t>& layers) const;
  std::uint8_t complete_parts(const SimTransport&, std::uint32_t node, LifeIndex, std::uint32_t user) const;
  bool clean(const ExploreState&) const;  // nothing went wrong so far
  static std::uint32_t prompt_of(const ExploreRoom&);
  std::uint32_t cause_number(const Error&);
  core::EngineConfig config(std::uint32_t node, LifeIndex) const;

  ExploreShape shape_;
  Removed removed_;
  std::vector<NodePlace> places_;
  EngineTable engines_;
  std::vector<std::string> causes_{""};
};

// The other end of a node's link; false: that link is gone.
bool find_link(const ExploreState&, std::uint32_t node, LinkId, std::size_t& link, std::size_t& side);

}  // namespace kvferry::sim
