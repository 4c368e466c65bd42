#include "transport/threaded/threaded_transport.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace kvferry {
namespace {

using Kind = Event::Kind;

// What the test and the mover behind the decorator share. While `shut`, every call of the mover that passes
// the gate blocks.
struct Gate {
  void close() {
    const std::lock_guard lock(mutex);
    shut = true;
  }
  void open() {
    {
      const std::lock_guard lock(mutex);
      shut = false;
    }
    changed.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [this] { return !shut; });
    --inside;
  }
  void wait_until_inside() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return inside != 0; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool shut = false;
  int inside = 0;
  std::atomic<int> posts{0}, lends{0}, fences{0};
  std::atomic<bool> destroyed{false};
  std::atomic<int> would_block{0};  // so many posts are answered kWouldBlock
  std::atomic<bool> refuse{false};  // every call is refused
  std::thread::id thread;           // of the last post
};

// Blocks in post(); completes at the next progress().
class BlockingMover final : public Transport {
 public:
  explicit BlockingMover(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {
    caps_.name = "blocking";
    caps_.visible = Visible::kRemoteLanded;
    caps_.max_in_flight = 17;
  }
  ~BlockingMover() override { gate_->destroyed = true; }
  const Capabilities& capabilities() const noexcept override { return caps_; }
  Result<> add_region(RegionId id, const RegionView&) override {
    if (gate_->refuse) return refusal();
    regions_.insert(id.value);
    Event event;
    event.kind = Kind::kRegionReady;
    event.region = id;
    events_.push_back(event);
    return {};
  }
  Result<> drop_region(RegionId id) override {
    return regions_.erase(id.value) == 1 ? Result<>{} : refusal();
  }
  std::vector<std::byte> describe() const override { return std::vector<std::byte>(regions_.size()); }
  Result<> add_peer(PeerId, std::span<const std::byte>) override { return refusal(); }
  void drop_peer(PeerId) override {}
  Result<> fence(PeerId peer) override {
    ++gate_->fences;
    Event event;
    event.kind = Kind::kPeerFenced;
    event.peer = peer;
    events_.push_back(event);
    return {};
  }
  Result<> lend(const Loan& loan) override {
    ++gate_->lends;
    if (gate_->refuse) return refusal();
    lent_items_ = loan.groups.empty() ? 0 : loan.groups[0].runs[0].count;
    return {};
  }
  Result<> revoke(LoanId id) override {
    if (gate_->refuse) return refusal();
    Event event;
    event.kind = Kind::kRevoked;
    event.loan = id;
    events_.push_back(event);
    return {};
  }
  Result<> post(const Operation& operation) override {
    gate_->thread = std::this_thread::get_id();
    gate_->pass();
    if (gate_->would_block > 0) {
      --gate_->would_block;
      return fail(Code::kWouldBlock, Who::kTransport, Next::kRetry, "fake", "later");
    }
    if (gate_->refuse) return refusal();
    ++gate_->posts;
    for (const Kind kind : {Kind::kCompleted, Kind::kQuiesced}) {
      Event event;
      event.kind = kind;
      event.op = operation.op;
      event.bytes = operation.groups.empty() ? 0 : bytes_of(operation.groups[0]);
      events_.push_back(event);
    }
    return {};
  }
  void cancel(OpId) noexcept override {}
  std::size_t progress(std::span<Event> out) override {
    std::size_t count = 0;
    while (count < out.size() && !events_.empty()) {
      out[count++] = events_.front();
      events_.erase(events_.begin());
    }
    return count;
  }
  bool busy() const noexcept override { return !events_.empty(); }
  int wake_fd() const noexcept override { return -1; }

 private:
  static tl::unexpected<Error> refusal() {
    return fail(Code::kRefused, Who::kTransport, Next::kNever, "fake", "refused");
  }
  std::shared_ptr<Gate> gate_;
  Capabilities caps_;
  std::vector<Event> events_;
  std::set<std::uint32_t> regions_;
  std::uint32_t lent_items_ = 0;
};

class ThreadedTest : public testing::Test {
 protected:
  void SetUp() override { open({}); }
  void open(const ThreadedOptions& options) {
    mover_.reset();
    gate_ = std::make_shared<Gate>();
    seen_.clear();
    auto made = ThreadedTransport::open(std::make_unique<BlockingMover>(gate_), options);
    ASSERT_TRUE(made);
    mover_ = std::move(*made);
  }
  void TearDown() override {
    gate_->open();
    mover_.reset();
  }
  Operation operation(std::uint64_t op, std::uint32_t peer = 1) {
    Operation made;
    made.op = OpId{op};
    made.peer = PeerId{peer};
    return made;
  }
  bool wait_for(Kind kind, std::size_t want) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (count(kind) < want) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())
              .count();
      if (left <= 0) return false;
      pollfd ask{mover_->wake_fd(), POLLIN, 0};
      if (::poll(&ask, 1, static_cast<int>(left)) != 1) return false;
      turn();
    }
    return true;
  }
  void turn() {
    std::array<Event, 16> out;
    const std::size_t got = mover_->progress(out);
    most_at_once_ = std::max(most_at_once_, got);
    seen_.insert(seen_.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(got));
  }
  std::size_t count(Kind kind) const {
    std::size_t sum = 0;
    for (const Event& event : seen_) sum += event.kind == kind ? 1U : 0U;
    return sum;
  }
  Error error_of(Kind kind) const {
    for (const Event& event : seen_) {
      if (event.kind == kind) return event.error;
    }
    return {};
  }
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<ThreadedTransport> mover_;
  std::vector<Event> seen_;
  std::size_t most_at_once_ = 0;  // events that one progress() gave; it would give up to 16
};

