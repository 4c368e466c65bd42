// `kvferry demo` over real processes: it ends with its promises kept and says what it saw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/replay_program.h"

namespace kvferry::e2e {
namespace {

using testing::HasSubstr;

class Demo : public testing::TestWithParam<const char*> {};

TEST_P(Demo, KeepsItsPromisesThroughAbortsAndKills) {
  const Outcome outcome = run({"demo", "--mover", GetParam(), "--seed", "3", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const nlohmann::json json = outcome.json();
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_TRUE(json["promises_kept"].get<bool>());
  EXPECT_EQ(json["kills"], 2);
  EXPECT_EQ(json["restarts"], 2);
  EXPECT_EQ(json["rooms"], 19);
  EXPECT_EQ(json["succeeded"], 13);
  EXPECT_EQ(json["failures"]["aborted by prefill"], 3);
  EXPECT_EQ(json["failures"]["aborted by decode"], 3);
  EXPECT_EQ(json["retries"], 4) << "both rooms of each kill are tried again under their numbers";
  EXPECT_EQ(json["bytes_wrong"], 0);
  EXPECT_EQ(json["stranger_writes"], 0);
  EXPECT_EQ(json["bytes_moved"], json["bytes_verified"]);
  EXPECT_GT(json["prefix_hit_bytes"].get<std::uint64_t>(), 0U);
  EXPECT_GT(json["pages_lost_with_process"].get<std::uint64_t>(), 0U)
      << "the kills hit rooms that had pages out";
  EXPECT_GT(json["kill_rooms_measured"].get<std::uint64_t>(), 0U);
  for (const nlohmann::json& act : json["acts"]) EXPECT_TRUE(act["as_planned"].get<bool>()) << act.dump();
  EXPECT_THAT(outcome.out, HasSubstr("prefill killed and restarted"));
}

INSTANTIATE_TEST_SUITE_P(Movers, Demo, testing::Values("shm", "tcp"),
                         [](const auto& p) { return std::string(p.param); });

TEST(DemoFlags, AnUnknownMoverIsNamed) {
  const Outcome outcome = run({"demo", "--mover", "pigeon"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("pigeon"));
  EXPECT_THAT(outcome.err, HasSubstr("shm"));
}

}  // namespace
}  // namespace kvferry::e2e
