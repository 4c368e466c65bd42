// Bytes as text that a person can read in a review: blocks of hex lines, each with comment lines above it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvferry::golden {

struct HexBlock {
  std::vector<std::string> comments;  // without "# "
  std::vector<std::byte> bytes;
};

// Blocks are separated by empty lines; a block of comments alone has no bytes. A line that is neither hex nor
// a comment gives no blocks at all.
std::vector<HexBlock> parse_hex(const std::string& text);
std::string print_hex(const std::vector<HexBlock>&);

std::string read_file(const std::string& path);  // empty: there is none
void write_file(const std::string& path, const std::string& content);

// True when the test program was started with --update-golden: files are written instead of compared.
bool updating();

}  // namespace kvferry::golden
