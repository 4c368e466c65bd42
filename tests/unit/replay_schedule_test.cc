// The trace clock: numeric speeds follow the wall, "max" jumps to the next arrival or, without pages, to the
// next release.
#include "replay/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvferry::replay {
namespace {

std::vector<TraceRequest> arrivals(std::initializer_list<std::int64_t> times) {
  std::vector<TraceRequest> requests;
  for (const std::int64_t at : times) requests.push_back({1, at, 1, 1, 0, 1});
  return requests;
}

Schedule::Situation situation(bool short_of_pages, bool full, bool idle) {
  return {true, short_of_pages, full, idle};
}

TEST(ReplayClock, ANumericSpeedFollowsTheWall) {
  const TraceClock clock(2, 5'000'000'000);
  EXPECT_FALSE(clock.jumps());
  EXPECT_EQ(clock.now_us(5'000'000'000), 0);
  EXPECT_EQ(clock.now_us(6'500'000'000), 3'000'000);
  EXPECT_EQ(clock.wall_ns_of(3'000'000), 6'500'000'000);
}

TEST(ReplayClock, MaxStandsUntilItJumpsAndNeverGoesBack) {
  TraceClock clock(0, 5);
  EXPECT_TRUE(clock.jumps());
  EXPECT_EQ(clock.now_us(9'000'000'000'000), 0);
  clock.jump_to(70);
  clock.jump_to(30);
  EXPECT_EQ(clock.now_us(0), 70);
}

TEST(ReplaySchedule, GivesWhatIsDueInOrder) {
  const std::vector<TraceRequest> requests = arrivals({10, 10, 30});
  Schedule schedule(requests);
  EXPECT_FALSE(schedule.take_arrival(9));
  EXPECT_EQ(schedule.take_arrival(10), 0U);
  EXPECT_EQ(schedule.take_arrival(10), 1U);
  EXPECT_FALSE(schedule.take_arrival(10));
  schedule.hold(1, 50);
  schedule.hold(0, 40);
  EXPECT_FALSE(schedule.take_release(39));
  EXPECT_EQ(schedule.take_release(60), 0U);
  EXPECT_EQ(schedule.take_release(60), 1U);
  EXPECT_FALSE(schedule.take_release(60));
}

TEST(ReplaySchedule, JumpsToTheNextArrivalWhilePagesAreFree) {
  const std::vector<TraceRequest> requests = arrivals({10, 20});
  Schedule schedule(requests);
  schedule.hold(7, 15);
  EXPECT_EQ(schedule.jump(situation(false, false, false)), 10);
  schedule.take_arrival(10);
  EXPECT_EQ(schedule.jump(situation(false, false, false)), 20);
}

TEST(ReplaySchedule, JumpsToTheNextReleaseWhenNoPageIsFree) {
  const std::vector<TraceRequest> requests = arrivals({10});
  Schedule schedule(requests);
  EXPECT_FALSE(schedule.jump(situation(true, false, false)))
      << "nothing is held: transfers must get on first";
  schedule.hold(7, 99);
  EXPECT_EQ(schedule.jump(situation(true, false, false)), 99);
  EXPECT_EQ(schedule.jump(situation(true, true, false)), 99);
}

TEST(ReplaySchedule, StandsWhileReleasesAreCarriedOutOrRoomsAreFull) {
  const std::vector<TraceRequest> requests = arrivals({10});
  Schedule schedule(requests);
  schedule.hold(7, 99);
  EXPECT_FALSE(schedule.jump({false, true, false, false}));
  EXPECT_FALSE(schedule.jump(situation(false, true, false)));
}

TEST(ReplaySchedule, AtTheEndItReleasesWhatIsHeld) {
  const std::vector<TraceRequest> requests = arrivals({});
  Schedule schedule(requests);
  schedule.hold(7, 99);
  EXPECT_FALSE(schedule.jump(situation(false, false, false)));
  EXPECT_EQ(schedule.jump(situation(false, false, true)), 99);
}

}  // namespace
}  // namespace kvferry::replay
