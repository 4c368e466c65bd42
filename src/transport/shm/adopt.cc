#include "transport/shm/adopt.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/copy.h"

namespace kvferry::shm {

namespace {

constexpr std::uint64_t kStep = 32ULL << 20;

tl::unexpected<Error> stopped(const std::string& what) {
  return fail(Code::kAborted, Who::kLocal, Next::kNever, what,
              "the transport was stopped while it adopted the range");
}

// Into a second mapping of the file, which is gone afterwards.
Result<> copy_over(int fd, std::uint64_t offset, const std::byte* data, std::uint64_t bytes, const Stop& stop,
                   const std::string& what) {
  auto copy = map_file(fd, offset + bytes, Protection::kReadWrite, what);
  if (!copy) {
    return tl::unexpected(copy.error());
  }
  if (auto made = populate(copy->data() + offset, bytes, &stop, what); !made) {
    return tl::unexpected(made.error());
  }
  for (std::uint64_t at = 0; at < bytes; at += kStep) {
    if (stop.load(std::memory_order_relaxed)) {
      return stopped(what);
    }
    const std::uint64_t step = std::min(kStep, bytes - at);
    copy_stream(copy->data() + offset + at, data + at, step);
  }
  copy_fence();
  return {};
}

}  // namespace

Result<Adopted> adopt(std::byte* data, std::uint64_t bytes, const Stop& stop, const std::string& what) {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(data) % kHuge;
  if (auto there = check_available(bytes, what); !there) {
    return tl::unexpected(there.error());
  }
  auto file = make_memfd("kvferry-adopted", offset + bytes);
  if (!file) {
    return tl::unexpected(file.error());
  }
  if (auto copied = copy_over(file->fd(), offset, data, bytes, stop, what); !copied) {
    return tl::unexpected(copied.error());
  }
  auto handed = read_only(file->fd());
  if (!handed) {
    return tl::unexpected(handed.error());
  }
  if (stop.load(std::memory_order_relaxed)) {
    return stopped(what);
  }
  const int prot = PROT_READ | PROT_WRITE;
  if (::mmap(data, bytes, prot, MAP_SHARED | MAP_FIXED, file->fd(), static_cast<off_t>(offset)) ==
      MAP_FAILED) {
    return system_error(what, "mapping the memfd over the range failed", errno);
  }
  Adopted adopted;
  adopted.file = std::move(*handed);
  adopted.offset = offset;
  // The range is adopted by now: a refusal of the two below costs speed only.
  static_cast<void>(touch(data, bytes, Protection::kReadWrite, &stop, what).has_value());
  adopted.huge = collapse(data, bytes, &stop);
  return adopted;
}

}  // namespace kvferry::shm
