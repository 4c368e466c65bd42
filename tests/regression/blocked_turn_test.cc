// An operation that ended gave its place to one entry of the blocked list. When that entry was stale (its
// room had ended meanwhile) the turn was lost, and the rooms of other peers waited until something else
// ended.
#include "unit/engine_story.h"

namespace kvferry::core::test {
namespace {

using BlockedTurn = EngineStory;

TEST_F(BlockedTurn, GoesToALiveRoomOfAnotherPeerWhenTheFirstEntryIsStale) {
  net = std::make_unique<Net>(Kind::kPush);
  EngineConfig narrow;
  narrow.limits.ops_in_flight = 1;
  p = net->add("prefill", narrow);
  d = net->add("decode");
  const std::size_t e = net->add("decode2");
  net->endpoint_names[0] = "prefill:1";
  net->feed(d, in::Endpoint{EndpointId{0}, "prefill:1"});
  net->feed(e, in::Endpoint{EndpointId{0}, "prefill:1"});
  net->hold = true;
  const Handle s1 = sender(1, 0), s2 = sender(2, 1), s3 = sender(3, 2);
  const Handle r1 = receiver(1, 0), r2 = receiver(2, 1), r3 = receiver(3, 0, {}, 0, 1, e);
  net->settle();
  grant(r1, 3), grant(r2, 4), grant(r3, 5, e);
  net->settle();
  push(s1);
  ASSERT_EQ(net->nodes[p].posts.size(), 1U);
  push(s2), push(s3);  // both wait for the one place
  net->settle();
  ASSERT_EQ(net->nodes[p].posts.size(), 1U);
  abort(d, r2, "client went away");
  net->settle();
  net->complete(p);  // room 1
  net->settle();
  EXPECT_EQ(net->nodes[p].posts.size(), 1U) << "room 3 has its turn";
  net->hold = false;
  net->settle();
  EXPECT_EQ(poll(e, r3), Poll::kSuccess) << why(e, r3);
}

}  // namespace
}  // namespace kvferry::core::test
