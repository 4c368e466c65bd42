// The pool lends each page once, all or nothing and scattered; the prefix cache counts users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "replay/page_pool.h"
#include "replay/prefix_cache.h"

namespace kvferry::replay {
namespace {

using testing::ElementsAre;
using Pages = std::vector<std::uint32_t>;

TEST(ReplayPagePool, LendsEachPageOnceAndAllOrNothing) {
  PagePool pool(10, 1);
  Pages pages;
  ASSERT_TRUE(pool.take(7, pages));
  EXPECT_FALSE(pool.take(4, pages));
  EXPECT_EQ(pages.size(), 7U);
  ASSERT_TRUE(pool.take(3, pages));
  EXPECT_EQ(std::set<std::uint32_t>(pages.begin(), pages.end()).size(), 10U);
  EXPECT_EQ(pool.free(), 0U);
}

TEST(ReplayPagePool, IsScatteredFromTheStartAndAfterUse) {
  PagePool pool(1000, 2);
  Pages pages;
  ASSERT_TRUE(pool.take(1000, pages));
  EXPECT_GT(runs_of(pages).size(), 900U);
  std::ranges::sort(pages);
  for (const std::uint32_t page : pages) pool.give_back(page);
  Pages again;
  ASSERT_TRUE(pool.take(1000, again));
  EXPECT_GT(runs_of(again).size(), 500U) << "pages that came back in order must not leave in order";
}

TEST(ReplayPagePool, DependsOnTheSeedOnly) {
  Pages a, b, c;
  PagePool(100, 5).take(100, a);
  PagePool(100, 5).take(100, b);
  PagePool(100, 6).take(100, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST(ReplayPagePoolDeathTest, APageThatIsNotOutEndsTheProcess) {
  PagePool pool(2, 1);
  EXPECT_DEATH(pool.give_back(0), "not out");
  Pages pages;
  pool.take(1, pages);
  pool.give_back(pages[0]);
  EXPECT_DEATH(pool.give_back(pages[0]), "not out");
}

TEST(ReplayPagePool, RunsKeepTheOrder) {
  EXPECT_THAT(runs_of(Pages{4, 5, 6, 2, 1, 9}),
              ElementsAre(PageRun{4, 3}, PageRun{2, 1}, PageRun{1, 1}, PageRun{9, 1}));
  EXPECT_TRUE(runs_of(Pages{}).empty());
}

TEST(ReplayPrefixCache, HoldsWithoutAGapAndEndsWithTheLastUser) {
  PrefixCache cache;
  const WriteTag tag{{1, 2}, 3};
  EXPECT_TRUE(cache.add(10, tag, Pages{1, 2}));
  EXPECT_TRUE(cache.add(30, tag, Pages{5, 6}));
  EXPECT_EQ(cache.held(std::vector<std::uint64_t>{10, 20, 30}), 1U);
  EXPECT_EQ(cache.held(std::vector<std::uint64_t>{10, 30}), 2U);
  EXPECT_EQ(cache.held(std::vector<std::uint64_t>{20}), 0U);
  EXPECT_FALSE(cache.add(10, {{9, 9}, 9}, Pages{7, 8})) << "the copy that is held stays";
  cache.use(10);
  EXPECT_FALSE(cache.drop(10));
  const std::optional<PrefixCache::Block> block = cache.drop(10);
  ASSERT_TRUE(block);
  EXPECT_THAT(block->pages, ElementsAre(1, 2));
  EXPECT_EQ(block->tag, tag);
  EXPECT_EQ(cache.held(std::vector<std::uint64_t>{10}), 0U);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(ReplayPrefixCacheDeathTest, DroppingWhatIsNotHeldEndsTheProcess) {
  PrefixCache cache;
  EXPECT_DEATH(cache.drop(1), "not held");
  EXPECT_DEATH(cache.use(1), "not held");
}

}  // namespace
}  // namespace kvferry::replay
