// What an operator can set, as one value and one table: name, type, bounds, default and help of each setting.
// Every field of Deadlines and Limits is in it under its own name. Values; no thread rule. Nothing here reads
// the environment or a file: both are handed in (see layers.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "kvferry/error.h"
#include "kvferry/limits.h"

namespace kvferry::config {

struct Config {
  Deadlines deadlines;
  Limits limits;
  // manager
  std::string name;  // for people: "prefill-0"
  std::uint32_t rank = 0;
  Duration spin = std::chrono::microseconds(50);  // spin this long after work before sleeping
  // control channel
  std::string bind = "127.0.0.1:0";
  std::string advertise;  // empty: the bound address
  std::uint64_t control_frame_bytes = 1U << 20;
  std::uint64_t control_queue_bytes = 4U << 20;
  std::uint32_t control_links = 4096;
  // movers
  std::string movers = "shm,tcp";  // in order of preference
  std::string tcp_bind;  // empty: every address of this host
  std::string tcp_advertise;  // empty: worked out from the bind address
  std::uint32_t tcp_streams = 2;
  std::string tcp_congestion = "cubic";  // empty: the system's choice
  bool shm_adopt = false;
  bool shm_foreign = true;
  // bootstrap server
  std::string bootstrap_server;  // what ranks ask; empty: none
  std::string bootstrap_group;
  std::string bootstrap_listen = "127.0.0.1:8997";  // what the server listens on
  std::uint32_t bootstrap_connections = 1024;
  std::uint64_t bootstrap_body_bytes = 16U << 10;
  std::uint32_t bootstrap_groups = 1024;
  std::uint32_t bootstrap_entries = 65536;
  // log and flight recorder
  std::string log_level = "info";
  std::uint32_t log_lines_per_second = 50;
  std::uint32_t recorder_events = 65536;
  std::string recorder_folder;  // where a process writes its record when it ends; empty: nowhere
};

enum class Kind : std::uint8_t { kDuration, kCount, kBytes, kFlag, kText };

struct Setting {
  using Place = std::variant<Duration Deadlines::*, std::uint32_t Deadlines::*, std::uint32_t Limits::*,
                             std::uint64_t Limits::*, Duration Config::*, std::uint32_t Config::*,
                             std::uint64_t Config::*, bool Config::*, std::string Config::*>;
  std::string_view name;  // "deadlines.handshake": section and key of the file
  Place place;
  Kind kind = Kind::kCount;
  std::uint64_t least = 0,
                most = 0;  // numbers: the bounds (durations: nanoseconds); text: most is its length
  std::string_view form;  // text: "endpoint", "host", "movers", "level", "path", "word"
  std::string_view help;
};

std::span<const Setting> settings();  // by section, in the order of the documentation
const Setting* find_setting(std::string_view name);
// The known name that differs in the fewest characters; empty when none is close.
std::string_view nearest_setting(std::string_view name);

std::string value_of(const Config&, const Setting&);  // as a file would write it, without quotes
std::string bounds_of(const Setting&);  // "1ms to 1h", "1 to 64", "HOST:PORT"
// kUsage names the setting, the value, the limit and the fix; `origin` says who gave the value.
Result<> set_value(Config&, const Setting&, std::string_view text, std::string_view origin);
// What must hold between settings (resend_first <= resend_most, ...).
Result<> check(const Config&);

const char* name_of(Kind) noexcept;
// "30s", "1.5s" is refused, "250ms", "50us", "2m", "1h", "10ns".
std::optional<Duration> parse_duration(std::string_view);
std::string print_duration(Duration);  // the largest unit that needs no fraction
// "65536", "65_536", "64KiB", "1MiB", "2GiB".
std::optional<std::uint64_t> parse_number(std::string_view, bool bytes);

}  // namespace kvferry::config
