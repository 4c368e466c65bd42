// A room that decode ended before its prefill rank was known was never told to that rank: the sender waited
// for its bootstrap deadline and named the wrong side.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

using EndedBeforeKnown = EveryMover;
KVFERRY_EVERY_MOVER(EndedBeforeKnown);

TEST_P(EndedBeforeKnown, IsToldWhenTheRankSaysHello) {
  Cluster cluster(options());
  cluster.crash(cluster.prefill());
  const Handle receiver = open_receiver(cluster.decode(), 7, cluster.senders());
  cluster.settle();
  must(cluster.decode().manager->abort(receiver, "client went away"));
  cluster.advance(100ms);
  cluster.restart(cluster.prefill());
  const Handle sender = open_sender(cluster.prefill(), 7);
  cluster.advance(3s);
  EXPECT_EQ(cluster.prefill().manager->poll(sender), Poll::kFailed);
  const std::string line = cluster.prefill().manager->error(sender).line();
  EXPECT_NE(line.find("client went away"), std::string::npos) << line;
}

}  // namespace
}  // namespace kvferry::testkit
