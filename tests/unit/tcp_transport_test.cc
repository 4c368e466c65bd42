// What is special about the tcp mover; what it shares with every mover is in tests/conformance.
#include "transport/tcp/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tcp_kit.h"

namespace kvferry::transport::tcp {
namespace {

using kit::Node;
using kit::Pair;
using kit::RawPeer;
using kit::Relay;

constexpr LoanId kLoan{1, 10};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// A lender whose peer is a RawPeer; the peer has been welcomed on one stream.
struct Hostile {
  Hostile() : node({}, 1 << 20) {
    EXPECT_TRUE(node.mover->add_peer(PeerId{1}, encode(peer.description())));
    EXPECT_TRUE(node.lend(PeerId{1}, kLoan, 16));
    peer.dial(node);
    peer.hello();
    EXPECT_TRUE(until([&] { return !peer.welcomes.empty(); }));
  }
  bool until(const std::function<bool()>& done, int ms = 5'000) {
    return kit::wait_for(
        [&] {
          node.step();
          peer.hear();
          return done();
        },
        ms);
  }
  // A frame of `items` items from `first` of an operation of `op_bytes`.
  std::vector<std::byte> frame(std::uint64_t sequence, std::uint32_t first, std::uint32_t items,
                               std::uint64_t op_bytes, Ticket ticket = {kLoan, 42}) const {
    PlanePair pair;
    pair.remote = {RegionId{0}, 0, node.item};
    pair.bytes = node.item;
    const RunPair run{0, first, items};
    WriteFrame head;
    head.sequence = sequence;
    head.op_bytes = op_bytes;
    head.ticket = ticket;
    return encode(head, PieceGroup{std::span(&pair, 1), std::span(&run, 1)});
  }
  std::vector<std::byte> payload(std::uint32_t items, std::byte value = std::byte{0xEE}) const {
    return std::vector<std::byte>(std::size_t{items} * node.item, value);
  }
  bool untouched() const {
    return std::all_of(node.pool.begin(), node.pool.end(), [](std::byte b) { return b == std::byte{0}; });
  }
  Node node;
  RawPeer peer;
};

TEST(TcpOptionsTest, BadOnesAreRefusedByName) {
  TcpOptions options;
  options.bind = "127.0.0.1";
  options.streams = 17;
  auto opened = open_tcp(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().what, "tcp.streams");
  EXPECT_NE(opened.error().why.find("17"), std::string::npos);
  options.streams = 2;
  options.congestion = "no_such_control";
  EXPECT_TRUE(open_tcp(options));  // the system's choice instead
  options.congestion_required = true;
  opened = open_tcp(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().what, "tcp.congestion");
  options = {};
  options.bind = "127.0.0.1";
  options.advertise = {"0.0.0.0"};
  opened = open_tcp(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().what, "tcp.advertise");
}

TEST(TcpOptionsTest, APortInUseIsNamed) {
  Node first;
  TcpOptions options;
  options.bind = "127.0.0.1";
  options.port = decode_description(first.mover->describe(), "x")->addresses.front().port;
  const auto second = open_tcp(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kEnvironment);
  EXPECT_EQ(second.error().status, EADDRINUSE);
  EXPECT_NE(second.error().what.find(std::to_string(options.port)), std::string::npos)
      << second.error().line();
}

TEST(TcpOptionsTest, AdvertisedAndBoundAddressAreTwoThings) {
  TcpOptions options;
  options.bind = "127.0.0.1";
  options.advertise = {"10.1.2.3", "10.1.2.4:77", "::1", "[::1]:78"};
  Node node(options);
  const auto listed = node.mover->endpoints();
  const auto port = decode_description(node.mover->describe(), "x")->addresses.front().port;
  EXPECT_EQ(listed, (std::vector<std::string>{"10.1.2.3:" + std::to_string(port), "10.1.2.4:77",
                                              "[::1]:" + std::to_string(port), "[::1]:78"}));
}

TEST(TcpTransportTest, AnOperationOverTwoStreamsArrivesOnce) {
  Pair pair({}, 32 << 20);
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 8192));
  ASSERT_TRUE(pair.a.post(1, PeerId{2}, kLoan, 0, 8192));
  ASSERT_TRUE(pair.until([&] { return pair.b.find(Event::Kind::kArrived) && pair.a.quiesced(1); }));
  EXPECT_TRUE(pair.a.completed(1)->error.ok()) << pair.a.completed(1)->error.line();
  EXPECT_EQ(pair.b.find(Event::Kind::kArrived)->bytes, 32U << 20);
  EXPECT_GE(pair.a.mover->stats().frames_sent, 64U);
  EXPECT_EQ(pair.a.pool, pair.b.pool);
  EXPECT_EQ(std::count_if(pair.b.log.begin(), pair.b.log.end(),
                          [](const Event& e) { return e.kind == Event::Kind::kArrived; }),
            1);
}

