// Rooms that go well, over every loopback mover, in virtual time.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using Happy = EveryMover;
KVFERRY_EVERY_MOVER(Happy);

TEST_P(Happy, OneChunkArrivesByteForByteWithItsAux) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  fill_page(prefill, 3, 1, 0);
  fill_page(prefill, 4, 1, 1);
  std::memset(prefill.aux(2), 0x5a, prefill.aux_bytes);
  const Handle sender = open_sender(prefill, 7001);
  const Handle receiver = open_receiver(decode, 7001, cluster.senders());
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kBootstrapping);
  GrantSpec grant = lend_pages({{10, 2}}, 30);
  grant.aux_slot = 5;
  must(decode.manager->grant(receiver, grant));
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kWaitingForInput);
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kWaitingForInput);

  ChunkSpec chunk = chunk_of({{3, 2}}, 30, true);
  chunk.aux_slot = 2;
  must(prefill.manager->push(sender, chunk));
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kSuccess) << prefill.manager->error(sender).line();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess) << decode.manager->error(receiver).line();
  EXPECT_TRUE(page_is(decode, 10, 1, 0));
  EXPECT_TRUE(page_is(decode, 11, 1, 1));
  EXPECT_TRUE(page_is_zero(decode, 12));
  EXPECT_EQ(0, std::memcmp(decode.aux(5), prefill.aux(2), decode.aux_bytes));
  EXPECT_TRUE(decode.manager->quiet(receiver));
  EXPECT_TRUE(prefill.manager->quiet(sender));
  const RoomInfo info = decode.manager->info(receiver);
  EXPECT_EQ(info.bytes, 2 * 2 * 1024U + 64U);
  EXPECT_EQ(info.tokens, 30U);
  EXPECT_EQ(info.aux_slot, 5U);
  EXPECT_EQ(info.mover, GetParam());
  EXPECT_EQ(count_events(events_of(decode), ManagerEvent::Kind::kTerminal), 1U);
  const auto sent = events_of(prefill);
  EXPECT_EQ(count_events(sent, ManagerEvent::Kind::kTerminal), 1U);
  EXPECT_EQ(count_events(sent, ManagerEvent::Kind::kChunkReturned), 1U);
}

TEST_P(Happy, ChunksStreamAndAnEmptyOneIsStillSaid) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  for (std::uint32_t page = 0; page < 6; ++page) fill_page(prefill, 20 + page, 9, page);
  const Handle sender = open_sender(prefill, 1);
  const Handle receiver = open_receiver(decode, 1, cluster.senders());
  must(decode.manager->grant(receiver, lend_pages({{40, 1}, {7, 3}, {30, 2}}, 96)));
  must(prefill.manager->push(sender, chunk_of({{20, 2}}, 32, false)));
  cluster.settle();
  // Behind a one-sided mover the receiver learns of bytes only when the sender says DONE.
  const Poll between = landed() ? Poll::kWaitingForInput : Poll::kTransferring;
  EXPECT_EQ(decode.manager->poll(receiver), between);
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kTransferring);
  must(prefill.manager->push(sender, chunk_of({}, 0, false)));
  must(prefill.manager->push(sender, chunk_of({{22, 4}}, 64, false)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), between);
  must(prefill.manager->push(sender, chunk_of({}, 0, true)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess) << decode.manager->error(receiver).line();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kSuccess);
  const std::uint32_t target[] = {40, 7, 8, 9, 30, 31};
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(page_is(decode, target[i], 9, i)) << i;
}

TEST_P(Happy, TwoPipelineStagesEachSendTheirLayersAndTheLastOneTheAux) {
  ClusterOptions o = options();
  o.prefill = 2;
  o.layers = 4;
  o.pp = true;
  Cluster cluster(o);
  Node& decode = cluster.decode();
  std::vector<Handle> senders;
  for (std::uint32_t i = 0; i < 2; ++i) {
    Node& prefill = cluster.prefill(i);
    EXPECT_EQ(prefill.layers, 2U);
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      std::memset(prefill.item(layer, 1), static_cast<int>(0x10 + i * 2 + layer), prefill.item_bytes);
    }
    std::memset(prefill.aux(0), static_cast<int>(0xa0 + i), prefill.aux_bytes);
    senders.push_back(open_sender(prefill, 5));
  }
  const Handle receiver = open_receiver(decode, 5, cluster.senders());
  GrantSpec grant = lend_pages({{2, 1}}, 16);
  grant.aux_slot = 1;
  must(decode.manager->grant(receiver, grant));
  ChunkSpec chunk = chunk_of({{1, 1}}, 16, true);
  chunk.aux_slot = 0;
  must(cluster.prefill(0).manager->push(senders[0], chunk));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kTransferring);
  must(cluster.prefill(1).manager->push(senders[1], chunk));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess) << decode.manager->error(receiver).line();
  for (std::uint32_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(decode.item(layer, 2)[100], static_cast<std::byte>(0x10 + layer)) << layer;
  }
  EXPECT_EQ(decode.aux(1)[0], std::byte{0xa1});
}

