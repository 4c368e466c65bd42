#include "base/endpoint.h"

#include <algorithm>
#include <charconv>

namespace kvferry {
namespace {

constexpr std::string_view kFix =
    "write HOST:PORT, such as 10.0.0.5:8998, node-7:8998 or [::1]:8998 (port 0 to 65535)";

tl::unexpected<Error> bad(std::string_view what, std::string_view text, std::string_view why) {
  std::string shown(text.substr(0, 64));
  if (text.size() > 64) shown += "...";
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::string(what) + " \"" + shown + "\"",
              std::string(why) + "; " + std::string(kFix));
}

bool host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

bool v6_char(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == '.' || c == ':';
}

// fe80::1%eth0: the zone behind % is a name.
bool v6_text(std::string_view host) {
  const auto zone = host.find('%');
  const std::string_view address = host.substr(0, zone);
  if (address.find(':') == std::string_view::npos) return false;
  if (!std::all_of(address.begin(), address.end(), v6_char)) return false;
  if (zone == std::string_view::npos) return true;
  const std::string_view name = host.substr(zone + 1);
  return !name.empty() && std::all_of(name.begin(), name.end(), host_char);
}

bool starts_with_127(std::string_view host) {
  if (host.substr(0, 4) != "127.") return false;
  return std::all_of(host.begin(), host.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, std::string_view what) {
  if (text.empty()) return bad(what, text, "it is empty");
  HostPort out;
  std::string_view port;
  if (text.front() == '[') {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return bad(what, text, "'[' is not closed");
    out.host = text.substr(1, close - 1);
    if (!v6_text(out.host)) return bad(what, text, "between the brackets is no IPv6 address");
    if (close + 1 >= text.size() || text[close + 1] != ':')
      return bad(what, text, "':PORT' is missing behind ']'");
    port = text.substr(close + 2);
  } else {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad(what, text, "':PORT' is missing");
    const std::string_view host = text.substr(0, colon);
    if (host.find(':') != std::string_view::npos) return bad(what, text, "an IPv6 address needs brackets");
    if (host != "*" && !std::all_of(host.begin(), host.end(), host_char))
      return bad(what, text, "the host holds a character that no host name has");
    out.host = host == "*" ? std::string_view{} : host;
    port = text.substr(colon + 1);
  }
  if (out.host.size() > kMaxHostBytes)
    return bad(what, text,
               "the host has " + std::to_string(out.host.size()) + " characters, the limit is 253");
  const auto* end = port.data() + port.size();
  const auto parsed = std::from_chars(port.data(), end, out.port);
  if (port.empty() || parsed.ec != std::errc{} || parsed.ptr != end)
    return bad(what, text,
               "the port \"" + std::string(port.substr(0, 16)) + "\" is no number from 0 to 65535");
  return out;
}

std::string print_host_port(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  std::string out;
  if (v6) out += '[';
  out += host;
  if (v6) out += ']';
  out += ':';
  out += std::to_string(port);
  return out;
}

bool is_loopback_host(std::string_view host) {
  if (host == "localhost" || host == "::1" || host == "0:0:0:0:0:0:0:1") return true;
  if (host.substr(0, 7) == "::ffff:") return starts_with_127(host.substr(7));
  return starts_with_127(host);
}

bool is_loopback(std::string_view endpoint) {
  const auto parsed = parse_host_port(endpoint);
  return parsed && is_loopback_host(parsed->host);
}

bool is_any_host(std::string_view host) {
  return host.empty() || host == "*" || host == "0.0.0.0" || host == "::";
}

}  // namespace kvferry
