// A mover that cannot prove a peer silent: after drain and fence deadline the pages are quarantined, counted
// and named, the room is never shown as Failed, and a late proof brings them back.
#include <gmock/gmock.h>

#include <utility>

#include "runtime/testkit_support.h"
#include "transport/loopback/loopback.h"

namespace kvferry::testkit {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// One-sided writes and a fence() whose answer never comes.
class Unfenceable final : public Transport {
 public:
  explicit Unfenceable(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  Result<> add_region(RegionId id, const RegionView& view) override { return inner_->add_region(id, view); }
  Result<> drop_region(RegionId id) override { return inner_->drop_region(id); }
  std::vector<std::byte> describe() const override { return inner_->describe(); }
  Result<> add_peer(PeerId id, std::span<const std::byte> text) override {
    return inner_->add_peer(id, text);
  }
  void drop_peer(PeerId id) override { inner_->drop_peer(id); }
  Result<> fence(PeerId) override { return {}; }
  Result<> lend(const Loan& loan) override { return inner_->lend(loan); }
  Result<> revoke(LoanId id) override { return inner_->revoke(id); }
  Result<> post(const Operation& operation) override { return inner_->post(operation); }
  void cancel(OpId id) noexcept override { inner_->cancel(id); }
  std::size_t progress(std::span<Event> out) override { return inner_->progress(out); }
  bool busy() const noexcept override { return inner_->busy(); }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }

 private:
  std::unique_ptr<Transport> inner_;
};

class Fence : public ::testing::Test {
 protected:
  struct Side {
    std::vector<std::byte> pool = std::vector<std::byte>(64 * 256);
    std::unique_ptr<Manager> manager;
    FaultMover* mover = nullptr;
  };

  Fence() {
    start(prefill_, "prefill-0", false);
    start(decode_, "decode-0", true);
  }

  void start(Side& side, const std::string& name, bool unfenceable) {
    ManagerOptions options;
    options.name = name;
    options.manual = true;
    options.host_id = "test";
    options.layout.page_tokens = 16;
    options.layout.components.push_back(
        {ComponentKind::kAttention, Space::kPages, "kv", "u8", 256, 64, {{0, RegionId{0}, 0, 256}}});
    options.regions = {RegionView{side.pool.data(), side.pool.size(), Memory::kHost}};
    auto inner = transport::make_loopback(fabric_, transport::LoopbackKind::kLanded);
    if (unfenceable) inner = std::make_unique<Unfenceable>(std::move(inner));
    auto faults = std::make_unique<FaultMover>(std::move(inner));
    side.mover = faults.get();
    Parts parts;
    parts.clock = clock_;
    parts.channel = net_.channel(name, clock_);
    parts.transports.push_back(std::move(faults));
    side.manager = std::move(*Manager::start(std::move(options), std::move(parts)));
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

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  FaultNet net_;
  std::shared_ptr<transport::LoopbackFabric> fabric_ = std::make_shared<transport::LoopbackFabric>();
  Side prefill_, decode_;
};

TEST_F(Fence, WithoutAnAnswerThePagesAreQuarantinedAndNamed) {
  OpenSpec send;
  send.room = RoomId{7001};
  OpenSpec receive = send;
  receive.role = Role::kReceiver;
  receive.senders = {prefill_.manager->endpoint()};
  const Handle from = *prefill_.manager->open(send);
  const Handle to = *decode_.manager->open(receive);
  must(decode_.manager->grant(to, lend_pages({{8, 2}}, 32)));
  prefill_.mover->hold();
  must(prefill_.manager->push(from, chunk_of({{0, 2}}, 32, true)));
  settle();
  must(decode_.manager->abort(to, "client went away"));
  advance(4900ms);
  EXPECT_EQ(decode_.manager->counters().pages_quarantined, 0U) << "the drain deadline is 5 s";
  advance(6s);  // drain 5 s, then fence 5 s
  EXPECT_EQ(decode_.manager->counters().pages_quarantined, 2U);
  EXPECT_NE(decode_.manager->poll(to), Poll::kFailed) << "Failed implies quiet, and nobody can prove that";
  EXPECT_FALSE(decode_.manager->quiet(to));
  EXPECT_EQ(decode_.manager->error(to).code, Code::kAborted) << "the reason is known all the same";
  const auto held = decode_.manager->quarantined();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].room, RoomId{7001});
  EXPECT_THAT(held[0].peer, HasSubstr("prefill-0"));
  EXPECT_EQ(held[0].pages, (PageRuns{{8, 2}}));
  EXPECT_THAT(decode_.manager->status_json(), HasSubstr("\"quarantined\":[{"));
}

}  // namespace
}  // namespace kvferry::testkit