TEST_P(Happy, TwoDecodeRanksOfOneRoom) {
  ClusterOptions o = options();
  o.decode = 2;
  Cluster cluster(o);
  Node& prefill = cluster.prefill();
  fill_page(prefill, 0, 3, 0);
  const Handle sender = open_sender(prefill, 77);
  const Handle first = open_receiver(cluster.decode(0), 77, cluster.senders(), 0, 2);
  must(cluster.decode(0).manager->grant(first, lend_pages({{1, 1}}, 16)));
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kBootstrapping) << "one of two receivers is not enough";
  EXPECT_EQ(prefill.manager->info(sender).legs_required, 2U);
  const Handle second = open_receiver(cluster.decode(1), 77, cluster.senders(), 1, 2);
  must(cluster.decode(1).manager->grant(second, lend_pages({{2, 1}}, 16)));
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kWaitingForInput);
  must(prefill.manager->push(sender, chunk_of({{0, 1}}, 16, true)));
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(sender), Poll::kSuccess) << prefill.manager->error(sender).line();
  EXPECT_TRUE(page_is(cluster.decode(0), 1, 3, 0));
  EXPECT_TRUE(page_is(cluster.decode(1), 2, 3, 0));
  EXPECT_EQ(cluster.decode(0).manager->poll(first), Poll::kSuccess);
  EXPECT_EQ(cluster.decode(1).manager->poll(second), Poll::kSuccess);
}

TEST_P(Happy, APrefixThatDecodeHoldsIsKnownToTheSenderBeforeItSends) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Handle sender = open_sender(prefill, 8);
  const Handle receiver = open_receiver(decode, 8, cluster.senders());
  GrantSpec grant = lend_pages({{0, 1}}, 10);
  grant.prefix_tokens = 48;
  must(decode.manager->grant(receiver, grant));
  cluster.settle();
  ASSERT_EQ(prefill.manager->poll(sender), Poll::kWaitingForInput);
  EXPECT_EQ(prefill.manager->info(sender).prefix_tokens, 48U);
  must(prefill.manager->push(sender, chunk_of({{5, 1}}, 10, true)));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess) << decode.manager->error(receiver).line();
}

TEST_P(Happy, ARoomNumberMayComeAgain) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  for (std::uint32_t round = 0; round < 5; ++round) {
    fill_page(prefill, 1, round, 0);
    const Handle sender = open_sender(prefill, 42);
    const Handle receiver = open_receiver(decode, 42, cluster.senders());
    must(decode.manager->grant(receiver, lend_pages({{9, 1}}, 16)));
    must(prefill.manager->push(sender, chunk_of({{1, 1}}, 16, true)));
    cluster.settle();
    ASSERT_EQ(decode.manager->poll(receiver), Poll::kSuccess)
        << round << " " << decode.manager->error(receiver).line();
    ASSERT_EQ(prefill.manager->poll(sender), Poll::kSuccess) << round;
    EXPECT_TRUE(page_is(decode, 9, round, 0));
    must(prefill.manager->close(sender));
    must(decode.manager->close(receiver));
    EXPECT_EQ(decode.manager->poll(receiver), Poll::kStale);
    cluster.settle();
  }
  EXPECT_EQ(decode.manager->counters().rooms_succeeded, 5U);
}

TEST_P(Happy, AnEventHoldsAChunkBackUntilItFired) {
  Cluster cluster(options());
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  const Handle sender = open_sender(prefill, 6);
  const Handle receiver = open_receiver(decode, 6, cluster.senders());
  must(decode.manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  ChunkSpec chunk = chunk_of({{0, 1}}, 16, true);
  chunk.event = EventId{11};
  must(prefill.manager->push(sender, chunk));
  cluster.settle();
  EXPECT_EQ(poster(cluster).mover->posts(), 0U);
  must(prefill.manager->fired(EventId{11}, true));
  cluster.settle();
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess) << decode.manager->error(receiver).line();
}

}  // namespace
}  // namespace kvferry::testkit
