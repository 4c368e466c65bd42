// What a transport says about itself in HELLO: where its door is, which life it is, what regions it has.
// Values; no thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"

namespace kvferry::shm {

inline constexpr std::size_t kMaxDescription = 4096;  // bytes; the promise of Transport::describe()

enum class RegionKind : std::uint8_t {
  kUnready = 0,  // refused or not ready yet: nobody can read it
  kShared = 1,   // in a memfd that is handed over
  kForeign = 2,  // read by process_vm_readv
};

struct Description {
  struct Region {
    std::uint64_t length = 0;
    RegionKind kind = RegionKind::kUnready;
    bool operator==(const Region&) const = default;
  };
  std::uint64_t cookie = 0;
  std::uint64_t pid = 0;   // for people: the reader takes the pid that the kernel tells
  bool abstract = true;    // door: an abstract unix socket, else a path
  std::string door;        // at most 107 bytes, without the leading 0 of an abstract name
  std::vector<Region> regions;  // by RegionId; ids without a region have length 0
  bool operator==(const Description&) const = default;
};

std::vector<std::byte> encode(const Description&);
Result<Description> decode_description(std::span<const std::byte>);

}  // namespace kvferry::shm
