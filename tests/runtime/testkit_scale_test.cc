// Many rooms at once, and many after each other: nothing grows, nothing hangs.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

using Scale = EveryMover;
KVFERRY_EVERY_MOVER(Scale);

TEST_P(Scale, TenThousandLiveRooms) {
  constexpr std::uint32_t kRooms = 10'000;
  ClusterOptions o = options();
  o.pages = kRooms;
  o.layers = 1;
  o.item_bytes = 64;
  o.aux_slots = 0;
  Cluster cluster(o);
  Node& prefill = cluster.prefill();
  Node& decode = cluster.decode();
  std::vector<Handle> senders, receivers;
  for (std::uint32_t i = 0; i < kRooms; ++i) {
    fill_page(prefill, i, 7, i);
    senders.push_back(open_sender(prefill, i));
    receivers.push_back(open_receiver(decode, i, cluster.senders()));
    must(decode.manager->grant(receivers.back(), lend_pages({{kRooms - 1 - i, 1}}, 16)));
  }
  cluster.settle();
  EXPECT_EQ(prefill.manager->counters().rooms_live, kRooms);
  EXPECT_EQ(decode.manager->counters().rooms_live, kRooms);
  std::vector<std::uint8_t> polls(kRooms);
  prefill.manager->poll_many(senders, polls);
  for (const std::uint8_t poll : polls) ASSERT_EQ(poll, static_cast<std::uint8_t>(Poll::kWaitingForInput));
  cluster.advance(5s);
  for (std::uint32_t i = 0; i < kRooms; ++i)
    must(prefill.manager->push(senders[i], chunk_of({{i, 1}}, 16, true)));
  cluster.settle();
  decode.manager->poll_many(receivers, polls);
  for (const std::uint8_t poll : polls) ASSERT_EQ(poll, static_cast<std::uint8_t>(Poll::kSuccess));
  for (std::uint32_t i = 0; i < kRooms; ++i) ASSERT_TRUE(page_is(decode, kRooms - 1 - i, 7, i)) << i;
  EXPECT_EQ(count_events(events_of(decode), ManagerEvent::Kind::kTerminal), 4096U)
      << "take_events takes in portions";
  for (std::uint32_t i = 0; i < kRooms; ++i) {
    must(prefill.manager->close(senders[i]));
    must(decode.manager->close(receivers[i]));
  }
  cluster.advance(2s);
  for (Node* node : {&prefill, &decode}) {
    const Counters counters = node->manager->counters();
    EXPECT_EQ(counters.rooms_live, 0U);
    EXPECT_EQ(counters.debts, 0U);
    EXPECT_EQ(counters.rooms_succeeded, kRooms);
    EXPECT_EQ(counters.pages_lent, counters.pages_returned);
  }
}

TEST_P(Scale, ASlotIsUsedAgainAndAnOldHandleStaysStale) {
  ClusterOptions o = options();
  o.limits.rooms = 4;
  Cluster cluster(o);
  Node& prefill = cluster.prefill();
  std::vector<Handle> handles;
  for (std::uint64_t i = 0; i < 4; ++i) handles.push_back(open_sender(prefill, i));
  OpenSpec one_more;
  one_more.room = RoomId{99};
  const auto refused = prefill.manager->open(one_more);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_NE(refused.error().line().find("limits.rooms = 4"), std::string::npos) << refused.error().line();
  must(prefill.manager->close(handles[2]));
  cluster.settle();
  const Handle next = open_sender(prefill, 99);
  EXPECT_EQ(next.slot, handles[2].slot);
  EXPECT_NE(next.generation, handles[2].generation);
  cluster.settle();
  EXPECT_EQ(prefill.manager->poll(handles[2]), Poll::kStale);
  EXPECT_EQ(prefill.manager->poll(next), Poll::kBootstrapping);
}

}  // namespace
}  // namespace kvferry::testkit
