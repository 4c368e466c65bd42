// The acts of `kvferry demo`: what they send, what they break, and what came of it. Thread rule: the parent's
// main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/referee.h"
#include "replay/trace.h"

namespace kvferry::replay {

struct DemoRow {  // one line of the table
  std::string act;
  std::uint32_t rooms = 0, succeeded = 0, failed = 0, attempts = 0;
  std::uint64_t bytes = 0;  // moved, of rooms that succeeded
  std::string seen;  // a reason as the room gave it, or what was measured
  bool as_planned = true;  // the rooms ended as the act meant them to
};

class DemoScript {
 public:
  // The prompts of all acts, before the processes exist: lengths and hashes drawn from the seed.
  static Trace prompts(std::uint64_t seed);

  DemoScript(Area& area, Referee& referee) : area_(area), referee_(referee) {}
  void play();  // all acts in order; each waits at most a minute
  const std::vector<DemoRow>& rows() const noexcept { return rows_; }
  const std::string& trouble() const noexcept { return trouble_; }  // an act that did not come to an end

 private:
  void move_sizes();
  void abort_from(Side);
  void kill(Side);
  void move_again(const char* act);

  bool wait(const std::function<bool()>& until);
  bool ended(std::uint32_t first, std::uint32_t count) const;
  DemoRow row(std::string act, std::uint32_t first, std::uint32_t count);
  void finish(DemoRow row, std::uint32_t first, std::uint32_t count, bool all_succeed);

  Area& area_;
  Referee& referee_;
  std::uint32_t next_ = 0;  // the first prompt that no act has used
  std::uint64_t bytes_before_ = 0, attempts_before_ = 0;
  std::vector<DemoRow> rows_;
  std::string trouble_;
};

std::string to_table(const std::vector<DemoRow>&);  // aligned text
std::string to_json(const Tally&, const std::vector<DemoRow>&);  // one line: the keys of replay and "acts"

}  // namespace kvferry::replay