TEST(TcpTransportTest, SmallOperationsOvertakeLargeOnes) {
  Pair pair({}, 64 << 20);
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 16384));
  for (std::uint64_t op = 1; op <= 3; ++op) ASSERT_TRUE(pair.a.post(op, PeerId{2}, kLoan, 0, 16384));
  for (int i = 0; i < 4; ++i) pair.a.step();
  ASSERT_TRUE(pair.a.post(50, PeerId{2}, kLoan, 0, 1));
  ASSERT_TRUE(pair.a.post(51, PeerId{2}, kLoan, 0, 0));  // nothing but a notice
  ASSERT_TRUE(pair.until([&] { return pair.a.completed(50) && pair.a.completed(51); }));
  EXPECT_EQ(pair.a.completed(1), nullptr);
  ASSERT_TRUE(
      pair.until([&] { return pair.a.quiesced(1) && pair.a.quiesced(2) && pair.a.quiesced(3); }, 30'000));
}

// Frames that wait in a stream behind and before the one that is dropped still send their own pages.
TEST(TcpTransportTest, CancelledOperationsLeaveTheirNeighboursInTheQueueAlone) {
  TcpOptions options;
  options.streams = 1;
  options.send_buffer = options.receive_buffer = 64 << 10;
  Pair pair(options);
  for (std::size_t i = 0; i < pair.a.pool.size(); ++i) pair.a.pool[i] = static_cast<std::byte>(i / 4096 + 1);
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 240));
  for (std::uint64_t op = 0; op < 240; ++op) {
    ASSERT_TRUE(pair.a.post(op + 1, PeerId{2}, kLoan, static_cast<std::uint32_t>(op), 1));
  }
  for (int i = 0; i < 20; ++i) pair.a.step();  // b takes nothing: most frames wait in the stream
  for (std::uint64_t op = 2; op <= 240; op += 3) pair.a.mover->cancel(OpId{op});
  const auto all_ended = [&] {
    for (std::uint64_t op = 1; op <= 240; ++op) {
      if (pair.a.quiesced(op) == nullptr) return false;
    }
    return true;
  };
  for (int i = 0; i < 3; ++i) pair.a.step();
  ASSERT_TRUE(pair.until(all_ended));
  std::size_t cancelled = 0;
  for (std::uint64_t op = 1; op <= 240; ++op) cancelled += pair.a.completed(op)->error.ok() ? 0 : 1;
  ASSERT_GT(cancelled, 10U) << "nothing waited in the stream";
  const auto arrived = [&] {
    return static_cast<std::size_t>(std::count_if(pair.b.log.begin(), pair.b.log.end(), [](const Event& e) {
      return e.kind == Event::Kind::kArrived;
    }));
  };
  // One that was cancelled with its frame half sent still arrives whole.
  ASSERT_TRUE(pair.until([&] { return arrived() >= 240 - cancelled; }))
      << arrived() << " of " << 240 - cancelled;
  for (std::uint64_t op = 1; op <= 240; ++op) {
    if (!pair.a.completed(op)->error.ok()) continue;
    const auto* item = pair.b.pool.data() + (op - 1) * 4096;
    EXPECT_TRUE(std::all_of(item, item + 4096, [&](std::byte b) { return b == static_cast<std::byte>(op); }))
        << "operation " << op;
  }
}

