// Each deadline has a name, a default, a clock start and a test here; bootstrap is in founding_test.cc.
// Virtual time.
#include <gmock/gmock.h>

#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

using Deadline = EveryMover;
KVFERRY_EVERY_MOVER(Deadline);

struct Room {
  Handle sender, receiver;
};

Room granted(Cluster& cluster, std::uint64_t room = 1) {
  Room opened{open_sender(cluster.prefill(), room), open_receiver(cluster.decode(), room, cluster.senders())};
  must(cluster.decode().manager->grant(opened.receiver, lend_pages({{0, 2}}, 32)));
  cluster.settle();
  return opened;
}

void push_half(Cluster& cluster, const Room& room) {
  must(cluster.prefill().manager->push(room.sender, chunk_of({{0, 1}}, 16, false)));
  cluster.settle();
}

TEST(DeadlineDefaults, AreThoseOfTheDocuments) {
  const Deadlines d;
  EXPECT_EQ(d.handshake, 30s);
  EXPECT_EQ(d.bootstrap, 300s);
  EXPECT_EQ(d.waiting, 300s);
  EXPECT_EQ(d.progress, 60s);
  EXPECT_EQ(d.drain, 5s);
  EXPECT_EQ(d.grace, 2s);
  EXPECT_EQ(d.fence, 5s);
  EXPECT_EQ(d.heartbeat, 1s);
  EXPECT_EQ(d.heartbeats_missed, 3U);
  EXPECT_EQ(d.lease, 30s);
}

TEST_P(Deadline, HandshakeFailsAReceiverWhoseSenderDoesNotAnswer) {
  Cluster cluster(options());
  cluster.crash(cluster.prefill());
  const Handle receiver = open_receiver(cluster.decode(), 7, cluster.senders());
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.advance(29999ms);
  EXPECT_EQ(cluster.decode().manager->poll(receiver), Poll::kBootstrapping);
  cluster.advance(2ms);
  EXPECT_EQ(cluster.decode().manager->poll(receiver), Poll::kFailed);
  const Error error = cluster.decode().manager->error(receiver);
  EXPECT_EQ(error.code, Code::kTimeout);
  EXPECT_THAT(error.line(), HasSubstr("handshake"));
  EXPECT_THAT(error.line(), HasSubstr("prefill-0:1"));
  EXPECT_THAT(error.line(), HasSubstr("refused")) << "what the last dial said";
}

TEST_P(Deadline, WaitingFailsARoomThatGotItsGrantAndNoByte) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  cluster.advance(299s);
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kWaitingForInput);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kWaitingForInput);
  cluster.advance(2s);
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kFailed);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kFailed);
  EXPECT_THAT(cluster.decode().manager->error(room.receiver).line(), HasSubstr("waiting"));
  EXPECT_EQ(cluster.decode().manager->error(room.receiver).code, Code::kTimeout);
}

TEST_P(Deadline, WaitingIsExtendedBySayingThatTheSenderStillComputes) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  for (int i = 0; i < 4; ++i) {
    cluster.advance(200s);
    must(cluster.prefill().manager->renew(room.sender));
    cluster.settle();
  }
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kWaitingForInput);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kWaitingForInput);
}

TEST_P(Deadline, ProgressFailsARoomThatStalls) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  push_half(cluster, room);
  if (landed()) {  // no byte is visible to the receiver before DONE: there it is the waiting deadline
    cluster.advance(301s);
  } else {
    cluster.advance(59s);
    EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kTransferring);
    cluster.advance(2s);
  }
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kFailed);
  EXPECT_EQ(cluster.decode().manager->error(room.receiver).code, Code::kTimeout);
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kFailed);
}

TEST_P(Deadline, ProgressIsExtendedBySayingThatTheSenderStillComputes) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  push_half(cluster, room);
  for (int i = 0; i < 4; ++i) {
    cluster.advance(50s);
    must(cluster.prefill().manager->renew(room.sender));
    cluster.settle();
  }
  must(cluster.prefill().manager->push(room.sender, chunk_of({{1, 1}}, 16, true)));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kSuccess)
      << cluster.decode().manager->error(room.receiver).line();
}

TEST_P(Deadline, TheClientsOwnDeadlineCountsFromOpen) {
  Cluster cluster(options());
  cluster.advance(3s);
  OpenSpec spec;
  spec.room = RoomId{1};
  spec.role = Role::kReceiver;
  spec.senders = cluster.senders();
  spec.client_deadline = 7s;
  const auto receiver = cluster.decode().manager->open(spec);
  ASSERT_TRUE(receiver.has_value());
  cluster.advance(6999ms);
  EXPECT_NE(cluster.decode().manager->poll(*receiver), Poll::kFailed);
  cluster.advance(1ms);
  EXPECT_EQ(cluster.decode().manager->poll(*receiver), Poll::kFailed);
  EXPECT_THAT(cluster.decode().manager->error(*receiver).line(), HasSubstr("client"));
}

// A held one-sided write: after the drain deadline the path is fenced, and only then Failed is shown.
TEST_P(Deadline, DrainEndsInAFenceAndThenInFailed) {
  if (!landed()) GTEST_SKIP() << "a receiver that places the bytes itself needs no drain";
  Cluster cluster(options());
  const Room room = granted(cluster);
  cluster.prefill().mover->hold();
  push_half(cluster, room);
  must(cluster.decode().manager->abort(room.receiver, "enough"));
  cluster.advance(4999ms);
  EXPECT_NE(cluster.decode().manager->poll(room.receiver), Poll::kFailed);
  EXPECT_FALSE(cluster.decode().manager->quiet(room.receiver));
  cluster.advance(100ms);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kFailed);
  EXPECT_TRUE(cluster.decode().manager->quiet(room.receiver));
  EXPECT_EQ(cluster.decode().manager->error(room.receiver).code, Code::kAborted) << "the first cause stays";
  std::memset(cluster.decode().pool.data(), 0x55, cluster.decode().pool.size());
  cluster.prefill().mover->release();
  cluster.settle();
  EXPECT_EQ(cluster.decode().item(0, 0)[0], std::byte{0x55}) << "a fenced path writes nothing";
}

