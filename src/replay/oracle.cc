#include "replay/oracle.h"

#include <cstring>

#include "base/prng.h"

// Word j of a row is x ^ (x >> 32) with x = row seed + (j + 1) * kStep: one add, one shift and one xor for
// each vector. The loops are written once with compiler vectors and compiled twice; the wider one runs where
// the machine has it.
namespace kvferry::replay {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
constexpr std::size_t kLanes = 4;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kVectorBytes = kLanes * kWord;

using Vector = std::uint64_t __attribute__((vector_size(kVectorBytes)));

#define KVF_ALWAYS_INLINE inline __attribute__((always_inline))

KVF_ALWAYS_INLINE std::uint64_t word_at(std::uint64_t x) { return x ^ (x >> 32); }

KVF_ALWAYS_INLINE std::uint64_t block_seed(const WriteTag& tag, const ItemSpec& spec) {
  std::uint64_t seed = mix64(tag.writer.started_ms);
  seed = mix64(seed ^ tag.writer.random);
  seed = mix64(seed ^ tag.serial);
  seed = mix64(seed ^ spec.block_hash);
  return mix64(seed ^ ((std::uint64_t{spec.layer} << 32) | spec.part));
}

KVF_ALWAYS_INLINE std::uint64_t row_seed(std::uint64_t block, std::uint32_t token) {
  return mix64(block + token);
}

KVF_ALWAYS_INLINE void fill_row(std::byte* to, std::size_t bytes, std::uint64_t seed) {
  Vector x = {seed + kStep, seed + 2 * kStep, seed + 3 * kStep, seed + 4 * kStep};
  while (bytes >= kVectorBytes) {
    const Vector words = x ^ (x >> 32);
    std::memcpy(to, &words, kVectorBytes);
    x += kLanes * kStep;
    to += kVectorBytes;
    bytes -= kVectorBytes;
  }
  for (std::size_t lane = 0; bytes > 0; ++lane) {
    const std::uint64_t word = word_at(x[lane]);
    const std::size_t part = bytes < kWord ? bytes : kWord;
    std::memcpy(to, &word, part);
    to += part;
    bytes -= part;
  }
}

// Non-zero when a byte of the row differs.
KVF_ALWAYS_INLINE std::uint64_t differs_row(const std::byte* from, std::size_t bytes, std::uint64_t seed) {
  Vector x = {seed + kStep, seed + 2 * kStep, seed + 3 * kStep, seed + 4 * kStep};
  Vector found = {0, 0, 0, 0};
  while (bytes >= kVectorBytes) {
    Vector words;
    std::memcpy(&words, from, kVectorBytes);
    found |= words ^ (x ^ (x >> 32));
    x += kLanes * kStep;
    from += kVectorBytes;
    bytes -= kVectorBytes;
  }
  std::uint64_t differs = found[0] | found[1] | found[2] | found[3];
  for (std::size_t lane = 0; bytes > 0; ++lane) {
    const std::size_t part = bytes < kWord ? bytes : kWord;
    const std::uint64_t expected = word_at(x[lane]);
    std::uint64_t word = expected;
    std::memcpy(&word, from, part);
    differs |= word ^ expected;
    from += part;
    bytes -= part;
  }
  return differs;
}

KVF_ALWAYS_INLINE void fill_rows(std::byte* item, std::uint64_t block, const ItemSpec& spec) {
  for (std::uint32_t row = 0; row < spec.rows; ++row) {
    fill_row(item + std::size_t{row} * spec.row_bytes, spec.row_bytes,
             row_seed(block, spec.first_token + row));
  }
}

KVF_ALWAYS_INLINE std::uint64_t differs_rows(const std::byte* item, std::uint64_t block,
                                             const ItemSpec& spec) {
  std::uint64_t differs = 0;
  for (std::uint32_t row = 0; row < spec.rows; ++row) {
    differs |= differs_row(item + std::size_t{row} * spec.row_bytes, spec.row_bytes,
                           row_seed(block, spec.first_token + row));
  }
  return differs;
}

KVF_ALWAYS_INLINE void fill_words(std::byte* to, std::size_t bytes, std::uint64_t word) {
  const Vector words = {word, word, word, word};
  for (; bytes >= kVectorBytes; bytes -= kVectorBytes, to += kVectorBytes)
    std::memcpy(to, &words, kVectorBytes);
  for (; bytes > 0; --bytes, ++to) *to = static_cast<std::byte>(word & 0xff);
}

KVF_ALWAYS_INLINE std::uint64_t differs_words(const std::byte* from, std::size_t bytes, std::uint64_t word) {
  const Vector expected = {word, word, word, word};
  Vector found = {0, 0, 0, 0};
  for (; bytes >= kVectorBytes; bytes -= kVectorBytes, from += kVectorBytes) {
    Vector words;
    std::memcpy(&words, from, kVectorBytes);
    found |= words ^ expected;
  }
  std::uint64_t differs = found[0] | found[1] | found[2] | found[3];
  for (; bytes > 0; --bytes, ++from) differs |= static_cast<std::uint64_t>(*from) ^ (word & 0xff);
  return differs;
}

void fill_base(std::byte* item, std::uint64_t block, const ItemSpec& spec) { fill_rows(item, block, spec); }
std::uint64_t differs_base(const std::byte* item, std::uint64_t block, const ItemSpec& spec) {
  return differs_rows(item, block, spec);
}
void words_base(std::byte* to, std::size_t bytes, std::uint64_t word) { fill_words(to, bytes, word); }
std::uint64_t differs_words_base(const std::byte* from, std::size_t bytes, std::uint64_t word) {
  return differs_words(from, bytes, word);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fill_avx2(std::byte* item, std::uint64_t block, const ItemSpec& spec) {
  fill_rows(item, block, spec);
}
__attribute__((target("avx2"))) std::uint64_t differs_avx2(const std::byte* item, std::uint64_t block,
                                                           const ItemSpec& spec) {
  return differs_rows(item, block, spec);
}
__attribute__((target("avx2"))) void words_avx2(std::byte* to, std::size_t bytes, std::uint64_t word) {
  fill_words(to, bytes, word);
}
__attribute__((target("avx2"))) std::uint64_t differs_words_avx2(const std::byte* from, std::size_t bytes,
                                                                 std::uint64_t word) {
  return differs_words(from, bytes, word);
}
bool wide() noexcept { return __builtin_cpu_supports("avx2") != 0; }
#else
constexpr auto* fill_avx2 = fill_base;
constexpr auto* differs_avx2 = differs_base;
constexpr auto* words_avx2 = words_base;
constexpr auto* differs_words_avx2 = differs_words_base;
constexpr bool wide() noexcept { return false; }
#endif

// The slow path: only when something is wrong.
std::uint64_t count_wrong(const std::byte* item, std::uint64_t block, const ItemSpec& spec) {
  std::uint64_t wrong = 0;
  for (std::uint32_t row = 0; row < spec.rows; ++row) {
    const std::uint64_t seed = row_seed(block, spec.first_token + row);
    const std::byte* from = item + std::size_t{row} * spec.row_bytes;
    for (std::uint32_t at = 0; at < spec.row_bytes; ++at) {
      const std::uint64_t word = word_at(seed + (at / kWord + 1) * kStep);
      std::byte expected[kWord];
      std::memcpy(expected, &word, kWord);
      wrong += from[at] != expected[at % kWord] ? 1U : 0U;
    }
  }
  return wrong;
}

std::uint64_t poison_word(std::uint64_t place) { return mix64(place ^ 0x706f69736f6e6564ULL); }

}  // namespace

void oracle_fill(std::byte* item, const WriteTag& tag, const ItemSpec& spec) noexcept {
  const std::uint64_t block = block_seed(tag, spec);
  wide() ? fill_avx2(item, block, spec) : fill_base(item, block, spec);
}

std::uint64_t oracle_wrong(const std::byte* item, const WriteTag& tag, const ItemSpec& spec) noexcept {
  const std::uint64_t block = block_seed(tag, spec);
  const std::uint64_t differs = wide() ? differs_avx2(item, block, spec) : differs_base(item, block, spec);
  return differs == 0 ? 0 : count_wrong(item, block, spec);
}

void poison_fill(std::span<std::byte> memory, std::uint64_t place) noexcept {
  const std::uint64_t word = poison_word(place);
  wide() ? words_avx2(memory.data(), memory.size(), word) : words_base(memory.data(), memory.size(), word);
}

std::uint64_t poison_wrong(std::span<const std::byte> memory, std::uint64_t place) noexcept {
  const std::uint64_t word = poison_word(place);
  const std::uint64_t differs = wide() ? differs_words_avx2(memory.data(), memory.size(), word)
                                       : differs_words_base(memory.data(), memory.size(), word);
  if (differs == 0) return 0;
  const std::size_t whole = memory.size() / kVectorBytes * kVectorBytes;
  std::byte expected[kWord];
  std::memcpy(expected, &word, kWord);
  std::uint64_t wrong = 0;
  for (std::size_t at = 0; at < memory.size(); ++at) {
    wrong += memory[at] != (at < whole ? expected[at % kWord] : expected[0]) ? 1U : 0U;
  }
  return wrong;
}

}  // namespace kvferry::replay
