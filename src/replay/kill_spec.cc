#include "replay/kill_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace kvferry::replay {
namespace {

constexpr double kMaxSeconds = 1e7;
constexpr char kForm[] =
    "the form is ROLE[.i]@SECONDS[:restart] or ROLE[.i]@room:N[:restart], ROLE being prefill or decode";

tl::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, fmt::format("--kill {}", text),
              fmt::format("{}; {}", why, kForm));
}

template <class T>
bool whole(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc{} && stop == end;
}

Result<> read_role(std::string_view text, std::string_view role, KillSpec& spec) {
  const std::size_t dot = role.find('.');
  const std::string_view name = role.substr(0, dot);
  if (name == "prefill") {
    spec.side = Side::kPrefill;
  } else if (name == "decode") {
    spec.side = Side::kDecode;
  } else {
    return bad(text, fmt::format("\"{}\" is no role", name));
  }
  if (dot != std::string_view::npos && !whole(role.substr(dot + 1), spec.index)) {
    return bad(text, fmt::format("\"{}\" is no process number", role.substr(dot + 1)));
  }
  return {};
}

Result<> read_time(std::string_view text, std::string_view time, KillSpec& spec) {
  constexpr std::string_view kRestart = ":restart";
  if (time.ends_with(kRestart)) {
    spec.restart = true;
    time.remove_suffix(kRestart.size());
  }
  constexpr std::string_view kRoom = "room:";
  if (time.starts_with(kRoom)) {
    spec.at_room = true;
    if (!whole(time.substr(kRoom.size()), spec.room) || spec.room == 0) {
      return bad(text, fmt::format("\"{}\" is no room count from 1", time.substr(kRoom.size())));
    }
    return {};
  }
  if (!whole(time, spec.seconds) || !std::isfinite(spec.seconds) || spec.seconds < 0 ||
      spec.seconds > kMaxSeconds) {
    return bad(text, fmt::format("\"{}\" is no time from 0 to {:.0f} seconds", time, kMaxSeconds));
  }
  return {};
}

}  // namespace

const char* name_of(Side side) noexcept { return side == Side::kPrefill ? "prefill" : "decode"; }

Result<KillSpec> parse_kill(std::string_view text) {
  KillSpec spec;
  spec.text = std::string(text);
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return bad(text, "it has no \"@\"");
  if (Result<> role = read_role(text, text.substr(0, at), spec); !role) return tl::unexpected(role.error());
  if (Result<> time = read_time(text, text.substr(at + 1), spec); !time) return tl::unexpected(time.error());
  return spec;
}

}  // namespace kvferry::replay
