// The line on stderr that shows how far a run is. On a terminal it is rewritten in place; else a line every
// few seconds. Thread rule: the parent's main thread.
#pragma once

#include <cstdint>
#include <string>

namespace kvferry::replay {

class ProgressLine {
 public:
  ProgressLine(std::uint64_t rooms, std::int64_t start_ns);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::int64_t now_ns, std::uint64_t done, std::uint64_t bytes, std::uint32_t live,
              std::int64_t trace_us);
  static std::string text(std::uint64_t done, std::uint64_t rooms, std::uint64_t bytes, std::uint32_t live,
                          std::int64_t trace_us, double seconds);

 private:
  std::uint64_t rooms_;
  std::int64_t start_ns_, shown_ns_;
  bool terminal_;
  bool open_ = false;  // the cursor stands behind an unfinished line
};

}  // namespace kvferry::replay
