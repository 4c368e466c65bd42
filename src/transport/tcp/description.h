// What one tcp mover tells the other in HELLO: who it is and where it listens. Values; no thread rule.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "transport/tcp/frame.h"

namespace kvferry::transport::tcp {

inline constexpr std::size_t kMaxAddresses = 16;  // in one description: 19 B each

// An IP address and a port, IPv4 or IPv6.
struct Address {
  bool v6 = false;
  std::array<std::byte, 16> ip{};  // IPv4: the first four
  std::uint16_t port = 0;
  bool operator==(const Address&) const = default;

  std::string text() const;  // "10.0.0.5:8998", "[::1]:8998"
  socklen_t fill(sockaddr_storage&) const;
  static Address from(const sockaddr_storage&);
  bool loopback() const noexcept;
};

struct Description {
  std::uint16_t version = kFrameVersion;
  Cookie cookie{};
  std::vector<Address> addresses;  // 1 to kMaxAddresses, to be tried in this order
  bool operator==(const Description&) const = default;
};

std::vector<std::byte> encode(const Description&);
// `what` names the peer in the error.
Result<Description> decode_description(std::span<const std::byte>, const std::string& what);

// Numeric or by name; may block in a name lookup: for the start only. `what` names the option.
Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port, const std::string& what);
std::vector<Address> interface_addresses(std::uint16_t port, bool v4,
                                         bool v6);  // of this host, up, without link-local

}  // namespace kvferry::transport::tcp
