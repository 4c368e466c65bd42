#include "sim/memory.h"

#include "base/prng.h"

namespace kvferry::sim {

Memory::Memory(const Geometry& g) : geometry_(g) {
  for (std::size_t s = 0; s < kSpaces; ++s) {
    cells_[s].resize(static_cast<std::size_t>(g.slots[s]) * g.items[s]);
    lending_[s].resize(g.items[s]);
    held_[s].resize(g.items[s]);
  }
}

void Memory::poison(Space s, std::uint32_t item) {
  for (std::uint32_t slot = 0; slot < geometry_.slots[at(s)]; ++slot) cell(s, slot, item) = Tag32{};
}

void Memory::canonical(std::string& bytes) const {
  for (std::size_t s = 0; s < kSpaces; ++s) {
    for (const Tag32& t : cells_[s]) {
      bytes.append(reinterpret_cast<const char*>(&t), sizeof t);
    }
    for (std::size_t i = 0; i < lending_[s].size(); ++i) {
      bytes.push_back(static_cast<char>(lending_[s][i]));
      bytes.push_back(static_cast<char>(held_[s][i]));
    }
  }
}

std::uint32_t content_of(std::uint32_t prompt, Space space, std::uint32_t layer,
                         std::uint32_t block) noexcept {
  const std::uint64_t where =
      (static_cast<std::uint64_t>(space) << 56) | (static_cast<std::uint64_t>(layer) << 32) | block;
  return static_cast<std::uint32_t>(mix64(mix64(prompt) ^ where)) | 1U;
}

}  // namespace kvferry::sim
