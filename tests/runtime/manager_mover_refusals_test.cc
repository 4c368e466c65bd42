// A mover that refuses what a manager asks of it: a loan, or new keys for its regions. Virtual time.
#include <gmock/gmock.h>

#include <utility>

#include "runtime/testkit_support.h"
#include "transport/loopback/loopback.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Refusals {  // of one mover; set by the test
  bool lend = false, fence_is_silent = false, add_region = false;
  std::vector<std::string> regions;  // "drop 0", "add 0", in order, behind the start
};

class Refusing final : public Transport {
 public:
  Refusing(std::unique_ptr<Transport> inner, Refusals& refusals)
      : inner_(std::move(inner)), refusals_(refusals) {}
  const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  Result<> add_region(RegionId id, const RegionView& view) override {
    refusals_.regions.push_back("add " + std::to_string(id.value));
    if (refusals_.add_region) return no("no key is left");
    return inner_->add_region(id, view);
  }
  Result<> drop_region(RegionId id) override {
    refusals_.regions.push_back("drop " + std::to_string(id.value));
    return inner_->drop_region(id);
  }
  std::vector<std::byte> describe() const override { return inner_->describe(); }
  Result<> add_peer(PeerId id, std::span<const std::byte> text) override {
    return inner_->add_peer(id, text);
  }
  void drop_peer(PeerId id) override { inner_->drop_peer(id); }
  Result<> fence(PeerId id) override { return refusals_.fence_is_silent ? Result<>() : inner_->fence(id); }
  Result<> lend(const Loan& loan) override {
    return refusals_.lend ? no("its table is full") : inner_->lend(loan);
  }
  Result<> revoke(LoanId id) override { return inner_->revoke(id); }
  Result<> post(const Operation& operation) override { return inner_->post(operation); }
  void cancel(OpId id) noexcept override { inner_->cancel(id); }
  std::size_t progress(std::span<Event> out) override { return inner_->progress(out); }
  bool busy() const noexcept override { return inner_->busy(); }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }

 private:
  static Result<> no(const char* why) {
    return fail(Code::kExhausted, Who::kTransport, Next::kRetry, "test mover", why);
  }
  std::unique_ptr<Transport> inner_;
  Refusals& refusals_;
};

class MoverRefusals : public ::testing::TestWithParam<transport::LoopbackKind> {
 protected:
  struct Side {
    Refusals refusals;
    std::vector<std::byte> pool = std::vector<std::byte>(64 * 256);
    std::unique_ptr<Manager> manager;
    FaultMover* mover = nullptr;
  };
  struct Room {
    Handle from, to;
  };

  MoverRefusals() {
    start(prefill_, "prefill-0");
    start(decode_, "decode-0");
  }

  void start(Side& side, const std::string& name) {
    ManagerOptions options;
    options.name = name;
    options.manual = true;
    options.host_id = "test";
    options.layout.page_tokens = 16;
    options.layout.components.push_back(
        {ComponentKind::kAttention, Space::kPages, "kv", "u8", 256, 64, {{0, RegionId{0}, 0, 256}}});
    options.regions = {RegionView{side.pool.data(), side.pool.size(), Memory::kHost}};
    auto faults = std::make_unique<FaultMover>(
        std::make_unique<Refusing>(transport::make_loopback(fabric_, GetParam()), side.refusals));
    side.mover = faults.get();
    Parts parts;
    parts.clock = clock_;
    parts.channel = net_.channel(name, clock_);
    parts.transports.push_back(std::move(faults));
    side.manager = std::move(*Manager::start(std::move(options), std::move(parts)));
    side.refusals.regions.clear();
  }

  void settle() {
    for (int idle = 0; idle < 2;) {
      const bool any =
          static_cast<int>(prefill_.manager->turn()) + static_cast<int>(decode_.manager->turn()) > 0;
      idle = any ? 0 : idle + 1;
    }
  }
  void advance(Duration by) {
    for (const TimePoint end = clock_->now() + by; clock_->now() < end;) {
      clock_->set(clock_->now() + 50ms);
      settle();
    }
  }

  Room open(std::uint64_t room) {
    OpenSpec send;
    send.room = RoomId{room};
    OpenSpec receive = send;
    receive.role = Role::kReceiver;
    receive.senders = {prefill_.manager->endpoint()};
    return {*prefill_.manager->open(send), *decode_.manager->open(receive)};
  }
  // Lends page 8 and pushes page 0 to it.
  Room moved(std::uint64_t room) {
    const Room opened = open(room);
    must(decode_.manager->grant(opened.to, lend_pages({{8, 1}}, 16)));
    must(prefill_.manager->push(opened.from, chunk_of({{0, 1}}, 16, true)));
    settle();
    return opened;
  }
  void expect_success(std::uint64_t number) {
    const Room room = moved(number);
    EXPECT_EQ(decode_.manager->poll(room.to), Poll::kSuccess) << decode_.manager->error(room.to).line();
    EXPECT_EQ(prefill_.manager->poll(room.from), Poll::kSuccess);
  }
  Room quarantined();

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  FaultNet net_;
  std::shared_ptr<transport::LoopbackFabric> fabric_ = std::make_shared<transport::LoopbackFabric>();
  Side prefill_, decode_;
};

