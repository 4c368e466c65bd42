// The bootstrap server and its client over real sockets on loopback. Leases of the server run on a clock of
// the test.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/endpoint.h"
#include "base/sanitized.h"
#include "bootstrap/client.h"
#include "bootstrap/service.h"

namespace kvferry::bootstrap {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

class TestClock final : public Clock {
 public:
  TimePoint now() noexcept override { return TimePoint{} + milliseconds(ms.load()); }
  std::atomic<std::int64_t> ms{0};
};

int open_connection(const std::string& endpoint) {
  const auto where = parse_host_port(endpoint).value();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(where.port);
  ::inet_pton(AF_INET, where.host.c_str(), &to.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

// Sends raw bytes and reads one answer (to the end of its announced body, or of the connection).
std::string ask_on(int fd, const std::string& raw) {
  EXPECT_EQ(::send(fd, raw.data(), raw.size(), MSG_NOSIGNAL), static_cast<ssize_t>(raw.size()));
  std::string got;
  char part[4096];
  for (;;) {
    const ssize_t n = ::recv(fd, part, sizeof part, 0);
    if (n <= 0) return got;
    got.append(part, static_cast<std::size_t>(n));
    const auto head = got.find("\r\n\r\n");
    const auto length = got.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) continue;
    if (got.size() >= head + 4 + std::stoul(got.substr(length + 16))) return got;
  }
}

std::string request(const std::string& method, const std::string& target, const std::string& body = "") {
  return method + " " + target + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

int status_of(const std::string& answer) { return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0; }

std::string ask(const std::string& endpoint, const std::string& raw) {
  const int fd = open_connection(endpoint);
  std::string answer = ask_on(fd, raw);
  ::close(fd);
  return answer;
}

core::Registration rank(std::uint32_t r, std::uint64_t life = 1) {
  core::Registration out;
  out.group = "g";
  out.rank = r;
  out.endpoint = "10.0.0.1:" + std::to_string(9000 + r);
  out.incarnation = {life, r};
  out.shape = {2, 1, 1};
  out.lease = std::chrono::seconds(30);
  return out;
}

std::unique_ptr<BootstrapService> server(ServiceOptions options = {}) {
  if (options.listen == ServiceOptions{}.listen) options.listen = "127.0.0.1:0";
  auto made = BootstrapService::start(std::move(options));
  EXPECT_TRUE(made) << made.error().line();
  return made ? std::move(*made) : nullptr;
}

std::unique_ptr<BootstrapClient> client(const std::string& endpoint) {
  ClientOptions o;
  o.server = endpoint;
  o.retry_most = milliseconds(100);
  return BootstrapClient::start(o).value();
}

template <class Done>
bool until(Done done) {
  const auto end = Steady::now() + milliseconds(10000);
  while (!done()) {
    if (Steady::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// VmRSS in KiB.
long resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmRSS:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

TEST(Bootstrap, PortZeroIsPrintedAsTheRealPort) {
  const auto s = server();
  EXPECT_NE(parse_host_port(s->endpoint())->port, 0);
  EXPECT_EQ(status_of(ask(s->endpoint(), request("GET", "/v1/health"))), 200);
}

TEST(Bootstrap, Ipv6AndEveryAddress) {
  for (const char* listen : {"[::1]:0", "[::]:0", "0.0.0.0:0", "localhost:0"}) {
    ServiceOptions o;
    o.listen = listen;
    const auto s = server(o);
    ASSERT_TRUE(s) << listen;
    const auto port = parse_host_port(s->endpoint())->port;
    const auto c =
        client((std::string(listen) == "[::1]:0" ? "[::1]:" : "127.0.0.1:") + std::to_string(port));
    c->hold(rank(0));
    EXPECT_TRUE(c->wait_registered(milliseconds(5000))) << listen << c->status().last_error.line();
  }
}

TEST(Bootstrap, AnAddressInUseIsNamedWithinASecond) {
  const auto s = server();
  ServiceOptions o;
  o.listen = s->endpoint();
  const auto t0 = Steady::now();
  const auto second = BootstrapService::start(o);
  EXPECT_LT(Steady::now() - t0, milliseconds(1000));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kEnvironment);
  EXPECT_NE(second.error().what.find(s->endpoint()), std::string::npos);
}

TEST(Bootstrap, KeepAliveServesManyRequestsWithoutTheNagleDelay) {
  const auto s = server();
  const int fd = open_connection(s->endpoint());
  const auto t0 = Steady::now();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(status_of(ask_on(fd, request("GET", "/v1/health"))), 200);
  EXPECT_LT(Steady::now() - t0, milliseconds(1500));  // 40 ms each with Nagle's algorithm
  ::close(fd);
  EXPECT_EQ(s->counters().connections_accepted, 1U);
  EXPECT_EQ(s->counters().routes.ok, 50U);
}

TEST(Bootstrap, BadRequestsHaveTheirStatusAndTheNextConnectionWorks) {
  const auto s = server();
  const std::string big(20000, 'x');
  EXPECT_EQ(status_of(ask(s->endpoint(), "hello\r\n\r\n")), 400);
  EXPECT_EQ(status_of(ask(s->endpoint(), request("PUT", "/v1/groups/g/ranks/0", "{}"))), 400);
  EXPECT_EQ(status_of(ask(s->endpoint(), request("PUT", "/v1/groups/g/ranks/0", big))), 413);
  EXPECT_EQ(status_of(ask(s->endpoint(), "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + big + "\r\n\r\n")),
            431);
  EXPECT_EQ(status_of(ask(s->endpoint(), request("GET", "/nope"))), 404);
  EXPECT_EQ(status_of(ask(s->endpoint(), request("POST", "/v1/groups"))), 405);
  EXPECT_EQ(status_of(ask(s->endpoint(), request("GET", "/v1/health"))), 200);
  const auto c = s->counters().routes;
  EXPECT_EQ(c.requests, 7U);
  EXPECT_EQ(c.bad_request, 2U);
  EXPECT_EQ(c.too_large, 2U);
  EXPECT_EQ(c.not_found, 1U);
  EXPECT_EQ(c.bad_method, 1U);
}

TEST(Bootstrap, TenThousandMalformedBodiesLeaveItServingAndFlat) {
  const auto s = server();
  const std::string target = "/v1/groups/g/ranks/0";
  int fd = open_connection(s->endpoint());
  const auto throw_some = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      std::string body = write_registration(rank(0));
      body[static_cast<std::size_t>(i) % (body.size() / 2)] = '\x01';
      ASSERT_GE(status_of(ask_on(fd, request("PUT", target, body))), 400) << body;
    }
  };
  throw_some(0, 2000);
  const long before = resident_kib();
  throw_some(2000, 10000);
  if (!kSanitized) {
    EXPECT_LT(resident_kib() - before, 4096);
  }
  const auto c = s->counters();
  EXPECT_EQ(c.routes.bad_request, 10000U);
  EXPECT_EQ(c.routes.requests, 10000U);
  EXPECT_EQ(c.connections, 1U);
  EXPECT_EQ(status_of(ask_on(fd, request("PUT", target, write_registration(rank(0))))), 201);
  ::close(fd);
}

TEST(Bootstrap, ConnectionsAboveTheLimitAreClosedAndCounted) {
  ServiceOptions o;
  o.max_connections = 2;
  const auto s = server(o);
  const int a = open_connection(s->endpoint());
  const int b = open_connection(s->endpoint());
  ASSERT_TRUE(until([&] { return s->counters().connections == 2; }));
  EXPECT_EQ(ask(s->endpoint(), ""), "");
  EXPECT_EQ(s->counters().connections_refused, 1U);
  EXPECT_EQ(status_of(ask_on(a, request("GET", "/v1/health"))), 200);
  ::close(a);
  ::close(b);
  ASSERT_TRUE(until([&] { return s->counters().connections == 0; }));
  EXPECT_EQ(status_of(ask(s->endpoint(), request("GET", "/v1/health"))), 200);
}

TEST(Bootstrap, ARequestThatStallsIsCutAndCounted) {
  ServiceOptions o;
  o.request_timeout = milliseconds(200);
  const auto s = server(o);
  EXPECT_EQ(ask(s->endpoint(), "PUT /v1/groups/g/ranks/0 HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"), "");
  EXPECT_TRUE(
      until([&] { return s->counters().connections_timed_out == 1; }));  // counted right behind the close
}

TEST(Bootstrap, StopIsBoundedWithOpenConnections) {
  const auto s = server();
  const int fd = open_connection(s->endpoint());
  ASSERT_EQ(status_of(ask_on(fd, request("GET", "/v1/health"))), 200);
  const auto t0 = Steady::now();
  s->stop();
  s->stop();
  EXPECT_LT(Steady::now() - t0, milliseconds(500));
  ::close(fd);
}

TEST(BootstrapClient, ResolvesWhenTheLastRankHasCome) {
  const auto s = server();
  const auto a = client(s->endpoint()), b = client(s->endpoint());
  a->hold(rank(0));
  ASSERT_TRUE(a->wait_registered(milliseconds(5000)));
  const auto early = b->resolve("g", milliseconds(150));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kTimeout);
  EXPECT_NE(early.error().why.find("1 of 2 ranks are registered, missing 1"), std::string::npos)
      << early.error().line();
  b->hold(rank(1));
  const auto found = b->resolve("g", milliseconds(5000));
  ASSERT_TRUE(found) << found.error().line();
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[1].endpoint, "10.0.0.1:9001");
}

TEST(BootstrapClient, RenewsAtAThirdOfTheLease) {
  auto clock = std::make_shared<TestClock>();
  ServiceOptions o;
  o.clock = clock;
  const auto s = server(o);
  const auto c = client(s->endpoint());
  auto r = rank(0);
  r.lease = milliseconds(1000);
  c->hold(r);
  ASSERT_TRUE(until([&] { return c->status().renewals >= 2; }));
  EXPECT_EQ(c->status().registrations, 1U);
  clock->ms = 1001;  // the server's time jumps: the entry is gone, the next renewal registers again
  ASSERT_TRUE(until([&] { return c->status().registrations == 2; }));
  EXPECT_EQ(s->counters().registry.expired, 1U);
}

TEST(BootstrapClient, RegistersAgainAtOnceWhenTheServerRestarts) {
  auto s = server();
  const std::string endpoint = s->endpoint();
  const auto c = client(endpoint);
  c->hold(rank(0));
  c->hold(rank(1));
  ASSERT_TRUE(c->wait_registered(milliseconds(5000)));
  for (std::uint64_t life = 1; life <= 5; ++life) {
    s = nullptr;
    ServiceOptions o;
    o.listen = endpoint;
    s = server(o);
    ASSERT_TRUE(s);
    const auto t0 = Steady::now();
    ASSERT_TRUE(until([&] { return c->status().registrations == 2 + 2 * life; }));
    EXPECT_LT(Steady::now() - t0, milliseconds(3000));  // not at the next renewal, 10 s away
    EXPECT_TRUE(c->resolve("g", milliseconds(2000)));
  }
}

TEST(BootstrapClient, AnUnreachableServerIsAStatusNotAnEnd) {
  std::string gone;
  {
    const auto s = server();
    gone = s->endpoint();
  }
  const auto c = client(gone);
  c->hold(rank(0));
  const auto t0 = Steady::now();
  const auto found = c->resolve("g", milliseconds(300));
  EXPECT_LT(Steady::now() - t0, milliseconds(1500));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kTimeout);
  EXPECT_NE(found.error().why.find("cannot be reached"), std::string::npos) << found.error().line();
  EXPECT_NE(found.error().what.find(gone), std::string::npos);
  const auto status = c->status();
  EXPECT_FALSE(status.reachable);
  EXPECT_GT(status.failures, 0U);
  EXPECT_NE(status.last_error.what.find(gone), std::string::npos);
  ServiceOptions o;
  o.listen = gone;
  const auto s = server(o);
  EXPECT_TRUE(c->wait_registered(milliseconds(5000)));
  EXPECT_TRUE(c->status().reachable);
}

TEST(BootstrapClient, ASupersededLifeIsToldAndStopsAsking) {
  const auto s = server();
  const auto old_life = client(s->endpoint()), new_life = client(s->endpoint());
  new_life->hold(rank(0, 2));
  ASSERT_TRUE(new_life->wait_registered(milliseconds(5000)));
  old_life->hold(rank(0, 1));
  ASSERT_TRUE(until([&] { return old_life->status().superseded == 1; }));
  EXPECT_EQ(old_life->status().last_error.code, Code::kSuperseded);
  EXPECT_NE(old_life->status().last_error.why.find("newer process"), std::string::npos);
  EXPECT_EQ(s->counters().routes.conflict, 1U);
}

TEST(BootstrapClient, ReleaseAndFarewellTellTheServer) {
  const auto s = server();
  const auto c = client(s->endpoint());
  c->hold(rank(0));
  c->hold(rank(1));
  ASSERT_TRUE(c->wait_registered(milliseconds(5000)));
  c->release("g", 0);
  ASSERT_TRUE(until([&] { return s->counters().registry.removed == 1; }));
  c->stop(milliseconds(2000));
  EXPECT_EQ(s->counters().registry.removed, 2U);
}

TEST(BootstrapClient, ADrainingGroupIsNamedAsSuch) {
  const auto s = server();
  const auto c = client(s->endpoint());
  auto r = rank(0);
  c->hold(rank(1));
  c->hold(r);
  ASSERT_TRUE(c->resolve("g", milliseconds(5000)));
  r.draining = true;
  c->hold(r);
  ASSERT_TRUE(until([&] { return !c->resolve("g", milliseconds(100)); }));
  EXPECT_NE(c->resolve("g", milliseconds(100)).error().why.find("draining"), std::string::npos);
}

TEST(BootstrapClient, StopAnswersWhoStillWaits) {
  const auto s = server();
  const auto c = client(s->endpoint());
  Error got;
  c->resolve("g", milliseconds(60000), [&](auto r) { got = r.error(); });
  const auto t0 = Steady::now();
  c->stop();
  EXPECT_LT(Steady::now() - t0, milliseconds(500));
  EXPECT_EQ(got.code, Code::kAborted);
}

}  // namespace
}  // namespace kvferry::bootstrap
