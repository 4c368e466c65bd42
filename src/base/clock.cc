#include "kvferry/clock.h"

#include <time.h>

#include "base/check.h"

namespace kvferry {

TimePoint SystemClock::now() noexcept {
  timespec t{};
  KVF_CHECK(::clock_gettime(CLOCK_MONOTONIC, &t) == 0, "CLOCK_MONOTONIC cannot be read");
  return TimePoint{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
}

}  // namespace kvferry
