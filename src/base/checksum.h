// XXH3 of pieces, pages and canonical strings. Not for secrets; the values are stable over releases and
// machines. Thread rule: hash64 from any thread; one Hasher per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace kvferry {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) noexcept;

// The same value as hash64 over all bytes that were added, in order.
class Hasher {
 public:
  explicit Hasher(std::uint64_t seed = 0);
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(std::span<const std::byte> bytes) noexcept;
  void add(std::string_view text) noexcept;
  void add(std::uint64_t value) noexcept;  // as 8 little-endian bytes
  std::uint64_t value() const noexcept;    // may be read at any time

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvferry
