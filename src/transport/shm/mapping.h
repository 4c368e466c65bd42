// Mappings whose address is congruent to the file offset modulo 2 MiB, so that both may be huge pages; how
// they are touched and made huge. Thread rule: a Mapping has one owner; the functions may run on any thread
// and stop early when their Stop says so (they work in steps of 32 MiB, some milliseconds each).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kvferry/error.h"
#include "transport/shm/file.h"

namespace kvferry::shm {

inline constexpr std::uint64_t kHuge = 2ULL << 20;
inline constexpr std::uint64_t kSmall = 4096;

using Stop = std::atomic<bool>;

inline constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t to) noexcept {
  return value - value % to;
}
inline constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) noexcept {
  return round_down(value + to - 1, to);
}

class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::uint64_t size) noexcept : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  std::byte* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

enum class Protection : std::uint8_t { kRead, kReadWrite };

// Maps the first `bytes` of a file, shared, at a multiple of 2 MiB. Nothing is touched yet.
Result<Mapping> map_file(int fd, std::uint64_t bytes, Protection, const std::string& what);

// How much of a range is known to be in huge pages, and why not all of it.
struct HugeReport {
  std::uint64_t bytes = 0;  // asked for
  std::uint64_t huge = 0;   // of those, in huge pages for certain
  int error = 0;            // errno of the last refusal; 0: none
  std::string text()
      const;  // "64 of 64 MiB in huge pages", "0 of 64 MiB in huge pages (Cannot allocate memory)"
};

// Faults every page of [data, data + bytes) in. An error is kEnvironment with errno (not enough memory, not
// SIGBUS).
Result<> touch(std::byte* data, std::uint64_t bytes, Protection, const Stop*, const std::string& what);

// Asks the kernel for huge pages in the 2 MiB-aligned middle of the range; touch() it before.
HugeReport collapse(std::byte* data, std::uint64_t bytes, const Stop*);

// Refuses (kEnvironment, with both numbers) what the host has no memory for now: a memfd of any size can be
// made and mapped, and touching it would end some process. Not exact: others allocate too, and a container
// may allow less.
Result<> check_available(std::uint64_t bytes, const std::string& what);

// Gives fresh memory of a memfd (nothing in it yet) its pages, huge ones where they can be had: one small
// page of every 2 MiB first, then collapse(), then the rest. Five times faster than to fault small pages and
// collapse them.
Result<HugeReport> populate(std::byte* data, std::uint64_t bytes, const Stop*, const std::string& what);

}  // namespace kvferry::shm
