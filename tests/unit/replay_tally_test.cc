// Which figures break a promise, and that wall-clock figures never do.
#include "replay/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvferry::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tally good() {
  Tally t;
  t.rooms = 10;
  t.attempts = 11;
  t.succeeded = 8;
  t.failed = 2;
  t.failures["aborted by prefill"] = 2;
  t.bytes_moved = t.bytes_verified = 100;
  t.pages_lent = 20;
  t.pages_returned = 15;
  t.pages_quarantined = 2;
  t.pages_lost = 3;
  return t;
}

TEST(ReplayTally, AGoodRunKeepsItsPromises) { EXPECT_THAT(broken_promises(good()), ElementsAre()); }

TEST(ReplayTally, EachBrokenPromiseIsNamed) {
  const auto broken = [](auto change) {
    Tally t = good();
    change(t);
    return broken_promises(t);
  };
  EXPECT_THAT(broken([](Tally& t) { t.bytes_wrong = 1; }), ElementsAre(HasSubstr("oracle: 1")));
  EXPECT_THAT(broken([](Tally& t) { t.manifests_wrong = 1; }), ElementsAre(HasSubstr("manifests")));
  EXPECT_THAT(broken([](Tally& t) { t.bytes_unaccounted = 1; }), ElementsAre(HasSubstr("another size")));
  EXPECT_THAT(broken([](Tally& t) { t.stranger_writes = 4; }),
              ElementsAre(HasSubstr("somebody wrote to: 4")));
  EXPECT_THAT(broken([](Tally& t) { t.hung = 1; }), ElementsAre(HasSubstr("without an end")));
  EXPECT_THAT(broken([](Tally& t) { t.crashes = 1; }), ElementsAre(HasSubstr("processes")));
  EXPECT_THAT(broken([](Tally& t) { t.unexplained = 1; }), ElementsAre(HasSubstr("without abort")));
  EXPECT_THAT(broken([](Tally& t) { t.unreasoned = 1; }), ElementsAre(HasSubstr("without a reason")));
  EXPECT_THAT(broken([](Tally& t) { t.disagreements = 1; }), ElementsAre(HasSubstr("differently")));
  EXPECT_THAT(broken([](Tally& t) { t.succeeded = 7; }),
              ElementsAre(HasSubstr("7 succeeded + 2 failed are not 10")));
  EXPECT_THAT(broken([](Tally& t) { t.pages_returned = 14; }), ElementsAre(HasSubstr("20 pages were lent")));
  EXPECT_THAT(broken([](Tally& t) { t.bytes_verified = 99; }), ElementsAre(HasSubstr("only 99 verified")));
  EXPECT_THAT(broken([](Tally& t) { t.note = "it ended early"; }), ElementsAre("it ended early"));
}

TEST(ReplayTally, SlownessBreaksNoPromise) {
  Tally t = good();
  t.kill_to_reason_ms = {1e6};
  t.kill_to_failed_ms = {1e6};
  t.t0_ms = {1e6};
  t.transfer_ms = {1e6};
  t.seconds = 1e6;
  t.startup_seconds = 1e6;
  EXPECT_THAT(broken_promises(t), ElementsAre());
}

TEST(ReplayTally, QuantilesAreNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_DOUBLE_EQ(quantiles(values).p50, 50);
  EXPECT_DOUBLE_EQ(quantiles(values).p99, 99);
  EXPECT_DOUBLE_EQ(quantiles({7}).p99, 7);
  EXPECT_DOUBLE_EQ(quantiles({}).p50, 0);
}

TEST(ReplayTally, JsonIsOneLineWithTheAgreedKeys) {
  const std::string line = to_json(good());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(line);
  for (const char* key : {"rooms",
                          "attempts",
                          "succeeded",
                          "failed",
                          "failures",
                          "hung",
                          "rooms_live_max",
                          "page_waits",
                          "bytes_moved",
                          "prefix_hit_bytes",
                          "bytes_verified",
                          "bytes_wrong",
                          "stranger_writes",
                          "pages_lent",
                          "pages_returned",
                          "pages_quarantined",
                          "kills",
                          "kill_to_reason_ms_max",
                          "kill_to_failed_ms_max",
                          "t0_ms",
                          "transfer_ms",
                          "gb_per_s",
                          "seconds",
                          "promises_kept"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_TRUE(json["promises_kept"].get<bool>());
  EXPECT_EQ(json["failures"]["aborted by prefill"], 2);
  EXPECT_TRUE(json["t0_ms"].contains("p50"));
  EXPECT_TRUE(json["transfer_ms"].contains("p99"));
}

}  // namespace
}  // namespace kvferry::replay
