// The core names the next path of a live peer by the PeerId of the old one (drop_peer, add_peer), while the
// movers' contract spoke of a new id: nobody had tried it with real sockets. A control link that is cut for
// longer than the grace makes both sides fence the path; when it is back, rooms must cross on the next path.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kvferry/parts.h"
#include "runtime/testkit_support.h"
#include "unit/tcp_kit.h"

namespace kvferry {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kPages = 64, kPageBytes = 1024;

struct Side {
  std::vector<std::byte> pool = std::vector<std::byte>(kPages * kPageBytes);
  std::unique_ptr<Manager> manager;
};

void start(Side& side, const std::string& name, const std::string& mover) {
  ManagerOptions options;
  options.name = name;
  options.host_id = name;  // two hosts: no pidfd tells that the other process lives
  if (mover == "shm") options.host_id = "one host";
  options.deadlines.grace = 200ms;
  options.layout.page_tokens = 16;
  options.layout.components.push_back({ComponentKind::kAttention,
                                       Space::kPages,
                                       "kv",
                                       "u8",
                                       kPageBytes,
                                       kPages,
                                       {{0, RegionId{0}, 0, kPageBytes}}});
  options.regions = {RegionView{side.pool.data(), side.pool.size(), Memory::kHost}};
  PartsOptions wanted;
  wanted.movers = {mover};
  auto parts = make_parts(wanted);
  ASSERT_TRUE(parts.has_value()) << parts.error().line();
  auto manager = Manager::start(std::move(options), std::move(*parts));
  ASSERT_TRUE(manager.has_value()) << manager.error().line();
  side.manager = std::move(*manager);
}

class PathUnderTheSameId : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    start(prefill_, "prefill-0", GetParam());
    start(decode_, "decode-0", GetParam());
    const std::string endpoint = prefill_.manager->endpoint();
    transport::tcp::Address target;
    target.ip[0] = std::byte{127};
    target.ip[3] = std::byte{1};
    target.port = static_cast<std::uint16_t>(std::stoul(endpoint.substr(endpoint.rfind(':') + 1)));
    relay_ = std::make_unique<transport::tcp::kit::Relay>(target);
  }
  template <class F>
  bool soon(F condition, std::chrono::milliseconds most = 10'000ms) {
    const auto end = Steady::now() + most;
    while (!condition()) {
      relay_->step();
      if (Steady::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  struct Room {
    Handle from, to;
  };
  Room open(std::uint64_t room) {
    OpenSpec send;
    send.room = RoomId{room};
    OpenSpec receive = send;
    receive.role = Role::kReceiver;
    receive.senders = {"127.0.0.1:" + std::to_string(relay_->port())};
    const Room opened{*prefill_.manager->open(send), *decode_.manager->open(receive)};
    EXPECT_TRUE(decode_.manager->grant(opened.to, testkit::lend_pages({{5, 1}}, 16)).has_value());
    return opened;
  }
  void expect_success(std::uint64_t number) {
    const auto value = static_cast<std::byte>(number);
    std::fill_n(prefill_.pool.begin() + 3 * kPageBytes, kPageBytes, value);
    const Room room = open(number);
    EXPECT_TRUE(prefill_.manager->push(room.from, testkit::chunk_of({{3, 1}}, 16, true)).has_value());
    const auto ended = [](const Manager& manager, Handle h) {
      return manager.poll(h) == Poll::kSuccess || manager.poll(h) == Poll::kFailed;
    };
    EXPECT_TRUE(
        soon([&] { return ended(*prefill_.manager, room.from) && ended(*decode_.manager, room.to); }));
    EXPECT_EQ(decode_.manager->poll(room.to), Poll::kSuccess) << decode_.manager->error(room.to).line();
    EXPECT_EQ(decode_.pool[5 * kPageBytes + 9], value);
    testkit::must(prefill_.manager->close(room.from));
    testkit::must(decode_.manager->close(room.to));
  }

  Side prefill_, decode_;
  std::unique_ptr<transport::tcp::kit::Relay> relay_;
};
INSTANTIATE_TEST_SUITE_P(Movers, PathUnderTheSameId, ::testing::Values("tcp", "shm"));

TEST_P(PathUnderTheSameId, CarriesRoomsAfterACutThatOutlastedTheGrace) {
  expect_success(1);
  for (std::uint64_t round = 0; round < 5; ++round) {
    const Room lost = open(100 + round);
    ASSERT_TRUE(soon([&] { return prefill_.manager->poll(lost.from) == Poll::kWaitingForInput; }));
    relay_->refuse = true;
    for (std::size_t i = 0; i < relay_->links(); ++i) relay_->reset(i);
    ASSERT_TRUE(soon([&] {
      return decode_.manager->poll(lost.to) == Poll::kFailed &&
             prefill_.manager->poll(lost.from) == Poll::kFailed;
    })) << "round "
        << round;
    EXPECT_EQ(decode_.manager->error(lost.to).code, Code::kPeerLost);
    testkit::must(prefill_.manager->close(lost.from));
    testkit::must(decode_.manager->close(lost.to));
    relay_->refuse = false;
    expect_success(2 + round);
  }
  EXPECT_EQ(decode_.manager->counters().peers, 1U) << "one life, however many paths";
}

}  // namespace
}  // namespace kvferry
