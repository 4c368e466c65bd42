// The faults of the kit do what they say, and the protocol survives them.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

using Faults = EveryMover;
KVFERRY_EVERY_MOVER(Faults);

struct Room {
  Handle sender, receiver;
};

Room granted(Cluster& cluster, std::uint64_t room, std::uint32_t page) {
  Room opened{open_sender(cluster.prefill(), room), open_receiver(cluster.decode(), room, cluster.senders())};
  must(cluster.decode().manager->grant(opened.receiver, lend_pages({{page, 2}}, 32)));
  cluster.settle();
  return opened;
}

void push_two(Cluster& cluster, const Room& room) {
  must(cluster.prefill().manager->push(room.sender, chunk_of({{0, 2}}, 32, true)));
  cluster.settle();
}

Poll sender_poll(Cluster& c, const Room& room) { return c.prefill().manager->poll(room.sender); }
Poll receiver_poll(Cluster& c, const Room& room) { return c.decode().manager->poll(room.receiver); }

TEST_P(Faults, EveryMessageMayBeLostOnceOrComeTwiceOrLate) {
  for (const char* name : {"HELLO", "GRANT", "READY", "DONE", "OFFER", "RELEASE", "ACK"}) {
    for (const FrameRule::Act act :
         {FrameRule::Act::kDrop, FrameRule::Act::kDuplicate, FrameRule::Act::kDelay, FrameRule::Act::kReorder,
          FrameRule::Act::kTruncate}) {
      Cluster cluster(options());
      fill_page(cluster.prefill(), 0, 4, 0);
      FrameRule rule;
      rule.message = name;
      rule.act = act;
      rule.delay = 700ms;
      rule.times = 1;
      cluster.net().add(rule);
      const Room room = granted(cluster, 1, 8);
      must(cluster.prefill().manager->push(room.sender, chunk_of({{0, 2}}, 32, true)));
      cluster.advance(40s);
      EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess)
          << name << " act " << static_cast<int>(act) << ": "
          << cluster.decode().manager->error(room.receiver).line();
      EXPECT_EQ(sender_poll(cluster, room), Poll::kSuccess)
          << name << " act " << static_cast<int>(act) << ": "
          << cluster.prefill().manager->error(room.sender).line();
      EXPECT_TRUE(page_is(cluster.decode(), 8, 4, 0)) << name;
    }
  }
}

TEST_P(Faults, TheNetCountsWhatItDidAndARemovedRuleDoesNothing) {
  Cluster cluster(options());
  FrameRule rule;
  rule.message = "GRANT";
  rule.from = "decode-0";
  const std::size_t id = cluster.net().add(rule);
  const Room room = granted(cluster, 1, 0);
  EXPECT_EQ(cluster.net().dropped(), 1U);
  EXPECT_EQ(sender_poll(cluster, room), Poll::kBootstrapping);
  cluster.net().remove(id);
  cluster.advance(2s);  // said again after 1 s
  EXPECT_EQ(sender_poll(cluster, room), Poll::kWaitingForInput);
}

TEST_P(Faults, ARefusedPostFailsBothSidesWithItsReason) {
  Cluster cluster(options());
  const Room room = granted(cluster, 1, 0);
  poster(cluster).mover->fail_next_submit(transport_error("no queue pair"));
  push_two(cluster, room);
  cluster.advance(1s);
  if (pull()) {  // the reader may try again: nobody else touches its pages
    cluster.advance(3s);
    EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess);
    return;
  }
  EXPECT_EQ(sender_poll(cluster, room), Poll::kFailed);
  EXPECT_EQ(receiver_poll(cluster, room), Poll::kFailed);
  EXPECT_NE(cluster.decode().manager->error(room.receiver).line().find("no queue pair"), std::string::npos)
      << cluster.decode().manager->error(room.receiver).line();
  EXPECT_NE(cluster.prefill().manager->error(room.sender).line().find("no queue pair"), std::string::npos)
      << cluster.prefill().manager->error(room.sender).line();
}

TEST_P(Faults, AnOperationThatFailsHalfWayIsNoSuccess) {
  Cluster cluster(options());
  fill_page(cluster.prefill(), 0, 4, 0);
  fill_page(cluster.prefill(), 1, 4, 1);
  const Room room = granted(cluster, 1, 8);
  poster(cluster).mover->fail_next_halfway(transport_error("link flapped"));
  push_two(cluster, room);
  EXPECT_TRUE(page_is(cluster.decode(), 8, 4, 0)) << "the first half was moved";
  EXPECT_TRUE(page_is_zero(cluster.decode(), 9)) << "the second half was not";
  EXPECT_NE(receiver_poll(cluster, room), Poll::kSuccess);
  cluster.advance(4s);
  if (pull()) {  // the reader read it again, whole
    EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess);
    EXPECT_TRUE(page_is(cluster.decode(), 9, 4, 1));
    return;
  }
  EXPECT_EQ(receiver_poll(cluster, room), Poll::kFailed);
  EXPECT_EQ(sender_poll(cluster, room), Poll::kFailed);
  EXPECT_NE(cluster.decode().manager->error(room.receiver).line().find("link flapped"), std::string::npos)
      << cluster.decode().manager->error(room.receiver).line();
}

