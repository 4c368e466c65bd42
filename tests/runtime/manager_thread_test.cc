// Managers with their own thread, over real sockets on loopback: wake-ups, stop, fork, and what is left
// behind.
#include <dirent.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "kvferry/parts.h"
#include "runtime/testkit_support.h"

namespace kvferry {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kPages = 64, kPageBytes = 1024;

struct Side {
  std::vector<std::byte> pool = std::vector<std::byte>(kPages * kPageBytes);
  std::unique_ptr<Manager> manager;
};

ManagerOptions options_for(Side& side, const std::string& name) {
  ManagerOptions options;
  options.name = name;
  options.layout.page_tokens = 16;
  options.layout.components.push_back({ComponentKind::kAttention,
                                       Space::kPages,
                                       "kv",
                                       "u8",
                                       kPageBytes,
                                       kPages,
                                       {{0, RegionId{0}, 0, kPageBytes}}});
  options.regions = {RegionView{side.pool.data(), side.pool.size(), Memory::kHost}};
  return options;
}

void start(Side& side, const std::string& name, const std::string& bind = "127.0.0.1:0") {
  PartsOptions wanted;
  wanted.bind = bind;
  wanted.movers = {"tcp"};
  auto parts = make_parts(wanted);
  ASSERT_TRUE(parts.has_value()) << parts.error().line();
  auto manager = Manager::start(options_for(side, name), std::move(*parts));
  ASSERT_TRUE(manager.has_value()) << manager.error().line();
  side.manager = std::move(*manager);
}

// Bounded: the condition holds soon or the test says which one did not.
template <class F>
bool soon(F condition, std::chrono::milliseconds most = 10'000ms) {
  const auto end = Steady::now() + most;
  while (!condition()) {
    if (Steady::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

bool ended(const Manager& manager, Handle handle) {
  const Poll poll = manager.poll(handle);
  return poll == Poll::kSuccess || poll == Poll::kFailed;
}

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  DIR* open = ::opendir(folder);
  if (open == nullptr) return 0;
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}

Poll move_one_page(Side& prefill, Side& decode, std::uint64_t room) {
  OpenSpec send;
  send.room = RoomId{room};
  OpenSpec receive = send;
  receive.role = Role::kReceiver;
  receive.senders = {prefill.manager->endpoint()};
  const Handle from = *prefill.manager->open(send);
  const Handle to = *decode.manager->open(receive);
  std::memset(prefill.pool.data() + 3 * kPageBytes, static_cast<int>(room & 0xff), kPageBytes);
  EXPECT_TRUE(decode.manager->grant(to, testkit::lend_pages({{5, 1}}, 16)).has_value());
  EXPECT_TRUE(prefill.manager->push(from, testkit::chunk_of({{3, 1}}, 16, true)).has_value());
  EXPECT_TRUE(soon([&] { return ended(*prefill.manager, from) && ended(*decode.manager, to); }));
  const Poll poll = decode.manager->poll(to);
  if (poll != Poll::kSuccess) ADD_FAILURE() << decode.manager->error(to).line();
  EXPECT_EQ(decode.pool[5 * kPageBytes + 17], static_cast<std::byte>(room & 0xff));
  testkit::must(prefill.manager->close(from));
  testkit::must(decode.manager->close(to));
  return poll;
}

TEST(ManagerThread, ARoomCrossesOverTcpAndTheEventDescriptorSaysSo) {
  Side prefill, decode;
  start(prefill, "prefill-0");
  start(decode, "decode-0");
  EXPECT_EQ(move_one_page(prefill, decode, 7001), Poll::kSuccess);
  pollfd waiting{decode.manager->event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
  std::vector<ManagerEvent> events;
  EXPECT_GE(decode.manager->take_events(events), 1U);
  EXPECT_EQ(events.back().kind, ManagerEvent::Kind::kTerminal);
  EXPECT_EQ(decode.manager->counters().bytes_received, kPageBytes);
}

TEST(ManagerThread, ManyCallersAtOnce) {
  Side prefill, decode;
  start(prefill, "prefill-0");
  start(decode, "decode-0");
  constexpr std::uint64_t kThreads = 4, kRooms = 50;
  std::atomic<std::uint64_t> succeeded{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kRooms; ++i) {
        OpenSpec send;
        send.room = RoomId{t * 1000 + i};
        OpenSpec receive = send;
        receive.role = Role::kReceiver;
        receive.senders = {prefill.manager->endpoint()};
        const Handle from = *prefill.manager->open(send);
        const Handle to = *decode.manager->open(receive);
        const auto page = static_cast<std::uint32_t>(t);
        testkit::must(decode.manager->grant(to, testkit::lend_pages({{page, 1}}, 16)));
        testkit::must(prefill.manager->push(from, testkit::chunk_of({{page, 1}}, 16, true)));
        if (!soon([&] { return ended(*decode.manager, to) && ended(*prefill.manager, from); })) return;
        succeeded += decode.manager->poll(to) == Poll::kSuccess ? 1 : 0;
        testkit::must(prefill.manager->close(from));
        testkit::must(decode.manager->close(to));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(succeeded.load(), kThreads * kRooms);
}

TEST(ManagerThread, StopLeavesNoThreadDescriptorOrPort) {
  Side warm;
  start(warm, "warm");  // first use of the libraries may keep a descriptor
  testkit::must(warm.manager->stop(1s));
  warm.manager.reset();
  const std::size_t fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  std::string endpoint;
  {
    Side side;
    start(side, "prefill-0");
    endpoint = side.manager->endpoint();
    EXPECT_GT(entries("/proc/self/fd"), fds);
    EXPECT_GT(entries("/proc/self/task"), threads);
    testkit::must(side.manager->stop(1s));
    EXPECT_EQ(entries("/proc/self/task"), threads);
  }
  EXPECT_EQ(entries("/proc/self/fd"), fds);
  Side again;
  start(again, "prefill-0", endpoint);  // the port is free
  EXPECT_EQ(again.manager->endpoint(), endpoint);
}

TEST(ManagerThread, TwentyRestartsAtTheSameAddressLeaveDescriptorsFlat) {
  Side decode;
  start(decode, "decode-0");
  std::string endpoint = "127.0.0.1:0";
  std::size_t fds = 0;
  for (std::uint64_t round = 0; round < 21; ++round) {
    {
      Side prefill;
      start(prefill, "prefill-0", endpoint);
      endpoint = prefill.manager->endpoint();
      ASSERT_EQ(move_one_page(prefill, decode, 100 + round), Poll::kSuccess) << round;
    }
    ASSERT_TRUE(soon([&] { return decode.manager->counters().peers == 0; })) << round;
    if (round == 0) {
      fds = entries("/proc/self/fd");
    } else {
      EXPECT_TRUE(soon([&] { return entries("/proc/self/fd") <= fds; }, 2000ms))
          << round << ": " << entries("/proc/self/fd") << " descriptors, were " << fds;
    }
  }
}

TEST(ManagerThread, StopAbortsWhatLivesAndTellsThePeer) {
  Side prefill, decode;
  start(prefill, "prefill-0");
  start(decode, "decode-0");
  OpenSpec send;
  send.room = RoomId{1};
  OpenSpec receive = send;
  receive.role = Role::kReceiver;
  receive.senders = {prefill.manager->endpoint()};
  const Handle from = *prefill.manager->open(send);
  const Handle to = *decode.manager->open(receive);
  testkit::must(decode.manager->grant(to, testkit::lend_pages({{0, 1}}, 16)));
  ASSERT_TRUE(soon([&] { return prefill.manager->poll(from) == Poll::kWaitingForInput; }));
  const auto before = Steady::now();
  testkit::must(prefill.manager->stop(5s));
  EXPECT_LT(Steady::now() - before, 2s) << "nothing is outstanding: stop does not wait for its deadline";
  EXPECT_EQ(prefill.manager->poll(from), Poll::kFailed);
  EXPECT_TRUE(soon([&] { return decode.manager->poll(to) == Poll::kFailed; }, 3000ms));
  EXPECT_FALSE(prefill.manager->abort(from, "late").has_value());
}

TEST(ManagerThread, AForkedChildIsRefusedByNameAndTheParentGoesOn) {
  Side prefill, decode;
  start(prefill, "prefill-0");
  start(decode, "decode-0");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    OpenSpec spec;
    spec.room = RoomId{1};
    const auto opened = prefill.manager->open(spec);
    bool good = !opened && opened.error().code == Code::kRefused &&
                opened.error().line().find("forked child") != std::string::npos &&
                opened.error().line().find(std::to_string(::getppid())) != std::string::npos;
    good = good && !prefill.manager->rekey() && !prefill.manager->stop(1s);
    prefill.manager.reset();  // must not hang: its thread lives in the parent only
    decode.manager.reset();
    std::_Exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(move_one_page(prefill, decode, 2), Poll::kSuccess);
}

TEST(ManagerThread, APeerKilledWithSigkillIsNamedWithinAHundredMilliseconds) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Side prefill;
    start(prefill, "prefill-0");
    OpenSpec send;
    send.room = RoomId{1};
    if (!prefill.manager->open(send)) std::_Exit(1);
    const std::string endpoint = prefill.manager->endpoint() + "\n";
    if (::write(ends[1], endpoint.data(), endpoint.size()) < 0) std::_Exit(1);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  std::string endpoint;
  for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) endpoint += c;
  ::close(ends[0]);
  Side decode;
  start(decode, "decode-0");
  OpenSpec receive;
  receive.room = RoomId{1};
  receive.role = Role::kReceiver;
  receive.senders = {endpoint};
  const Handle to = *decode.manager->open(receive);
  testkit::must(decode.manager->grant(to, testkit::lend_pages({{0, 1}}, 16)));
  EXPECT_TRUE(soon([&] { return decode.manager->poll(to) == Poll::kWaitingForInput; }));
  ::kill(child, SIGKILL);
  const auto killed = Steady::now();
  EXPECT_TRUE(soon([&] { return decode.manager->info(to).failing; }));
  const auto named = Steady::now() - killed;
  EXPECT_LT(named, 100ms);
  const std::string line = decode.manager->error(to).line();
  EXPECT_THAT(line, HasSubstr("prefill-0"));

  EXPECT_TRUE(soon([&] { return decode.manager->poll(to) == Poll::kFailed; }, 1000ms))
      << "the fence is at once";
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST(ManagerThread, AnAddressInUseEndsTheStartWithinASecondAndIsNamed) {
  Side first;
  start(first, "prefill-0");
  PartsOptions wanted;
  wanted.bind = first.manager->endpoint();
  const auto before = Steady::now();
  const auto parts = make_parts(wanted);
  ASSERT_FALSE(parts.has_value());
  EXPECT_LT(Steady::now() - before, 1s);
  EXPECT_EQ(parts.error().code, Code::kEnvironment);
  EXPECT_THAT(parts.error().line(), HasSubstr(first.manager->endpoint()));
}

TEST(ManagerThread, AnUnknownMoverIsRefusedAndTheKnownOnesAreListed) {
  PartsOptions wanted;
  wanted.movers = {"rdma9"};
  const auto parts = make_parts(wanted);
  ASSERT_FALSE(parts.has_value());
  EXPECT_EQ(parts.error().code, Code::kUsage);
  EXPECT_THAT(parts.error().line(), HasSubstr("tcp"));
}

TEST(ManagerThread, AnIdleManagerSleeps) {
  Side prefill;
  start(prefill, "prefill-0");
  std::this_thread::sleep_for(50ms);
  timespec before{}, after{};
  ASSERT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
  std::this_thread::sleep_for(1s);  // the subject is the passing of time itself
  ASSERT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
  const auto used = std::chrono::seconds(after.tv_sec - before.tv_sec) +
                    std::chrono::nanoseconds(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used, 50ms);
}

}  // namespace
}  // namespace kvferry
