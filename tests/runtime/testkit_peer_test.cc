// Processes that die, come back, or vanish behind a cut network.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

using Peers = EveryMover;
KVFERRY_EVERY_MOVER(Peers);

struct Room {
  Handle sender, receiver;
};

Room granted(Cluster& cluster, std::uint64_t room, std::uint32_t page) {
  Room opened{open_sender(cluster.prefill(), room), open_receiver(cluster.decode(), room, cluster.senders())};
  must(cluster.decode().manager->grant(opened.receiver, lend_pages({{page, 1}}, 16)));
  cluster.settle();
  return opened;
}

void expect_success(Cluster& cluster, std::uint64_t room) {
  const Room next = granted(cluster, room, 0);
  must(cluster.prefill().manager->push(next.sender, chunk_of({{0, 1}}, 16, true)));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(next.receiver), Poll::kSuccess)
      << cluster.decode().manager->error(next.receiver).line();
  EXPECT_EQ(cluster.prefill().manager->poll(next.sender), Poll::kSuccess);
  must(cluster.prefill().manager->close(next.sender));
  must(cluster.decode().manager->close(next.receiver));
  cluster.settle();
}

TEST_P(Peers, APrefillThatDiesFailsItsRoomsByNameAndItsSuccessorServesTheNext) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Room lost = granted(cluster, 1, 0);
  prefill.mover->hold();
  must(prefill.manager->push(lost.sender, chunk_of({{0, 1}}, 16, false)));
  cluster.settle();
  cluster.crash(prefill);
  cluster.advance(3s);  // grace 2 s
  EXPECT_EQ(decode.manager->poll(lost.receiver), Poll::kFailed);
  const Error error = decode.manager->error(lost.receiver);
  EXPECT_EQ(error.code, Code::kPeerLost) << error.line();
  EXPECT_NE(error.line().find("prefill-0"), std::string::npos) << error.line();
  EXPECT_TRUE(decode.manager->quiet(lost.receiver));
  cluster.restart(prefill);
  cluster.advance(2s);
  expect_success(cluster, 1);
}

TEST_P(Peers, ADecodeThatDiesFailsTheSendersRoom) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  const Room lost = granted(cluster, 1, 0);
  cluster.crash(cluster.decode());
  cluster.advance(3s);
  EXPECT_EQ(prefill.manager->poll(lost.sender), Poll::kFailed);
  EXPECT_EQ(prefill.manager->error(lost.sender).code, Code::kPeerLost)
      << prefill.manager->error(lost.sender).line();
  cluster.restart(cluster.decode());
  cluster.advance(1s);
  expect_success(cluster, 1);
}

TEST_P(Peers, ARestartInsideTheGraceIsEvidenceOfLoss) {
  Cluster cluster(options());
  const Room lost = granted(cluster, 1, 0);
  cluster.crash(cluster.prefill());
  cluster.restart(cluster.prefill());
  cluster.advance(1s);  // less than the grace of 2 s: the new life says who it is
  EXPECT_EQ(cluster.decode().manager->poll(lost.receiver), Poll::kFailed);
  EXPECT_EQ(cluster.decode().manager->error(lost.receiver).code, Code::kPeerLost);
  expect_success(cluster, 2);
}

TEST_P(Peers, ACutShorterThanTheGraceFailsNothing) {
  Cluster cluster(options());
  const Room room = granted(cluster, 1, 0);
  cluster.net().cut("prefill-0", "decode-0");
  cluster.advance(900ms);
  cluster.net().mend("prefill-0", "decode-0");
  cluster.advance(2s);
  must(cluster.prefill().manager->push(room.sender, chunk_of({{0, 1}}, 16, true)));
  cluster.advance(2s);
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kSuccess)
      << cluster.decode().manager->error(room.receiver).line();
}

TEST_P(Peers, ADeadPeerIsNotFeltByOthers) {
  ClusterOptions o = options();
  o.prefill = 2;
  Cluster cluster(o);
  Node& decode = cluster.decode();
  const Handle sender = open_sender(cluster.prefill(1), 2);
  const Handle receiver = open_receiver(decode, 2, {cluster.senders()[1]});
  const Handle lost = open_receiver(decode, 1, {cluster.senders()[0]});
  must(decode.manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  must(decode.manager->grant(lost, lend_pages({{1, 1}}, 16)));
  cluster.settle();
  cluster.crash(cluster.prefill(0));
  cluster.advance(4s);
  EXPECT_EQ(decode.manager->poll(lost), Poll::kFailed);
  must(cluster.prefill(1).manager->push(sender, chunk_of({{0, 1}}, 16, true)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess);
}

TEST_P(Peers, TwentyRestartsLeaveThePeerTablesFlat) {
  Cluster cluster(options());
  Node& decode = cluster.decode();
  std::uint64_t peers_after_first = 0, links_after_first = 0;
  for (std::uint32_t round = 0; round < 20; ++round) {
    const Room lost = granted(cluster, 100 + round, 0);
    cluster.crash(cluster.prefill());
    cluster.advance(4s);
    ASSERT_EQ(decode.manager->poll(lost.receiver), Poll::kFailed) << round;
    must(decode.manager->close(lost.receiver));
    cluster.restart(cluster.prefill());
    cluster.advance(2s);
    expect_success(cluster, 500 + round);
    const Counters counters = decode.manager->counters();
    if (round == 0) {
      peers_after_first = counters.peers;
      links_after_first = counters.links;
    }
    EXPECT_EQ(counters.peers, peers_after_first) << round;
    EXPECT_EQ(counters.links, links_after_first) << round;
    EXPECT_EQ(counters.rooms_live, 0U) << round;
    EXPECT_EQ(counters.debts, 0U) << round;
    EXPECT_EQ(counters.pages_lent, counters.pages_returned) << round;
  }
  EXPECT_EQ(decode.manager->counters().peers_lost, 20U);
}

TEST_P(Peers, StopTellsThePeersBeforeItEnds) {
  Cluster cluster(options());
  const Room room = granted(cluster, 1, 0);
  must(cluster.prefill().manager->stop(1s));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(room.receiver), Poll::kFailed);
  const Result<Handle> after =
      cluster.prefill().manager->open(OpenSpec{RoomId{9}, Role::kSender, {}, {}, 0, 1, {}, 0, 0});
  ASSERT_FALSE(after.has_value());
  EXPECT_EQ(after.error().code, Code::kRefused);
}

}  // namespace
}  // namespace kvferry::testkit
