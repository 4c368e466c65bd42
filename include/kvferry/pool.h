// Memory of our own for KV pages: the shm mover shares it as it is, without adoption or foreign reads. Thread
// rule: immutable after allocate(); any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kvferry/error.h"
#include "kvferry/export.h"

namespace kvferry {

class SharedPool;  // of the shm mover

// Owns the memory. Name it in PartsOptions::pools and its ranges in ManagerOptions::regions; it must outlive
// the manager.
class KVFERRY_API Pool {
 public:
  // At least `bytes` (rounded up to 2 MiB), zeroed and touched; blocks for about 0.4 s a GiB. Errors: kUsage
  // for a size that cannot be, kEnvironment (with errno) when the host has not that much.
  static Result<std::shared_ptr<const Pool>> allocate(std::uint64_t bytes);
  explicit Pool(std::shared_ptr<const SharedPool> shared);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::byte* data() const noexcept;
  std::uint64_t size() const noexcept;  // bytes
  std::string report() const;  // "64 of 64 MiB in huge pages"
  const std::shared_ptr<const SharedPool>& shared() const noexcept { return shared_; }

 private:
  std::shared_ptr<const SharedPool> shared_;
};

}  // namespace kvferry