TEST_F(ThreadedTest, CapabilitiesAreTheMovers) {
  EXPECT_EQ(mover_->capabilities().name, "blocking");
  EXPECT_EQ(mover_->capabilities().visible, Visible::kRemoteLanded);
  EXPECT_EQ(mover_->capabilities().max_in_flight, 17U);
}

TEST_F(ThreadedTest, ABlockedMoverBlocksNoCallAndPostsBeyondTheBoundWouldBlock) {
  ThreadedOptions options;
  options.posts = 4;
  open(options);
  gate_->close();
  ASSERT_TRUE(mover_->post(operation(1)));
  gate_->wait_until_inside();  // the first is in the mover's hands, for ever
  for (std::uint64_t op = 2; op <= 5; ++op) ASSERT_TRUE(mover_->post(operation(op))) << op;
  const auto refused = mover_->post(operation(6));
  EXPECT_EQ(refused.error().code, Code::kWouldBlock);
  EXPECT_NE(refused.error().why.find("threaded.posts = 4"), std::string::npos) << refused.error().why;
  turn();
  EXPECT_TRUE(seen_.empty());
  mover_->cancel(OpId{1});
  EXPECT_TRUE(mover_->fence(PeerId{9}));
  gate_->open();
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 5));
  EXPECT_EQ(gate_->posts, 5);
  EXPECT_NE(gate_->thread, std::this_thread::get_id());
  EXPECT_TRUE(mover_->post(operation(6)));
  EXPECT_TRUE(wait_for(Kind::kQuiesced, 6));
}

TEST_F(ThreadedTest, TheSpansOfAPostAreCopied) {
  gate_->close();
  ASSERT_TRUE(mover_->post(operation(1)));
  gate_->wait_until_inside();
  {
    PlanePair plane{{RegionId{0}, 0, 64}, {RegionId{0}, 0, 64}, 64, 1, 0, 0};
    std::vector<RunPair> runs{{0, 0, 3}};
    const PieceGroup group{{&plane, 1}, runs};
    Operation second = operation(2);
    second.groups = {&group, 1};
    ASSERT_TRUE(mover_->post(second));
    plane.bytes = 1;
    runs.assign(1, {0, 0, 1});
  }
  gate_->open();
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 2));
  EXPECT_EQ(seen_[2].bytes, 3U * 64U);
}

TEST_F(ThreadedTest, ARefusedPostCompletesWithItsErrorAndQuiesces) {
  gate_->refuse = true;
  ASSERT_TRUE(mover_->post(operation(1)));
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 1));
  EXPECT_EQ(error_of(Kind::kCompleted).why, "refused");
  EXPECT_EQ(count(Kind::kCompleted), 1U);
}

TEST_F(ThreadedTest, APostThatWouldBlockInsideIsTriedAgainInOrder) {
  gate_->would_block = 3;
  ASSERT_TRUE(mover_->post(operation(1)));
  ASSERT_TRUE(mover_->post(operation(2)));
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 2));
  EXPECT_EQ(gate_->posts, 2);
  EXPECT_EQ(seen_[0].op, OpId{1});
  EXPECT_TRUE(error_of(Kind::kCompleted).ok());
}

TEST_F(ThreadedTest, AFenceEndsPostsThatTheMoverHasNotTaken) {
  gate_->close();
  ASSERT_TRUE(mover_->post(operation(1, 1)));
  gate_->wait_until_inside();
  ASSERT_TRUE(mover_->post(operation(2, 1)));
  ASSERT_TRUE(mover_->post(operation(3, 2)));
  ASSERT_TRUE(mover_->fence(PeerId{1}));
  gate_->open();
  ASSERT_TRUE(wait_for(Kind::kPeerFenced, 1));
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 3));
  EXPECT_EQ(gate_->posts, 2) << "the post to the fenced peer reached the mover";
  for (const Event& event : seen_) {
    if (event.kind == Kind::kCompleted) {
      EXPECT_EQ(event.error.ok(), event.op != OpId{2}) << event.op.value;
    }
  }
}

