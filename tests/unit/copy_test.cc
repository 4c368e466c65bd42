#include "base/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/prng.h"

namespace kvferry {
namespace {

constexpr std::size_t kMost = 5000;
constexpr std::size_t kGuard = 128;  // bytes on both sides that must not change

class CopyTest : public testing::TestWithParam<CopyKind> {};

std::vector<unsigned char> noise(std::size_t size, std::uint64_t seed) {
  std::vector<unsigned char> bytes(size);
  Prng random(seed);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next());
  return bytes;
}

// One copy into a ground of 0xEE against memcpy into another; returns whether every byte around and inside
// agrees.
template <class Copy>
bool agrees(Copy copy, const unsigned char* src, std::size_t dst_shift, std::size_t n,
            std::vector<unsigned char>& a, std::vector<unsigned char>& b) {
  std::memset(a.data(), 0xEE, n + dst_shift + 2 * kGuard);
  std::memset(b.data(), 0xEE, n + dst_shift + 2 * kGuard);
  copy(a.data() + kGuard + dst_shift, src, n);
  copy_fence();
  std::memcpy(b.data() + kGuard + dst_shift, src, n);
  return std::memcmp(a.data(), b.data(), n + dst_shift + 2 * kGuard) == 0;
}

TEST_P(CopyTest, EverySizeAtSeveralAlignmentsEqualsMemcpy) {
  if (!supported(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  const auto source = noise(kMost + 128, 1);
  std::vector<unsigned char> a(kMost + 512), b(kMost + 512);
  for (std::size_t n = 0; n <= kMost; ++n) {
    for (const std::size_t dst : {0U, 1U, 31U, 63U}) {
      const std::size_t src = (n * 7 + dst * 3) % 64;
      ASSERT_TRUE(agrees([](void* d, const void* s, std::size_t m) { copy_stream_as(GetParam(), d, s, m); },
                         source.data() + src, dst, n, a, b))
          << name_of(GetParam()) << " n " << n << " dst " << dst << " src " << src;
    }
  }
}

TEST_P(CopyTest, EveryAlignmentOfBothSidesEqualsMemcpy) {
  if (!supported(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  const auto source = noise(kMost + 128, 2);
  std::vector<unsigned char> a(kMost + 512), b(kMost + 512);
  for (const std::size_t n : {1U, 16U, 63U, 64U, 65U, 127U, 256U, 656U, 1152U, 4096U}) {
    for (std::size_t dst = 0; dst < 64; ++dst) {
      for (std::size_t src = 0; src < 64; ++src) {
        ASSERT_TRUE(agrees([](void* d, const void* s, std::size_t m) { copy_stream_as(GetParam(), d, s, m); },
                           source.data() + src, dst, n, a, b))
            << name_of(GetParam()) << " n " << n << " dst " << dst << " src " << src;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CopyTest,
                         testing::Values(CopyKind::kPlain, CopyKind::kSse2, CopyKind::kAvx2,
                                         CopyKind::kAvx512),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST(CopyStreamTest, TheDispatchingOneEqualsMemcpyOverAndUnderItsFloor) {
  const auto source = noise(kMost + 128, 3);
  std::vector<unsigned char> a(kMost + 512), b(kMost + 512);
  for (std::size_t n = 0; n <= 1024; ++n) {
    ASSERT_TRUE(agrees([](void* d, const void* s, std::size_t m) { copy_stream(d, s, m); },
                       source.data() + n % 64, n * 5 % 64, n, a, b))
        << "n " << n;
  }
}

TEST(CopyStreamTest, TheBestWayIsSupported) {
  EXPECT_TRUE(supported(best_copy())) << name_of(best_copy());
  EXPECT_TRUE(supported(CopyKind::kPlain));
}

}  // namespace
}  // namespace kvferry
