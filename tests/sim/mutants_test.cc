// Each rule is removed in turn, and something notices: by what is written in mutants.txt, one line a mutant.
// A rule whose removal nothing notices is not proven by anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/campaign.h"
#include "sim/explorer.h"

namespace kvferry::sim {
namespace {

struct Catcher {
  std::string mutant, how, where, law;  // how: "explore" SHAPE, or "sim" SEED
  bool model = false;                   // protocol_rules marks its rule [model]: within 15 steps
};

std::vector<Catcher> catchers() {
  std::vector<Catcher> all;
  std::ifstream file(std::string(KVFERRY_TESTS_DIR) + "/sim/mutants.txt");
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Catcher c;
    std::string law;
    words >> c.mutant >> c.how >> c.where >> c.law >> law;
    c.model = law == "model";
    all.push_back(c);
  }
  return all;
}

class MutantIsCaught : public ::testing::TestWithParam<Catcher> {};

TEST_P(MutantIsCaught, By) {
  const Catcher& c = GetParam();
  if (c.how == "open")
    GTEST_SKIP() << "no shape and no seed notices this switch yet: it proves nothing so far";
  const auto removed = removed_by_name(c.mutant);
  ASSERT_TRUE(removed.has_value()) << removed.error().line();
  if (c.how == "explore") {
    const auto shape = find_explore_shape(c.where);
    ASSERT_TRUE(shape.has_value()) << c.where;
    ExploreOptions o;
    o.removed = *removed;
    o.most_states = 400'000;
    const ExploreResult r = explore(*shape, o);
    ASSERT_TRUE(r.broken.has_value()) << "the search does not notice";
    EXPECT_EQ(r.broken->law.substr(0, 2), c.law) << r.broken->text;
    if (c.model) {
      EXPECT_LE(r.broken->steps.size(), 15U);
    }
    return;
  }
  ASSERT_EQ(c.how, "sim");
  CampaignOptions o;
  o.first = o.last = std::stoull(c.where);
  o.removed = *removed;
  o.shrink = false;
  const auto r = run_campaign(o);
  ASSERT_TRUE(r.has_value()) << r.error().line();
  ASSERT_FALSE(r->violations.empty()) << "the seed does not notice";
  EXPECT_EQ(r->violations[0].law.substr(0, 2), c.law) << r->violations[0].text;
}

INSTANTIATE_TEST_SUITE_P(Rules, MutantIsCaught, ::testing::ValuesIn(catchers()), [](const auto& i) {
  std::string name = i.param.mutant;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(Mutants, EverySwitchHasACatcher) {
  std::map<std::string, int> known;
  for (const Catcher& c : catchers()) ++known[c.mutant];
  std::size_t all = 0;
  const auto need = [&](std::string_view name) {
    if (name == "none") return;
    ++all;
    EXPECT_EQ(known[std::string(name)], 1) << name << " has no line, or several, in tests/sim/mutants.txt";
  };
  for (const core::MutantInfo& m : core::kMutants) need(m.name);
  for (const MoverMutantInfo& m : kMoverMutants) need(m.name);
  EXPECT_GE(all, 30U);
  EXPECT_EQ(known.size(), all) << "a line names a switch that does not exist";
}

}  // namespace
}  // namespace kvferry::sim