TEST_P(Deadline, GraceIsHowLongALostConnectionMayStayLost) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  cluster.net().cut("prefill-0", "decode-0");
  cluster.advance(1999ms);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kWaitingForInput);
  EXPECT_FALSE(cluster.decode().manager->info(room.receiver).failing);
  cluster.advance(10ms);
  EXPECT_TRUE(cluster.decode().manager->info(room.receiver).failing);
  EXPECT_EQ(cluster.decode().manager->error(room.receiver).code, Code::kPeerLost);
  EXPECT_TRUE(cluster.prefill().manager->info(room.sender).failing);
}

TEST_P(Deadline, ThreeMissedHeartbeatsAndTheGraceEndASilentPeer) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  FrameRule silence;
  silence.from = "prefill-0";
  cluster.net().add(silence);
  cluster.advance(4500ms);
  EXPECT_FALSE(cluster.decode().manager->info(room.receiver).failing);
  cluster.advance(4s);
  EXPECT_TRUE(cluster.decode().manager->info(room.receiver).failing);
  EXPECT_EQ(cluster.decode().manager->error(room.receiver).code, Code::kPeerLost)
      << cluster.decode().manager->error(room.receiver).line();
}

TEST_P(Deadline, HeartbeatsKeepAnIdleLinkAlive) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  cluster.advance(120s);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kWaitingForInput);
  EXPECT_EQ(cluster.decode().manager->counters().peers_lost, 0U);
}

// One renewal keeps a hold for `lease`; the hold ends at max(created + bootstrap, last renewal + lease).
TEST_P(Deadline, LeaseIsHowLongOneRenewalExtendsTheBootstrapWait) {
  ClusterOptions o = options();
  o.deadlines.bootstrap = 5s;
  o.deadlines.lease = 30s;
  Cluster cluster(o);
  const Handle sender = open_sender(cluster.prefill(), 1);
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  cluster.advance(4s);
  must(cluster.decode().manager->renew(receiver));
  cluster.advance(29s);
  EXPECT_EQ(cluster.prefill().manager->poll(sender), Poll::kBootstrapping)
      << cluster.prefill().manager->error(sender).line();
  cluster.advance(2s);
  EXPECT_EQ(cluster.prefill().manager->poll(sender), Poll::kFailed);
  EXPECT_THAT(cluster.prefill().manager->error(sender).line(), HasSubstr("bootstrap"));
}

TEST_P(Deadline, ResendRepeatsAnUnansweredGrantAfterOneSecondThenTwo) {
  Cluster cluster(options());
  FrameRule loss;
  loss.message = "GRANT";
  loss.times = 2;
  cluster.net().add(loss);
  const Room room = granted(cluster);
  cluster.advance(999ms);
  EXPECT_EQ(cluster.net().dropped(), 1U);
  cluster.advance(2ms);
  EXPECT_EQ(cluster.net().dropped(), 2U);
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kBootstrapping);
  cluster.advance(1990ms);
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kBootstrapping);
  cluster.advance(20ms);
  EXPECT_EQ(cluster.prefill().manager->poll(room.sender), Poll::kWaitingForInput);
}

TEST_P(Deadline, RedialBacksOffToItsLimitAndFindsAPrefillThatCameLate) {
  Cluster cluster(options());
  cluster.crash(cluster.prefill());
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.advance(10s);
  cluster.restart(cluster.prefill());
  const Handle sender = open_sender(cluster.prefill(), 1);
  cluster.advance(1001ms);  // redial_most
  EXPECT_EQ(cluster.prefill().manager->poll(sender), Poll::kWaitingForInput);
}

// A process that was stopped for a while accuses nobody of silence; its own and the client's deadlines stand.
TEST_P(Deadline, AGapMovesTheDeadlinesThatAccuseAPeer) {
  Cluster cluster(options());
  const Room room = granted(cluster);
  cluster.clock().set(cluster.clock().now() + 30s);  // nobody turned meanwhile
  cluster.settle();
  EXPECT_GE(cluster.decode().manager->counters().gaps, 1U);
  EXPECT_FALSE(cluster.decode().manager->info(room.receiver).failing)
      << cluster.decode().manager->error(room.receiver).line();
  must(cluster.prefill().manager->push(room.sender, chunk_of({{0, 2}}, 32, true)));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kSuccess);
}

TEST_P(Deadline, TombstoneIsHowLongAFailedRoomIsRemembered) {
  Cluster cluster(options());
  const Handle sender = open_sender(cluster.prefill(), 1);
  must(cluster.prefill().manager->abort(sender, "out of memory"));
  cluster.settle();
  must(cluster.prefill().manager->close(sender));
  cluster.advance(301s);
  const Handle late = open_receiver(cluster.decode(), 1, cluster.senders());
  must(cluster.decode().manager->grant(late, lend_pages({{0, 1}}, 16)));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(late), Poll::kWaitingForInput)
      << "parked: nobody remembers the failure";
}

}  // namespace
}  // namespace kvferry::testkit
