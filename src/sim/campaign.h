// Many seeds, one verdict: runs them, adds up coverage, makes a failing scenario smaller and tells how to
// replay it. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "sim/coverage.h"
#include "sim/world.h"

namespace kvferry::sim {

struct CampaignOptions {
  std::uint64_t first = 1, last = 1;   // inclusive
  std::string shape;                   // empty: drawn per seed
  Removed removed;
  bool check_trace = false;            // S7: every 64th seed is run twice and its trace hashes compared
  std::size_t most_violations = 1;     // then stop
  bool shrink = true;
  std::size_t keep = 60;               // last events of a violation that are kept as text
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // may be empty; called now and then
};

struct Violation {
  std::uint64_t seed = 0;
  std::string law, text;
  std::uint64_t steps = 0;  // events up to the breach, in the smallest scenario that was found
  std::string scenario;  // in words, as drawn and as made smaller
  std::vector<std::string> trace;  // its last events
  std::string replay;  // a command line
};

struct CampaignResult {
  std::uint64_t seeds = 0, events = 0, rooms = 0, succeeded = 0, failed = 0;
  std::uint64_t median_events = 0, median_rooms = 0;
  double seconds = 0;
  std::vector<Violation> violations;
  Coverage coverage;
};

Result<CampaignResult> run_campaign(const CampaignOptions&);

// One seed, with its last `keep` events as text. The same as the campaign runs it, before any shrinking.
Result<RunResult> run_seed(std::uint64_t seed, const std::string& shape, Removed, Coverage&,
                           std::size_t keep);

// A mutant of the rules or of the mover by name; kUsage names the value and where the list is.
Result<Removed> removed_by_name(const std::string& name);

}  // namespace kvferry::sim
