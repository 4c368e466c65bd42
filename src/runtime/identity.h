// Who this process is: one life, one host. Thread rule: any thread; called once at start.
#pragma once

#include <string>

#include "kvferry/types.h"

namespace kvferry::runtime {

Incarnation draw_incarnation();   // wall-clock milliseconds and 64 random bits
std::uint64_t draw_token_seed();  // 64 random bits

// Equal on both sides = same kernel and same process numbers: a hash of the boot id and the process-id
// namespace. Where neither can be read the id is random, so that nobody is taken for a neighbour by mistake.
std::string default_host_id();

}  // namespace kvferry::runtime
