// Bugs that the exhaustive search found in the core, each as the shortest story that showed it.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/engine_story.h"

namespace kvferry::core::test {
namespace {

using namespace std::chrono_literals;

using EngineRegression = EngineStory;

const Error kRecalled{Code::kRefused, Who::kPeer, Next::kNewRoom, 0, "mover", "no such loan"};

// The mover's refusal overtakes decode's REVOKE: the abort is the cause, not the refusal.
TEST_F(EngineRegression, ARefusedWriteWaitsForTheLendersReason) {
  start(Kind::kPush);
  net->hold = true;
  const Handle s = sender(1, 0), r = receiver(1, 0);
  net->settle();
  grant(r, 3);
  net->settle();
  push(s);
  net->settle();
  ASSERT_EQ(net->nodes[p].posts.size(), 1U);
  abort(d, r, "client went away");  // its REVOKE is on the wire
  net->complete(p, kRecalled);
  EXPECT_EQ(why(p, s), "") << "not failed yet";
  net->settle();
  EXPECT_NE(why(p, s).find("client went away"), std::string::npos) << why(p, s);
  EXPECT_EQ(poll(p, s), Poll::kFailed);
}

TEST_F(EngineRegression, ARefusalWithoutAReasonEndsAtItsDeadline) {
  start(Kind::kPush);
  net->hold = true;
  const Handle s = sender(1, 0), r = receiver(1, 0);
  net->settle();
  grant(r, 3);
  net->settle();
  push(s);
  net->settle();
  net->complete(p, kRecalled);
  for (int k = 0; k < 9; ++k) net->tick(500ms);
  EXPECT_EQ(why(p, s), "");
  for (int k = 0; k < 3; ++k) net->tick(500ms);
  EXPECT_NE(why(p, s).find("no such loan"), std::string::npos) << why(p, s);
  EXPECT_EQ(poll(d, r), Poll::kFailed);
}

// GRANT 2 overtakes REVOKE 1 (both are said again after a reconnect): the recall of room 1 is kept all the
// same.
TEST_F(EngineRegression, TheFloorStaysBelowAnUnansweredRevoke) {
  start(Kind::kPush);
  const Handle first = receiver(1, 0);
  net->settle();
  abort(d, first, "client went away");
  const Handle second = receiver(2, 1);
  grant(second, 3);
  ASSERT_EQ(net->wire.size(), 2U);
  std::swap(net->wire[0], net->wire[1]);
  net->settle();
  const Handle late = sender(1, 0);
  net->settle();
  EXPECT_NE(why(p, late).find("client went away"), std::string::npos) << why(p, late);
}

// A GRANT of an attempt that failed here is told so, also when a later attempt of that room is live already.
TEST_F(EngineRegression, AnOlderAttemptIsToldItsEndWhileANewerLives) {
  start(Kind::kPush);
  const Tag one{1, 4, 1}, two{2, 4, 2};
  const Handle s = sender(1, 0, one);
  abort(p, s, "client went away");
  net->feed(p, in::Close{s});
  sender(1, 1, two);
  const Handle r = receiver(1, 0, one);
  net->settle();
  grant(r, 3);
  net->settle();
  EXPECT_NE(why(d, r).find("client went away"), std::string::npos) << why(d, r);
}

// One decode rank recalled a room before prefill opened it; the other rank's parked GRANT is told at the
// open.
TEST_F(EngineRegression, ARecallTellsTheParkedGrantsOfTheOtherRanks) {
  start(Kind::kPush);
  const std::size_t e = net->add("decode2");
  net->feed(e, in::Endpoint{EndpointId{0}, "prefill:1"});
  const Handle gone = receiver(1, 0, {}, 0, 2);
  const Handle other = receiver(1, 0, {}, 1, 2, e);
  net->settle();
  abort(d, gone, "client went away");
  grant(other, 3, e);
  net->settle();
  sender(1, 0);
  net->settle();
  EXPECT_NE(why(e, other).find("client went away"), std::string::npos) << why(e, other);
}

// The leg that recalled a room was told by its own REVOKE: its next GRANT is for the next attempt.
TEST_F(EngineRegression, AfterARecallTheNextAttemptIsServed) {
  start(Kind::kPush);
  const Handle gone = receiver(1, 0);
  net->settle();
  abort(d, gone, "client went away");
  net->settle();
  const Handle s = sender(1, 0);  // fails by the recall
  net->feed(p, in::Close{s});
  const Handle again = receiver(1, 1);
  grant(again, 3);
  net->settle();
  const Handle next = sender(1, 1);
  push(next);
  net->settle();
  EXPECT_EQ(poll(p, next), Poll::kSuccess) << why(p, next);
  EXPECT_EQ(poll(d, again), Poll::kSuccess) << why(d, again);
}

// A silent peer is fenced (the next path) and at last forgotten here, but remembers us: we go on above what
// it knows.
TEST_F(EngineRegression, AForgottenPeerIsMetAgainOnANewerPath) {
  EngineConfig c;
  c.deadlines.tombstone = 4s;
  start(Kind::kLanded, {}, c);
  const auto move = [&](std::uint64_t number, std::uint32_t slot) {
    const Handle s = sender(number, slot), r = receiver(number, slot);
    net->settle();
    grant(r, slot);
    push(s);
    net->settle();
    return std::pair{s, r};
  };
  const auto gone_for = [&](int halves) {
    net->endpoint_names[0] = "";  // no way to dial
    net->drop_link(static_cast<std::uint32_t>(net->links.size()));
    for (int k = 0; k < halves; ++k) net->tick(500ms);
    net->endpoint_names[0] = "prefill:1";
  };
  move(1, 0);
  gone_for(6);  // fenced at both ends, not forgotten: the next GRANT names path 1
  move(2, 1);
  gone_for(30);  // forgotten by decode alone
  const auto [s, r] = move(3, 2);
  EXPECT_EQ(poll(d, r), Poll::kSuccess) << why(d, r);
  EXPECT_EQ(poll(p, s), Poll::kSuccess) << why(p, s);
}

// A GRANT that is still coming in parts when its peer is given up for dead: FAIL(drained) is said, so when
// that peer is back and says the GRANT again it is not taken.
TEST_F(EngineRegression, AGrantInPartsIsNotTakenAfterItsFail) {
  EngineConfig c;
  c.limits.page_runs_per_part = 1;
  start(Kind::kLanded, c, c);
  const Handle s = sender(1, 0), r = receiver(1, 0);
  net->settle();
  GrantSpec spec;
  spec.pages = {{3, 1}, {7, 1}};
  spec.tokens = 8;
  net->feed(d, in::GrantPages{r, spec});
  ASSERT_EQ(net->wire.size(), 2U);
  net->wire.pop_back();
  net->settle();  // the first part alone
  ChunkSpec chunk;
  chunk.pages = {{0, 2}};
  chunk.tokens = 8;
  chunk.last = true;
  net->feed(p, in::Push{s, chunk});
  net->endpoint_names[0] = "";
  net->drop_link(1);
  for (int k = 0; k < 5; ++k) {  // prefill gives decode up; decode does not notice
    net->now += 500ms;
    net->feed(p, in::Tick{});
  }
  net->endpoint_names[0] = "prefill:1";
  net->tick(100ms);
  EXPECT_EQ(net->nodes[p].engine->counters().ops_posted, 0U) << "FAIL(drained) had been said for this grant";
}

// A sender that is fencing us refuses our HELLO by closing: we come again with back-off, not in a spin.
TEST_F(EngineRegression, ARefusedHelloIsNotSaidInASpin) {
  start(Kind::kLanded);
  const Handle r = receiver(1, 0);
  net->settle();
  const std::size_t before = net->links.size();
  for (int k = 0; k < 50; ++k) {
    net->feed(d, in::LinkDown{LinkId{static_cast<std::uint32_t>(net->links.size())},
                              Error{Code::kPeerLost, Who::kPeer, Next::kRetry, 0, "link", "closed"}});
  }
  EXPECT_LE(net->links.size(), before + 2) << "one dial at once, the next after redial_first";
  net->tick(100ms);
  net->settle();
  EXPECT_EQ(poll(d, r), Poll::kWaitingForInput);
}

// A parked GRANT whose decode is given up: the open that would have bound it fails at once with that reason,
// not at the bootstrap deadline.
TEST_F(EngineRegression, AParkedGrantOfALostPeerFailsTheOpen) {
  start(Kind::kLanded);
  const Handle r = receiver(1, 0);
  net->settle();
  grant(r, 3);
  net->settle();
  net->endpoint_names[0] = "";
  net->drop_link(1);
  for (int k = 0; k < 6; ++k) net->tick(500ms);
  const Handle s = sender(1, 0);
  EXPECT_EQ(poll(p, s), Poll::kFailed);
  EXPECT_NE(why(p, s).find("no connection for"), std::string::npos) << why(p, s);
}

// Debts that fell due while the connection was down are said at once when it is back; that is no pause of
// ours, so the deadlines that accuse others do not move.
TEST_F(EngineRegression, WhatIsOverdueWhenArmedIsNoGap) {
  EngineConfig patient;
  patient.deadlines.grace = 60s;
  start(Kind::kLanded, patient, patient);
  const Handle r = receiver(1, 0);
  net->settle();
  grant(r, 3);
  net->wire.clear();  // the GRANT is lost: it is due again in a second
  net->endpoint_names[0] = "";
  net->drop_link(1);
  for (int k = 0; k < 20; ++k) net->tick(500ms);
  net->endpoint_names[0] = "prefill:1";
  for (int k = 0; k < 4; ++k) net->tick(500ms);
  EXPECT_EQ(net->nodes[d].engine->counters().gaps, 0U);
}

// The reason of an abort says whose doing it was: local where the user aborted, the peer's at the other end.
TEST_F(EngineRegression, AnAbortIsThePeersDoingAtTheOtherEnd) {
  start(Kind::kPush);
  const Handle s = sender(1, 0), r = receiver(1, 0);
  net->settle();
  grant(r, 3);
  net->settle();
  abort(p, s, "client went away");
  net->settle();
  EXPECT_EQ(net->nodes[p].causes[s.slot].who, Who::kLocal);
  EXPECT_EQ(net->nodes[d].causes[r.slot].who, Who::kPeer);
}

// Rooms that end before their GRANT take numbers too: beyond the window they wait for their answers.
TEST_F(EngineRegression, RecallsStayWithinTheWindow) {
  EngineConfig small;
  small.limits.grant_window = 64;
  start(Kind::kPush, small, small);
  std::vector<Handle> rooms;
  for (std::uint32_t k = 0; k < 100; ++k) rooms.push_back(receiver(1 + k, k));
  net->settle();
  for (const Handle h : rooms) abort(d, h, "client went away");
  EXPECT_LE(net->wire.size(), 64U);
  net->settle();
  EXPECT_EQ(net->nodes[p].engine->counters().refused_from_peer, 0U);
  for (std::uint32_t k = 0; k < 100; ++k) {
    const Handle late = sender(1 + k, k);
    EXPECT_NE(why(p, late).find("client went away"), std::string::npos) << "room " << 1 + k;
  }
}

}  // namespace
}  // namespace kvferry::core::test
