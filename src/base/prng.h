// Pseudo-random numbers for tokens, tests, simulator and replay: xoshiro256** seeded through splitmix64. The
// seed is explicit, there is no global generator, equal seeds give equal numbers on every machine. Not for
// secrets. Thread rule: one generator per thread; it is an ordinary copyable value.
#pragma once

#include <cstdint>

namespace kvferry {

// One step of splitmix64: advances `state` and returns 64 well-mixed bits. Also a good mixer of one integer.
constexpr std::uint64_t splitmix64(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// The bits of `value`, mixed: a stateless hash of one integer.
constexpr std::uint64_t mix64(std::uint64_t value) noexcept { return splitmix64(value); }

class Prng {
 public:
  using result_type = std::uint64_t;  // usable where <random> and std::shuffle want a generator

  explicit constexpr Prng(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : s_) {
      word = splitmix64(seed);
    }
  }

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~result_type{0}; }
  constexpr result_type operator()() noexcept { return next(); }

  constexpr std::uint64_t next() noexcept {
    const std::uint64_t result = rotate(s_[1] * 5, 7) * 9;
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotate(s_[3], 45);
    return result;
  }

  // Uniform in [0, bound); 0 when bound is 0. Without modulo bias.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    if (bound == 0) {
      return 0;
    }
    const std::uint64_t least = (0 - bound) % bound;  // 2^64 mod bound: values below it would be biased
    std::uint64_t x = next();
    while (x < least) {
      x = next();
    }
    return x % bound;
  }

  // Uniform in [low, high], both included; low when high < low.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
    if (high <= low) {
      return low;
    }
    const std::uint64_t width = high - low + 1;  // 0: the whole 64-bit range
    return width == 0 ? next() : low + below(width);
  }

  // Uniform in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // True with probability p (p <= 0: never; p >= 1: always).
  constexpr bool chance(double p) noexcept { return unit() < p; }

  // A generator of its own for a part (a rank, a room): the parent's sequence moves on by one number.
  constexpr Prng fork() noexcept { return Prng{next()}; }

  constexpr bool operator==(const Prng&) const noexcept = default;

 private:
  static constexpr std::uint64_t rotate(std::uint64_t x, int k) noexcept {
    return (x << k) | (x >> (64 - k));
  }

  std::uint64_t s_[4]{};
};

}  // namespace kvferry
