// The part of TOML that a configuration file needs: [section], key = value with strings, integers and
// booleans, comments. Everything else of TOML is refused by name with the line, never half understood. Pure;
// total on hostile bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"

namespace kvferry::config {

struct TomlItem {
  std::string name;   // "section.key"
  std::string value;  // of a string: without quotes and escapes
  std::uint32_t line = 0;
};

inline constexpr std::size_t kMaxFileBytes = 1U << 20;

// kUsage names file, line, what was found and what is understood.
Result<std::vector<TomlItem>> read_toml(std::string_view text, std::string_view file);

}  // namespace kvferry::config
