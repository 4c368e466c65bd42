// The small shapes of the exhaustive search, closed without a finding. The large ones: `./run check explore`.
#include <gtest/gtest.h>

#include "sim/explorer.h"

namespace kvferry::sim {
namespace {

class Closure : public ::testing::TestWithParam<std::string> {};

TEST_P(Closure, HasNoCounterexample) {
  const auto shape = find_explore_shape(GetParam());
  ASSERT_TRUE(shape.has_value());
  const ExploreResult r = explore(*shape, {});
  EXPECT_TRUE(r.closed) << r.states << " states";
  std::string story;
  if (r.broken) {
    for (const std::string& step : r.broken->steps) story += "\n  " + step;
  }
  EXPECT_FALSE(r.broken.has_value()) << (r.broken ? r.broken->law + ": " + r.broken->text + story : "");
  EXPECT_GT(r.states, 100U);
  EXPECT_GT(r.ends, 0U) << "nothing ever ended";
}

std::vector<std::string> quick_shapes() {
  std::vector<std::string> names;
  for (const ExploreShape& s : explore_shapes()) {
    if (s.quick) names.push_back(s.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Closure, ::testing::ValuesIn(quick_shapes()), [](const auto& i) {
  std::string name = "s" + i.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(Explorer, BeyondItsStatesItSaysSo) {
  ExploreOptions o;
  o.most_states = 50;
  const ExploreResult r = explore(*find_explore_shape("1x1-placed"), o);
  EXPECT_FALSE(r.closed);
  ASSERT_TRUE(r.broken.has_value());
  EXPECT_EQ(r.broken->law, "the search does not close");
}

}  // namespace
}  // namespace kvferry::sim