TEST(TcpTransportTest, ManySmallDoNotStarveALargeOne) {
  Pair pair({}, 8 << 20);
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 2048));
  ASSERT_TRUE(pair.a.post(1, PeerId{2}, kLoan, 0, 2048));
  std::uint64_t next = 100;
  const bool ended = pair.until([&] {  // there is always a small one waiting
    while (pair.a.post(next, PeerId{2}, kLoan, 0, 1)) ++next;
    return pair.a.quiesced(1) != nullptr;
  });
  EXPECT_TRUE(ended);
}

TEST(TcpTransportTest, HigherPriorityGoesFirst) {
  Pair pair({}, 16 << 20);
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 4096));
  ASSERT_TRUE(pair.a.post(1, PeerId{2}, kLoan, 0, 4096));
  pair.a.priority = 7;
  ASSERT_TRUE(pair.a.post(2, PeerId{2}, kLoan, 0, 4096));
  ASSERT_TRUE(pair.until([&] { return pair.a.quiesced(1) && pair.a.quiesced(2); }));
  EXPECT_LT(pair.a.completed(2), pair.a.completed(1));
}

TEST(TcpTransportTest, ALargeRefusedOperationLearnsWhy) {
  Pair pair({}, 64 << 20);
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 16384));
  ASSERT_TRUE(pair.a.post(1, PeerId{2}, kLoan, 0, 16384, 43));
  ASSERT_TRUE(pair.until([&] { return pair.a.quiesced(1); }));
  const Error& error = pair.a.completed(1)->error;
  EXPECT_EQ(error.code, Code::kRefused);
  EXPECT_NE(error.why.find("wrong token"), std::string::npos) << error.line();
  EXPECT_EQ(pair.b.mover->stats().bytes_placed, 0U);
  EXPECT_EQ(pair.b.find(Event::Kind::kArrived), nullptr);
}

TEST(TcpTransportTest, ALateRejectIsCounted) {
  Pair pair;
  ASSERT_TRUE(pair.a.post(1, PeerId{2}, kLoan, 0, 1));  // nothing is lent
  ASSERT_TRUE(pair.until([&] { return pair.a.quiesced(1) && pair.a.mover->stats().rejects_received == 1; }));
  EXPECT_EQ(pair.b.mover->stats().frames_refused, 1U);
  EXPECT_EQ(pair.b.mover->stats().bytes_discarded, 4096U);
}

TEST(TcpTransportTest, NoiseClosesItsStreamAndNothingElse) {
  Pair pair;
  ASSERT_TRUE(pair.b.lend(PeerId{1}, kLoan, 16));
  pair.until([] { return true; });
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 300; ++i) {
    RawPeer stranger;
    stranger.dial(pair.b);
    std::vector<std::byte> noise(64, static_cast<std::byte>(i));
    stranger.say(noise);
    ASSERT_TRUE(pair.until([&] {
      stranger.hear();
      return stranger.closed;
    }));
  }
  EXPECT_EQ(pair.b.mover->stats().bad_frames, 300U);
  EXPECT_EQ(open_descriptors(), before);
  ASSERT_TRUE(pair.a.post(1, PeerId{2}, kLoan, 0, 16));
  ASSERT_TRUE(pair.until([&] { return pair.b.find(Event::Kind::kArrived); }));
}

TEST(TcpTransportTest, UnclaimedStreamsAreBounded) {
  TcpOptions options;
  options.limits.unclaimed_lanes = 4;
  Node node(options);
  std::vector<std::unique_ptr<RawPeer>> strangers;
  for (int i = 0; i < 12; ++i) {
    strangers.push_back(std::make_unique<RawPeer>());
    strangers.back()->dial(node);
    strangers.back()->hello();  // a well-formed HELLO of somebody whom the node does not know
  }
  const auto closed = [&] {
    node.step();
    std::size_t count = 0;
    for (auto& stranger : strangers) {
      stranger->hear();
      count += stranger->closed ? 1 : 0;
    }
    return count;
  };
  EXPECT_TRUE(kit::wait_for([&] { return closed() == 8; }));
  EXPECT_EQ(node.mover->stats().lanes_refused, 8U);
}

