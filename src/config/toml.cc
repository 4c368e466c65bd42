#include "config/toml.h"

#include <algorithm>

namespace kvferry::config {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool is_name(std::string_view text, bool dots) {
  if (text.empty() || text.front() == '.' || text.back() == '.') return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return name_char(c) || (dots && c == '.'); });
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  Result<std::vector<TomlItem>> run() {
    if (rest_.size() > kMaxFileBytes)
      return wrong("", "has " + std::to_string(rest_.size()) + " bytes, the limit is 1 MiB");
    while (!rest_.empty()) {
      const auto end = rest_.find('\n');
      const std::string_view text = trimmed(rest_.substr(0, end));
      rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
      ++line_;
      if (text.empty() || text.front() == '#') continue;
      if (auto ok = text.front() == '[' ? section(text) : item(text); !ok) return tl::unexpected(ok.error());
    }
    return std::move(items_);
  }

 private:
  tl::unexpected<Error> wrong(std::string_view found, std::string why) const {
    std::string what = "configuration file " + std::string(file_);
    if (line_ > 0) what += " line " + std::to_string(line_);
    if (!found.empty()) what += " \"" + std::string(found.substr(0, 64)) + "\"";
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::move(what), std::move(why));
  }

  Result<> section(std::string_view text) {
    const auto close = text.find(']');
    const std::string_view tail = close == std::string_view::npos ? "x" : trimmed(text.substr(close + 1));
    const std::string_view name = trimmed(text.substr(1, close == std::string_view::npos ? 0 : close - 1));
    if (!is_name(name, true) || (!tail.empty() && tail.front() != '#'))
      return wrong(text, "is no section; write [name] (arrays of tables are not understood)");
    section_ = name;
    return {};
  }

  Result<> item(std::string_view text) {
    const auto equals = text.find('=');
    const std::string_view key = trimmed(text.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(key, true))
      return wrong(text, "is neither [section] nor key = value");
    TomlItem out;
    out.name = section_.empty() ? std::string(key) : section_ + "." + std::string(key);
    out.line = line_;
    if (auto ok = value(trimmed(text.substr(equals + 1)), out.value); !ok) return ok;
    for (const TomlItem& other : items_)
      if (other.name == out.name)
        return wrong(out.name, "was set in line " + std::to_string(other.line) + " already; keep one");
    items_.push_back(std::move(out));
    return {};
  }

  Result<> value(std::string_view text, std::string& out) {
    if (text.empty()) return wrong(text, "the value is missing; write key = value");
    if (text.front() == '"' || text.front() == '\'') return quoted(text, out);
    const auto comment = text.find('#');
    out = trimmed(text.substr(0, comment));
    const bool plain =
        out == "true" || out == "false" || (!out.empty() && std::all_of(out.begin(), out.end(), [](char c) {
          return (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
        }));
    if (plain) return {};
    return wrong(out,
                 "is no value; write true, false, a whole number, or text in double quotes such as \"30s\"");
  }

  Result<> quoted(std::string_view text, std::string& out) {
    const char quote = text.front();
    if (text.substr(0, 3) == std::string(3, quote))
      return wrong(text, "texts over several lines are not understood");
    std::size_t at = 1;
    for (; at < text.size() && text[at] != quote; ++at) {
      if (quote == '"' && text[at] == '\\') {
        if (++at >= text.size() || (text[at] != '"' && text[at] != '\\'))
          return wrong(text, "holds an escape other than \\\" and \\\\");
      }
      if (static_cast<unsigned char>(text[at]) < 0x20) return wrong(text, "holds a control character");
      out += text[at];
    }
    if (at >= text.size()) return wrong(text, "the closing quote is missing");
    const std::string_view tail = trimmed(text.substr(at + 1));
    if (!tail.empty() && tail.front() != '#') return wrong(tail, "stands behind the value");
    return {};
  }

  std::string_view rest_, file_;
  std::string section_;
  std::uint32_t line_ = 0;
  std::vector<TomlItem> items_;
};

}  // namespace

Result<std::vector<TomlItem>> read_toml(std::string_view text, std::string_view file) {
  return Parser(text, file).run();
}

}  // namespace kvferry::config
