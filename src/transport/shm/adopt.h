// Makes memory of an engine shareable where it lies: its pages are copied to a memfd, which is then mapped
// over them. Thread rule: any thread, but nothing may write to the range while it runs; readers are not
// disturbed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kvferry/error.h"
#include "transport/shm/file.h"
#include "transport/shm/mapping.h"

namespace kvferry::shm {

struct Adopted {
  File file;                 // read-only; the mapping keeps the memory alive without it
  std::uint64_t offset = 0;  // of the range's first byte in the file: address modulo 2 MiB
  HugeReport huge;
};

// Page-aligned ranges only. On an error the range is as it was. Afterwards the memory is shared with children
// made by fork(), and locks or hints set by mlock() and madvise() are gone. Needs free memory of the same
// size for a moment.
Result<Adopted> adopt(std::byte* data, std::uint64_t bytes, const Stop&, const std::string& what);

}  // namespace kvferry::shm
