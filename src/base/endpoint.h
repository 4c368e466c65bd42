// "host:port" as text: parse, print, judge. Pure text; no name is looked up. Values; no thread rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/error.h"

namespace kvferry {

struct HostPort {
  std::string host;  // without brackets: "10.0.0.5", "::1", "node-7.rack"; empty: every address of this host
  std::uint16_t port = 0;  // 0: any free port
  bool operator==(const HostPort&) const = default;
};

inline constexpr std::size_t kMaxHostBytes = 253;  // the longest DNS name

// Accepts "10.0.0.5:8998", "[::1]:8998", "node:8998", ":8998" and "*:8998". kUsage names `what`, the text and
// the fix.
Result<HostPort> parse_host_port(std::string_view text, std::string_view what = "endpoint");

// Puts brackets around an IPv6 host.
std::string print_host_port(std::string_view host, std::uint16_t port);

// 127.0.0.0/8, ::1, ::ffff:127.x and the name "localhost": an address that means "myself" on every host.
bool is_loopback_host(std::string_view host);
bool is_loopback(std::string_view endpoint);  // the same for "host:port"; false for text that does not parse

// "", "*", "0.0.0.0" and "::": an address to bind to but not one to dial.
bool is_any_host(std::string_view host);

}  // namespace kvferry
