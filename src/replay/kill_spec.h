// One --kill flag: which process dies, when, and whether a new one takes its port. Values; no thread rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/error.h"

namespace kvferry::replay {

enum class Side : std::uint8_t { kPrefill = 0, kDecode = 1 };
const char* name_of(Side) noexcept;

struct KillSpec {
  std::string text;             // as typed, for messages
  Side side = Side::kPrefill;
  std::uint32_t index = 0;      // which process of that side
  bool at_room = false;         // true: after the `room`-th open; false: at `seconds`
  double seconds = 0;           // trace seconds at a numeric speed, wall seconds with "max"
  std::uint64_t room = 0;       // from 1
  bool restart = false;
};

// "prefill@1.5", "decode.1@room:40:restart". kUsage names the flag, the text, the part that is wrong and the
// form.
Result<KillSpec> parse_kill(std::string_view text);

}  // namespace kvferry::replay
