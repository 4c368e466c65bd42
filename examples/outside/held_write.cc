// The first program of docs/testing.md: a write is held, its room is aborted, its page is lent again, and the
// late write is let go. Exit status 0: it never reached the new room's page, and the new room ends well.
#include "kvferry/testkit.h"
using namespace kvferry;
int main() {
  testkit::Cluster cluster;  // one prefill and one decode manager, virtual time, mover "loopback-push"
  Manager &prefill = *cluster.prefill().manager, &decode = *cluster.decode().manager;
  GrantSpec lend;
  lend.pages = {{5, 1}}, lend.tokens = 16;  // page 5 of decode, for both rooms
  ChunkSpec chunk;
  chunk.pages = {{0, 1}}, chunk.tokens = 16, chunk.last = true;
  const auto send = [&](RoomId room) { return *prefill.open({room, Role::kSender, {}, {}}); };
  const auto receive = [&](RoomId room) {
    return *decode.open({room, Role::kReceiver, {}, cluster.senders()});
  };
  const Handle sender = send({7001}), receiver = receive({7001});
  cluster.prefill().mover->hold();  // posts are accepted and kept
  decode.grant(receiver, lend), prefill.push(sender, chunk), cluster.settle();
  decode.abort(receiver, "client went away"), cluster.settle();
  if (decode.poll(receiver) != Poll::kFailed || !decode.quiet(receiver)) return 1;
  const Handle next_sender = send({7002}), next = receive({7002});
  decode.grant(next, lend), cluster.settle();  // the same page, lent again
  cluster.decode().item(0, 5)[0] = std::byte{0x77};
  if (cluster.prefill().mover->release() != 1) return 2;  // the late write goes out now
  cluster.settle();
  if (cluster.decode().item(0, 5)[0] != std::byte{0x77}) return 3;  // it was shut out
  prefill.push(next_sender, chunk), cluster.settle();
  return decode.poll(next) == Poll::kSuccess ? 0 : 4;
}
