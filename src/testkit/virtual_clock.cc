#include "kvferry/testkit.h"

namespace kvferry::testkit {

VirtualClock::VirtualClock(TimePoint start) : now_(start) {}
TimePoint VirtualClock::now() noexcept { return now_; }
void VirtualClock::set(TimePoint now) noexcept { now_ = now; }

}  // namespace kvferry::testkit
