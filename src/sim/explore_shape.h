// The named shapes of the exhaustive search: who does what, which faults may strike and how often. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/limits.h"
#include "sim/cluster.h"

namespace kvferry::sim {

// One opening of a room by one process: what its user will do, step by step; every step may come at any time.
struct ExploreRoom {
  std::uint64_t room = 1;
  std::uint64_t attempt = 1;
  bool tagged = true;  // an untagged room promises one prompt per number: then prompt = room
  std::vector<std::uint32_t> pages;  // receiver: lent pages, one a chunk; sender: source pages, one a chunk
  bool after_last = false;  // opened only when the room before it in the list was closed
  bool may_abort = false;  // while aborts of the shape are left
  bool steals = false;  // its user grants pages that may still be lent: the engine must refuse
  bool event = false;  // the grant or the first chunk waits for a device event
};

struct ExploreShape {
  std::string name, about;
  ClusterShape cluster;
  std::vector<std::vector<ExploreRoom>> programs;  // by node
  Limits limits;
  // Fault budgets, all of the whole run.
  std::uint32_t aborts = 0;  // by users whose room says may_abort
  std::uint32_t crashes = 0;  // of the nodes in crashing; they come back if restarts
  std::vector<std::uint32_t> crashing;
  bool restarts = true;
  std::uint32_t failures = 0;  // operations that complete with an error and may still land
  std::uint32_t cuts = 0;  // of a control link
  std::uint32_t timeouts = 0;  // accusing deadlines that fire although the peer is fine
  std::vector<std::string> timers;  // which of those may fire
  std::vector<std::string> fair_timers;  // deadlines that liveness may count on once a fault has struck
  std::vector<std::string>
      rest_timers;  // the same for long ones: they fire only when nothing else can happen
  bool duplicates = true;  // a frame may come again at any time (false: once, in any order, or never)
  bool handshake = false;  // HELLOs are explored too, not agreed before
  bool pings = false;  // heartbeats are explored (they carry the window's floor)
  bool one_cause = false;  // with one abort and nothing else: every rank that failed names it
  bool succeeds = true;  // without a fault no room may fail
  bool quick = false;  // small enough for every test run
};

std::vector<ExploreShape> explore_shapes();
std::optional<ExploreShape> find_explore_shape(std::string_view name);  // nothing: unknown
std::string budget_of(const ExploreShape&);  // "1 abort, 1 crash of prefill-0.0, ..."

}  // namespace kvferry::sim
