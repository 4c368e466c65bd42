// The strided plan against a copy that goes byte by byte and shares no code with it.
#include "planner/slab.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace kvferry::planner {
namespace {

enum class Order : std::uint8_t { kTokenMajor, kHeadMajor, kSideBySide };

constexpr std::uint32_t kHeadBytes = 4;
constexpr std::uint32_t kTokens = 70;

// Side by side leaves a gap of one head's bytes behind each head, where the other of K and V lies.
Slab slab(Order order, std::uint32_t page_tokens, std::uint32_t head_first, std::uint32_t heads) {
  Slab s{.base = 24,
         .page_tokens = page_tokens,
         .head_first = head_first,
         .heads = heads,
         .head_bytes = kHeadBytes};
  const std::uint64_t width = order == Order::kSideBySide ? 2 * kHeadBytes : kHeadBytes;
  const bool head_major = order == Order::kHeadMajor;
  s.token_stride = head_major ? width : width * heads;
  s.head_stride = head_major ? width * page_tokens : width;
  s.page_stride = width * heads * page_tokens;
  s.pages = kTokens / page_tokens + 3;
  return s;
}

std::uint64_t bytes_of(const Slab& s) { return s.base + s.page_stride * s.pages; }

// Every page once, in an order with both neighbours and jumps.
std::vector<std::uint32_t> table(std::uint32_t pages) {
  std::vector<std::uint32_t> out(pages);
  std::iota(out.begin(), out.end(), 0U);
  for (std::uint32_t i = 0; i + 3 < pages; i += 4) {
    std::swap(out[i], out[i + 3]);
  }
  return out;
}

std::uint64_t at(const Slab& s, const std::vector<std::uint32_t>& pages, std::uint64_t t,
                 std::uint32_t head) {
  return s.base + pages[t / s.page_tokens] * s.page_stride + (t % s.page_tokens) * s.token_stride +
         (head - s.head_first) * s.head_stride;
}

// Empty when each wanted byte of `to` has exactly one source, the right one, and no other byte is written.
std::string wrong(const Slab& from, const Slab& to, TokenRange range) {
  const auto a = table(from.pages);
  const auto b = table(to.pages);
  std::vector<std::int64_t> want(bytes_of(to), -1);
  for (std::uint32_t head = 0; head < 64; ++head) {
    const bool here = head >= from.head_first && head < from.head_first + from.heads;
    const bool there = head >= to.head_first && head < to.head_first + to.heads;
    for (std::uint64_t t = range.first; here && there && t < range.first + range.count; ++t) {
      for (std::uint32_t d = 0; d < kHeadBytes; ++d) {
        want[at(to, b, t, head) + d] = static_cast<std::int64_t>(at(from, a, t, head) + d);
      }
    }
  }
  const auto plan = compile(from, to, 0, 64);
  const auto segments = plan ? instantiate(*plan, range, a, b) : tl::unexpected<Error>(plan.error());
  if (!segments) {
    return "refused";
  }
  std::vector<std::int64_t> got(bytes_of(to), -1);
  for (const Segment& s : *segments) {
    for (std::uint64_t i = 0; i < s.repeat; ++i) {
      for (std::uint64_t d = 0; d < s.bytes; ++d) {
        std::int64_t& cell = got.at(s.to + i * s.to_step + d);
        if (cell != -1) {
          return "byte written twice";
        }
        cell = static_cast<std::int64_t>(s.from + i * s.from_step + d);
      }
    }
  }
  return got == want ? "" : "bytes differ";
}

TEST(PlannerSlab, EveryPairOfOrdersPagesAndHeadsCopiesEachElementOnce) {
  int cases = 0;
  for (const Order x : {Order::kTokenMajor, Order::kHeadMajor, Order::kSideBySide}) {
    for (const Order y : {Order::kTokenMajor, Order::kHeadMajor, Order::kSideBySide}) {
      for (const std::uint32_t p : {1U, 3U, 8U, 16U}) {
        for (const std::uint32_t q : {1U, 5U, 8U, 64U}) {
          for (const std::uint32_t n : {1U, 2U, 4U}) {
            for (const std::uint32_t m : {1U, 2U, 4U, 8U}) {
              for (const TokenRange r : {TokenRange{0, kTokens}, TokenRange{13, 40}}) {
                ++cases;
                ASSERT_EQ(wrong(slab(x, p, 4, n), slab(y, q, 3, m), r), "")
                    << "orders " << int(x) << ' ' << int(y) << " pages " << p << ':' << q << " heads " << n
                    << ':' << m << " from token " << r.first;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 3456);
}

TEST(PlannerSlab, EqualLayoutsOfNeighbouringPagesBecomeOneSegment) {
  const Slab s = slab(Order::kTokenMajor, 16, 0, 8);
  const std::vector<std::uint32_t> pages{0, 1, 2, 3};
  const auto segments = instantiate(*compile(s, s, 0, 8), {0, 64}, pages, pages);
  ASSERT_TRUE(segments);
  EXPECT_EQ(*segments, (std::vector<Segment>{{24, 24, 64 * 8 * kHeadBytes, 1, 0, 0}}));
}

TEST(PlannerSlab, AnIndexScaledTwiceIsRefusedWithBothNumbers) {
  const Slab s = slab(Order::kTokenMajor, 16, 0, 8);
  const std::vector<std::uint32_t> scaled{0, 16};
  const std::vector<std::uint32_t> good{0, 1};
  const auto segments = instantiate(*compile(s, s, 0, 8), {0, 32}, good, scaled);
  ASSERT_FALSE(segments);
  EXPECT_NE(segments.error().why.find("page 16, there are 7 pages"), std::string::npos);
}

TEST(PlannerSlab, ATableTooShortForTheTokensIsRefused) {
  const Slab s = slab(Order::kTokenMajor, 16, 0, 8);
  const std::vector<std::uint32_t> pages{0, 1};
  EXPECT_FALSE(instantiate(*compile(s, s, 0, 8), {0, 33}, pages, pages));
}

TEST(PlannerSlab, HeadBytesThatDifferAreRefused) {
  const Slab s = slab(Order::kTokenMajor, 16, 0, 8);
  Slab wide = s;
  wide.head_bytes = 2 * kHeadBytes;
  const auto plan = compile(s, wide, 0, 8);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kMismatch);
}

}  // namespace
}  // namespace kvferry::planner
