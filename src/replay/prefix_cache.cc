#include "replay/prefix_cache.h"

#include <utility>

#include "base/check.h"

namespace kvferry::replay {

std::uint32_t PrefixCache::held(std::span<const std::uint64_t> hashes) const {
  std::uint32_t count = 0;
  while (count < hashes.size() && blocks_.contains(hashes[count])) ++count;
  return count;
}

void PrefixCache::use(std::uint64_t hash) {
  const auto found = blocks_.find(hash);
  KVF_CHECK(found != blocks_.end(), "a block was used that is not held");
  ++found->second.users;
}

bool PrefixCache::add(std::uint64_t hash, const WriteTag& tag, std::span<const std::uint32_t> pages) {
  return blocks_.try_emplace(hash, Block{tag, {pages.begin(), pages.end()}, 1}).second;
}

std::optional<PrefixCache::Block> PrefixCache::drop(std::uint64_t hash) {
  const auto found = blocks_.find(hash);
  KVF_CHECK(found != blocks_.end(), "a block was dropped that is not held");
  if (--found->second.users > 0) return std::nullopt;
  Block block = std::move(found->second);
  blocks_.erase(found);
  return block;
}

}  // namespace kvferry::replay
