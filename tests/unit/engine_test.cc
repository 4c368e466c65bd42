// The engine, both roles, over a wire and a mover made of queues: the happy paths, aborts, loss, restarts,
// deadlines.
#include <gtest/gtest.h>

#include "unit/engine_pair.h"

namespace kvferry::core::test {
namespace {

using namespace std::chrono_literals;

class EnginePair : public ::testing::TestWithParam<Kind> {
 protected:
  EnginePair() : net(GetParam()) {
    p = net.add("prefill");
    d = net.add("decode");
    net.endpoint_names[0] = "prefill:1";
    net.feed(d, in::Endpoint{EndpointId{0}, "prefill:1"});
  }
  Handle open_sender(std::uint64_t room, std::uint32_t slot = 0, Tag tag = {}) {
    const Handle h{slot, ++generation};
    net.feed(p, in::Open{h, RoomId{room}, Role::kSender, tag, {}, 0, 1, {}, 0, 0});
    return h;
  }
  Handle open_receiver(std::uint64_t room, std::uint32_t slot = 0, Tag tag = {}) {
    const Handle h{slot, ++generation};
    net.feed(d, in::Open{h, RoomId{room}, Role::kReceiver, tag, {EndpointId{0}}, 0, 1, {}, 0, 0});
    return h;
  }
  static GrantSpec spec(PageRuns pages, std::uint32_t tokens, std::uint32_t aux = kNoSlot) {
    GrantSpec s;
    s.pages = std::move(pages);
    s.tokens = tokens;
    s.aux_slot = aux;
    return s;
  }
  static ChunkSpec chunk(PageRuns pages, std::uint32_t tokens, bool last, std::uint32_t aux = kNoSlot) {
    ChunkSpec c;
    c.pages = std::move(pages);
    c.tokens = tokens;
    c.last = last;
    c.aux_slot = aux;
    return c;
  }
  Poll poll(std::size_t node, Handle h) { return net.nodes[node].polls[h.slot]; }

  Net net;
  std::size_t p = 0, d = 0;
  std::uint32_t generation = 0;
};

TEST_P(EnginePair, MovesARoomInTwoChunksWithAux) {
  const Handle s = open_sender(7), r = open_receiver(7);
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kWaitingForInput);
  net.feed(d, in::GrantPages{r, spec({{3, 2}, {8, 1}}, 10, 1)});
  net.settle();
  EXPECT_EQ(poll(p, s), Poll::kWaitingForInput);
  net.feed(p, in::Push{s, chunk({{0, 2}}, 8, false)});
  net.settle();
  EXPECT_EQ(poll(p, s), Poll::kTransferring);
  net.feed(p, in::Push{s, chunk({{5, 1}}, 2, true, 2)});
  net.settle();
  EXPECT_EQ(poll(p, s), Poll::kSuccess);
  EXPECT_EQ(poll(d, r), Poll::kSuccess);
  EXPECT_EQ(net.nodes[p].returned.size(), 2U);
  EXPECT_EQ(net.nodes[d].engine->counters().pages_lent, net.nodes[d].engine->counters().pages_returned);
  EXPECT_EQ(net.nodes[p].engine->counters().debts, 0U);
  EXPECT_EQ(net.nodes[d].engine->counters().debts, 0U);
  EXPECT_EQ(net.nodes[d].engine->info(r).bytes, 3U * 128U + 16U);
}

TEST_P(EnginePair, GrantMayComeBeforeTheSender) {
  const Handle r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 1}}, 4)});
  net.settle();
  const Handle s = open_sender(7);
  net.feed(p, in::Push{s, chunk({{1, 1}}, 4, true)});
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kSuccess);
  EXPECT_EQ(poll(p, s), Poll::kSuccess);
}

TEST_P(EnginePair, ReceiverAbortReachesTheSenderWithItsCause) {
  const Handle s = open_sender(7), r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 2}}, 8)});
  net.settle();
  net.hold = true;
  net.feed(p, in::Push{s, chunk({{1, 1}}, 4, false)});
  net.settle();
  net.feed(d, in::Abort{r, Error{Code::kAborted, Who::kLocal, Next::kNewRoom, 0, "", "client went away"}});
  net.settle();
  EXPECT_EQ(net.nodes[p].causes[s.slot].why, "client went away");
  if (GetParam() == Kind::kLanded) {
    EXPECT_NE(poll(d, r), Poll::kFailed) << "bytes may still land";
  }
  net.hold = false;
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kFailed);
  EXPECT_EQ(poll(p, s), Poll::kFailed);
  EXPECT_EQ(net.nodes[p].returned.size(), 1U);
}

