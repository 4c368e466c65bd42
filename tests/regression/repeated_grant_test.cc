// A GRANT that came again for a leg that had failed here was answered with the end only: decode named the
// mover or nothing as the cause when FAIL was still on its way.
#include "unit/engine_story.h"

namespace kvferry::core::test {
namespace {

using RepeatedGrant = EngineStory;

TEST_F(RepeatedGrant, OfAFailedLegIsToldTheCauseAgain) {
  start(Kind::kPush);
  const Handle s = sender(1, 0), r = receiver(1, 0);
  net->settle();
  grant(r, 3);
  ASSERT_FALSE(net->wire.empty());
  const Net::Frame again = net->wire.front();
  ASSERT_TRUE(std::holds_alternative<wire::Grant>(again.message.body));
  net->settle();
  abort(p, s, "client went away");
  net->wire.clear();  // FAIL is lost
  net->wire.push_back(again);
  net->settle();
  EXPECT_NE(why(d, r).find("client went away"), std::string::npos) << why(d, r);
}

}  // namespace
}  // namespace kvferry::core::test
