#include "transport/footprint.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "transport/loans.h"
#include "transport/regions.h"

namespace kvferry::transport {
namespace {

struct OneGroup {
  std::vector<Plane> planes;
  std::vector<std::uint32_t> item_bytes;
  std::vector<PageRun> runs;
  LoanGroup group() const { return {planes, item_bytes, runs}; }
};

TEST(Footprint, HoldsItemsAndNotTheGapsBetweenThem) {
  const OneGroup one{{{RegionId{1}, 1000, 100}}, {60}, {{2, 3}}};
  const LoanGroup group = one.group();
  const Footprint print(std::span(&group, 1));
  EXPECT_TRUE(print.contains(RegionId{1}, 1200, 60));
  EXPECT_TRUE(print.contains(RegionId{1}, 1459, 1));
  EXPECT_FALSE(print.contains(RegionId{1}, 1200, 61));  // into the gap
  EXPECT_FALSE(print.contains(RegionId{1}, 1199, 1));   // item 1's gap
  EXPECT_FALSE(print.contains(RegionId{1}, 1500, 1));   // item 5
  EXPECT_FALSE(print.contains(RegionId{2}, 1200, 1));   // another region
  EXPECT_FALSE(print.contains(RegionId{1}, ~0ULL, 2));  // wraps
}

TEST(Footprint, RunsOverNeighbouringItemsAndPlanes) {
  const OneGroup one{{{RegionId{0}, 0, 10}, {RegionId{0}, 50, 10}}, {10, 10}, {{3, 2}, {0, 3}}};
  const LoanGroup group = one.group();
  const Footprint print(std::span(&group, 1));
  EXPECT_TRUE(
      print.contains(RegionId{0}, 0, 100));  // items 0 to 4 of both planes, which lie behind each other
  EXPECT_FALSE(print.contains(RegionId{0}, 0, 101));
}

TEST(Footprint, NamesTheFirstStranger) {
  const OneGroup one{{{RegionId{4}, 0, 64}}, {64}, {{0, 4}}};
  const LoanGroup group = one.group();
  const Footprint print(std::span(&group, 1));
  PlanePair pair;
  pair.remote = {RegionId{4}, 0, 64};
  pair.bytes = 64;
  const std::vector<RunPair> runs = {{0, 2, 3}};
  const PieceGroup asked{std::span(&pair, 1), runs};
  std::string why;
  EXPECT_FALSE(print.covers(std::span(&asked, 1), &why));
  EXPECT_EQ(why, "item 4 of region 4 (64 bytes at 256) is not part of this loan");
}

// A hostile question is answered "no" before it costs much.
TEST(Footprint, BoundsTheCostOfOneQuestion) {
  OneGroup one;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    one.planes.push_back({RegionId{0}, i, 100'000});
    one.item_bytes.push_back(1);
  }
  one.runs = {{0, 8192}};
  const LoanGroup group = one.group();
  const Footprint print(std::span(&group, 1));
  PlanePair pair;
  pair.remote = {RegionId{0}, 0, 100'001};  // no plane has this stride: piece by piece
  pair.bytes = 1;
  const std::vector<RunPair> runs = {{0, 0, 900}};
  const PieceGroup asked{std::span(&pair, 1), runs};
  std::string why;
  EXPECT_FALSE(print.covers(std::span(&asked, 1), &why));
  EXPECT_NE(why.find("too costly"), std::string::npos) << why;
}

class Loans : public testing::Test {
 protected:
  Loans() { EXPECT_TRUE(regions.add(RegionId{0}, {memory.data(), memory.size(), Memory::kHost})); }
  Loan loan(LoanId id, std::uint64_t token = 9) {
    group = one.group();
    return {id, token, PeerId{1}, Access::kWrite, std::span(&group, 1)};
  }
  Refusal judge(Ticket ticket, PeerId peer = PeerId{1}, Access access = Access::kWrite) {
    PlanePair pair;
    pair.remote = {RegionId{0}, 0, 16};
    pair.bytes = 16;
    const RunPair run{0, 0, 4};
    const PieceGroup asked{std::span(&pair, 1), std::span(&run, 1)};
    return table.judge(ticket, peer, access, std::span(&asked, 1), nullptr);
  }
  std::array<std::byte, 256> memory{};
  RegionTable regions{"test", 1};
  LoanTable table{"test", 8};
  OneGroup one{{{RegionId{0}, 0, 16}}, {16}, {{0, 8}}};
  LoanGroup group;
};

TEST_F(Loans, EachWrongTicketHasItsOwnReason) {
  ASSERT_TRUE(table.lend(loan({2, 5}), 2, regions));
  EXPECT_EQ(judge({{2, 5}, 9}), Refusal::kNone);
  EXPECT_EQ(judge({{2, 5}, 8}), Refusal::kWrongToken);
  EXPECT_EQ(judge({{2, 4}, 9}), Refusal::kStaleLoan);
  EXPECT_EQ(judge({{3, 5}, 9}), Refusal::kNoLoan);
  EXPECT_EQ(judge({{8, 5}, 9}), Refusal::kNoLoan);
  EXPECT_EQ(judge({{2, 5}, 9}, PeerId{2}), Refusal::kWrongPeer);
  EXPECT_EQ(judge({{2, 5}, 9}, PeerId{1}, Access::kRead), Refusal::kWrongAccess);
  ASSERT_TRUE(table.revoke({2, 5}, regions));
  EXPECT_EQ(judge({{2, 5}, 9}), Refusal::kNoLoan);
}

TEST_F(Loans, SerialsAndSlotsAreUsedOnce) {
  ASSERT_TRUE(table.lend(loan({2, 5}), 2, regions));
  EXPECT_EQ(table.lend(loan({2, 6}), 2, regions).error().code, Code::kRefused);
  ASSERT_TRUE(table.revoke({2, 5}, regions));
  EXPECT_EQ(table.lend(loan({2, 5}), 2, regions).error().code, Code::kRefused);
  EXPECT_EQ(table.revoke({2, 5}, regions).error().code, Code::kUsage);
  EXPECT_TRUE(table.lend(loan({2, 6}), 2, regions));
  EXPECT_EQ(table.lend(loan({8, 7}), 2, regions).error().code, Code::kExhausted);
}

TEST_F(Loans, HoldTheirRegions) {
  ASSERT_TRUE(table.lend(loan({0, 1}), 2, regions));
  EXPECT_EQ(regions.drop(RegionId{0}).error().code, Code::kRefused);
  ASSERT_TRUE(table.revoke({0, 1}, regions));
  EXPECT_TRUE(regions.drop(RegionId{0}));
}

TEST_F(Loans, OutsideTheRegionIsRefusedWithNumbers) {
  one.runs = {{10, 8}};
  const auto refused = table.lend(loan({0, 1}), 2, regions);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().why.find("item 17"), std::string::npos) << refused.error().line();
  EXPECT_NE(refused.error().why.find("256 bytes"), std::string::npos) << refused.error().line();
  one.planes[0].stride = ~0ULL;  // no overflow hides it
  EXPECT_FALSE(table.lend(loan({0, 1}), 2, regions));
}

}  // namespace
}  // namespace kvferry::transport
