#include "runtime/log_gate.h"

#include <utility>

namespace kvferry::runtime {

LogGate::LogGate(std::function<void(std::string_view)> sink, std::uint32_t lines_per_second)
    : sink_(std::move(sink)), lines_per_second_(lines_per_second) {}

void LogGate::line(TimePoint now, std::string_view text) {
  if (!sink_) return;
  if (now - window_ >= std::chrono::seconds(1)) {
    window_ = now;
    in_window_ = 0;
  }
  if (in_window_ >= lines_per_second_) {
    ++held_back_;
    return;
  }
  ++in_window_;
  if (held_back_ == 0) {
    sink_(text);
    return;
  }
  sink_(std::string(text) + " (" + std::to_string(std::exchange(held_back_, 0)) + " lines were held back)");
}

}  // namespace kvferry::runtime
