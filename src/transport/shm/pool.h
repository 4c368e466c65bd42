// Memory that two processes of one host can share: a sealed memfd, mapped at an address congruent to its file
// offset modulo 2 MiB, touched, and in huge pages where the kernel gives them. Thread rule: immutable after
// allocate_pool().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kvferry/error.h"
#include "transport/shm/mapping.h"

namespace kvferry {

// Owns the memfd and its mapping. The memory dies with the last mapping of it: a pool never outlives its
// process and its readers, so there is no later life that could reuse it with old lease words alive.
class SharedPool {
 public:
  SharedPool(shm::File file, shm::Mapping mapping, const shm::HugeReport& huge);

  std::byte* data() const noexcept { return mapping_.data(); }
  std::uint64_t size() const noexcept { return mapping_.size(); }  // bytes; a multiple of 2 MiB
  int fd() const noexcept { return file_.fd(); }  // owned here
  bool contains(const void* address, std::uint64_t length) const noexcept;
  const shm::HugeReport& huge() const noexcept { return huge_; }
  std::string report() const;  // "64 of 64 MiB in huge pages"

 private:
  shm::File file_;
  shm::Mapping mapping_;
  shm::HugeReport huge_;
};

// Allocates at least `bytes` (rounded up to 2 MiB), zeroed and touched; blocks for about 0.4 s a GiB.
// Errors: kUsage for 0, kEnvironment (with errno) when the kernel has not that much.
Result<std::shared_ptr<SharedPool>> allocate_pool(std::uint64_t bytes);

}  // namespace kvferry
