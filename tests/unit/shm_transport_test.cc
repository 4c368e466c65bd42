// The shm transport with both sides in this process.
#include "transport/shm/shm_transport.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include "shm_kit.h"

namespace kvferry {
namespace {

using namespace shm_kit;  // NOLINT: a test
using Kind = Event::Kind;

constexpr std::uint64_t kPoolBytes = 8ULL << 20;
constexpr std::uint32_t kItems = kPoolBytes / kItemBytes;

class ShmTest : public testing::Test {
 protected:
  void SetUp() override {
    source_ = pool_of(kPoolBytes);
    target_ = pool_of(kPoolBytes);
    fill(source_->data(), kPoolBytes, 1);
    lender_ = open_side(with_pool(source_));
    reader_ = open_side(with_pool(target_));
    ASSERT_TRUE(lender_.mover->add_region(RegionId{0}, {source_->data(), kPoolBytes, Memory::kHost}));
    ASSERT_TRUE(reader_.mover->add_region(RegionId{0}, {target_->data(), kPoolBytes, Memory::kHost}));
  }
  void meet() {
    ASSERT_TRUE(reader_.mover->add_peer(kPeer, lender_.mover->describe()));
    ASSERT_TRUE(lender_.mover->add_peer(kPeer, reader_.mover->describe()));
    ASSERT_TRUE(until({&lender_, &reader_},
                      [this] { return reader_.find(Kind::kPeerReady) && lender_.find(Kind::kPeerReady); }));
    ASSERT_TRUE(reader_.find(Kind::kPeerReady)->error.ok()) << reader_.find(Kind::kPeerReady)->error.line();
  }
  bool quiesced(std::uint64_t op) {
    return until({&reader_}, [this, op] { return reader_.find(Kind::kQuiesced, OpId{op}).has_value(); });
  }
  Error result(std::uint64_t op) const { return reader_.find(Kind::kCompleted, OpId{op})->error; }
  bool holds(std::uint32_t local, std::uint32_t remote, std::uint32_t count) const {
    return std::memcmp(target_->data() + std::uint64_t{local} * kItemBytes,
                       source_->data() + std::uint64_t{remote} * kItemBytes,
                       std::uint64_t{count} * kItemBytes) == 0;
  }

