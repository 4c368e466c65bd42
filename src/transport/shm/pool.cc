#include "transport/shm/pool.h"

#include <utility>

namespace kvferry {

SharedPool::SharedPool(shm::File file, shm::Mapping mapping, const shm::HugeReport& huge)
    : file_(std::move(file)), mapping_(std::move(mapping)), huge_(huge) {}

bool SharedPool::contains(const void* address, std::uint64_t length) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const auto base = reinterpret_cast<std::uintptr_t>(data());
  return first >= base && length <= size() && first - base <= size() - length;
}

std::string SharedPool::report() const { return huge_.text(); }

Result<std::shared_ptr<SharedPool>> allocate_pool(std::uint64_t bytes) {
  const std::string what = "shm pool of " + std::to_string(bytes) + " bytes";
  constexpr std::uint64_t kMost = 1ULL << 46;  // half of a process's addresses: anything above is a mistake
  if (bytes == 0 || bytes > kMost) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, what,
                "a pool holds 1 to " + std::to_string(kMost) + " bytes; give a size in that range");
  }
  const std::uint64_t size = shm::round_up(bytes, shm::kHuge);
  if (auto there = shm::check_available(size, what); !there) {
    return tl::unexpected(there.error());
  }
  auto file = shm::make_memfd("kvferry-pool", size);
  if (!file) {
    return tl::unexpected(file.error());
  }
  auto mapping = shm::map_file(file->fd(), size, shm::Protection::kReadWrite, what);
  if (!mapping) {
    return tl::unexpected(mapping.error());
  }
  auto huge = shm::populate(mapping->data(), size, nullptr, what);
  if (!huge) {
    return tl::unexpected(huge.error());
  }
  return std::make_shared<SharedPool>(std::move(*file), std::move(*mapping), *huge);
}

}  // namespace kvferry
