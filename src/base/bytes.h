// Bounded little-endian reading and writing over spans; the one place where bytes are reinterpreted.
// A Reader or Writer that was asked for more than there is turns bad and stays bad: callers do a whole
// structure and then ask ok() once. Nothing is read or written behind the end. Thread rule: values; one
// owner.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace kvferry {

inline std::span<const std::byte> bytes_of_text(std::string_view text) noexcept {
  return std::as_bytes(std::span<const char>{text.data(), text.size()});
}
inline std::string_view text_of_bytes(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::uint8_t> octets_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> bytes_of_octets(std::span<const std::uint8_t> octets) noexcept {
  return std::as_bytes(octets);
}

// `alignment` is a power of two.
inline bool is_aligned(const void* address, std::size_t alignment) noexcept {
  return (reinterpret_cast<std::uintptr_t>(address) & (alignment - 1)) == 0;
}

// The first sizeof(T) bytes of `to`, which must hold that many.
template <std::unsigned_integral T>
inline void store_le(T value, std::span<std::byte> to) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(to.data(), &value, sizeof(T));
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      to[i] = static_cast<std::byte>((value >> (8 * i)) & T{0xff});
    }
  }
}

// The first sizeof(T) bytes of `from`, which must hold that many.
template <std::unsigned_integral T>
inline T load_le(std::span<const std::byte> from) noexcept {
  T value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, from.data(), sizeof(T));
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(from[i]) << (8 * i)));
    }
  }
  return value;
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  bool ok() const noexcept { return ok_; }
  std::size_t left() const noexcept { return rest_.size(); }
  bool at_end() const noexcept { return ok_ && rest_.empty(); }  // read whole and nothing left over

  std::uint8_t u8() noexcept { return number<std::uint8_t>(); }
  std::uint16_t u16() noexcept { return number<std::uint16_t>(); }
  std::uint32_t u32() noexcept { return number<std::uint32_t>(); }
  std::uint64_t u64() noexcept { return number<std::uint64_t>(); }

  // 0 when bad.
  template <std::unsigned_integral T>
  T number() noexcept {
    const std::span<const std::byte> raw = bytes(sizeof(T));
    return raw.size() == sizeof(T) ? load_le<T>(raw) : T{0};
  }

  // A view of the next `count` bytes; empty when bad.
  std::span<const std::byte> bytes(std::size_t count) noexcept {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::span<const std::byte> head = rest_.first(count);
    rest_ = rest_.subspan(count);
    return head;
  }

  // A 32-bit length and that many bytes; a length above `most` turns the reader bad.
  std::string_view text(std::size_t most) noexcept {
    const std::uint32_t size = u32();
    if (size > most) {
      ok_ = false;
      return {};
    }
    return text_of_bytes(bytes(size));
  }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// Writes into memory of the caller.
class Writer {
 public:
  explicit Writer(std::span<std::byte> room) noexcept : room_(room) {}

  bool ok() const noexcept { return ok_; }
  std::size_t size() const noexcept { return used_; }
  std::span<const std::byte> written() const noexcept { return room_.first(used_); }

  void u8(std::uint8_t v) noexcept { number(v); }
  void u16(std::uint16_t v) noexcept { number(v); }
  void u32(std::uint32_t v) noexcept { number(v); }
  void u64(std::uint64_t v) noexcept { number(v); }

  template <std::unsigned_integral T>
  void number(T value) noexcept {
    if (claim(sizeof(T))) {
      store_le(value, room_.subspan(used_ - sizeof(T)));
    }
  }

  void bytes(std::span<const std::byte> from) noexcept {
    if (claim(from.size()) && !from.empty()) {
      std::memcpy(room_.data() + (used_ - from.size()), from.data(), from.size());
    }
  }

  // A 32-bit length and the bytes.
  void text(std::string_view from) noexcept {
    if (from.size() > ~std::uint32_t{0}) {
      ok_ = false;
      return;
    }
    u32(static_cast<std::uint32_t>(from.size()));
    bytes(bytes_of_text(from));
  }

 private:
  bool claim(std::size_t count) noexcept {
    if (!ok_ || count > room_.size() - used_) {
      ok_ = false;
      return false;
    }
    used_ += count;
    return true;
  }

  std::span<std::byte> room_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

// Appends to a string that grows; for canonical byte strings and other cold paths.
class Appender {
 public:
  explicit Appender(std::string& out) noexcept : out_(&out) {}

  void u8(std::uint8_t v) { number(v); }
  void u16(std::uint16_t v) { number(v); }
  void u32(std::uint32_t v) { number(v); }
  void u64(std::uint64_t v) { number(v); }

  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_->push_back(static_cast<char>(static_cast<unsigned char>((value >> (8 * i)) & T{0xff})));
    }
  }

  // A 64-bit length and the bytes: two different lists of texts never give the same string.
  void text(std::string_view from) {
    u64(from.size());
    out_->append(from);
  }

 private:
  std::string* out_;
};

}  // namespace kvferry
