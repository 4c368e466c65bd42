#include "base/copy.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvferry {

namespace {

#if defined(__x86_64__)

constexpr std::size_t kLine = 64;

// Bytes until `p` is at the start of a cache line, at most n.
std::size_t head_of(const unsigned char* p, std::size_t n) noexcept {
  const std::size_t gap = (kLine - (reinterpret_cast<std::uintptr_t>(p) & (kLine - 1))) & (kLine - 1);
  return gap < n ? gap : n;
}

// Whole lines only. All loads of a block come before its stores, so that several lines are in flight.
__attribute__((target("sse2"))) void lines_sse2(unsigned char* dst, const unsigned char* src,
                                                std::size_t n) noexcept {
  for (; n != 0; n -= kLine, dst += kLine, src += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(src);
    auto* to = reinterpret_cast<__m128i*>(dst);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
}

__attribute__((target("avx2"))) void lines_avx2(unsigned char* dst, const unsigned char* src,
                                                std::size_t n) noexcept {
  for (; n >= 2 * kLine; n -= 2 * kLine, dst += 2 * kLine, src += 2 * kLine) {
    const auto* from = reinterpret_cast<const __m256i*>(src);
    auto* to = reinterpret_cast<__m256i*>(dst);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    const __m256i c = _mm256_loadu_si256(from + 2), d = _mm256_loadu_si256(from + 3);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
    _mm256_stream_si256(to + 2, c);
    _mm256_stream_si256(to + 3, d);
  }
  if (n != 0) {
    const auto* from = reinterpret_cast<const __m256i*>(src);
    auto* to = reinterpret_cast<__m256i*>(dst);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
  }
}

__attribute__((target("avx512f,avx512bw"))) void part_avx512(unsigned char* dst, const unsigned char* src,
                                                             std::size_t n) noexcept {
  const __mmask64 mask = (std::uint64_t{1} << n) - 1;  // n < 64
  _mm512_mask_storeu_epi8(dst, mask, _mm512_maskz_loadu_epi8(mask, src));
}

__attribute__((target("avx512f,avx512bw"))) void stream_avx512(unsigned char* dst, const unsigned char* src,
                                                               std::size_t n) noexcept {
  const std::size_t head = head_of(dst, n);
  if (head != 0) {
    part_avx512(dst, src, head);
    dst += head;
    src += head;
    n -= head;
  }
  for (; n >= 4 * kLine; n -= 4 * kLine, dst += 4 * kLine, src += 4 * kLine) {
    const __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + kLine);
    const __m512i c = _mm512_loadu_si512(src + 2 * kLine), d = _mm512_loadu_si512(src + 3 * kLine);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + kLine), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + 2 * kLine), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + 3 * kLine), d);
  }
  for (; n >= kLine; n -= kLine, dst += kLine, src += kLine) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
  }
  if (n != 0) {
    part_avx512(dst, src, n);
  }
}

using Lines = void (*)(unsigned char*, const unsigned char*, std::size_t) noexcept;

void stream_by(Lines lines, unsigned char* dst, const unsigned char* src, std::size_t n) noexcept {
  const std::size_t head = head_of(dst, n);
  const std::size_t body = (n - head) & ~(kLine - 1);
  const std::size_t tail = n - head - body;
  if (head != 0) {
    std::memcpy(dst, src, head);
  }
  if (body != 0) {
    lines(dst + head, src + head, body);
  }
  if (tail != 0) {
    std::memcpy(dst + head + body, src + head + body, tail);
  }
}

#endif

}  // namespace

const char* name_of(CopyKind kind) noexcept {
  switch (kind) {
    case CopyKind::kPlain: return "plain";
    case CopyKind::kSse2: return "sse2";
    case CopyKind::kAvx2: return "avx2";
    case CopyKind::kAvx512: return "avx512";
  }
  return "unknown copy";
}

bool supported(CopyKind kind) noexcept {
#if defined(__x86_64__)
  switch (kind) {
    case CopyKind::kPlain:
    case CopyKind::kSse2: return true;  // SSE2 is part of x86-64
    case CopyKind::kAvx2: return __builtin_cpu_supports("avx2") != 0;
    case CopyKind::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  }
#endif
  return kind == CopyKind::kPlain;
}

CopyKind best_copy() noexcept {
  if (supported(CopyKind::kAvx512)) {
    return CopyKind::kAvx512;
  }
  if (supported(CopyKind::kAvx2)) {
    return CopyKind::kAvx2;
  }
  return supported(CopyKind::kSse2) ? CopyKind::kSse2 : CopyKind::kPlain;
}

void copy_stream_as([[maybe_unused]] CopyKind kind, void* dst, const void* src, std::size_t n) noexcept {
  if (n == 0) {
    return;
  }
#if defined(__x86_64__)
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
  switch (kind) {
    case CopyKind::kAvx512: return stream_avx512(to, from, n);
    case CopyKind::kAvx2: return stream_by(lines_avx2, to, from, n);
    case CopyKind::kSse2: return stream_by(lines_sse2, to, from, n);
    case CopyKind::kPlain: break;
  }
#endif
  std::memcpy(dst, src, n);
}

void copy_stream(void* dst, const void* src, std::size_t n) noexcept {
  copy_stream_as(n < kStreamFloor ? CopyKind::kPlain : best_copy(), dst, src, n);
}

void copy_fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace kvferry
