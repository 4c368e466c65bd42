// From checked figures to a shape of memory, and whether this host can hold it. Thread rule: none.
#pragma once

#include <cstdint>

#include "kvferry/error.h"
#include "replay/page_memory.h"

namespace kvferry::replay {

struct PoolWish {
  Model model;
  std::uint32_t page_tokens = 16, chunk_tokens = 2048;
  std::uint64_t pool_mib = 0;  // of each process; 0: four times the longest prompt, from 16 MiB to 4 GiB
  std::uint32_t longest_prompt = 0;  // tokens
  std::uint32_t aux_slots = 0;
};

// Errors: kUsage for a pool that holds less than one chunk, or a page that is too large.
Result<Shape> make_shape(const PoolWish&);

// kEnvironment when `processes` pools of this shape are more than the memory that is available now.
Result<> check_memory(const Shape&, std::uint32_t processes);

}  // namespace kvferry::replay
