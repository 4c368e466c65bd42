#include "sim/trace.h"

#include <fmt/format.h>

namespace kvferry::sim {

std::string time_text(TimePoint at) {
  return fmt::format("{:.6f}", std::chrono::duration<double>(at.time_since_epoch()).count());
}

void Trace::note(TimePoint at, std::string text) {
  if (keep_ == 0) return;
  if (last_.size() >= keep_) last_.pop_front();
  last_.push_back(time_text(at) + "  " + std::move(text));
}

}  // namespace kvferry::sim
