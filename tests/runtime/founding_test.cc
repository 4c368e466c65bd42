// The founding case, for every mover and in virtual time: a sender that nobody ever talks to ends by its
// bootstrap deadline, says so with everything that is known, tells those who come late, and never hits a room
// that was in time.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Founding : public EveryMover {
 protected:
  static ClusterOptions five_seconds() {
    ClusterOptions o = options();
    o.deadlines.bootstrap = 5s;
    return o;
  }
};
KVFERRY_EVERY_MOVER(Founding);

TEST_P(Founding, ASenderWithoutMetadataFromDecodeIsFailedWhenPolledAtTwentySeconds) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  cluster.advance(10s);
  const Handle sender = open_sender(prefill, 7001);
  cluster.advance(10s);
  EXPECT_EQ(cluster.clock().now(), TimePoint{20s});
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kFailed);
  EXPECT_EQ(prefill.manager->info(sender).created, TimePoint{10s});
  const Error reason = prefill.manager->error(sender);
  EXPECT_EQ(reason.code, Code::kTimeout);
  const std::string line = reason.line();
  EXPECT_TRUE(has(line, "7001")) << line;
  EXPECT_TRUE(has(line, "Bootstrapping")) << line;
  EXPECT_TRUE(has(line, "timed out")) << line;
  EXPECT_TRUE(has(line, "5.0 s") || has(line, "5 s") || has(line, "5000 ms") || has(line, "5.000 s")) << line;
  EXPECT_TRUE(prefill.manager->quiet(sender));
  EXPECT_EQ(prefill.manager->counters().timeouts, 1U);
}

// The same when nothing turned the loop in between: creation is when open() was called.
TEST_P(Founding, TheCreationTimeIsThatOfTheCallEvenIfTheLoopWasAsleep) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  cluster.clock().set(TimePoint{10s});
  const Handle sender = open_sender(prefill, 7001);
  cluster.clock().set(TimePoint{20s});
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kFailed);
  EXPECT_EQ(prefill.manager->info(sender).created, TimePoint{10s});
}

TEST_P(Founding, ItIsNotFailedBeforeTheDeadline) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  cluster.advance(10s);
  const Handle sender = open_sender(prefill, 7001);
  cluster.advance(4999ms);
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kBootstrapping);
  cluster.advance(1ms);
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kFailed);
}

TEST_P(Founding, APeerThatShowsUpLaterIsToldAtOnce) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  cluster.advance(10s);
  const Handle sender = open_sender(prefill, 7001);
  cluster.advance(10s);
  ASSERT_EQ(prefill.manager->poll(sender), Poll::kFailed);
  const Handle receiver = open_receiver(decode, 7001, cluster.senders());
  must(decode.manager->grant(receiver, lend_pages({{0, 2}}, 32)));
  cluster.settle();  // no time passes
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kFailed);
  EXPECT_TRUE(decode.manager->quiet(receiver));
  const Error reason = decode.manager->error(receiver);
  EXPECT_EQ(reason.code, Code::kTimeout);
  EXPECT_TRUE(has(reason.line(), "7001") && has(reason.line(), "timed out")) << reason.line();
}

TEST_P(Founding, TheSameIsToldAfterTheSenderClosedItsHandle) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Handle sender = open_sender(prefill, 7001);
  cluster.advance(6s);
  must(prefill.manager->close(sender));
  cluster.advance(3s);
  const Handle receiver = open_receiver(decode, 7001, cluster.senders());
  must(decode.manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kFailed);
  EXPECT_EQ(decode.manager->error(receiver).code, Code::kTimeout);
}

TEST_P(Founding, ARoomWhoseLastGrantCameInTimeIsNeverHit) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Handle sender = open_sender(prefill, 7001);
  cluster.advance(4999ms);
  const Handle receiver = open_receiver(decode, 7001, cluster.senders());
  must(decode.manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.advance(60s);
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kWaitingForInput) << prefill.manager->error(sender).line();
  must(prefill.manager->push(sender, chunk_of({{0, 1}}, 16, true)));
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kSuccess);
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess);
}

// A grant that lies in the queue when the deadline is judged had arrived in time (rule 20).
TEST_P(Founding, AGrantThatHadArrivedIsAppliedBeforeTheDeadlineIsJudged) {
  Cluster cluster(five_seconds());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Handle sender = open_sender(prefill, 7001);
  const Handle receiver = open_receiver(decode, 7001, cluster.senders());
  cluster.settle();
  must(decode.manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  while (decode.manager->turn()) {}
  cluster.clock().set(TimePoint{20s});  // prefill slept from 0 to 20 s; the GRANT waits in its channel
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kWaitingForInput) << prefill.manager->error(sender).line();
}

TEST_P(Founding, TheReasonOfATwoRankRoomSaysHowManyAreMissing) {
  ClusterOptions o = five_seconds();
  o.decode = 2;
  Cluster cluster(o);
  Node& prefill = cluster.prefill();
  const Handle sender = open_sender(prefill, 9);
  const Handle first = open_receiver(cluster.decode(0), 9, cluster.senders(), 0, 2);
  must(cluster.decode(0).manager->grant(first, lend_pages({{1, 1}}, 16)));
  cluster.advance(6s);
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kFailed);
  const std::string line = prefill.manager->error(sender).line();
  EXPECT_TRUE(has(line, "1") && has(line, "2") && has(line, "decode-0")) << line;
  EXPECT_EQ(cluster.decode(0).manager->poll(first), Poll::kFailed);
  EXPECT_EQ(cluster.decode(0).manager->error(first).code, Code::kTimeout);
}

}  // namespace
}  // namespace kvferry::testkit
