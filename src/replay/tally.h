// What a run came to: the figures of the report and the list of promises that were not kept. Values; no
// thread rule.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvferry::replay {

struct Quantiles {
  double p50 = 0, p99 = 0;
};
Quantiles quantiles(std::vector<double> values);  // nearest rank; zeroes for none

struct Tally {
  std::uint64_t rooms = 0, attempts = 0, succeeded = 0, failed = 0;
  std::map<std::string, std::uint64_t> failures;  // cause -> count
  std::uint64_t hung = 0, rooms_live_max = 0, page_waits = 0;
  std::uint64_t bytes_moved = 0, prefix_hit_bytes = 0, bytes_verified = 0, bytes_wrong = 0,
                manifests_wrong = 0;
  std::uint64_t bytes_unaccounted = 0;  // rooms that succeeded with another size than was granted
  std::uint64_t stranger_writes = 0;
  std::uint64_t pages_lent = 0, pages_returned = 0, pages_quarantined = 0;
  std::uint64_t pages_lost = 0;  // lent by processes at the moment when they were killed
  std::uint64_t kills = 0, restarts = 0, retries = 0, chunks = 0, calls_refused = 0;
  std::uint64_t crashes = 0;  // processes that ended though nobody told them to
  std::uint64_t unexplained = 0;  // rooms that failed without abort, kill or refusal
  std::uint64_t unreasoned = 0;  // rooms that failed without a text
  std::uint64_t disagreements = 0;  // the two sides ended differently, nothing having been killed or aborted
  std::vector<double> kill_to_reason_ms, kill_to_failed_ms, t0_ms, transfer_ms;
  double seconds = 0, startup_seconds = 0;
  std::uint64_t prompts_cut = 0;
  std::string note;  // why the run ended early, if it did
};

// One line for each promise that was broken; empty: all kept. Depends on no wall-clock figure.
std::vector<std::string> broken_promises(const Tally&);

std::string to_json(const Tally&);  // one line, the keys of docs/cli.md
std::string to_text(const Tally&);  // for people

}  // namespace kvferry::replay