TEST(TcpTransportTest, FramesOutOfTurnCloseTheStream) {
  {  // WRITE before HELLO
    Hostile h;
    RawPeer other;
    other.dial(h.node);
    other.say(h.frame(1, 0, 1, h.node.item));
    EXPECT_TRUE(h.until([&] {
      other.hear();
      return other.closed;
    }));
  }
  {  // a second HELLO
    Hostile h;
    h.peer.hello();
    EXPECT_TRUE(h.until([&] { return h.peer.closed; }));
  }
  {  // WELCOME from the side that dialled
    Hostile h;
    h.peer.say(encode(WelcomeFrame{}));
    EXPECT_TRUE(h.until([&] { return h.peer.closed; }));
    EXPECT_EQ(h.node.mover->stats().bad_frames, 1U);
  }
}

TEST(TcpTransportTest, RevokedInMidFrameDropsTheRestAndKeepsTheStream) {
  Hostile h;
  const auto payload = h.payload(4);
  h.peer.say(h.frame(1, 0, 4, payload.size()));
  h.peer.say(std::span(payload).first(6000));
  ASSERT_TRUE(h.until([&] { return h.node.pool[5999] == std::byte{0xEE}; }));
  ASSERT_TRUE(h.node.mover->revoke(kLoan));
  std::fill(h.node.pool.begin(), h.node.pool.end(), std::byte{0});
  h.peer.say(std::span(payload).subspan(6000));
  ASSERT_TRUE(h.until([&] { return !h.peer.rejects.empty() && h.node.find(Event::Kind::kRevoked); }));
  EXPECT_EQ(h.peer.rejects[0].refusal, Refusal::kNoLoan);
  EXPECT_EQ(h.peer.rejects[0].sequence, 1U);
  const LoanId next{1, 11};
  ASSERT_TRUE(h.node.lend(PeerId{1}, next, 16));
  h.peer.say(h.frame(2, 8, 1, h.node.item, {next, 42}));
  h.peer.say(h.payload(1));
  ASSERT_TRUE(h.until([&] { return h.node.find(Event::Kind::kArrived); }));
  EXPECT_EQ(h.node.find(Event::Kind::kArrived)->loan, next);
  EXPECT_TRUE(std::all_of(h.node.pool.begin(), h.node.pool.begin() + 8 * 4096,
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(TcpTransportTest, EveryStrangeWriteIsRefusedWithItsReason) {
  Hostile h;
  struct Case {
    std::vector<std::byte> frame;
    Refusal refusal;
  };
  const std::vector<Case> cases = {
      {h.frame(1, 0, 1, 4096, {kLoan, 41}), Refusal::kWrongToken},
      {h.frame(2, 0, 1, 4096, {{1, 9}, 42}), Refusal::kStaleLoan},
      {h.frame(3, 0, 1, 4096, {{2, 10}, 42}), Refusal::kNoLoan},
      {h.frame(4, 0, 1, 4096, {{~0U, 10}, 42}), Refusal::kNoLoan},
      {h.frame(5, 15, 2, 8192), Refusal::kOutside},
      {h.frame(6, 4'000'000'000U, 1, 4096), Refusal::kOutside},
  };
  for (const Case& each : cases) {
    h.peer.rejects.clear();
    h.peer.say(each.frame);
    h.peer.say(h.payload(each.refusal == Refusal::kOutside && &each == &cases[4] ? 2 : 1));
    ASSERT_TRUE(h.until([&] { return !h.peer.rejects.empty(); }));
    EXPECT_EQ(h.peer.rejects[0].refusal, each.refusal);
  }
  EXPECT_TRUE(h.untouched());
  EXPECT_EQ(h.node.find(Event::Kind::kArrived), nullptr);
  EXPECT_EQ(h.node.mover->stats().frames_refused, cases.size());
}

TEST(TcpTransportTest, AnOperationThatContradictsItselfNeverArrives) {
  Hostile h;
  h.peer.say(h.frame(1, 0, 1, 8192));  // half of it
  h.peer.say(h.payload(1));
  h.peer.say(h.frame(1, 1, 2, 8192));  // more than the other half
  h.peer.say(h.payload(2));
  ASSERT_TRUE(h.until([&] { return !h.peer.rejects.empty(); }));
  EXPECT_EQ(h.peer.rejects[0].refusal, Refusal::kBroken);
  EXPECT_EQ(h.node.find(Event::Kind::kArrived), nullptr);
}

TEST(TcpTransportTest, BegunOperationsAreBounded) {
  Hostile h;
  for (std::uint64_t op = 1; op <= 1025; ++op) {  // each says that more will come
    h.peer.say(h.frame(op, 0, 1, 8192));
    h.peer.say(h.payload(1));
    if (op % 16 == 0) h.node.step();
  }
  ASSERT_TRUE(h.until([&] { return !h.peer.rejects.empty(); }));
  EXPECT_EQ(h.peer.rejects[0].refusal, Refusal::kBusy);
  EXPECT_EQ(h.peer.rejects[0].sequence, 1025U);
}

TEST(TcpTransportTest, AfterFenceTheStreamIsGoneAndReturnsOnlyUnderANewId) {
  Hostile h;
  const auto payload = h.payload(2);
  h.peer.say(h.frame(1, 0, 2, payload.size()));
  h.peer.say(std::span(payload).first(100));
  ASSERT_TRUE(h.until([&] { return h.node.pool[99] == std::byte{0xEE}; }));
  ASSERT_TRUE(h.node.mover->fence(PeerId{1}));
  std::fill(h.node.pool.begin(), h.node.pool.end(), std::byte{0});
  ASSERT_TRUE(h.until([&] { return h.peer.closed && h.node.find(Event::Kind::kPeerFenced); }));
  EXPECT_TRUE(h.untouched());
  RawPeer again;  // the same cookie dials again: it waits until somebody adds it
  again.dial(h.node);
  again.hello();
  for (int i = 0; i < 50; ++i) {
    h.node.step();
    again.hear();
  }
  EXPECT_TRUE(again.welcomes.empty());
  ASSERT_TRUE(h.node.mover->add_peer(PeerId{9}, encode(again.description())));
  ASSERT_TRUE(h.until([&] {
    again.hear();
    return !again.welcomes.empty();
  }));
  again.say(h.frame(2, 0, 1, 4096));  // the loan was lent to the old id
  again.say(h.payload(1));
  ASSERT_TRUE(h.until([&] {
    again.hear();
    return !again.rejects.empty();
  }));
  EXPECT_EQ(again.rejects[0].refusal, Refusal::kWrongPeer);
  EXPECT_TRUE(h.untouched());
}

TEST(TcpTransportTest, APeerThatRestartedAtTheSamePortIsAnotherLife) {
  Node a;
  auto b = std::make_unique<Node>();
  const auto old = b->mover->describe();
  TcpOptions options;
  options.port = decode_description(old, "x")->addresses.front().port;
  b.reset();
  Node again(options);
  ASSERT_TRUE(a.mover->add_peer(PeerId{2}, old));
  ASSERT_TRUE(kit::wait_for([&] {
    a.step();
    again.step();
    return a.find(Event::Kind::kPeerReady);
  }));
  EXPECT_NE(a.find(Event::Kind::kPeerReady)->error.why.find("another life"), std::string::npos)
      << a.find(Event::Kind::kPeerReady)->error.line();
  EXPECT_FALSE(a.post(1, PeerId{2}, kLoan, 0, 1));
}

TEST(TcpTransportTest, NobodyThereIsSaidWithTheAddress) {
  Node a;
  std::vector<std::byte> gone;
  std::string address;
  {
    Node b;
    gone = b.mover->describe();
    address = b.mover->endpoints().front();
  }
  ASSERT_TRUE(a.mover->add_peer(PeerId{2}, gone));
  ASSERT_TRUE(kit::wait_for(
      [&] {
        a.step();
        return a.find(Event::Kind::kPeerReady);
      },
      1000));
  const Error& error = a.find(Event::Kind::kPeerReady)->error;
  EXPECT_EQ(error.status, ECONNREFUSED);
  EXPECT_NE(error.line().find(address), std::string::npos) << error.line();
}

TEST(TcpTransportTest, TheSecondAddressIsTriedWhenTheFirstIsDead) {
  std::uint16_t dead = 0;
  {
    Node gone;
    dead = decode_description(gone.mover->describe(), "x")->addresses.front().port;
  }
  TcpOptions options;
  options.bind = "127.0.0.1";
  options.advertise = {"127.0.0.1:" + std::to_string(dead), "127.0.0.1"};
  Node a, b(options);
  ASSERT_TRUE(a.mover->add_peer(PeerId{2}, b.mover->describe()));
  ASSERT_TRUE(b.mover->add_peer(PeerId{1}, a.mover->describe()));
  ASSERT_TRUE(kit::wait_for([&] {
    a.step();
    b.step();
    return a.find(Event::Kind::kPeerReady);
  }));
  EXPECT_TRUE(a.find(Event::Kind::kPeerReady)->error.ok()) << a.find(Event::Kind::kPeerReady)->error.line();
}

std::uint16_t free_port() {
  Node probe;
  return decode_description(probe.mover->describe(), "x")->addresses.front().port;
}

// a dials b through a relay; b dials a straight.
struct Relayed {
  explicit Relayed(TcpOptions options = {})
      : port(free_port()), relay(target()), a(options, 32 << 20), b(behind_relay(options), 32 << 20) {
    EXPECT_TRUE(a.mover->add_peer(PeerId{2}, b.mover->describe()));
    EXPECT_TRUE(b.mover->add_peer(PeerId{1}, a.mover->describe()));
    EXPECT_TRUE(until([&] { return a.find(Event::Kind::kPeerReady) && a.mover->stats().lanes_opened == 2; }));
    kit::fill(a, std::byte{0xAA});
    EXPECT_TRUE(b.lend(PeerId{1}, kLoan, 8192));
  }
  Address target() const {
    Address address;
    address.ip = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
    address.port = port;
    return address;
  }
  TcpOptions behind_relay(TcpOptions options) const {
    options.bind = "127.0.0.1";
    options.port = port;
    options.advertise = {"127.0.0.1:" + std::to_string(relay.port())};
    return options;
  }
  bool until(const std::function<bool()>& done, int ms = 10'000) {
    return kit::wait_for(
        [&] {
          a.step();
          relay.step();
          b.step();
          return done();
        },
        ms);
  }
  // Several operations, so that some use the first stream alone and some the second.
  void post_many(std::uint64_t from, std::uint64_t count) {
    for (std::uint64_t op = from; op < from + count; ++op) {
      ASSERT_TRUE(a.post(op, PeerId{2}, kLoan, static_cast<std::uint32_t>(op % 32) * 128, 64));
    }
  }
  bool all_ended(std::uint64_t from, std::uint64_t count) const {
    for (std::uint64_t op = from; op < from + count; ++op) {
      if (a.quiesced(op) == nullptr) return false;
    }
    return true;
  }
  std::uint16_t port;
  Relay relay;
  Node a, b;
};

TEST(TcpTransportTest, AResetStreamEndsItsOwnOperationsAndIsDialledAgain) {
  Relayed r;
  r.relay.stall(0);  // what is sent on the first stream stays there
  r.post_many(1, 200);
  r.until([&] { return r.all_ended(1, 200); }, 300);
  std::size_t ended = 0;
  for (std::uint64_t op = 1; op <= 200; ++op) ended += r.a.quiesced(op) != nullptr ? 1 : 0;
  EXPECT_GT(ended, 0U) << "nothing went over the healthy stream";
  r.relay.reset(0);
  ASSERT_TRUE(r.until([&] { return r.all_ended(1, 200); }));
  for (std::uint64_t op = 1; op <= 200; ++op) {
    const Error& error = r.a.completed(op)->error;
    EXPECT_TRUE(error.ok() || error.why.find("stream 0 was lost") != std::string::npos) << error.line();
  }
  EXPECT_EQ(r.a.find(Event::Kind::kPeerLost), nullptr) << "the other stream was up all the time";
  ASSERT_TRUE(r.until([&] { return r.a.mover->stats().lanes_opened == 3; }))
      << "the stream was not dialled again";
  r.post_many(1001, 50);
  ASSERT_TRUE(r.until([&] { return r.all_ended(1001, 50); }));
  for (std::uint64_t op = 1001; op <= 1050; ++op) EXPECT_TRUE(r.a.completed(op)->error.ok());
}

TEST(TcpTransportTest, ALostPathIsTheEndOfItsOperationsAndComesBack) {
  Relayed r;
  r.relay.stall(0);
  r.relay.stall(1);
  ASSERT_TRUE(r.a.post(1, PeerId{2}, kLoan, 0, 8192));
  r.until([] { return false; }, 30);
  r.relay.refuse = true;
  r.relay.reset(0);
  r.relay.reset(1);
  ASSERT_TRUE(r.until([&] { return r.a.quiesced(1) && r.a.find(Event::Kind::kPeerLost); }));
  EXPECT_FALSE(r.a.completed(1)->error.ok());
  ASSERT_TRUE(r.until([&] {
    const auto refused = r.a.post(2, PeerId{2}, kLoan, 0, 1);
    return !refused && refused.error().code == Code::kTransport;
  })) << "posts are refused once dialling again has failed";
  r.relay.refuse = false;
  ASSERT_TRUE(r.until([&] { return r.a.post(3, PeerId{2}, kLoan, 0, 1).has_value(); }))
      << "the path did not come back";
  ASSERT_TRUE(r.until([&] { return r.a.quiesced(3) && r.b.find(Event::Kind::kArrived); }));
  EXPECT_EQ(r.b.find(Event::Kind::kArrived)->bytes, 4096U) << "nothing of the lost operation was sent again";
}

TEST(TcpTransportTest, AStalledPeerIsGivenUpAfterTheUserTimeout) {
  TcpOptions options;
  options.user_timeout = std::chrono::milliseconds(300);
  options.send_buffer = options.receive_buffer = 64 << 10;
  Relayed r(options);
  r.relay.stall(0);
  r.relay.stall(1);
  ASSERT_TRUE(r.a.post(1, PeerId{2}, kLoan, 0, 8192));
  ASSERT_TRUE(r.until([&] { return r.a.quiesced(1); }, 20'000));
  EXPECT_EQ(r.a.completed(1)->error.status, ETIMEDOUT) << r.a.completed(1)->error.line();
}

TEST(TcpTransportTest, NotWelcomedInTimeIsSaid) {
  TcpOptions options;
  options.handshake = std::chrono::milliseconds(200);
  Node a(options), b;
  ASSERT_TRUE(a.mover->add_peer(PeerId{2}, b.mover->describe()));  // b never adds a
  ASSERT_TRUE(kit::wait_for([&] {
    a.step();
    b.step();
    return a.find(Event::Kind::kPeerReady);
  }));
  EXPECT_NE(a.find(Event::Kind::kPeerReady)->error.why.find("tcp.handshake"), std::string::npos);
}

TEST(TcpTransportTest, PostsWaitUntilThePeerIsReady) {
  Node a, b;
  ASSERT_TRUE(a.mover->add_peer(PeerId{2}, b.mover->describe()));
  const auto early = a.post(1, PeerId{2}, kLoan, 0, 1);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kWouldBlock);
}

TEST(TcpTransportTest, OneLifeHasOneLiveId) {
  Pair pair;
  const auto twice = pair.a.mover->add_peer(PeerId{3}, pair.b.mover->describe());
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Code::kRefused);
  EXPECT_NE(twice.error().why.find("peer 2"), std::string::npos);
}

}  // namespace
}  // namespace kvferry::transport::tcp
