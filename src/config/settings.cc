#include "config/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/endpoint.h"

namespace kvferry::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array<Unit, 6> kTimes = {{{"h", 3600000000000ULL},
                                         {"m", 60000000000ULL},
                                         {"s", 1000000000ULL},
                                         {"ms", 1000000ULL},
                                         {"us", 1000ULL},
                                         {"ns", 1ULL}}};
constexpr std::array<Unit, 4> kSizes = {
    {{"GiB", 1ULL << 30U}, {"MiB", 1ULL << 20U}, {"KiB", 1ULL << 10U}, {"", 1}}};
constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info", "warn", "error", "off"};

std::optional<std::uint64_t> scaled(std::string_view text, std::span<const Unit> units) {
  std::string digits;
  std::size_t at = 0;
  for (; at < text.size() && ((text[at] >= '0' && text[at] <= '9') || (text[at] == '_' && at > 0)); ++at)
    if (text[at] != '_') digits += text[at];
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || parsed.ec != std::errc{}) return std::nullopt;
  for (const Unit& unit : units) {
    if (text.substr(at) != unit.name) continue;
    if (value > (1ULL << 62U) / unit.factor) return std::nullopt;
    return value * unit.factor;
  }
  return std::nullopt;
}

std::string print_bytes(std::uint64_t value) {
  for (const Unit& unit : kSizes)
    if (value >= unit.factor && value % unit.factor == 0)
      return std::to_string(value / unit.factor) + std::string(unit.name);
  return std::to_string(value);
}

std::string print_number(const Setting& s, std::uint64_t value) {
  if (s.kind == Kind::kDuration) return print_duration(Duration(static_cast<std::int64_t>(value)));
  return s.kind == Kind::kBytes ? print_bytes(value) : std::to_string(value);
}

std::string cut(std::string_view text) {
  return text.size() <= 64 ? std::string(text) : std::string(text.substr(0, 64)) + "...";
}

tl::unexpected<Error> bad(const Setting& s, std::string_view value, std::string_view origin,
                          std::string why) {
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix,
              std::string(s.name) + " \"" + cut(value) + "\" (" + std::string(origin) + ")", std::move(why));
}

bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-:@~").find(c) != std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// What is wrong with a text of that form; empty: nothing.
std::string text_fault(const Setting& s, std::string_view value) {
  if (value.size() > s.most)
    return "has " + std::to_string(value.size()) + " characters, the limit is " + std::to_string(s.most);
  if (s.form == "movers") {
    const auto names = split(value, ',');
    for (const auto name : names) {
      if (name != "shm" && name != "tcp")
        return "is no list of movers; the movers are shm and tcp, as in shm,tcp";
      if (std::count(names.begin(), names.end(), name) > 1)
        return "names " + std::string(name) + " twice; name each mover once";
    }
    return "";
  }
  if (s.form == "level")
    return std::find(kLevels.begin(), kLevels.end(), value) != kLevels.end() ? "" : "must be " + bounds_of(s);
  if (value.empty())
    return s.name == "control.bind" || s.name == "bootstrap.listen" ? "is empty; write HOST:PORT" : "";
  if (s.form == "endpoint") {
    const auto parsed = parse_host_port(value);
    return parsed ? "" : parsed.error().why;
  }
  if (s.form == "path")
    return value.find('\0') == std::string_view::npos ? "" : "holds a zero byte; write " + bounds_of(s);
  const bool words =
      s.form == "host" ? std::all_of(value.begin(), value.end(),
                                     [](char c) { return word_char(c) || c == '[' || c == ']' || c == '%'; })
                       : std::all_of(value.begin(), value.end(), word_char);
  return words ? "" : "holds a character that it must not; write " + bounds_of(s);
}

struct Reader {
  const Config& c;
  std::string operator()(Duration Deadlines::* p) const { return print_duration(c.deadlines.*p); }
  std::string operator()(Duration Config::* p) const { return print_duration(c.*p); }
  std::string operator()(bool Config::* p) const { return c.*p ? "true" : "false"; }
  std::string operator()(std::string Config::* p) const { return c.*p; }
  std::string operator()(std::uint32_t Deadlines::* p) const { return std::to_string(c.deadlines.*p); }
  std::string operator()(std::uint32_t Limits::* p) const { return std::to_string(c.limits.*p); }
  std::string operator()(std::uint64_t Limits::* p) const { return std::to_string(c.limits.*p); }
  std::string operator()(std::uint32_t Config::* p) const { return std::to_string(c.*p); }
  std::string operator()(std::uint64_t Config::* p) const { return std::to_string(c.*p); }
};

struct Writer {
  Config& c;
  std::uint64_t v;
  std::string_view text;
  void operator()(Duration Deadlines::* p) const { c.deadlines.*p = Duration(static_cast<std::int64_t>(v)); }
  void operator()(Duration Config::* p) const { c.*p = Duration(static_cast<std::int64_t>(v)); }
  void operator()(bool Config::* p) const { c.*p = v != 0; }
  void operator()(std::string Config::* p) const { c.*p = std::string(text); }
  void operator()(std::uint32_t Deadlines::* p) const { c.deadlines.*p = static_cast<std::uint32_t>(v); }
  void operator()(std::uint32_t Limits::* p) const { c.limits.*p = static_cast<std::uint32_t>(v); }
  void operator()(std::uint64_t Limits::* p) const { c.limits.*p = v; }
  void operator()(std::uint32_t Config::* p) const { c.*p = static_cast<std::uint32_t>(v); }
  void operator()(std::uint64_t Config::* p) const { c.*p = v; }
};

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

