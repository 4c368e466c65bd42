// Runs the checks for one harness and reports: for people line by line, for programs as one JSON object.
// Thread rule: one thread.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "conformance/checks.h"

namespace kvferry::conformance {

struct Outcome {
  Check check;
  Verdict verdict;
  double seconds = 0;
};

struct Report {
  std::string harness;
  Capabilities capabilities;
  std::vector<Outcome> outcomes;
  std::size_t count(Verdict::Kind) const;
  bool held() const { return count(Verdict::Kind::kBroken) == 0; }
};

// `only`: checks whose name contains it. `progress`: null, or told each verdict as it is known.
Report run_checks(const HarnessSpec&, const std::string& only, std::ostream* progress);

std::string json_of(const std::vector<Report>&);  // one object
const char* name_of(Verdict::Kind) noexcept;      // "held", "BROKEN", "skipped"
std::string describe(const Capabilities&);        // one line for people

}  // namespace kvferry::conformance
