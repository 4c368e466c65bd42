// Seeds of the simulator: many of them, those that once broke a law, and the promise that a seed is one
// story.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/campaign.h"

namespace kvferry::sim {
namespace {

std::string told(const CampaignResult& r) {
  std::string text;
  for (const Violation& v : r.violations) {
    text += "seed " + std::to_string(v.seed) + " breaks " + v.law + ": " + v.text + "\n  " + v.replay + "\n";
  }
  return text;
}

CampaignResult run(std::uint64_t first, std::uint64_t last) {
  CampaignOptions o;
  o.first = first;
  o.last = last;
  o.check_trace = true;
  o.most_violations = 5;
  auto r = run_campaign(o);
  EXPECT_TRUE(r.has_value()) << (r ? "" : r.error().line());
  return r ? std::move(*r) : CampaignResult{};
}

TEST(Seeds, TheFirstThousandHold) {
  const CampaignResult r = run(1, 1000);
  EXPECT_TRUE(r.violations.empty()) << told(r);
  EXPECT_EQ(r.seeds, 1000U);
  EXPECT_GT(r.succeeded, 1000U) << "a simulation in which nothing succeeds proves nothing";
  EXPECT_GT(r.failed, 1000U) << "nor one in which nothing fails";
}

// Each line: a seed that once broke a law, then what it was.
TEST(Seeds, TheCorpusHolds) {
  std::ifstream file(std::string(KVFERRY_TESTS_DIR) + "/sim/corpus.txt");
  ASSERT_TRUE(file.is_open());
  std::string line;
  std::size_t seeds = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::uint64_t seed = std::stoull(line);
    const CampaignResult r = run(seed, seed);
    EXPECT_TRUE(r.violations.empty()) << line << "\n" << told(r);
    ++seeds;
  }
  EXPECT_GT(seeds, 0U);
}

TEST(Seeds, OneSeedIsOneStory) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Coverage coverage;
    const auto a = run_seed(seed, "", Removed{}, coverage, 0);
    const auto b = run_seed(seed, "", Removed{}, coverage, 0);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->trace_hash, b->trace_hash) << "seed " << seed;
    EXPECT_EQ(a->events, b->events) << "seed " << seed;
  }
}

TEST(Seeds, SlowTwentyThousandHoldAndMeetEveryCell) {
  const CampaignResult r = run(1, 20000);
  EXPECT_TRUE(r.violations.empty()) << told(r);
  EXPECT_GE(r.median_events, 2000U);
  EXPECT_GE(r.median_rooms, 10U);
  for (const CoverageRow& row : rows_of(r.coverage)) {
    if (row.excuse.empty()) {
      EXPECT_GE(row.hits, 100U) << row.what
                                << " is hardly ever met: draw it more often, or say why it cannot be";
    } else {
      EXPECT_EQ(row.hits, 0U) << row.what << " is met, although: " << row.excuse;
    }
  }
}

}  // namespace
}  // namespace kvferry::sim