// The classic: the mover reports an error and the bytes come later. Failed must wait for them.
TEST_P(Faults, BytesThatLandAfterTheErrorLandBeforeFailedIsShown) {
  Cluster cluster(options());
  fill_page(cluster.prefill(), 0, 4, 0);
  const Room room = granted(cluster, 1, 8);
  poster(cluster).mover->land_late();
  push_two(cluster, room);
  cluster.advance(1s);  // less than the drain deadline of 5 s
  if (pull()) {  // the reader tries again, and yet Success waits for the read that may still land
    cluster.advance(3s);
    EXPECT_EQ(receiver_poll(cluster, room), Poll::kTransferring);
    EXPECT_EQ(poster(cluster).mover->release_late(), 1U);
    cluster.advance(20s);
    EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess);
    EXPECT_TRUE(page_is(cluster.decode(), 8, 4, 0));
    return;
  }
  const bool shut_out = !landed();  // a receiver that places the bytes refuses them alone
  EXPECT_TRUE(cluster.decode().manager->info(room.receiver).failing);
  EXPECT_EQ(receiver_poll(cluster, room) == Poll::kFailed, shut_out);
  EXPECT_NE(sender_poll(cluster, room), Poll::kSuccess);
  EXPECT_EQ(poster(cluster).mover->release_late(), 1U);
  if (landed()) {
    EXPECT_TRUE(page_is(cluster.decode(), 8, 4, 0)) << "a one-sided write lands whether or not it is welcome";
  }
  cluster.settle();
  EXPECT_EQ(receiver_poll(cluster, room), Poll::kFailed) << "and now nothing of it can land any more";
  EXPECT_EQ(sender_poll(cluster, room), Poll::kFailed);
  EXPECT_TRUE(cluster.decode().manager->quiet(room.receiver));
  if (shut_out) {
    EXPECT_TRUE(page_is_zero(cluster.decode(), 8));
  }
}

TEST_P(Faults, ALostCompletionHoldsTheRoomBackUntilItIsFound) {
  Cluster cluster(options());
  const Room room = granted(cluster, 1, 8);
  poster(cluster).mover->lose_next_completion();
  push_two(cluster, room);
  EXPECT_NE(sender_poll(cluster, room), Poll::kSuccess);
  EXPECT_EQ(poster(cluster).mover->release_late(), 1U);
  cluster.settle();
  EXPECT_EQ(sender_poll(cluster, room), Poll::kSuccess)
      << cluster.prefill().manager->error(room.sender).line();
  EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess);
}

TEST_P(Faults, ADoubledCompletionChangesNothing) {
  Cluster cluster(options());
  const Room room = granted(cluster, 1, 8);
  poster(cluster).mover->double_next_completion();
  push_two(cluster, room);
  EXPECT_EQ(sender_poll(cluster, room), Poll::kSuccess);
  EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess);
  EXPECT_NE(poster(cluster).manager->status_json().find("\"repeated_completions\":1"), std::string::npos)
      << poster(cluster).manager->status_json();
}

TEST_P(Faults, MalformedFramesAreCountedOneByOneAndHurtNobody) {
  Cluster cluster(options());
  Node& decode = cluster.decode();
  // A stranger dials decode and sends nonsense, one bad frame for each connection.
  auto clock = std::make_shared<VirtualClock>();
  const auto stranger = cluster.net().channel("stranger", clock);
  const Room room = granted(cluster, 1, 8);
  constexpr std::uint32_t kFrames = 10'000;
  std::vector<std::byte> junk(64);
  std::vector<ChannelEvent> seen;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const auto link = stranger->dial(decode.manager->endpoint());
    ASSERT_TRUE(link.has_value());
    for (std::size_t k = 0; k < junk.size(); ++k) junk[k] = static_cast<std::byte>((i * 7 + k * 13) & 0xffU);
    EXPECT_TRUE(stranger->send(*link, junk));
    cluster.settle();
    stranger->close(*link);
    seen.clear();
    stranger->poll(seen, 16);
  }
  cluster.settle();
  EXPECT_EQ(decode.manager->counters().frames_bad, kFrames);
  EXPECT_LE(decode.manager->counters().links, 2U);
  push_two(cluster, room);
  EXPECT_EQ(receiver_poll(cluster, room), Poll::kSuccess);
}

}  // namespace
}  // namespace kvferry::testkit
