// The trace of a run: a hash over everything that happened (same seed, same hash) and, on request, the last
// events as text. Thread rule: the world's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/prng.h"
#include "kvferry/types.h"

namespace kvferry::sim {

class Trace {
 public:
  explicit Trace(std::size_t keep) : keep_(keep) {}

  void add(std::uint64_t word) { hash_ = mix64(hash_ ^ word) + (hash_ << 7); }
  std::uint64_t hash() const { return hash_; }
  bool wanted() const { return keep_ > 0; }  // texts cost time: make them only then
  void note(TimePoint at, std::string text);
  std::vector<std::string> last() const { return {last_.begin(), last_.end()}; }

 private:
  std::size_t keep_;
  std::uint64_t hash_ = 0x6b766665727279ULL;
  std::deque<std::string> last_;
};

std::string time_text(TimePoint);  // "12.003400"

}  // namespace kvferry::sim
