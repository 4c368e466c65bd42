// A process that counted as dead and lives (a cut longer than the grace) was refused for ever, because its
// path was fenced and never made anew.
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;

using BackFromTheDead = EveryMover;
KVFERRY_EVERY_MOVER(BackFromTheDead);

TEST_P(BackFromTheDead, TheSameLifeServesTheNextRoomOnANewPath) {
  Cluster cluster(options());
  Node &prefill = cluster.prefill(), &decode = cluster.decode();
  const Handle lost_sender = open_sender(prefill, 1);
  const Handle lost = open_receiver(decode, 1, cluster.senders());
  must(decode.manager->grant(lost, lend_pages({{0, 1}}, 16)));
  cluster.settle();
  cluster.net().cut("prefill-0", "decode-0");
  cluster.advance(3s);
  EXPECT_EQ(decode.manager->poll(lost), Poll::kFailed);
  EXPECT_EQ(prefill.manager->poll(lost_sender), Poll::kFailed);
  cluster.net().mend("prefill-0", "decode-0");
  cluster.advance(2s);
  fill_page(prefill, 4, 77, 4);
  const Handle sender = open_sender(prefill, 2);
  const Handle receiver = open_receiver(decode, 2, cluster.senders());
  must(decode.manager->grant(receiver, lend_pages({{0, 1}}, 16)));
  must(prefill.manager->push(sender, chunk_of({{4, 1}}, 16, true)));
  cluster.advance(1s);
  EXPECT_EQ(decode.manager->poll(receiver), Poll::kSuccess) << decode.manager->error(receiver).line();
  EXPECT_TRUE(page_is(decode, 0, 77, 4));
}

}  // namespace
}  // namespace kvferry::testkit
