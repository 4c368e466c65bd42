// Aborts from each side in each state, what they do to pages, and that late bytes never meet a new owner.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

using Abort = EveryMover;
KVFERRY_EVERY_MOVER(Abort);

struct Pair {
  Handle sender, receiver;
};

Pair granted(Cluster& cluster, std::uint64_t room, std::uint32_t page) {
  Pair pair{open_sender(cluster.prefill(), room), open_receiver(cluster.decode(), room, cluster.senders())};
  must(cluster.decode().manager->grant(pair.receiver, lend_pages({{page, 2}}, 32)));
  cluster.settle();
  EXPECT_EQ(cluster.prefill().manager->poll(pair.sender), Poll::kWaitingForInput);
  return pair;
}

void expect_both_failed(Cluster& cluster, const Pair& pair, Code code, const std::string& why) {
  for (const bool decode : {false, true}) {
    Node& node = decode ? cluster.decode() : cluster.prefill();
    const Handle handle = decode ? pair.receiver : pair.sender;
    EXPECT_EQ(node.manager->poll(handle), Poll::kFailed) << node.name;
    EXPECT_TRUE(node.manager->quiet(handle)) << node.name;
    const Error error = node.manager->error(handle);
    EXPECT_EQ(error.code, code) << node.name << ": " << error.line();
    EXPECT_NE(error.line().find(why), std::string::npos) << node.name << ": " << error.line();
  }
}

TEST_P(Abort, ByTheSenderBeforeAnyoneCame) {
  Cluster cluster(options());
  const Handle sender = open_sender(cluster.prefill(), 1);
  must(cluster.prefill().manager->abort(sender, "user left"));
  cluster.settle();
  EXPECT_EQ(cluster.prefill().manager->poll(sender), Poll::kFailed);
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 2}}, 32)));
  cluster.settle();
  expect_both_failed(cluster, {sender, receiver}, Code::kAborted, "user left");
}

TEST_P(Abort, ByTheReceiverBeforeTheSenderExists) {
  Cluster cluster(options());
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 2}}, 32)));
  cluster.settle();
  must(cluster.decode().manager->abort(receiver, "client gone"));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(receiver), Poll::kFailed);
  const Handle sender = open_sender(cluster.prefill(), 1);
  cluster.settle();
  expect_both_failed(cluster, {sender, receiver}, Code::kAborted, "client gone");
}

TEST_P(Abort, ByTheReceiverBeforeItLentAnything) {
  Cluster cluster(options());
  const Handle sender = open_sender(cluster.prefill(), 1);
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  cluster.settle();
  must(cluster.decode().manager->abort(receiver, "client gone"));
  cluster.settle();
  expect_both_failed(cluster, {sender, receiver}, Code::kAborted, "client gone");
}

TEST_P(Abort, ByEitherSideWhileWaitingForInput) {
  for (const bool by_decode : {false, true}) {
    Cluster cluster(options());
    const Pair pair = granted(cluster, 1, 0);
    Node& who = by_decode ? cluster.decode() : cluster.prefill();
    must(who.manager->abort(by_decode ? pair.receiver : pair.sender, "stopped here"));
    cluster.settle();
    expect_both_failed(cluster, pair, Code::kAborted, "stopped here");
  }
}

TEST_P(Abort, ByEitherSideBetweenTwoChunks) {
  for (const bool by_decode : {false, true}) {
    Cluster cluster(options());
    const Pair pair = granted(cluster, 1, 0);
    must(cluster.prefill().manager->push(pair.sender, chunk_of({{0, 1}}, 16, false)));
    cluster.settle();
    Node& who = by_decode ? cluster.decode() : cluster.prefill();
    must(who.manager->abort(by_decode ? pair.receiver : pair.sender, "half way"));
    cluster.settle();
    expect_both_failed(cluster, pair, Code::kAborted, "half way");
  }
}

TEST_P(Abort, AfterSuccessChangesNothing) {
  Cluster cluster(options());
  const Pair pair = granted(cluster, 1, 0);
  must(cluster.prefill().manager->push(pair.sender, chunk_of({{0, 2}}, 32, true)));
  cluster.settle();
  must(cluster.decode().manager->abort(pair.receiver, "too late"));
  must(cluster.prefill().manager->abort(pair.sender, "too late"));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(pair.receiver), Poll::kSuccess);
  EXPECT_EQ(cluster.prefill().manager->poll(pair.sender), Poll::kSuccess);
}

TEST_P(Abort, ARejectionReachesDecodeWithStatusAndText) {
  Cluster cluster(options());
  const Pair pair = granted(cluster, 1, 0);
  must(cluster.prefill().manager->reject(pair.sender, 429, "queue of 900 requests is full"));
  cluster.settle();
  expect_both_failed(cluster, pair, Code::kRejected, "queue of 900 requests is full");
  EXPECT_EQ(cluster.decode().manager->error(pair.receiver).status, 429);
}

