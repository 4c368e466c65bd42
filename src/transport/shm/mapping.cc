#include "transport/shm/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace kvferry::shm {

namespace {

// Numbers of the kernel's interface that older C libraries do not name.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;
constexpr int kCollapse = 25;

constexpr std::uint64_t kStep = 32ULL << 20;
constexpr int kRefusals = 4;  // steps in a row that got no huge page: the rest will not either

bool stopped(const Stop* stop) noexcept { return stop != nullptr && stop->load(std::memory_order_relaxed); }

std::uintptr_t number_of(const std::byte* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// For kernels before 5.14, which cannot populate by madvise: one access per page.
void touch_by_hand(std::byte* data, std::uint64_t bytes, Protection protection) noexcept {
  for (std::uint64_t at = 0; at < bytes; at += kSmall) {
    volatile std::byte* p = data + at;
    const std::byte value = *p;
    if (protection == Protection::kReadWrite) {
      *p = value;
    }
  }
}

}  // namespace

void Mapping::reset() noexcept {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
    data_ = nullptr;
    size_ = 0;
  }
}

Result<Mapping> map_file(int fd, std::uint64_t bytes, Protection protection, const std::string& what) {
  void* reserved =
      ::mmap(nullptr, bytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return system_error(what, "reserving " + std::to_string(bytes + kHuge) + " bytes of addresses failed",
                        errno);
  }
  auto* base = static_cast<std::byte*>(reserved);
  auto* data = base + (round_up(number_of(base), kHuge) - number_of(base));
  const std::uint64_t before = static_cast<std::uint64_t>(data - base);
  const std::uint64_t size = round_up(bytes, kSmall);
  const int prot = protection == Protection::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::mmap(data, size, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int number = errno;
    ::munmap(reserved, bytes + kHuge);
    return system_error(what, "mapping " + std::to_string(bytes) + " bytes failed", number);
  }
  const std::uint64_t end = round_up(bytes + kHuge, kSmall);
  if (before != 0) {
    ::munmap(base, before);
  }
  if (before + size < end) {
    ::munmap(data + size, end - before - size);
  }
  return Mapping{data, size};
}

std::string HugeReport::text() const {
  std::string text = std::to_string(huge >> 20) + " of " + std::to_string(bytes >> 20) + " MiB in huge pages";
  if (error != 0) {
    text.append(" (").append(std::generic_category().message(error)).append(")");
  }
  return text;
}

Result<> touch(std::byte* data, std::uint64_t bytes, Protection protection, const Stop* stop,
               const std::string& what) {
  const int advice = protection == Protection::kRead ? kPopulateRead : kPopulateWrite;
  const std::uint64_t shift = number_of(data) % kSmall;
  data -= shift;
  bytes = round_up(bytes + shift, kSmall);
  for (std::uint64_t at = 0; at < bytes && !stopped(stop);) {
    const std::uint64_t step = std::min(kStep, bytes - at);
    if (::madvise(data + at, step, advice) == 0) {
      at += step;
    } else if (errno == EINVAL) {
      touch_by_hand(data + at, step, protection);
      at += step;
    } else if (errno != EINTR && errno != EAGAIN) {
      return system_error(what, "touching its memory failed at byte " + std::to_string(at), errno);
    }
  }
  return {};
}

HugeReport collapse(std::byte* data, std::uint64_t bytes, const Stop* stop) {
  HugeReport report;
  report.bytes = bytes;
  const std::uint64_t first = round_up(number_of(data), kHuge) - number_of(data);
  const std::uint64_t last = round_down(number_of(data) + bytes, kHuge) - number_of(data);
  int refused = 0;
  for (std::uint64_t at = first; first < last && at < last && refused < kRefusals && !stopped(stop);) {
    const std::uint64_t step = std::min(kStep, last - at);
    if (::madvise(data + at, step, kCollapse) == 0) {
      report.huge += step;
      refused = 0;
    } else {
      report.error = errno;
      ++refused;
    }
    at += step;
  }
  return report;
}

Result<> check_available(std::uint64_t bytes, const std::string& what) {
  std::ifstream facts("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kib = 0;
  while (facts >> name >> kib >> unit) {
    if (name != "MemAvailable:") continue;
    if (bytes <= kib << 10) return {};
    return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, what,
                std::to_string(bytes >> 20) + " MiB are wanted and this host has " +
                    std::to_string(kib >> 10) + " MiB available; ask for less, or free memory",
                ENOMEM);
  }
  return {};  // no such file, or an old kernel: nothing is known
}

Result<HugeReport> populate(std::byte* data, std::uint64_t bytes, const Stop* stop, const std::string& what) {
  static_cast<void>(::madvise(data, bytes, MADV_HUGEPAGE));  // a hint
  const std::uint64_t first = round_up(number_of(data), kHuge) - number_of(data);
  for (std::uint64_t at = first; at + kHuge <= bytes && !stopped(stop); at += kHuge) {
    if (auto seeded = touch(data + at, kSmall, Protection::kReadWrite, stop, what); !seeded) {
      return tl::unexpected(seeded.error());
    }
  }
  const HugeReport report = collapse(data, bytes, stop);
  if (auto touched = touch(data, bytes, Protection::kReadWrite, stop, what); !touched) {
    return tl::unexpected(touched.error());
  }
  return report;
}

}  // namespace kvferry::shm
