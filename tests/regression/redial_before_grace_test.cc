// After a cut dials doubled their distance (20 ms, ..., 1.26 s, 2.26 s after it): a network that came
// back 1.3 s after the cut was noticed only when the grace of 2 s was over and the rooms had failed.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

TEST(RedialBeforeGrace, ANetworkThatComesBackBeforeTheGraceEndsFailsNothing) {
  Cluster cluster;
  const Handle sender = open_sender(cluster.prefill(), 1);
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.settle();
  cluster.net().cut("prefill-0", "decode-0");
  cluster.advance(1500ms);
  cluster.net().mend("prefill-0", "decode-0");
  cluster.advance(1s);
  ASSERT_FALSE(cluster.decode().manager->info(receiver).failing)
      << cluster.decode().manager->error(receiver).line();
  must(cluster.prefill().manager->push(sender, chunk_of({{0, 1}}, 16, true)));
  cluster.settle();
  EXPECT_EQ(cluster.decode().manager->poll(receiver), Poll::kSuccess);
  EXPECT_EQ(cluster.prefill().manager->poll(sender), Poll::kSuccess);
}

TEST(RedialBeforeGrace, ANetworkThatStaysAwayEndsWithTheGrace) {
  Cluster cluster;
  const Handle receiver = open_receiver(cluster.decode(), 1, cluster.senders());
  open_sender(cluster.prefill(), 1);
  must(cluster.decode().manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  cluster.settle();
  cluster.net().cut("prefill-0", "decode-0");
  cluster.advance(1999ms);
  EXPECT_FALSE(cluster.decode().manager->info(receiver).failing);
  cluster.advance(2ms);
  EXPECT_TRUE(cluster.decode().manager->info(receiver).failing);
}

}  // namespace
}  // namespace kvferry::testkit
