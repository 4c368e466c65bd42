// For tests of the tcp mover: a transport with memory and a log, a peer made of raw sockets, and a relay
// between two transports whose connections can be stalled and reset. Everything on the loopback addresses.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/description.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace kvferry::transport::tcp::kit {

inline bool wait_for(const std::function<bool()>& step_until, int ms = 10'000) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!step_until()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// One region of `bytes`; item i of the loans and operations below is `item` bytes at i * item.
struct Node {
  explicit Node(TcpOptions options = {}, std::size_t bytes = 1 << 20) : pool(bytes) {
    if (options.bind.empty()) options.bind = "127.0.0.1";
    auto opened = open_tcp(options);
    if (!opened) ADD_FAILURE() << opened.error().line();
    mover = std::move(*opened);
    EXPECT_TRUE(mover->add_region(RegionId{0}, {pool.data(), pool.size(), Memory::kHost}));
  }

  void step() {
    std::array<Event, 16> out;
    if (!mover) return;
    const std::size_t count = mover->progress(out);
    for (std::size_t i = 0; i < count; ++i) log.push_back(std::move(out[i]));
  }
  const Event* find(Event::Kind kind, const std::function<bool(const Event&)>& match = {}) const {
    for (const Event& event : log) {
      if (event.kind == kind && (!match || match(event))) return &event;
    }
    return nullptr;
  }
  const Event* completed(std::uint64_t op) const {
    return find(Event::Kind::kCompleted, [&](const Event& e) { return e.op.value == op; });
  }
  const Event* quiesced(std::uint64_t op) const {
    return find(Event::Kind::kQuiesced, [&](const Event& e) { return e.op.value == op; });
  }
  Result<> lend(PeerId peer, LoanId id, std::uint32_t items, std::uint64_t token = 42) {
    const Plane plane{RegionId{0}, 0, item};
    const PageRun run{0, items};
    const LoanGroup group{std::span(&plane, 1), std::span(&item, 1), std::span(&run, 1)};
    return mover->lend({id, token, peer, Access::kWrite, std::span(&group, 1)});
  }
  Result<> post(std::uint64_t op, PeerId peer, LoanId id, std::uint32_t first, std::uint32_t items,
                std::uint64_t token = 42) {
    const Plane plane{RegionId{0}, 0, item};
    const PlanePair pair{plane, plane, item, 1, 0, 0};
    const RunPair run{first, first, items};
    const PieceGroup group{std::span(&pair, 1), std::span(&run, 1)};
    Operation operation;
    operation.op = OpId{op};
    operation.peer = peer;
    operation.ticket = {id, token};
    if (items != 0) operation.groups = std::span(&group, 1);
    operation.priority = priority;
    return mover->post(operation);
  }

  std::vector<std::byte> pool;
  std::uint32_t item = 4096;
  std::uint8_t priority = 0;
  std::unique_ptr<TcpTransport> mover;
  std::vector<Event> log;
};

inline void fill(Node& node, std::byte value) { std::fill(node.pool.begin(), node.pool.end(), value); }

// Two nodes that know each other: `a` posts, `b` lends. PeerId 2 is b at a, PeerId 1 is a at b.
struct Pair {
  explicit Pair(TcpOptions options = {}, std::size_t bytes = 1 << 20) : a(options, bytes), b(options, bytes) {
    EXPECT_TRUE(a.mover->add_peer(PeerId{2}, b.mover->describe()));
    EXPECT_TRUE(b.mover->add_peer(PeerId{1}, a.mover->describe()));
    EXPECT_TRUE(until([&] { return a.find(Event::Kind::kPeerReady) && b.find(Event::Kind::kPeerReady); }));
    EXPECT_TRUE(a.find(Event::Kind::kPeerReady)->error.ok());
    fill(a, std::byte{0xAA});
  }
  bool until(const std::function<bool()>& done, int ms = 10'000) {
    return wait_for(
        [&] {
          a.step();
          b.step();
          return done();
        },
        ms);
  }
  Node a, b;
};

// A peer of `node` made by hand: it dials the node and says what the test wants.
class RawPeer {
 public:
  RawPeer() {
    cookie_.fill(std::byte{0x77});
    Address any;
    any.ip[0] = std::byte{127};
    any.ip[3] = std::byte{1};
    door_ = std::move(*listen_on(any, false, {}));
  }
  Description description() const {
    Description d;
    d.cookie = cookie_;
    d.addresses = {*bound_address(door_)};
    return d;
  }
  void dial(const Node& node) {
    const Description target = *decode_description(node.mover->describe(), "node");
    target_ = target.cookie;
    sockaddr_storage storage{};
    const socklen_t size = target.addresses.front().fill(storage);
    stream_ = Fd(socket(target.addresses.front().v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(stream_.get(), reinterpret_cast<sockaddr*>(&storage), size), 0);
  }
  void say(std::span<const std::byte> bytes) {
    ASSERT_EQ(send(stream_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void hello() {
    HelloFrame frame;
    frame.from = cookie_;
    frame.to = target_;
    frame.lanes = 1;
    say(encode(frame));
  }
  HelloFrame hello_frame() const {
    HelloFrame frame;
    frame.from = cookie_;
    frame.to = target_;
    frame.lanes = 1;
    return frame;
  }
  // What has come back so far, parsed: welcome and reject frames.
  void hear() {
    std::array<std::byte, 4096> buffer;
    const ssize_t got = recv(stream_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    closed = closed || got == 0 || (got < 0 && errno != EAGAIN);
    std::span<const std::byte> rest(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!rest.empty() || parser_.state() == FrameParser::State::kFrame) {
      rest = rest.subspan(parser_.feed(rest));
      if (parser_.state() != FrameParser::State::kFrame) break;
      if (parser_.kind() == FrameKind::kWelcome) welcomes.push_back(parser_.welcome());
      if (parser_.kind() == FrameKind::kReject) rejects.push_back(parser_.reject());
      parser_.next();
    }
  }
  void hang_up() { stream_.reset(); }

  std::vector<WelcomeFrame> welcomes;
  std::vector<RejectFrame> rejects;
  bool closed = false;

 private:
  Cookie cookie_{}, target_{};
  Fd door_, stream_;
  FrameParser parser_;
};

// Forwards connections of a listening port to a target; each can be stalled or reset by the test.
class Relay {
 public:
  explicit Relay(Address target) : target_(target) {
    Address any;
    any.ip[0] = std::byte{127};
    any.ip[3] = std::byte{1};
    door_ = std::move(*listen_on(any, false, {}));
  }
  std::uint16_t port() const { return bound_address(door_)->port; }
  std::size_t links() const { return links_.size(); }
  void stall(std::size_t i) { links_[i].stalled = true; }
  void reset(std::size_t i) {
    abort_on_close(links_[i].in);
    abort_on_close(links_[i].out);
    links_[i].in.reset();
    links_[i].out.reset();
  }
  std::uint64_t forwarded(std::size_t i) const { return links_[i].forwarded; }
  void step() {
    Fd fd(accept4(door_.get(), nullptr, nullptr, SOCK_NONBLOCK));
    if (fd && refuse) fd.reset();
    if (fd) {
      Link link;
      link.in = std::move(fd);
      link.out = std::move(*tcp::dial(target_, {}));
      links_.push_back(std::move(link));
    }
    for (Link& link : links_) {
      if (link.stalled || !link.in) continue;
      link.forwarded += pass(link.in, link.out, link.to_out);
      pass(link.out, link.in, link.to_in);
    }
  }
  bool refuse = false;

 private:
  struct Link {
    Fd in, out;
    std::vector<std::byte> to_out, to_in;
    bool stalled = false;
    std::uint64_t forwarded = 0;
  };
  static std::uint64_t pass(const Fd& from, const Fd& to, std::vector<std::byte>& held) {
    if (held.empty()) {
      held.resize(64 << 10);
      const ssize_t got = recv(from.get(), held.data(), held.size(), MSG_DONTWAIT);
      held.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      if (got == 0) shutdown(to.get(), SHUT_WR);
    }
    if (held.empty()) return 0;
    const ssize_t sent = send(to.get(), held.data(), held.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) held.erase(held.begin(), held.begin() + sent);
    return sent > 0 ? static_cast<std::uint64_t>(sent) : 0;
  }
  Address target_;
  Fd door_;
  std::vector<Link> links_;
};

}  // namespace kvferry::transport::tcp::kit