  std::shared_ptr<SharedPool> source_, target_;
  Side lender_, reader_;
};

TEST_F(ShmTest, DeclaresWhatRule26Promises) {
  const Capabilities& caps = reader_.mover->capabilities();
  EXPECT_EQ(caps.name, "shm");
  EXPECT_EQ(caps.access, Access::kRead);
  EXPECT_EQ(caps.visible, Visible::kReceiverPlaced);
  EXPECT_EQ(caps.revoke, RevokeMode::kLenderStops);
  EXPECT_EQ(caps.fence, FenceMode::kAtOnce);
  EXPECT_TRUE(caps.same_host_only);
}

TEST_F(ShmTest, ReadsScatteredItemsAndTouchesNothingElse) {
  meet();
  fill(target_->data(), kPoolBytes, 9);
  const std::vector<std::byte> before(target_->data(), target_->data() + kPoolBytes);
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox read(1, loan.ticket(), {{5, 100, 3}, {1000, 7, 1}, {200, 600, 300}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(quiesced(1));
  EXPECT_TRUE(result(1).ok()) << result(1).line();
  EXPECT_EQ(reader_.find(Kind::kCompleted, OpId{1})->bytes, 304ULL * kItemBytes);
  EXPECT_TRUE(holds(5, 100, 3));
  EXPECT_TRUE(holds(1000, 7, 1));
  EXPECT_TRUE(holds(200, 600, 300));
  for (std::uint32_t item = 0; item < kItems; ++item) {
    const bool named = (item >= 5 && item < 8) || item == 1000 || (item >= 200 && item < 500);
    if (!named) {
      ASSERT_EQ(std::memcmp(target_->data() + std::uint64_t{item} * kItemBytes,
                            before.data() + std::uint64_t{item} * kItemBytes, kItemBytes),
                0)
          << item;
    }
  }
  EXPECT_EQ(reader_.count(Kind::kCompleted), 1U);
  EXPECT_EQ(reader_.count(Kind::kQuiesced), 1U);
}

TEST_F(ShmTest, ZeroItemsCompleteToo) {
  meet();
  LoanBox loan(0, 1, 7, 0, 0);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox read(1, loan.ticket(), {});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(quiesced(1));
  EXPECT_TRUE(result(1).ok());
}

TEST_F(ShmTest, ARecalledLoanIsNotAcceptedAndMovesNothing) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ASSERT_TRUE(lender_.mover->revoke(loan.loan.id));
  ASSERT_TRUE(until({&lender_}, [this] { return lender_.find(Kind::kRevoked).has_value(); }));
  ReadBox read(1, loan.ticket(), {{0, 0, 1}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(quiesced(1));
  EXPECT_EQ(result(1).code, Code::kRefused);
  EXPECT_NE(result(1).why.find("lease ended"), std::string::npos) << result(1).why;
  EXPECT_EQ(target_->data()[1], std::byte{0});
}

TEST_F(ShmTest, ALoanRecalledInMidCopyIsNotAccepted) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox read(1, loan.ticket(), {{0, 0, kItems}});  // 8 MiB: at least eight quanta
  ASSERT_TRUE(reader_.mover->post(read.operation));
  reader_.turn();
  reader_.turn();
  ASSERT_FALSE(reader_.find(Kind::kCompleted)) << "the quantum is larger than 1 MiB";
  ASSERT_TRUE(lender_.mover->revoke(loan.loan.id));
  lender_.turn();
  ASSERT_TRUE(lender_.find(Kind::kRevoked)) << "a revoke must not wait for the reader";
  ASSERT_TRUE(quiesced(1));
  EXPECT_NE(result(1).why.find("lease ended"), std::string::npos) << result(1).why;
}

TEST_F(ShmTest, TheNextLoanOfASlotDoesNotReviveTheOldTicket) {
  meet();
  LoanBox first(3, 1, 77, 0, kItems), second(3, 2, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(first.loan));
  ReadBox read(1, first.ticket(), {{0, 0, kItems}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  reader_.turn();
  ASSERT_TRUE(lender_.mover->revoke(first.loan.id));
  ASSERT_TRUE(lender_.mover->lend(second.loan));
  ASSERT_TRUE(quiesced(1));
  EXPECT_FALSE(result(1).ok());
}

TEST_F(ShmTest, AWrongTokenMovesNothing) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox read(1, Ticket{loan.loan.id, 78}, {{0, 0, 4}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(quiesced(1));
  EXPECT_EQ(result(1).code, Code::kRefused);
  EXPECT_NE(result(1).why.find("token"), std::string::npos) << result(1).why;
  EXPECT_EQ(target_->data()[1], std::byte{0});
}

TEST_F(ShmTest, BadOffsetsAreRefusedAtPost) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox remote(1, loan.ticket(), {{0, kItems - 1, 2}});
  EXPECT_EQ(reader_.mover->post(remote.operation).error().code, Code::kRefused);
  ReadBox local(2, loan.ticket(), {{kItems - 1, 0, 2}});
  EXPECT_EQ(reader_.mover->post(local.operation).error().code, Code::kRefused);
  ReadBox region(3, loan.ticket(), {{0, 0, 1}});
  region.plane.remote.region = RegionId{9};
  EXPECT_NE(reader_.mover->post(region.operation).error().why.find("region 9"), std::string::npos);
  ReadBox wraps(4, loan.ticket(), {{0, 3, 1}});
  wraps.plane.remote.stride = ~0ULL / 2;
  EXPECT_FALSE(reader_.mover->post(wraps.operation));
  ReadBox slot(5, Ticket{LoanId{1U << 30, 1}, 77}, {{0, 0, 1}});
  EXPECT_FALSE(reader_.mover->post(slot.operation));
  ReadBox write(6, loan.ticket(), {{0, 0, 1}});
  write.operation.access = Access::kWrite;
  EXPECT_EQ(reader_.mover->post(write.operation).error().code, Code::kUnsupported);
  EXPECT_FALSE(reader_.mover->busy());
}

TEST_F(ShmTest, LendIsCheckedLocally) {
  meet();
  LoanBox outside(3, 1, 77, kItems - 1, 2);
  EXPECT_EQ(lender_.mover->lend(outside.loan).error().code, Code::kRefused);
  LoanBox good(3, 5, 77, 0, 1), again(3, 6, 77, 0, 1), used(3, 5, 77, 0, 1), slot(65536, 1, 7, 0, 1);
  ASSERT_TRUE(lender_.mover->lend(good.loan));
  EXPECT_EQ(lender_.mover->lend(again.loan).error().code, Code::kRefused);
  ASSERT_TRUE(lender_.mover->revoke(good.loan.id));
  EXPECT_EQ(lender_.mover->lend(used.loan).error().code, Code::kRefused) << "a serial was used twice";
  EXPECT_NE(lender_.mover->lend(slot.loan).error().why.find("shm.loans"), std::string::npos);
  EXPECT_EQ(lender_.mover->revoke(good.loan.id).error().code, Code::kUsage);
}

TEST_F(ShmTest, CancelEndsAtTheNextQuantum) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox read(1, loan.ticket(), {{0, 0, kItems}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  reader_.turn();
  reader_.mover->cancel(OpId{1});
  EXPECT_FALSE(reader_.find(Kind::kCompleted));
  reader_.turn();
  ASSERT_TRUE(reader_.find(Kind::kQuiesced));
  EXPECT_EQ(result(1).code, Code::kAborted);
  fill(target_->data(), kPoolBytes, 5);
  for (int i = 0; i < 20; ++i) reader_.turn();
  for (std::uint64_t i = 0; i < kPoolBytes; i += 512) {
    ASSERT_EQ(target_->data()[i], pattern(5, i / kItemBytes, i % kItemBytes))
        << "written after Quiesced at " << i;
  }
}

TEST_F(ShmTest, FenceEndsEverythingAtOnce) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox read(1, loan.ticket(), {{0, 0, kItems}}), late(2, loan.ticket(), {{0, 0, 1}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  reader_.turn();
  ASSERT_TRUE(reader_.mover->fence(kPeer));
  reader_.turn();
  ASSERT_TRUE(reader_.find(Kind::kPeerFenced));
  ASSERT_TRUE(reader_.find(Kind::kQuiesced));
  EXPECT_EQ(result(1).code, Code::kPeerLost);
  std::vector<Kind> order;
  for (const Event& event : reader_.seen) order.push_back(event.kind);
  EXPECT_EQ(order.back(), Kind::kPeerFenced);
  EXPECT_EQ(reader_.mover->post(late.operation).error().code, Code::kPeerLost);
}

TEST_F(ShmTest, AFencedReaderHasLostItsLoansAndTheSlotIsFree) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems), next(3, 2, 78, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ASSERT_TRUE(lender_.mover->fence(kPeer));
  ReadBox read(1, loan.ticket(), {{0, 0, 1}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(quiesced(1));
  EXPECT_FALSE(result(1).ok());
  EXPECT_TRUE(lender_.mover->revoke(loan.loan.id))
      << "a revoke may still come for a loan that the fence ended";
  EXPECT_TRUE(lender_.mover->lend(next.loan));
}

TEST_F(ShmTest, ARegionInUseIsNotDropped) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  EXPECT_EQ(lender_.mover->drop_region(RegionId{0}).error().code, Code::kRefused);
  ReadBox read(1, loan.ticket(), {{0, 0, kItems}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  EXPECT_EQ(reader_.mover->drop_region(RegionId{0}).error().code, Code::kRefused);
  ASSERT_TRUE(quiesced(1));
  EXPECT_TRUE(reader_.mover->drop_region(RegionId{0}));
  ASSERT_TRUE(lender_.mover->revoke(loan.loan.id));
  EXPECT_TRUE(lender_.mover->drop_region(RegionId{0}));
}

TEST_F(ShmTest, AFullTableIsBackPressureWithItsName) {
  ShmOptions options = with_pool(target_);
  options.limits.ops_in_flight = 2;
  reader_ = open_side(options);
  ASSERT_TRUE(reader_.mover->add_region(RegionId{0}, {target_->data(), kPoolBytes, Memory::kHost}));
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  for (std::uint64_t op = 1; op <= 2; ++op) {
    ReadBox read(op, loan.ticket(), {{0, 0, 1}});
    ASSERT_TRUE(reader_.mover->post(read.operation));
  }
  ReadBox third(3, loan.ticket(), {{0, 0, 1}});
  const auto refused = reader_.mover->post(third.operation);
  EXPECT_EQ(refused.error().code, Code::kWouldBlock);
  EXPECT_NE(refused.error().why.find("shm.ops_in_flight"), std::string::npos);
  ASSERT_TRUE(quiesced(1));
  ASSERT_TRUE(quiesced(2));
  EXPECT_TRUE(reader_.mover->post(third.operation));
}

TEST_F(ShmTest, SmallAndUrgentOperationsOvertakeABigOne) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  ReadBox big(1, loan.ticket(), {{0, 0, kItems}}), small(2, loan.ticket(), {{0, 0, 1}}),
      urgent(3, loan.ticket(), {{0, 0, 64}});
  urgent.operation.priority = 9;
  ASSERT_TRUE(reader_.mover->post(big.operation));
  reader_.turn();
  ASSERT_TRUE(reader_.mover->post(small.operation));
  ASSERT_TRUE(reader_.mover->post(urgent.operation));
  ASSERT_TRUE(quiesced(1));
  std::vector<std::uint64_t> order;
  for (const Event& event : reader_.seen) {
    if (event.kind == Kind::kCompleted) order.push_back(event.op.value);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 2, 1}));
}

TEST_F(ShmTest, ASpanOfOneEventLosesNone) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  for (std::uint64_t op = 1; op <= 50; ++op) {
    ReadBox read(op, loan.ticket(), {{0, 0, 1}});
    ASSERT_TRUE(reader_.mover->post(read.operation));
  }
  std::size_t events = 0;
  for (int i = 0; i < 1000 && events < 100; ++i) {
    std::array<Event, 1> out;
    events += reader_.mover->progress(out);
  }
  EXPECT_EQ(events, 100U);
  EXPECT_FALSE(reader_.mover->busy());
}

TEST_F(ShmTest, TheEndOfTheLenderIsToldAndItsMemoryStays) {
  meet();
  LoanBox loan(3, 1, 77, 0, kItems);
  ASSERT_TRUE(lender_.mover->lend(loan.loan));
  lender_.mover.reset();
  ASSERT_TRUE(until({&reader_}, [this] { return reader_.find(Kind::kPeerLost).has_value(); }));
  ReadBox read(1, loan.ticket(), {{0, 0, 1}});
  ASSERT_TRUE(reader_.mover->post(read.operation)) << "lost is a hint, not a fence";
  ASSERT_TRUE(quiesced(1));
  EXPECT_FALSE(result(1).ok()) << "a transport that ends leaves its words dead";
  reader_.mover->drop_peer(kPeer);
  EXPECT_EQ(reader_.mover->post(read.operation).error().code, Code::kUsage);
}

TEST_F(ShmTest, TheWakeDescriptorIsReadableWhenAKnockWaits) {
  ASSERT_TRUE(reader_.mover->add_peer(kPeer, lender_.mover->describe()));
  pollfd ask{lender_.mover->wake_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ask, 1, 1000), 1);
}

TEST_F(ShmTest, AnEndedPeerIsNamedAtTheDoor) {
  const auto description = lender_.mover->describe();
  lender_.mover.reset();
  ASSERT_TRUE(reader_.mover->add_peer(kPeer, description));
  ASSERT_TRUE(until({&reader_}, [this] { return reader_.find(Kind::kPeerReady).has_value(); }));
  const Error error = reader_.find(Kind::kPeerReady)->error;
  EXPECT_EQ(error.status, ECONNREFUSED);
  EXPECT_NE(error.why.find("another host"), std::string::npos) << error.why;
}

TEST_F(ShmTest, BadDescriptionsAreRefused) {
  const auto good = lender_.mover->describe();
  EXPECT_LE(good.size(), 4096U);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto refused = reader_.mover->add_peer(kPeer, std::span(good).first(size));
    ASSERT_FALSE(refused) << size;
    EXPECT_EQ(refused.error().code, Code::kBadMessage);
  }
  EXPECT_TRUE(reader_.mover->add_peer(kPeer, good));
  EXPECT_EQ(reader_.mover->add_peer(kPeer, good).error().code, Code::kRefused);
}

TEST_F(ShmTest, AnotherLifeAtTheAddressIsRefused) {
  auto description = lender_.mover->describe();
  description[6] ^= std::byte{1};  // the cookie
  ASSERT_TRUE(reader_.mover->add_peer(kPeer, description));
  ASSERT_TRUE(until({&lender_, &reader_}, [this] { return reader_.find(Kind::kPeerReady).has_value(); }));
  EXPECT_NE(reader_.find(Kind::kPeerReady)->error.why.find("another life"), std::string::npos);
}

TEST_F(ShmTest, AFenceBeforeReadyAnswersBoth) {
  ASSERT_TRUE(reader_.mover->add_peer(kPeer, lender_.mover->describe()));
  ASSERT_TRUE(reader_.mover->fence(kPeer));
  ASSERT_TRUE(until({&reader_}, [this] { return reader_.find(Kind::kPeerFenced).has_value(); }));
  ASSERT_EQ(reader_.count(Kind::kPeerReady), 1U);
  EXPECT_FALSE(reader_.find(Kind::kPeerReady)->error.ok());
  reader_.mover->drop_peer(kPeer);
  for (int i = 0; i < 100; ++i) reader_.turn();
  EXPECT_EQ(reader_.count(Kind::kPeerReady), 1U);
}

TEST(ShmRegionTest, DeviceMemoryIsRefusedByName) {
  Side side = open_side();
  std::array<std::byte, 64> bytes{};
  const auto cuda = side.mover->add_region(RegionId{0}, {bytes.data(), bytes.size(), Memory::kCuda});
  EXPECT_EQ(cuda.error().code, Code::kUnsupported);
  EXPECT_NE(cuda.error().why.find("CUDA"), std::string::npos) << cuda.error().why;
  EXPECT_FALSE(side.mover->add_region(RegionId{0}, {bytes.data(), bytes.size(), Memory::kRocm}));
  EXPECT_FALSE(side.mover->add_region(RegionId{0}, {bytes.data(), bytes.size(), Memory::kPinned}));
  EXPECT_NE(side.mover->add_region(RegionId{384}, {bytes.data(), bytes.size(), Memory::kHost})
                .error()
                .why.find("shm.regions"),
            std::string::npos);
}

TEST(ShmRegionTest, ForeignMemoryIsReportedOrRefused) {
  std::array<std::byte, 64> bytes{};
  Side side = open_side();
  ASSERT_TRUE(side.mover->add_region(RegionId{0}, {bytes.data(), bytes.size(), Memory::kHost}));
  EXPECT_EQ(side.mover->report()[0].how, ShmRegionReport::How::kForeign);
  EXPECT_NE(side.mover->report()[0].text.find("adopt is off"), std::string::npos);
  ShmOptions strict;
  strict.allow_foreign = false;
  Side other = open_side(strict);
  const auto refused = other.mover->add_region(RegionId{0}, {bytes.data(), bytes.size(), Memory::kHost});
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().why.find("allocate_pool"), std::string::npos);
}

// An engine's memory: contents and address stay, and it can be handed over afterwards.
TEST(ShmRegionTest, AdoptionKeepsContentsAndMakesTheRangeReadable) {
  constexpr std::uint64_t kBytes = (5ULL << 20) + 4096;
  void* raw = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(raw, MAP_FAILED);
  auto* data = static_cast<std::byte*>(raw);
  fill(data, kBytes, 4);
  ShmOptions options;
  options.adopt = true;
  options.allow_foreign = false;
  Side lender = open_side(options);
  ASSERT_TRUE(lender.mover->add_region(RegionId{0}, {data, kBytes, Memory::kHost}));
  EXPECT_EQ(lender.mover->drop_region(RegionId{0}).error().code, Code::kRefused) << "it is being adopted";
  const auto target = pool_of(kBytes);
  Side reader = open_side(with_pool(target));
  ASSERT_TRUE(reader.mover->add_region(RegionId{0}, {target->data(), kBytes, Memory::kHost}));
  ASSERT_TRUE(reader.mover->add_peer(kPeer, lender.mover->describe()));  // before it is ready: the door waits
  ASSERT_TRUE(lender.mover->add_peer(kPeer, reader.mover->describe()));
  ASSERT_TRUE(until({&lender, &reader},
                    [&] { return reader.find(Kind::kPeerReady) && lender.find(Kind::kRegionReady); }));
  ASSERT_TRUE(lender.find(Kind::kRegionReady)->error.ok()) << lender.find(Kind::kRegionReady)->error.line();
  ASSERT_TRUE(reader.find(Kind::kPeerReady)->error.ok()) << reader.find(Kind::kPeerReady)->error.line();
  EXPECT_EQ(lender.mover->report()[0].how, ShmRegionReport::How::kAdopted) << lender.mover->report()[0].text;
  for (std::uint64_t i = 0; i < kBytes; ++i)
    ASSERT_EQ(data[i], pattern(4, i / kItemBytes, i % kItemBytes)) << i;
  data[17] = std::byte{0xAB};  // written through the old address after the hand-over
  LoanBox loan(0, 1, 5, 0, kBytes / kItemBytes);
  ASSERT_TRUE(lender.mover->lend(loan.loan));
  ReadBox read(1, loan.ticket(), {{0, 0, kBytes / kItemBytes}});
  ASSERT_TRUE(reader.mover->post(read.operation));
  ASSERT_TRUE(until({&reader}, [&] { return reader.find(Kind::kQuiesced).has_value(); }));
  EXPECT_TRUE(reader.find(Kind::kCompleted)->error.ok());
  EXPECT_EQ(std::memcmp(target->data(), data, kBytes), 0);
  lender.mover.reset();
  EXPECT_EQ(data[17], std::byte{0xAB}) << "the memory stays where it is when the transport ends";
  ::munmap(raw, kBytes);
}

TEST(ShmRegionTest, UnalignedMemoryIsNotAdopted) {
  std::vector<std::byte> bytes(10000);
  ShmOptions options;
  options.adopt = true;
  Side side = open_side(options);
  ASSERT_TRUE(side.mover->add_region(RegionId{0}, {bytes.data() + 1, 8192, Memory::kHost}));
  EXPECT_EQ(side.mover->report()[0].how, ShmRegionReport::How::kForeign);
  EXPECT_NE(side.mover->report()[0].text.find("multiple of 4096"), std::string::npos)
      << side.mover->report()[0].text;
}

}  // namespace
}  // namespace kvferry
