#include "base/prng.h"

#include <gtest/gtest.h>

#include <array>

namespace kvferry {
namespace {

// The values of the generators' published reference programs.
TEST(Prng, Splitmix64GivesTheReferenceValues) {
  std::uint64_t state = 1234567;
  EXPECT_EQ(splitmix64(state), 6457827717110365317ULL);
  EXPECT_EQ(splitmix64(state), 3203168211198807973ULL);
  EXPECT_EQ(splitmix64(state), 9817491932198370423ULL);
}

TEST(Prng, EqualSeedsGiveEqualNumbersAndOthersDoNot) {
  Prng a(7), b(7), c(8);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_EQ(a, b);
  EXPECT_NE(a.next(), c.next());
}

TEST(Prng, SequenceIsKeptForever) {
  Prng random(42);
  const std::array<std::uint64_t, 3> first{random.next(), random.next(), random.next()};
  EXPECT_EQ(first, (std::array<std::uint64_t, 3>{1546998764402558742ULL, 6990951692964543102ULL,
                                                 12544586762248559009ULL}));
}

TEST(Prng, BelowStaysBelowAndReachesEveryValue) {
  Prng random(1);
  std::array<int, 5> seen{};
  for (int i = 0; i < 1000; ++i) {
    ++seen.at(random.below(5));
  }
  for (const int count : seen) {
    EXPECT_GT(count, 100);
  }
  EXPECT_EQ(random.below(0), 0U);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(Prng, BetweenIncludesBothEnds) {
  Prng random(2);
  bool low = false, high = false;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t x = random.between(10, 12);
    ASSERT_GE(x, 10U);
    ASSERT_LE(x, 12U);
    low |= x == 10;
    high |= x == 12;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(random.between(9, 3), 9U);
  EXPECT_NE(random.between(0, ~0ULL), random.between(0, ~0ULL));
}

TEST(Prng, ChanceKeepsItsEnds) {
  Prng random(3);
  int hits = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(random.chance(0.0));
    EXPECT_TRUE(random.chance(1.0));
    hits += random.chance(0.25) ? 1 : 0;
  }
  EXPECT_NEAR(hits, 250, 60);
}

TEST(Prng, ForksDiffer) {
  Prng random(4);
  Prng one = random.fork(), two = random.fork();
  EXPECT_NE(one.next(), two.next());
}

}  // namespace
}  // namespace kvferry
