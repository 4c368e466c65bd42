#include "base/check.h"

#include <gtest/gtest.h>

#include "kvferry/clock.h"

namespace kvferry {
namespace {

TEST(CheckDeathTest, FailedCheckNamesPlaceConditionAndMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int pages = 3;
  KVF_CHECK(pages == 3, "never seen");
  EXPECT_DEATH(KVF_CHECK(pages == 4, "one page too few"),
               "base_check_test.cc:[0-9]+: check failed: pages == 4: one page too few");
}

TEST(CheckDeathTest, DebugCheckFollowsTheBuild) {
  int looked = 0;
  KVF_DCHECK(++looked == 1, "never seen");
#ifdef NDEBUG
  EXPECT_EQ(looked, 0);
#else
  EXPECT_EQ(looked, 1);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(KVF_DCHECK(looked == 2, "told"), "check failed: looked == 2: told");
#endif
}

TEST(SystemClock, NeverGoesBack) {
  SystemClock clock;
  const TimePoint one = clock.now();
  const TimePoint two = clock.now();
  EXPECT_LE(one, two);
  EXPECT_GT(one.time_since_epoch().count(), 0);
}

}  // namespace
}  // namespace kvferry