TEST_P(EnginePair, SenderRejectReachesTheReceiverAndLateOnes) {
  const Handle s = open_sender(7);
  net.feed(p, in::Abort{s, Error{Code::kRejected, Who::kLocal, Next::kNewRoom, 429, "", "queue is full"}});
  const Handle r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 2}}, 8)});
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kFailed);
  EXPECT_EQ(net.nodes[d].causes[r.slot].status, 429);
  EXPECT_EQ(net.nodes[d].causes[r.slot].why, "queue is full");
}

TEST_P(EnginePair, FoundingCase) {
  net.configs[p].deadlines.bootstrap = 5s;
  net.nodes[p].engine = std::make_unique<Engine>(net.configs[p]);
  const Handle s = open_sender(7);
  net.tick(10s);
  EXPECT_EQ(poll(p, s), Poll::kFailed);
  EXPECT_EQ(net.nodes[p].engine->info(s).created, TimePoint{10s});
  const std::string line = net.nodes[p].causes[s.slot].line();
  for (const char* word : {"room 7", "Bootstrapping", "10.000 s", "timed out"}) {
    EXPECT_NE(line.find(word), std::string::npos) << line;
  }
  const Handle r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 1}}, 4)});
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kFailed);
}

TEST_P(EnginePair, BootstrapNeverHitsARoomWhoseGrantCame) {
  net.configs[p].deadlines.bootstrap = 5s;
  net.nodes[p].engine = std::make_unique<Engine>(net.configs[p]);
  const Handle s = open_sender(7), r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 1}}, 4)});
  net.settle();
  for (int k = 0; k < 20; ++k) net.tick(1s);
  EXPECT_EQ(poll(p, s), Poll::kWaitingForInput);
}

TEST_P(EnginePair, RestartedSenderIsANewPeer) {
  const Handle s = open_sender(7), r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 2}}, 8)});
  net.settle();
  (void)s;
  net.restart(p);
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kFailed);
  EXPECT_EQ(net.nodes[d].causes[r.slot].code, Code::kPeerLost);
  const Handle s2 = open_sender(8), r2 = open_receiver(8, 1);
  net.tick(1s);
  net.feed(d, in::GrantPages{r2, spec({{0, 2}}, 8)});
  net.settle();
  net.feed(p, in::Push{s2, chunk({{3, 2}}, 8, true)});
  net.settle();
  EXPECT_EQ(poll(d, r2), Poll::kSuccess) << net.nodes[d].causes[r2.slot].line();
  EXPECT_EQ(net.nodes[d].engine->counters().peers, 1U);
}

TEST_P(EnginePair, LostConnectionWithinTheGraceFailsNothing) {
  const Handle s = open_sender(7), r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 2}}, 8)});
  net.settle();
  net.drop_link(1);
  net.settle();
  net.tick(1s);
  net.feed(p, in::Push{s, chunk({{3, 2}}, 8, true)});
  net.tick(1s);
  EXPECT_EQ(poll(d, r), Poll::kSuccess);
  EXPECT_EQ(poll(p, s), Poll::kSuccess);
}

TEST_P(EnginePair, ADuplicateOpenFailsOnlyItself) {
  const Handle s = open_sender(7), twin = open_sender(7, 1);
  EXPECT_EQ(poll(p, twin), Poll::kFailed);
  EXPECT_EQ(net.nodes[p].causes[twin.slot].code, Code::kRefused);
  const Handle r = open_receiver(7);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 1}}, 4)});
  net.feed(p, in::Push{s, chunk({{0, 1}}, 4, true)});
  net.settle();
  EXPECT_EQ(poll(d, r), Poll::kSuccess);
}

TEST_P(EnginePair, APageStillLentIsNotLentAgain) {
  open_sender(7);
  const Handle r = open_receiver(7), r2 = open_receiver(8, 1);
  net.settle();
  net.feed(d, in::GrantPages{r, spec({{0, 2}}, 8)});
  net.feed(d, in::GrantPages{r2, spec({{1, 2}}, 8)});
  net.settle();
  EXPECT_EQ(poll(d, r2), Poll::kFailed);
  EXPECT_NE(net.nodes[d].causes[r2.slot].why.find("room 7"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Movers, EnginePair, ::testing::Values(Kind::kPush, Kind::kPull, Kind::kLanded),
                         [](const auto& i) {
                           return i.param == Kind::kPush   ? "push"
                                  : i.param == Kind::kPull ? "pull"
                                                           : "landed";
                         });

}  // namespace
}  // namespace kvferry::core::test
