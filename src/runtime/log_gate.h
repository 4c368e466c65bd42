// The caller's log function behind a rate limit, so that a storm of failures cannot slow the loop down. What
// was held back is said with the next line. Thread rule: progress thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kvferry/types.h"

namespace kvferry::runtime {

class LogGate {
 public:
  LogGate(std::function<void(std::string_view)> sink, std::uint32_t lines_per_second);
  bool on() const noexcept { return static_cast<bool>(sink_); }
  void line(TimePoint now, std::string_view text);

 private:
  std::function<void(std::string_view)> sink_;
  std::uint32_t lines_per_second_;
  TimePoint window_;           // start of the present second
  std::uint32_t in_window_ = 0;
  std::uint64_t held_back_ = 0;
};

}  // namespace kvferry::runtime