std::string kind_name(const ::testing::TestParamInfo<transport::LoopbackKind>& info) {
  if (info.param == transport::LoopbackKind::kPush) return "push";
  return info.param == transport::LoopbackKind::kPull ? "pull" : "landed";
}
INSTANTIATE_TEST_SUITE_P(Loopback, MoverRefusals,
                         ::testing::Values(transport::LoopbackKind::kPush, transport::LoopbackKind::kPull,
                                           transport::LoopbackKind::kLanded),
                         kind_name);

// Push: decode lends its pages. Pull: prefill lends its chunk.
TEST_P(MoverRefusals, ALoanThatIsNotGivenFailsItsRoomOnlyAndBothSidesKnowWhy) {
  Side& lender = GetParam() == transport::LoopbackKind::kPull ? prefill_ : decode_;
  lender.refusals.lend = true;
  const Room room = moved(7001);
  EXPECT_EQ(decode_.manager->poll(room.to), Poll::kFailed) << "at once, not at a deadline";
  EXPECT_EQ(prefill_.manager->poll(room.from), Poll::kFailed);
  for (const Error& error : {decode_.manager->error(room.to), prefill_.manager->error(room.from)}) {
    EXPECT_EQ(error.code, Code::kTransport);
    EXPECT_THAT(error.line(), HasSubstr("its table is full"));
  }
  lender.refusals.lend = false;
  advance(100ms);
  const Counters counters = decode_.manager->counters();
  EXPECT_EQ(counters.pages_lent, counters.pages_returned);
  expect_success(7002);
}

// Two pages that nobody can prove quiet: the write is kept, the fence does not answer.
MoverRefusals::Room MoverRefusals::quarantined() {
  decode_.refusals.fence_is_silent = true;
  const Room room = open(7001);
  must(decode_.manager->grant(room.to, lend_pages({{8, 2}}, 32)));
  prefill_.mover->hold();
  must(prefill_.manager->push(room.from, chunk_of({{0, 2}}, 32, true)));
  settle();
  must(decode_.manager->abort(room.to, "client went away"));
  advance(11s);
  EXPECT_EQ(decode_.manager->counters().pages_quarantined, 2U);
  return room;
}

using OneSided = MoverRefusals;
INSTANTIATE_TEST_SUITE_P(Loopback, OneSided, ::testing::Values(transport::LoopbackKind::kLanded), kind_name);

TEST_P(OneSided, NewKeysBringQuarantinedPagesBack) {
  const Room room = quarantined();
  must(decode_.manager->rekey());
  settle();
  EXPECT_EQ(decode_.refusals.regions, (std::vector<std::string>{"drop 0", "add 0"}));
  EXPECT_EQ(decode_.manager->counters().pages_quarantined, 0U);
  EXPECT_EQ(decode_.manager->poll(room.to), Poll::kFailed);
  EXPECT_TRUE(decode_.manager->quiet(room.to));
  EXPECT_EQ(decode_.manager->error(room.to).code, Code::kAborted) << "the first cause stays";
  const Counters counters = decode_.manager->counters();
  EXPECT_EQ(counters.pages_lent, counters.pages_returned);
}

TEST_P(OneSided, KeysThatAreRefusedLeaveTheQuarantineAndMayBeAskedForAgain) {
  const Room room = quarantined();
  decode_.refusals.add_region = true;
  must(decode_.manager->rekey());
  settle();
  EXPECT_EQ(decode_.manager->counters().pages_quarantined, 2U);
  EXPECT_NE(decode_.manager->poll(room.to), Poll::kFailed);
  decode_.refusals.add_region = false;
  must(decode_.manager->rekey());
  settle();
  EXPECT_EQ(decode_.manager->counters().pages_quarantined, 0U);
  EXPECT_EQ(decode_.manager->poll(room.to), Poll::kFailed);
}

TEST_P(OneSided, WithoutQuarantineNoRegionIsTouched) {
  expect_success(7001);
  must(decode_.manager->rekey());
  settle();
  EXPECT_TRUE(decode_.refusals.regions.empty());
}

}  // namespace
}  // namespace kvferry::testkit