const Setting* find_setting(std::string_view name) {
  for (const Setting& s : settings())
    if (s.name == name) return &s;
  return nullptr;
}

// A key without its section, or in a wrong one, is close as well.
std::string_view nearest_setting(std::string_view name) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(3, name.size() / 3) + 1;
  const std::string_view own_key = name.substr(name.rfind('.') + 1);
  if (name.size() > 128) return "";
  for (const Setting& s : settings()) {
    const std::string_view key = s.name.substr(s.name.rfind('.') + 1);
    const std::size_t d =
        std::min(distance(name, s.name), distance(own_key, key) + (own_key.size() < 4 ? 2 : 1));
    if (d < least) {
      least = d;
      best = s.name;
    }
  }
  return best;
}

const char* name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::kDuration: return "duration";
    case Kind::kCount: return "number";
    case Kind::kBytes: return "bytes";
    case Kind::kFlag: return "true/false";
    case Kind::kText: return "text";
  }
  return "?";
}

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration{0};
  const auto ns = scaled(text, kTimes);
  if (!ns) return std::nullopt;
  return Duration(static_cast<std::int64_t>(*ns));
}

std::string print_duration(Duration d) {
  const auto ns = static_cast<std::uint64_t>(d.count());
  if (ns == 0) return "0s";
  for (const Unit& unit : kTimes) {
    if (unit.name == "m" && ns / unit.factor < 10) continue;  // 300s reads better than 5m
    if (ns % unit.factor == 0) return std::to_string(ns / unit.factor) + std::string(unit.name);
  }
  return std::to_string(ns) + "ns";
}

std::optional<std::uint64_t> parse_number(std::string_view text, bool bytes) {
  return bytes ? scaled(text, kSizes) : scaled(text, std::span(kSizes).subspan(3));
}

std::string value_of(const Config& c, const Setting& s) {
  std::string text = std::visit(Reader{c}, s.place);
  return s.kind == Kind::kBytes ? print_bytes(*parse_number(text, false)) : text;
}

std::string bounds_of(const Setting& s) {
  if (s.kind == Kind::kFlag) return "true or false";
  if (s.kind != Kind::kText) return print_number(s, s.least) + " to " + print_number(s, s.most);
  if (s.form == "endpoint") return "HOST:PORT";
  if (s.form == "host") return "HOST or HOST:PORT";
  if (s.form == "movers") return "a list of shm, tcp";
  if (s.form == "level") return "trace, debug, info, warn, error or off";
  if (s.form == "path") return "a path";
  return "letters, digits and . _ - : @ ~";
}

Result<> set_value(Config& c, const Setting& s, std::string_view text, std::string_view origin) {
  std::uint64_t number = 0;
  if (s.kind == Kind::kText) {
    if (auto fault = text_fault(s, text); !fault.empty()) return bad(s, text, origin, std::move(fault));
  } else if (s.kind == Kind::kFlag) {
    if (text != "true" && text != "false") return bad(s, text, origin, "must be true or false");
    number = text == "true" ? 1 : 0;
  } else {
    std::optional<std::uint64_t> parsed;
    if (s.kind == Kind::kDuration) {
      if (const auto d = parse_duration(text)) parsed = static_cast<std::uint64_t>(d->count());
      if (!parsed)
        return bad(s, text, origin,
                   "is no duration; write a whole number with ns, us, ms, s, m or h, from " + bounds_of(s));
    } else {
      parsed = parse_number(text, s.kind == Kind::kBytes);
      if (!parsed)
        return bad(s, text, origin,
                   std::string("is no whole number") +
                       (s.kind == Kind::kBytes ? " (KiB, MiB and GiB may follow)" : "") + "; write " +
                       bounds_of(s));
    }
    if (*parsed < s.least || *parsed > s.most)
      return bad(s, text, origin, "is out of range; write " + bounds_of(s));
    number = *parsed;
  }
  std::visit(Writer{c, number, text}, s.place);
  return {};
}

Result<> check(const Config& c) {
  struct Pair {
    std::string_view low, high;
  };
  constexpr std::array<Pair, 3> kPairs = {{{"deadlines.resend_first", "deadlines.resend_most"},
                                           {"deadlines.redial_first", "deadlines.redial_most"},
                                           {"limits.ops_in_flight_per_peer", "limits.ops_in_flight"}}};
  for (const Pair& pair : kPairs) {
    const std::string low = value_of(c, *find_setting(pair.low)),
                      high = value_of(c, *find_setting(pair.high));
    const auto number = [](const std::string& text) {
      const auto d = parse_duration(text);
      return d ? static_cast<std::uint64_t>(d->count()) : parse_number(text, true).value_or(0);
    };
    if (number(low) > number(high))
      return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::string(pair.low) + " " + low,
                  "is above " + std::string(pair.high) + " " + high + "; lower the one or raise the other");
  }
  if (c.control_queue_bytes < c.control_frame_bytes + 4)
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix,
                "control.queue_bytes " + std::to_string(c.control_queue_bytes),
                "must hold one frame: at least control.frame_bytes + 4 = " +
                    std::to_string(c.control_frame_bytes + 4));
  return {};
}

}  // namespace kvferry::config
