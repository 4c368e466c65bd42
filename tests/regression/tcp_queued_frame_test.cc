// A frame that was dropped from a stream's queue moved its neighbours, which the kernel calls still pointed
// into: bytes of freed memory went out. Found by a long replay with aborts.
#include "unit/tcp_kit.h"

namespace kvferry::transport::tcp {
namespace {

using kit::Pair;

TEST(TcpQueuedFrame, NeighboursOfACancelledOperationArriveWhole) {
  TcpOptions options;
  options.streams = 1;
  options.send_buffer = options.receive_buffer = 4096;  // frames wait in the queue
  Pair pair(options, 4 << 20);
  constexpr std::uint32_t kOps = 8, kItems = 64;  // 256 KiB each: several frames
  const LoanId loan{1, 1};
  ASSERT_TRUE(pair.b.lend(PeerId{1}, loan, kOps * kItems));
  for (std::size_t i = 0; i < pair.a.pool.size(); ++i)
    pair.a.pool[i] = static_cast<std::byte>(i * 2654435761U >> 13);
  for (std::uint32_t op = 0; op < kOps; ++op)
    ASSERT_TRUE(pair.a.post(op + 1, PeerId{2}, loan, op * kItems, kItems));
  for (int i = 0; i < 20; ++i) pair.a.step();
  for (const std::uint64_t gone : {3U, 4U, 6U}) pair.a.mover->cancel(OpId{gone});
  ASSERT_TRUE(pair.until([&] {
    for (std::uint32_t op = 0; op < kOps; ++op) {
      if (pair.a.quiesced(op + 1) == nullptr) return false;
    }
    return true;
  }));
  std::uint32_t whole = 0;
  for (std::uint32_t op = 0; op < kOps; ++op) {
    if (!pair.a.completed(op + 1)->error.ok()) continue;
    ++whole;
    const std::size_t from = std::size_t{op} * kItems * pair.a.item,
                      bytes = std::size_t{kItems} * pair.a.item;
    EXPECT_TRUE(pair.until([&] {
      return std::equal(pair.a.pool.begin() + static_cast<std::ptrdiff_t>(from),
                        pair.a.pool.begin() + static_cast<std::ptrdiff_t>(from + bytes),
                        pair.b.pool.begin() + static_cast<std::ptrdiff_t>(from));
    })) << "operation "
        << op + 1;
  }
  EXPECT_GE(whole, 5U) << "only the cancelled ones may fail";
  EXPECT_EQ(pair.b.mover->stats().bad_frames, 0U);
}

}  // namespace
}  // namespace kvferry::transport::tcp
