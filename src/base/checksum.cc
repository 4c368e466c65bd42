#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "base/bytes.h"

namespace kvferry {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher(std::uint64_t seed) : state_(std::make_unique<State>()) {
  XXH3_64bits_reset_withSeed(&state_->xxh, seed);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) noexcept {
  XXH3_64bits_update(&state_->xxh, text.data(), text.size());
}

void Hasher::add(std::uint64_t value) noexcept {
  std::array<std::byte, sizeof value> bytes{};
  store_le(value, bytes);
  add(std::span<const std::byte>{bytes});
}

std::uint64_t Hasher::value() const noexcept { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace kvferry
