// Exhaustive search over one named shape: every order of everything, states kept as fingerprints with
// parents, paths replayed for people. Safety on every state; liveness: from every state a closed state can be
// reached by moves that need no luck. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/explore_shape.h"
#include "sim/world.h"

namespace kvferry::sim {

struct ExploreOptions {
  Removed removed;
  std::uint64_t most_states = 30'000'000;  // beyond: not closed, which is a failure
  std::function<void(std::uint64_t states, std::size_t frontier)> progress;  // may be empty
};

struct Counterexample {
  std::string law, text;
  std::vector<std::string> steps;  // shortest path to it
  std::vector<std::string> after;  // liveness: where the fair moves lead, and the end that is no end
};

struct ExploreResult {
  std::string shape, budget;
  std::uint64_t states = 0, edges = 0, engines = 0, frames = 0;
  std::uint64_t ends = 0;  // closed states
  std::uint64_t depth = 0;
  double seconds = 0;
  bool closed = false;  // every reachable state was seen
  std::optional<Counterexample> broken;
};

ExploreResult explore(const ExploreShape&, const ExploreOptions&);

}  // namespace kvferry::sim