// The program of docs/testing.md. Whatever the mover: Failed is not shown while a byte can still land, and
// pages that came back stay as their next owner left them.
TEST_P(Abort, AHeldOperationNeverWritesOnPagesThatWereLentAgain) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  fill_page(prefill, 0, 1, 0);
  fill_page(prefill, 1, 1, 1);
  const Pair first = granted(cluster, 7001, 10);
  poster(cluster).mover->hold();
  must(prefill.manager->push(first.sender, chunk_of({{0, 2}}, 32, true)));
  cluster.settle();
  ASSERT_EQ(poster(cluster).mover->held(), 1U);
  must(decode.manager->abort(first.receiver, "client went away"));
  cluster.settle();
  EXPECT_EQ(decode.manager->error(first.receiver).code, Code::kAborted) << "the reason is known at once";
  EXPECT_TRUE(decode.manager->info(first.receiver).failing);

  // A receiver-placed write is shut out by the receiver alone. One-sided writes and the receiver's own reads
  // can still land, so those pages stay lent.
  const bool waits = landed() || pull();
  EXPECT_EQ(decode.manager->poll(first.receiver) == Poll::kFailed, !waits);
  EXPECT_EQ(decode.manager->quiet(first.receiver), !waits);
  const Handle second = open_receiver(decode, 7002, cluster.senders());
  const Handle other = open_sender(prefill, 7002);
  must(decode.manager->grant(second, lend_pages({{10, 2}}, 32)));
  cluster.settle();
  if (waits) {
    EXPECT_EQ(decode.manager->poll(second), Poll::kFailed) << "the pages are still lent to room 7001";
    const std::string line = decode.manager->error(second).line();
    EXPECT_NE(line.find("7001"), std::string::npos) << line;
    EXPECT_NE(line.find("7002"), std::string::npos) << line;
  } else {
    EXPECT_EQ(decode.manager->poll(second), Poll::kWaitingForInput);
  }
  std::memset(decode.pool.data(), 0x77, decode.pool.size());
  EXPECT_EQ(poster(cluster).mover->release(), 1U);
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(first.receiver), Poll::kFailed);
  EXPECT_TRUE(decode.manager->quiet(first.receiver));
  EXPECT_EQ(prefill.manager->poll(first.sender), Poll::kFailed);
  if (waits) return;
  for (const std::uint32_t page : {10U, 11U}) {
    EXPECT_EQ(decode.item(0, page)[0], std::byte{0x77}) << "a late byte landed on a page of room 7002";
  }
  fill_page(prefill, 5, 2, 0);
  must(prefill.manager->push(other, chunk_of({{5, 2}}, 32, true)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(second), Poll::kSuccess) << decode.manager->error(second).line();
  EXPECT_TRUE(page_is(decode, 10, 2, 0));
}

TEST_P(Abort, TheSenderKeepsItsSourcePagesUntilTheOperationIsQuiet) {
  if (pull()) GTEST_SKIP() << "decode reads: the sender's source is a loan, see the test above";
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  const Pair pair = granted(cluster, 1, 0);
  prefill.mover->hold();
  must(prefill.manager->push(pair.sender, chunk_of({{0, 2}}, 32, true)));
  cluster.settle();
  must(prefill.manager->abort(pair.sender, "user left"));
  cluster.settle();
  EXPECT_EQ(count_events(events_of(prefill), ManagerEvent::Kind::kChunkReturned), 0U);
  EXPECT_NE(prefill.manager->poll(pair.sender), Poll::kFailed);
  prefill.mover->release();
  cluster.settle();
  expect_both_failed(cluster, pair, Code::kAborted, "user left");
}

TEST_P(Abort, ADuplicateOpenFailsForTheSecondCallerOnly) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Pair pair = granted(cluster, 1, 0);
  const Handle again = open_sender(prefill, 1);
  const Handle twice = open_receiver(decode, 1, cluster.senders());
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(again), Poll::kFailed);
  EXPECT_EQ(prefill.manager->error(again).code, Code::kRefused);
  EXPECT_EQ(decode.manager->poll(twice), Poll::kFailed);
  EXPECT_EQ(decode.manager->error(twice).code, Code::kRefused);
  EXPECT_EQ(prefill.manager->poll(pair.sender), Poll::kWaitingForInput);
  must(prefill.manager->push(pair.sender, chunk_of({{0, 2}}, 32, true)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(pair.receiver), Poll::kSuccess);
}

TEST_P(Abort, ClosingALiveRoomAbortsItAndGivesTheSlotBackWhenItIsQuiet) {
  Cluster cluster(options());
  Node& decode = cluster.decode();
  const Pair pair = granted(cluster, 1, 0);
  must(decode.manager->close(pair.receiver));
  EXPECT_EQ(decode.manager->poll(pair.receiver), Poll::kStale);
  cluster.settle();
  EXPECT_EQ(cluster.prefill().manager->poll(pair.sender), Poll::kFailed);
  EXPECT_TRUE(decode.manager->quiet(pair.receiver));
  const Handle next = open_receiver(decode, 2, cluster.senders());
  EXPECT_EQ(next.slot, pair.receiver.slot);
  EXPECT_EQ(next.generation, pair.receiver.generation + 1);
}

TEST_P(Abort, OneRankOfTwoFailsAllWithTheSameReason) {
  ClusterOptions o = options();
  o.prefill = 2;
  o.pp = true;
  Cluster cluster(o);
  const Handle first = open_sender(cluster.prefill(0), 3);
  const Handle second = open_sender(cluster.prefill(1), 3);
  const Handle receiver = open_receiver(cluster.decode(), 3, cluster.senders());
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.settle();
  must(cluster.prefill(1).manager->abort(second, "rank 1 ran out of memory"));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(receiver), Poll::kFailed);
  EXPECT_EQ(cluster.prefill(0).manager->poll(first), Poll::kFailed);
  for (const Error& error :
       {cluster.prefill(0).manager->error(first), cluster.decode().manager->error(receiver)}) {
    EXPECT_NE(error.line().find("rank 1 ran out of memory"), std::string::npos) << error.line();
  }
}

}  // namespace
}  // namespace kvferry::testkit
