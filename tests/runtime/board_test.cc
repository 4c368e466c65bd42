// The status board and the slot table: what a handle may see, and when a slot comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/slot_table.h"
#include "runtime/status_board.h"

namespace kvferry::runtime {
namespace {

TEST(StatusBoard, AHandleThatNeverExistedIsStaleAndQuiet) {
  const StatusBoard board(4);
  for (const Handle handle : {Handle{}, Handle{0, 0}, Handle{0, 1}, Handle{3, 7}, Handle{4, 1}}) {
    EXPECT_EQ(board.poll(handle), Poll::kStale) << handle.slot << "." << handle.generation;
    EXPECT_TRUE(board.quiet(handle));
  }
}

TEST(StatusBoard, TheWordIsGenerationAndPoll) {
  StatusBoard board(4);
  board.open({2, 5});
  board.publish({2, 5}, Poll::kTransferring);
  EXPECT_EQ(board.words()[2].load(), 5ULL << 8 | 3);
  EXPECT_EQ(board.poll({2, 5}), Poll::kTransferring);
  EXPECT_EQ(board.poll({2, 4}), Poll::kStale);
}

TEST(StatusBoard, ALatePublishNeverRevivesAClosedOrReusedSlot) {
  StatusBoard board(1);
  board.open({0, 1});
  board.close({0, 1});
  board.publish({0, 1}, Poll::kFailed);
  EXPECT_EQ(board.poll({0, 1}), Poll::kStale);
  board.open({0, 2});
  board.publish({0, 1}, Poll::kFailed);
  board.close({0, 1});
  EXPECT_EQ(board.poll({0, 2}), Poll::kBootstrapping);
}

TEST(StatusBoard, QuietIsSaidForOneGeneration) {
  StatusBoard board(1);
  board.open({0, 1});
  EXPECT_FALSE(board.quiet({0, 1}));
  board.set_quiet({0, 1});
  EXPECT_TRUE(board.quiet({0, 1}));
  board.open({0, 2});
  EXPECT_FALSE(board.quiet({0, 2}));
  EXPECT_TRUE(board.quiet({0, 1})) << "a slot is used again only when it is quiet";
  board.set_quiet({0, 1});
  EXPECT_FALSE(board.quiet({0, 2}));
}

TEST(StatusBoard, WaitEndsWithTheRoomAndNotBefore) {
  StatusBoard board(1);
  board.open({0, 1});
  EXPECT_EQ(board.wait({0, 1}, std::chrono::milliseconds(1)), Poll::kBootstrapping);
  EXPECT_EQ(board.wait({0, 2}, std::chrono::hours(1)), Poll::kStale) << "nobody to wait for";
  std::thread other([&board] {
    board.publish({0, 1}, Poll::kTransferring);  // wakes, but is no end
    board.publish({0, 1}, Poll::kSuccess);
  });
  EXPECT_EQ(board.wait({0, 1}, Duration::max()), Poll::kSuccess);
  other.join();
}

TEST(StatusBoard, ManyWaitersAreAllWoken) {
  for (int round = 0; round < 200; ++round) {
    StatusBoard board(1);
    board.open({0, 1});
    std::vector<std::thread> waiters;
    std::atomic<int> woken{0};
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&] {
        if (board.wait({0, 1}, std::chrono::seconds(20)) == Poll::kStale) ++woken;
      });
    }
    board.close({0, 1});
    for (std::thread& waiter : waiters) waiter.join();
    ASSERT_EQ(woken.load(), 3) << "round " << round;
  }
}

TEST(StatusBoard, PollManyStopsAtTheShorterList) {
  StatusBoard board(2);
  board.open({0, 1});
  const Handle handles[] = {{0, 1}, {1, 1}, {9, 9}};
  std::uint8_t out[4] = {7, 7, 7, 7};
  board.poll_many(handles, out);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 255);
  EXPECT_EQ(out[2], 255);
  EXPECT_EQ(out[3], 7);
}

TEST(StatusBoard, AReaderNeverSeesAnotherGenerationsValue) {
  StatusBoard board(1);
  std::thread writer([&] {
    for (std::uint32_t generation = 1; generation <= 20'000; ++generation) {
      board.open({0, generation});
      board.publish({0, generation}, generation % 2 == 0 ? Poll::kSuccess : Poll::kFailed);
      board.close({0, generation});
    }
  });
  bool wrong = false;
  for (std::uint32_t generation = 1; generation <= 20'000; generation += 2) {
    const Poll poll = board.poll({0, generation + 1});  // an even one: it is never Failed
    wrong = wrong || poll == Poll::kFailed;
  }
  writer.join();
  EXPECT_FALSE(wrong);
}

TEST(SlotTable, GenerationsGrowAtReuseAndTheLimitHolds) {
  SlotTable table(2);
  const auto first = table.take();
  const auto second = table.take();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->slot, second->slot);
  EXPECT_FALSE(table.take().has_value());
  EXPECT_EQ(table.taken(), 2U);
  table.give_back(*first);
  const auto third = table.take();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->slot, first->slot);
  EXPECT_EQ(third->generation, first->generation + 1);
  EXPECT_EQ(table.find(*first), nullptr);
  EXPECT_NE(table.find(*third), nullptr);
}

TEST(SlotTable, GivingBackTwiceIsNoSecondSlot) {
  SlotTable table(2);
  const Handle handle = *table.take();
  table.give_back(handle);
  table.give_back(handle);
  table.give_back(Handle{77, 1});
  EXPECT_EQ(table.taken(), 0U);
  EXPECT_TRUE(table.take() && table.take());
  EXPECT_FALSE(table.take().has_value());
}

}  // namespace
}  // namespace kvferry::runtime
