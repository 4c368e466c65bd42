// The numbered promises of the Transport contract, each as a function over a harness. docs/transports.md
// lists them. Thread rule: one thread; a check makes its own world and leaves nothing.
#pragma once

#include <string>
#include <vector>

#include "conformance/session.h"

namespace kvferry::conformance {

struct Verdict {
  enum class Kind : std::uint8_t { kHeld, kBroken, kSkipped } kind = Kind::kHeld;
  std::string text;  // kBroken: what happened; kSkipped: which capability is missing
};
Verdict held();
Verdict broken(std::string what);
Verdict skipped(std::string capability);
Verdict verdict_of(const Finding&);

struct Check {
  const char* name;     // "C04_cancel_is_a_hint"
  const char* promise;  // one sentence
  Verdict (*run)(const HarnessSpec&);
};

// All, in order.
const std::vector<Check>& checks();

// The parts of the list, one file each.
std::vector<Check> operation_checks();   // checks_operations.cc
std::vector<Check> refusal_checks();     // checks_refusals.cc
std::vector<Check> ending_checks();      // checks_endings.cc: revoke, fence
std::vector<Check> process_checks();  // checks_processes.cc: peers that die or stop, cost of calls, leaks

// Runs `body` with the near party posting, then with the far one. The first verdict that is not kHeld wins.
Verdict both_ways(const HarnessSpec&, bool bulk, Verdict (*body)(Session&));
Verdict one_way(const HarnessSpec&, bool near_posts, bool bulk, Verdict (*body)(Session&));

}  // namespace kvferry::conformance
