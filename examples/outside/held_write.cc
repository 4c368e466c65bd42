// The first program of docs/testing.md: a write is held, its room is aborted, its pages are lent again, and the late
// write is let go. Exit status 0: it never reached the new room's page.
#include "kvferry/testkit.h"
using namespace kvferry;
int main() {
  testkit::Cluster cluster;  // one prefill, one decode, virtual time, "loopback-push"
  testkit::Node &prefill = cluster.prefill(), &decode = cluster.decode();
  auto room = [&](std::uint64_t number) {  // opens both ends and lends page 5 of decode
    const Handle from = prefill.manager->open({.room = {number}}).value();
    const Handle to = decode.manager->open({.room = {number}, .role = Role::kReceiver, .senders = cluster.senders()}).value();
    decode.manager->grant(to, {.pages = {{5, 1}}, .tokens = 16}).value();
    return std::pair(from, to);
  };
  const auto [sender, receiver] = room(7001);
  prefill.mover->hold();                                                  // posts are accepted and kept
  prefill.manager->push(sender, {.pages = {{0, 1}}, .tokens = 16, .last = true}).value();
  cluster.settle();
  decode.manager->abort(receiver, "client went away").value();
  cluster.settle();
  if (decode.manager->poll(receiver) != Poll::kFailed || !decode.manager->quiet(receiver)) return 1;
  const auto [next_sender, next_receiver] = room(7002);                   // the same page, lent again
  cluster.settle();
  decode.item(0, 5)[0] = std::byte{0x77};
  if (prefill.mover->release() != 1) return 2;                            // the late write goes out now
  cluster.settle();
  return decode.item(0, 5)[0] == std::byte{0x77} && decode.manager->poll(next_receiver) != Poll::kFailed ? 0 : 3;
}