TEST_F(ThreadedTest, CancelEndsAPostThatTheMoverHasNotTaken) {
  gate_->close();
  ASSERT_TRUE(mover_->post(operation(1)));
  gate_->wait_until_inside();
  ASSERT_TRUE(mover_->post(operation(2)));
  mover_->cancel(OpId{2});
  gate_->open();
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 2));
  EXPECT_EQ(gate_->posts, 1);
}

TEST_F(ThreadedTest, RefusalsOfAsynchronousCallsComeAsEvents) {
  gate_->refuse = true;
  ASSERT_TRUE(mover_->add_region(RegionId{3}, {}));
  ASSERT_TRUE(mover_->add_peer(PeerId{4}, {}));
  ASSERT_TRUE(wait_for(Kind::kRegionReady, 1));
  ASSERT_TRUE(wait_for(Kind::kPeerReady, 1));
  EXPECT_FALSE(error_of(Kind::kRegionReady).ok());
  EXPECT_FALSE(error_of(Kind::kPeerReady).ok());
}

TEST_F(ThreadedTest, TheDescriptionIsThatOfTheReadyRegions) {
  EXPECT_TRUE(mover_->describe().empty());
  ASSERT_TRUE(mover_->add_region(RegionId{3}, {}));
  ASSERT_TRUE(wait_for(Kind::kRegionReady, 1));
  EXPECT_EQ(mover_->describe().size(), 1U);
  while (true) {  // the thread may be slow, which is no refusal
    const auto dropped = mover_->drop_region(RegionId{3});
    if (dropped) break;
    ASSERT_EQ(dropped.error().code, Code::kWouldBlock);
  }
}

TEST_F(ThreadedTest, ALendIsInForceOrHasNotHappened) {
  Loan loan;
  loan.id = {1, 1};
  gate_->close();
  ASSERT_TRUE(mover_->post(operation(1)));
  gate_->wait_until_inside();
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = mover_->lend(loan);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(refused.error().code, Code::kWouldBlock);
  EXPECT_EQ(mover_->revoke(loan.id).error().code, Code::kUsage) << "nothing was lent";
  gate_->open();
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 1));
  EXPECT_EQ(gate_->lends, 0) << "a lend that was given up took place later";
  while (true) {
    const auto lent = mover_->lend(loan);
    if (lent) break;
    ASSERT_EQ(lent.error().code, Code::kWouldBlock);
  }
  EXPECT_EQ(gate_->lends, 1);
  ASSERT_TRUE(mover_->revoke(loan.id));
  EXPECT_TRUE(wait_for(Kind::kRevoked, 1));
}

TEST_F(ThreadedTest, ARefusedRevokeAsksForAFence) {
  Loan loan;
  loan.id = {1, 1};
  loan.peer = PeerId{6};
  while (!mover_->lend(loan)) {}
  gate_->refuse = true;
  ASSERT_TRUE(mover_->revoke(loan.id));
  ASSERT_TRUE(wait_for(Kind::kPeerLost, 1));
  EXPECT_EQ(seen_.back().peer, PeerId{6});
  EXPECT_EQ(count(Kind::kRevoked), 0U);
}

TEST_F(ThreadedTest, EventsThatNobodyTakesStopTheMoverAndNoneIsLost) {
  ThreadedOptions options;
  options.events = 8;
  options.posts = 100;
  open(options);
  for (std::uint64_t op = 1; op <= 100; ++op) ASSERT_TRUE(mover_->post(operation(op)));
  pollfd ask{mover_->wake_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ask, 1, 10000), 1);
  ASSERT_TRUE(wait_for(Kind::kQuiesced, 100));
  EXPECT_EQ(count(Kind::kCompleted), 100U);
  EXPECT_LE(most_at_once_, 8U) << "more events were kept than the bound allows";
}

TEST_F(ThreadedTest, StopIsBoundedWhileTheMoverBlocks) {
  gate_->close();
  ASSERT_TRUE(mover_->post(operation(1)));
  gate_->wait_until_inside();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(mover_->stop(std::chrono::milliseconds(20)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_FALSE(gate_->destroyed);
  EXPECT_EQ(mover_->post(operation(2)).error().code, Code::kRefused);
  gate_->open();  // the thread ends by itself and takes the mover with it
  const auto end = begin + std::chrono::seconds(10);
  while (!gate_->destroyed && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(gate_->destroyed);
}

TEST_F(ThreadedTest, StopEndsAnIdleMoverAtOnce) {
  EXPECT_TRUE(mover_->stop(std::chrono::seconds(10)));
  EXPECT_TRUE(gate_->destroyed);
}

TEST(ThreadedOpenTest, BadOptionsAreNamed) {
  EXPECT_EQ(ThreadedTransport::open(nullptr).error().code, Code::kUsage);
  ThreadedOptions options;
  options.posts = 0;
  const auto refused =
      ThreadedTransport::open(std::make_unique<BlockingMover>(std::make_shared<Gate>()), options);
  EXPECT_NE(refused.error().why.find("threaded.posts"), std::string::npos);
}

}  // namespace
}  // namespace kvferry
