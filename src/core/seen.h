// The sender's memory of grant numbers of one receiver's life: a sliding bitmap (rule 2). A copyable value.
#pragma once

#include <cstdint>
#include <vector>

namespace kvferry::core {

class SeenWindow {
 public:
  explicit SeenWindow(std::uint32_t size = 64) : size_(size), bits_((size + 63) / 64, 0) {}

  std::uint64_t base() const { return base_; }
  std::uint64_t size() const { return size_; }
  bool below(std::uint64_t n) const { return n < base_; }
  bool above(std::uint64_t n) const { return n >= base_ + size(); }
  bool test(std::uint64_t n) const { return below(n) || (!above(n) && (word(n) & bit(n)) != 0); }
  void set(std::uint64_t n) {
    if (!below(n) && !above(n)) word(n) |= bit(n);
  }
  // Everything below `floor` is closed at the receiver: forget it, refuse it from now on.
  void raise(std::uint64_t floor) {
    if (floor <= base_) return;
    if (floor - base_ >= bits_.size() * 64) {
      bits_.assign(bits_.size(), 0);
    } else {
      for (std::uint64_t n = base_; n < floor; ++n) word(n) &= ~bit(n);
    }
    base_ = floor;
  }
  template <class F>
  void each(F f) const {
    for (std::uint64_t n = base_; n < base_ + size(); ++n) {
      if (test(n)) f(n);
    }
  }
  // Only words that hold a bit matter to the explorer's fingerprint.
  const std::vector<std::uint64_t>& words() const { return bits_; }

 private:
  std::uint64_t& word(std::uint64_t n) { return bits_[(n / 64) % bits_.size()]; }
  const std::uint64_t& word(std::uint64_t n) const { return bits_[(n / 64) % bits_.size()]; }
  static std::uint64_t bit(std::uint64_t n) { return 1ULL << (n % 64); }
  std::uint64_t size_;
  std::vector<std::uint64_t> bits_;
  std::uint64_t base_ = 1;
};

}  // namespace kvferry::core
