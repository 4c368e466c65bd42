// Bounded queues between callers and the progress thread: commands in, events out, operations that wait for a
// mover.
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "runtime/command_queue.h"
#include "runtime/event_queue.h"
#include "runtime/operations.h"

namespace kvferry::runtime {
namespace {

bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

WakeEvent wake() { return std::move(*WakeEvent::make()); }

void put(CommandQueue<int>& queue, int value) {
  auto lock = queue.lock();
  ASSERT_TRUE(queue.fits(lock));
  queue.put(lock, value);
  queue.unlock(std::move(lock));
}

TEST(CommandQueue, KeepsOrderAndItsLimit) {
  CommandQueue<int> queue(3, wake());
  for (const int value : {1, 2, 3}) put(queue, value);
  {
    const auto lock = queue.lock();
    EXPECT_FALSE(queue.fits(lock));
    EXPECT_EQ(queue.waiting(lock), 3U);
  }
  std::vector<int> out;
  queue.drain(out);
  EXPECT_EQ(out, (std::vector<int>{1, 2, 3}));
  put(queue, 4);
}

TEST(CommandQueue, WakesOnlyAThreadThatSaidItSleeps) {
  CommandQueue<int> queue(8, wake());
  put(queue, 1);
  EXPECT_FALSE(readable(queue.wake_fd())) << "nobody sleeps: no system call";
  EXPECT_FALSE(queue.announce_sleep()) << "something waits already";
  std::vector<int> out;
  queue.drain(out);
  EXPECT_TRUE(queue.announce_sleep());
  put(queue, 2);
  EXPECT_TRUE(readable(queue.wake_fd()));
  queue.awake();
  EXPECT_FALSE(readable(queue.wake_fd()));
}

TEST(CommandQueue, NoWakeUpIsLostBetweenManyCallersAndASleeper) {
  CommandQueue<int> queue(1'000'000, wake());
  constexpr int kCallers = 3, kEach = 20'000;
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) put(queue, i);
    });
  }
  int got = 0;
  std::vector<int> out;
  while (got < kCallers * kEach) {
    out.clear();
    queue.drain(out);
    got += static_cast<int>(out.size());
    if (!out.empty() || got == kCallers * kEach || !queue.announce_sleep()) continue;
    pollfd one{queue.wake_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&one, 1, 10'000), 1) << "slept although commands had been put after " << got;
    queue.awake();
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(got, kCallers * kEach);
}

ManagerEvent event(ManagerEvent::Kind kind, std::uint32_t slot, std::uint32_t chunk = 0) {
  return ManagerEvent{kind, Handle{slot, 1}, chunk};
}

TEST(EventQueue, TheDescriptorIsReadableExactlyWhileEventsWait) {
  EventQueue queue(16, wake(), [](Handle) { return false; });
  EXPECT_FALSE(readable(queue.fd()));
  queue.put(event(ManagerEvent::Kind::kChunkReturned, 1, 0));
  queue.put(event(ManagerEvent::Kind::kTerminal, 1));
  EXPECT_TRUE(readable(queue.fd()));
  std::vector<ManagerEvent> out;
  EXPECT_EQ(queue.take(out, 1), 1U);
  EXPECT_TRUE(readable(queue.fd()));
  EXPECT_EQ(queue.take(out, 10), 1U);
  EXPECT_FALSE(readable(queue.fd()));
  EXPECT_EQ(out[0].kind, ManagerEvent::Kind::kChunkReturned);
  EXPECT_EQ(out[1].kind, ManagerEvent::Kind::kTerminal);
}

TEST(EventQueue, WhenNobodyTakesThemTheyMergeIntoTheTerminals) {
  EventQueue queue(64, wake(), [](Handle) { return false; });
  for (std::uint32_t slot = 0; slot < 8; ++slot) {
    for (std::uint32_t chunk = 0; chunk < 100; ++chunk) {
      queue.put(event(ManagerEvent::Kind::kChunkReturned, slot, chunk));
    }
    queue.put(event(ManagerEvent::Kind::kTerminal, slot));
    EXPECT_LE(queue.waiting(), 64U);
  }
  std::vector<ManagerEvent> out;
  queue.take(out, 1000);
  std::size_t terminals = 0;
  for (const ManagerEvent& e : out) terminals += e.kind == ManagerEvent::Kind::kTerminal ? 1 : 0;
  EXPECT_EQ(terminals, 8U) << "no Terminal is ever dropped";
  EXPECT_EQ(queue.merged(), 8U * 101U - out.size());
}

TEST(EventQueue, EventsOfClosedHandlesAreTheFirstToGo) {
  EventQueue queue(8, wake(), [](Handle handle) { return handle.slot < 4; });
  for (std::uint32_t slot = 0; slot < 8; ++slot) queue.put(event(ManagerEvent::Kind::kTerminal, slot));
  queue.put(event(ManagerEvent::Kind::kTerminal, 8));
  std::vector<ManagerEvent> out;
  queue.take(out, 100);
  ASSERT_EQ(out.size(), 5U);
  EXPECT_EQ(out.front().handle.slot, 4U);
}

core::out::Post post(std::uint64_t op, std::uint32_t peer = 1) {
  core::out::Post made;
  made.op = OpId{op};
  made.peer = PeerId{peer};
  return made;
}

struct FakeMover {
  bool blocked = false;
  std::vector<std::uint64_t> taken;
  Error refusal;
  Operations::Try attempt() {
    return [this](const core::out::Post& operation, Error& why) {
      if (blocked) return Operations::Tried::kBlocked;
      if (!refusal.ok()) {
        why = refusal;
        return Operations::Tried::kRefused;
      }
      taken.push_back(operation.op.value);
      return Operations::Tried::kTaken;
    };
  }
};

const core::in::Completed* completed(const core::Input& input) {
  return std::get_if<core::in::Completed>(&input);
}
const core::in::Quiesced* quiesced(const core::Input& input) {
  return std::get_if<core::in::Quiesced>(&input);
}

TEST(Operations, ABlockedMoverGetsThemLaterInOrderAndNobodyOvertakes) {
  Operations operations;
  FakeMover mover;
  const auto attempt = mover.attempt();
  std::vector<core::Input> feed;
  mover.blocked = true;
  operations.post(post(1), attempt, feed);
  mover.blocked = false;
  operations.post(post(2), attempt, feed);  // waits behind 1 although the mover would take it
  operations.post(post(3, 2), attempt, feed);
  EXPECT_EQ(mover.taken, (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(operations.waiting(), 2U);
  EXPECT_TRUE(operations.retry(attempt, feed));
  EXPECT_EQ(mover.taken, (std::vector<std::uint64_t>{3, 1, 2}));
  EXPECT_EQ(operations.waiting(), 0U);
  EXPECT_EQ(operations.in_flight(0), 3U);
  EXPECT_TRUE(feed.empty());
}

TEST(Operations, ARefusedPostCompletesWithTheReasonAndIsQuiet) {
  Operations operations;
  FakeMover mover;
  mover.refusal = Error{Code::kTransport, Who::kTransport, Next::kNewRoom, 5, "mover", "no queue pair"};
  std::vector<core::Input> feed;
  operations.post(post(1), mover.attempt(), feed);
  ASSERT_EQ(feed.size(), 2U);
  ASSERT_NE(completed(feed[0]), nullptr);
  EXPECT_EQ(completed(feed[0])->error.why, "no queue pair");
  EXPECT_NE(quiesced(feed[1]), nullptr);
}

TEST(Operations, CancelDropsWhatStillWaitsAndNothingElse) {
  Operations operations;
  FakeMover mover;
  const auto attempt = mover.attempt();
  std::vector<core::Input> feed;
  operations.post(post(1), attempt, feed);
  mover.blocked = true;
  operations.post(post(2), attempt, feed);
  EXPECT_FALSE(operations.cancel_waiting(OpId{1}, feed)) << "the mover has it";
  EXPECT_TRUE(feed.empty());
  EXPECT_TRUE(operations.cancel_waiting(OpId{2}, feed));
  ASSERT_EQ(feed.size(), 2U);
  EXPECT_EQ(completed(feed[0])->error.code, Code::kAborted);
  EXPECT_EQ(operations.waiting(), 0U);
}

TEST(Operations, AFenceDropsWhatWaitsForThatPeerOnly) {
  Operations operations;
  FakeMover mover;
  mover.blocked = true;
  const auto attempt = mover.attempt();
  std::vector<core::Input> feed;
  operations.post(post(1, 1), attempt, feed);
  operations.post(post(2, 2), attempt, feed);
  operations.drop_waiting(PeerId{1}, 0, Error{Code::kPeerLost, Who::kPeer, Next::kNewRoom, 0, "", "gone"},
                          feed);
  ASSERT_EQ(feed.size(), 2U);
  EXPECT_EQ(completed(feed[0])->op, OpId{1});
  EXPECT_EQ(operations.waiting(), 1U);
}

TEST(Operations, TheEngineHearsEachWordOnceWhateverTheMoverSays) {
  Operations operations;
  FakeMover mover;
  std::vector<core::Input> feed;
  operations.post(post(1), mover.attempt(), feed);
  operations.completed(OpId{1}, {}, feed);
  operations.completed(OpId{1}, {}, feed);
  operations.quiesced(OpId{1}, feed);
  operations.quiesced(OpId{1}, feed);
  operations.completed(OpId{9}, {}, feed);
  ASSERT_EQ(feed.size(), 2U);
  EXPECT_EQ(operations.repeated(), 3U);
  EXPECT_EQ(operations.in_flight(0), 0U);
}

TEST(Operations, QuietWithoutACompletionIsAFailure) {
  Operations operations;
  FakeMover mover;
  std::vector<core::Input> feed;
  operations.post(post(1), mover.attempt(), feed);
  operations.quiesced(OpId{1}, feed);
  ASSERT_EQ(feed.size(), 2U);
  ASSERT_NE(completed(feed[0]), nullptr);
  EXPECT_FALSE(completed(feed[0])->error.ok());
}

}  // namespace
}  // namespace kvferry::runtime
