// What travels in a room's auxiliary slot: who wrote the pages, with which serial, and for which prompt.
// Decode checks it against what the parent's area says on another path. Values; no thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "replay/oracle.h"

namespace kvferry::replay {

struct Manifest {
  WriteTag write;
  std::uint64_t room = 0;
  std::uint32_t attempt = 0;
  std::uint32_t tokens = 0;         // the whole prompt
  std::uint32_t prefix_tokens = 0;  // of which decode held these
  std::uint64_t blocks = 0;         // digest of the block hashes
  bool operator==(const Manifest&) const = default;
};

std::uint64_t digest_of(std::span<const std::uint64_t> hashes) noexcept;

// Fills the whole slot: the manifest, its checksum, and oracle bytes behind it.
void write_manifest(std::span<std::byte> slot, const Manifest&) noexcept;
// How many bytes of the slot differ from what write_manifest would have put there.
std::uint64_t manifest_wrong(std::span<const std::byte> slot, const Manifest&) noexcept;

}  // namespace kvferry::replay
