// The control channel over real sockets on loopback. Waiting is poll(2) on wake_fd, so a wake-up that is
// missing fails.
#include "control/tcp_channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "base/endpoint.h"
#include "control/tcp_link.h"

namespace kvferry::control {
namespace {

using Clk = std::chrono::steady_clock;
using Kind = ChannelEvent::Kind;
using std::chrono::milliseconds;

std::vector<std::byte> bytes(std::string_view text) {
  std::vector<std::byte> out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}
std::string text(const std::vector<std::byte>& b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

struct Side {
  explicit Side(TcpChannelOptions options = {}) {
    options.counters = counters;
    auto made = make_tcp_channel(options);
    if (made)
      channel = std::move(*made);
    else
      error = made.error();
  }
  // Polls until `done` or two seconds; sleeps only in poll(2) on the wake descriptor.
  template <class Done>
  bool until(Done done, std::size_t most = 1000) {
    const auto end = Clk::now() + milliseconds(2000);
    while (!done()) {
      if (Clk::now() > end) return false;
      pollfd p{channel->wake_fd(), POLLIN, 0};
      ::poll(&p, 1, 20);
      if ((p.revents & POLLIN) != 0) channel->poll(events, most);
    }
    return true;
  }
  std::size_t count(Kind kind) const {
    std::size_t n = 0;
    for (const auto& e : events) n += e.kind == kind ? 1 : 0;
    return n;
  }
  const ChannelEvent* first(Kind kind) const {
    for (const auto& e : events)
      if (e.kind == kind) return &e;
    return nullptr;
  }
  std::shared_ptr<TcpChannelCounters> counters = std::make_shared<TcpChannelCounters>();
  std::unique_ptr<Channel> channel;
  Error error;
  std::vector<ChannelEvent> events;
};

TcpChannelOptions bound_to(std::string bind) {
  TcpChannelOptions o;
  o.bind = std::move(bind);
  return o;
}

// Waits on both sides in turn.
template <class Done>
bool both(Side& a, Side& b, Done done) {
  const auto end = Clk::now() + milliseconds(5000);
  while (!done()) {
    if (Clk::now() > end) return false;
    pollfd p[2] = {{a.channel->wake_fd(), POLLIN, 0}, {b.channel->wake_fd(), POLLIN, 0}};
    ::poll(p, 2, 20);
    if ((p[0].revents & POLLIN) != 0) a.channel->poll(a.events, 1000);
    if ((p[1].revents & POLLIN) != 0) b.channel->poll(b.events, 1000);
  }
  return true;
}

struct Pair {
  explicit Pair(TcpChannelOptions oa = {}, TcpChannelOptions ob = {}) : a(oa), b(ob) {
    ab = a.channel->dial(b.channel->endpoint()).value();
    up = both(a, b, [&] { return a.count(Kind::kUp) == 1 && b.count(Kind::kUp) == 1; });
    if (up) ba = b.first(Kind::kUp)->link;
  }
  Side a, b;
  LinkId ab, ba;
  bool up = false;
};

int raw_connect(const std::string& endpoint) {
  const auto where = parse_host_port(endpoint).value();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(where.port);
  ::inet_pton(AF_INET, where.host.c_str(), &to.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

TEST(TcpChannel, PortZeroIsAdvertisedAsTheRealPort) {
  Side s;
  ASSERT_TRUE(s.channel);
  const auto where = parse_host_port(s.channel->endpoint());
  ASSERT_TRUE(where);
  EXPECT_EQ(where->host, "127.0.0.1");
  EXPECT_NE(where->port, 0);
}

class TcpChannelFamily : public testing::TestWithParam<const char*> {};
TEST_P(TcpChannelFamily, FramesCrossBothWays) {
  Pair p({}, bound_to(GetParam()));
  ASSERT_TRUE(p.up);
  EXPECT_TRUE(p.a.channel->send(p.ab, bytes("ping")));
  EXPECT_TRUE(p.a.channel->send(p.ab, {}));
  EXPECT_TRUE(p.b.channel->send(p.ba, bytes("pong")));
  ASSERT_TRUE(both(p.a, p.b, [&] { return p.a.count(Kind::kFrame) == 1 && p.b.count(Kind::kFrame) == 2; }));
  EXPECT_EQ(text(p.b.events[1].frame), "ping");
  EXPECT_EQ(text(p.b.events[2].frame), "");
  EXPECT_EQ(text(p.a.events[1].frame), "pong");
  EXPECT_EQ(p.a.first(Kind::kUp)->remote, p.b.channel->endpoint());
}
INSTANTIATE_TEST_SUITE_P(Families, TcpChannelFamily,
                         testing::Values("127.0.0.1:0", "[::1]:0", "localhost:0"));

TEST(TcpChannel, NamesAreDialledWithoutBlocking) {
  Side a, b(bound_to("127.0.0.1:0"));
  const auto port = parse_host_port(b.channel->endpoint())->port;
  ASSERT_TRUE(a.channel->dial("localhost:" + std::to_string(port)));
  EXPECT_TRUE(both(a, b, [&] { return a.count(Kind::kUp) == 1 && b.count(Kind::kUp) == 1; }));
}

TEST(TcpChannel, AnUnknownNameIsADownWithItsName) {
  Side a;
  ASSERT_TRUE(a.channel->dial("no-such-host.invalid:1"));
  const auto end = Clk::now() + std::chrono::seconds(20);
  while (a.count(Kind::kDown) == 0 && Clk::now() < end) a.until([&] { return a.count(Kind::kDown) == 1; });
  ASSERT_EQ(a.count(Kind::kDown), 1U);
  EXPECT_NE(a.events[0].error.why.find("no-such-host.invalid"), std::string::npos)
      << a.events[0].error.line();
}

TEST(TcpChannel, ARefusedDialIsADownWithErrno) {
  std::string gone;
  {
    Side b;
    gone = b.channel->endpoint();
  }
  Side a;
  const auto link = a.channel->dial(gone);
  ASSERT_TRUE(link);
  ASSERT_TRUE(a.until([&] { return a.count(Kind::kDown) == 1; }));
  EXPECT_EQ(a.events[0].link, *link);
  EXPECT_EQ(a.events[0].error.status, ECONNREFUSED);
  EXPECT_NE(a.events[0].error.what.find(gone), std::string::npos);
  EXPECT_FALSE(a.channel->send(*link, bytes("x")));
}

// A dial to a free port of the ephemeral range meets itself sooner or later; that must never look like a
// peer.
TEST(TcpChannel, ADialThatMetItselfIsRefused) {
  TcpLink link(LinkId{1}, true, "self", 1024);
  link.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address any = numeric_address({"127.0.0.1", 0}).value();
  ASSERT_EQ(::bind(link.fd.get(), any.raw(), any.length), 0);
  const Address self = local_address(link.fd.get());
  ASSERT_EQ(::connect(link.fd.get(), self.raw(), self.length), 0);  // a simultaneous open with itself
  EXPECT_EQ(link.connect_result(1), TcpLink::Io::kBroken);
  EXPECT_EQ(link.end.status, ECONNREFUSED);
  Side listener(bound_to(self.text()));  // and its port is free at once
  EXPECT_TRUE(listener.channel) << listener.error.line();
}

TEST(TcpChannel, DialRefusesWhatCannotBeDialled) {
  Side a;
  for (const char* bad : {"nowhere", "0.0.0.0:80", "[::]:80", ":80", "127.0.0.1:0", "127.0.0.1:99999"}) {
    const auto link = a.channel->dial(bad);
    ASSERT_FALSE(link) << bad;
    EXPECT_EQ(link.error().code, Code::kUsage);
    EXPECT_NE(link.error().what.find(bad), std::string::npos);
  }
}

TEST(TcpChannel, AnAddressInUseEndsStartWithinASecondAndIsNamed) {
  Side a;
  const auto t0 = Clk::now();
  Side b(bound_to(a.channel->endpoint()));
  EXPECT_LT(Clk::now() - t0, milliseconds(1000));
  ASSERT_FALSE(b.channel);
  EXPECT_EQ(b.error.code, Code::kEnvironment);
  EXPECT_EQ(b.error.status, EADDRINUSE);
  EXPECT_NE(b.error.what.find(a.channel->endpoint()), std::string::npos);
}

TEST(TcpChannel, ARestartTakesTheSamePortAtOnce) {
  Side a;
  auto b = std::make_unique<Side>();
  const std::string endpoint = b->channel->endpoint();
  for (int life = 0; life < 20; ++life) {
    ASSERT_TRUE(a.channel->dial(endpoint));
    ASSERT_TRUE(both(a, *b, [&] { return a.count(Kind::kUp) == 1 && b->count(Kind::kUp) == 1; }));
    b = nullptr;  // its side closes first: TIME_WAIT stays on its port
    ASSERT_TRUE(a.until([&] { return a.count(Kind::kDown) == 1; }));
    TcpChannelOptions again = bound_to(endpoint);
    again.bind_patience = milliseconds(0);
    b = std::make_unique<Side>(again);
    ASSERT_TRUE(b->channel) << b->error.line();
    a.events.clear();
  }
}

TEST(TcpChannel, LoopbackIsNotAdvertisedToOtherHosts) {
  TcpChannelOptions o = bound_to("0.0.0.0:0");
  o.advertise = "127.0.0.1";
  Side refused(o);
  ASSERT_FALSE(refused.channel);
  EXPECT_EQ(refused.error.code, Code::kUsage);
  EXPECT_NE(refused.error.what.find("127.0.0.1"), std::string::npos);
  Side open(bound_to("0.0.0.0:0"));
  if (open.channel) {
    EXPECT_FALSE(is_loopback(open.channel->endpoint())) << open.channel->endpoint();
  } else {
    EXPECT_NE(open.error.why.find("--advertise"), std::string::npos);
  }
}

TEST(TcpChannel, AdvertiseTakesTheRealPortOrItsOwn) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"node-7", "node-7:@"},
                                                                  {"node-7:0", "node-7:@"},
                                                                  {"node-7:8998", "node-7:8998"},
                                                                  {"[fd00::7]", "[fd00::7]:@"},
                                                                  {"fd00::7", "[fd00::7]:@"}};
  for (const auto& [given, expected] : cases) {
    TcpChannelOptions o = bound_to("[::]:0");
    o.advertise = given;
    Side s(o);
    ASSERT_TRUE(s.channel) << given << s.error.line();
    const auto real = parse_host_port(s.channel->endpoint())->port;
    std::string want = expected;
    if (want.back() == '@') want = want.substr(0, want.size() - 1) + std::to_string(real);
    EXPECT_EQ(s.channel->endpoint(), want);
    EXPECT_NE(real, 0);
  }
}

TEST(TcpChannel, AFrameTooLongCostsOnlyItsOwnLink) {
  TcpChannelOptions small;
  small.max_frame = 1000;
  Pair p({}, small);
  ASSERT_TRUE(p.up);
  Side c;
  ASSERT_TRUE(c.channel->dial(p.b.channel->endpoint()));
  ASSERT_TRUE(both(c, p.b, [&] { return c.count(Kind::kUp) == 1 && p.b.count(Kind::kUp) == 2; }));
  ASSERT_TRUE(c.channel->send(c.events[0].link, bytes("good")));
  ASSERT_TRUE(c.channel->send(c.events[0].link, std::vector<std::byte>(1001)));
  ASSERT_TRUE(both(c, p.b, [&] { return p.b.count(Kind::kDown) == 1 && c.count(Kind::kDown) == 1; }));
  EXPECT_EQ(p.b.count(Kind::kFrame), 1U);  // the good one came through first
  EXPECT_EQ(p.b.first(Kind::kDown)->error.code, Code::kBadMessage);
  EXPECT_NE(p.b.first(Kind::kDown)->error.why.find("1001"), std::string::npos);
  EXPECT_EQ(p.b.counters->frames_too_long, 1U);
  ASSERT_TRUE(p.a.channel->send(p.ab, bytes("still here")));
  EXPECT_TRUE(both(p.a, p.b, [&] { return p.b.count(Kind::kFrame) == 2; }));
}

TEST(TcpChannel, ASlowReaderCostsOnlyItsOwnQueue) {
  TcpChannelOptions small;
  small.queue_bytes = 2U << 20;
  Pair p(small, {});
  ASSERT_TRUE(p.up);
  Side c;
  const LinkId ac = p.a.channel->dial(c.channel->endpoint()).value();
  ASSERT_TRUE(both(p.a, c, [&] { return c.count(Kind::kUp) == 1; }));
  const std::vector<std::byte> frame(64 * 1024);
  std::uint64_t accepted = 0;
  for (int i = 0; i < 2000; ++i) {  // b never polls
    accepted += p.a.channel->send(p.ab, frame) ? 1U : 0U;
    p.a.channel->poll(p.a.events, 100);
  }
  EXPECT_LT(accepted, 2000U);
  EXPECT_EQ(p.a.counters->frames_dropped, 2000U - accepted);
  ASSERT_TRUE(p.a.channel->send(ac, bytes("quick")));
  EXPECT_TRUE(both(p.a, c, [&] { return c.count(Kind::kFrame) == 1; }));
  EXPECT_TRUE(
      both(p.a, p.b, [&] { return p.b.count(Kind::kFrame) == accepted; }));  // nothing accepted is lost
}

TEST(TcpChannel, FramesBeforeTheEndAreToldBeforeTheEnd) {
  auto p = std::make_unique<Pair>();
  ASSERT_TRUE(p->up);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(p->a.channel->send(p->ab, bytes("frame " + std::to_string(i))));
  p->a.channel->close(p->ab);
  ASSERT_TRUE(p->b.until([&] { return p->b.count(Kind::kDown) == 1; }, 7));
  ASSERT_EQ(p->b.count(Kind::kFrame), 300U);
  EXPECT_EQ(p->b.events.back().kind, Kind::kDown);
  EXPECT_EQ(text(p->b.events[300].frame), "frame 299");
  EXPECT_EQ(p->a.count(Kind::kDown), 0U);  // who closes is told nothing
}

TEST(TcpChannel, ManyFramesLeaveInFewWrites) {
  Pair p;
  ASSERT_TRUE(p.up);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(p.a.channel->send(p.ab, bytes("0123456789abcdef")));
  ASSERT_TRUE(both(p.a, p.b, [&] { return p.b.count(Kind::kFrame) == 1000; }));
  EXPECT_LE(p.a.counters->writes, 10U);
}

TEST(TcpChannel, SilentStrangersMakeRoomForPeers) {
  TcpChannelOptions few;
  few.max_links = 4;
  Side b(few), a;
  std::vector<int> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(raw_connect(b.channel->endpoint()));
  ASSERT_TRUE(b.until([&] { return b.counters->links_evicted + b.counters->links_refused == 36U; }));
  ASSERT_TRUE(a.channel->dial(b.channel->endpoint()));
  ASSERT_TRUE(both(a, b, [&] { return a.count(Kind::kUp) == 1; }));
  ASSERT_TRUE(a.channel->send(a.events[0].link, bytes("hello")));
  EXPECT_TRUE(both(a, b, [&] { return b.count(Kind::kFrame) == 1; }));
  for (const int fd : strangers) ::close(fd);
}

// 10,000 hostile connections: one bad frame each; a valid link lives on and the counters equal what was
// thrown.
TEST(TcpChannel, TenThousandHostileConnectionsAreCountedAndForgotten) {
  Pair p;
  ASSERT_TRUE(p.up);
  const unsigned char bad[8] = {0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4};
  const unsigned char cut[7] = {100, 0, 0, 0, 1, 2, 3};
  std::size_t downs = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    const int fd = raw_connect(p.b.channel->endpoint());
    const bool torn = i % 2 == 1;
    ASSERT_GT(::write(fd, torn ? cut : bad, torn ? sizeof cut : sizeof bad), 0);
    if (torn) ::close(fd);
    ASSERT_TRUE(p.b.until([&] { return p.b.count(Kind::kDown) == 1; }));
    downs += p.b.count(Kind::kDown);
    p.b.events.clear();
    if (!torn) ::close(fd);
  }
  EXPECT_EQ(downs, 10000U);
  EXPECT_EQ(p.b.counters->frames_too_long, 5000U);
  EXPECT_EQ(p.b.counters->frames_cut, 5000U);
  EXPECT_EQ(p.b.counters->accepted, 10001U);
  ASSERT_TRUE(p.a.channel->send(p.ab, bytes("valid")));
  EXPECT_TRUE(both(p.a, p.b, [&] { return p.b.count(Kind::kFrame) == 1; }));
}

TEST(TcpChannel, OptionsOutOfRangeAreNamed) {
  TcpChannelOptions o;
  o.queue_bytes = 10;
  Side s(o);
  ASSERT_FALSE(s.channel);
  EXPECT_EQ(s.error.code, Code::kUsage);
  EXPECT_EQ(s.error.what, "queue_bytes 10");
}

}  // namespace
}  // namespace kvferry::control
