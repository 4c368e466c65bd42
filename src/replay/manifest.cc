#include "replay/manifest.h"

#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"
#include "replay/page_memory.h"

namespace kvferry::replay {

std::uint64_t digest_of(std::span<const std::uint64_t> hashes) noexcept {
  return hash64(std::as_bytes(hashes));
}

void write_manifest(std::span<std::byte> slot, const Manifest& manifest) noexcept {
  Writer writer(slot);
  writer.u64(manifest.write.writer.started_ms);
  writer.u64(manifest.write.writer.random);
  writer.u64(manifest.write.serial);
  writer.u64(manifest.room);
  writer.u32(manifest.attempt);
  writer.u32(manifest.tokens);
  writer.u32(manifest.prefix_tokens);
  writer.u64(manifest.blocks);
  writer.u64(hash64(writer.written()));
  const std::span<std::byte> rest = slot.subspan(writer.size());
  oracle_fill(rest.data(), manifest.write,
              ItemSpec{manifest.blocks, 0, ~0U, 0, 1, static_cast<std::uint32_t>(rest.size())});
}

std::uint64_t manifest_wrong(std::span<const std::byte> slot, const Manifest& manifest) noexcept {
  std::array<std::byte, kAuxBytes> expected{};
  const std::size_t size = slot.size() < expected.size() ? slot.size() : expected.size();
  write_manifest(std::span(expected).first(size), manifest);
  std::uint64_t wrong = slot.size() - size;
  for (std::size_t i = 0; i < size; ++i) wrong += slot[i] != expected[i] ? 1U : 0U;
  return wrong;
}

}  // namespace kvferry::replay
