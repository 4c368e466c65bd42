#include "golden/hex_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kvferry::golden {

namespace {

constexpr std::size_t kBytesPerLine = 32;
constexpr std::string_view kDigits = "0123456789abcdef";

bool add_hex(const std::string& line, std::vector<std::byte>& out) {
  if (line.size() % 2 != 0) {
    return false;
  }
  for (std::size_t i = 0; i < line.size(); i += 2) {
    const std::size_t high = kDigits.find(line[i]);
    const std::size_t low = kDigits.find(line[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return false;
    }
    out.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return true;
}

}  // namespace

std::vector<HexBlock> parse_hex(const std::string& text) {
  std::vector<HexBlock> blocks;
  HexBlock block;
  const auto flush = [&] {
    if (!block.comments.empty() || !block.bytes.empty()) {
      blocks.push_back(std::move(block));
    }
    block = {};
  };
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) {
      flush();
    } else if (line.starts_with("# ")) {
      block.comments.push_back(line.substr(2));
    } else if (!add_hex(line, block.bytes)) {
      return {};
    }
  }
  flush();
  return blocks;
}

std::string print_hex(const std::vector<HexBlock>& blocks) {
  std::string out;
  for (const HexBlock& block : blocks) {
    if (!out.empty()) {
      out.push_back('\n');
    }
    for (const std::string& comment : block.comments) {
      out.append("# ").append(comment).append("\n");
    }
    for (std::size_t i = 0; i < block.bytes.size(); ++i) {
      const auto value = std::to_integer<std::size_t>(block.bytes[i]);
      out.push_back(kDigits[value / 16]);
      out.push_back(kDigits[value % 16]);
      if ((i + 1) % kBytesPerLine == 0 || i + 1 == block.bytes.size()) {
        out.push_back('\n');
      }
    }
  }
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return in ? out.str() : std::string();
}

void write_file(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  ASSERT_TRUE(out.good()) << path << " cannot be written";
}

bool updating() {
  const std::vector<std::string> args = ::testing::internal::GetArgvs();
  return std::find(args.begin(), args.end(), "--update-golden") != args.end();
}

}  // namespace kvferry::golden
