#include "kvferry/pool.h"

#include <utility>

#include "transport/shm/pool.h"

namespace kvferry {

Result<std::shared_ptr<const Pool>> Pool::allocate(std::uint64_t bytes) {
  auto shared = allocate_pool(bytes);
  if (!shared) return tl::unexpected(shared.error());
  return std::make_shared<const Pool>(std::move(*shared));
}

Pool::Pool(std::shared_ptr<const SharedPool> shared) : shared_(std::move(shared)) {}
Pool::~Pool() = default;

std::byte* Pool::data() const noexcept { return shared_->data(); }
std::uint64_t Pool::size() const noexcept { return shared_->size(); }
std::string Pool::report() const { return shared_->report(); }

}  // namespace kvferry
