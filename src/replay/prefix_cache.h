// Blocks of 512 tokens that a decode process holds, by hash. A block is shared while a request uses it and
// ends with its last user; its pages then go back. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "replay/oracle.h"

namespace kvferry::replay {

class PrefixCache {
 public:
  // How many blocks from the first on are held, without a gap.
  std::uint32_t held(std::span<const std::uint64_t> hashes) const;
  // Counts one more user of a held block.
  void use(std::uint64_t hash);
  // A block that arrived and was proven; the caller is its first user. false: another copy is held already,
  // the caller keeps its own pages to itself.
  bool add(std::uint64_t hash, const WriteTag&, std::span<const std::uint32_t> pages);

  struct Block {
    WriteTag tag;
    std::vector<std::uint32_t> pages;
    std::uint32_t users = 0;
  };
  // One user less; the last one gets the block back, which is forgotten here. The hash must be held.
  std::optional<Block> drop(std::uint64_t hash);
  std::size_t size() const noexcept { return blocks_.size(); }

 private:
  std::unordered_map<std::uint64_t, Block> blocks_;
};

}  // namespace kvferry::replay
