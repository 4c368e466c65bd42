#include "transport/tcp/description.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace kvferry::transport::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x4354564B;  // "KVTC"

}  // namespace

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(v6 ? AF_INET6 : AF_INET, ip.data(), buffer, sizeof buffer);
  return (v6 ? "[" + std::string(buffer) + "]" : std::string(buffer)) + ":" + std::to_string(port);
}

socklen_t Address::fill(sockaddr_storage& storage) const {
  storage = {};
  if (v6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    std::memcpy(&in6.sin6_addr, ip.data(), 16);
    std::memcpy(&storage, &in6, sizeof in6);
    return sizeof in6;
  }
  sockaddr_in in4{};
  in4.sin_family = AF_INET;
  in4.sin_port = htons(port);
  std::memcpy(&in4.sin_addr, ip.data(), 4);
  std::memcpy(&storage, &in4, sizeof in4);
  return sizeof in4;
}

Address Address::from(const sockaddr_storage& storage) {
  Address address;
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, &storage, sizeof in6);
    address.v6 = true;
    address.port = ntohs(in6.sin6_port);
    std::memcpy(address.ip.data(), &in6.sin6_addr, 16);
  } else {
    sockaddr_in in4{};
    std::memcpy(&in4, &storage, sizeof in4);
    address.port = ntohs(in4.sin_port);
    std::memcpy(address.ip.data(), &in4.sin_addr, 4);
  }
  return address;
}

bool Address::loopback() const noexcept {
  if (!v6) return ip[0] == std::byte{127};
  in6_addr in6{};
  std::memcpy(&in6, ip.data(), 16);
  return IN6_IS_ADDR_LOOPBACK(&in6) != 0 || (IN6_IS_ADDR_V4MAPPED(&in6) != 0 && ip[12] == std::byte{127});
}

std::vector<std::byte> encode(const Description& description) {
  std::vector<std::byte> out(4 + 2 + 16 + 1 + description.addresses.size() * 19);
  Writer writer(out);
  writer.u32(kMagic);
  writer.u16(description.version);
  writer.bytes(description.cookie);
  writer.u8(static_cast<std::uint8_t>(description.addresses.size()));
  for (const Address& address : description.addresses) {
    writer.u8(address.v6 ? 6 : 4);
    writer.bytes(std::span<const std::byte>(address.ip).first(address.v6 ? 16 : 4));
    writer.u16(address.port);
  }
  out.resize(writer.size());
  return out;
}

Result<Description> decode_description(std::span<const std::byte> bytes, const std::string& what) {
  const auto bad = [&](std::string why) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kAfterFix, what,
                "its tcp description " + std::move(why));
  };
  Reader reader(bytes);
  Description description;
  if (reader.u32() != kMagic)
    return bad("of " + std::to_string(bytes.size()) + " bytes is not of a tcp mover");
  description.version = reader.u16();
  if (reader.ok() && description.version != kFrameVersion) {
    return fail(Code::kMismatch, Who::kPeer, Next::kAfterFix, what,
                "it speaks version " + std::to_string(description.version) +
                    " of the tcp frames, this side version " + std::to_string(kFrameVersion));
  }
  const auto cookie = reader.bytes(description.cookie.size());
  if (reader.ok()) std::memcpy(description.cookie.data(), cookie.data(), cookie.size());
  const std::size_t count = reader.u8();
  if (!reader.ok() || count == 0 || count > kMaxAddresses) {
    return bad("lists " + std::to_string(count) + " addresses; 1 to " + std::to_string(kMaxAddresses));
  }
  for (std::size_t i = 0; i < count; ++i) {
    Address address;
    const std::uint8_t family = reader.u8();
    if (family != 4 && family != 6) return bad("has an address of unknown family " + std::to_string(family));
    address.v6 = family == 6;
    const auto ip = reader.bytes(address.v6 ? 16 : 4);
    address.port = reader.u16();
    if (!reader.ok() || address.port == 0) return bad("is cut short or names port 0");
    std::memcpy(address.ip.data(), ip.data(), ip.size());
    description.addresses.push_back(address);
  }
  if (!reader.at_end()) return bad("has bytes behind its end");
  return description;
}

Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port, const std::string& what) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  int rc = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (rc == EAI_NONAME) {
    hints.ai_flags = 0;
    rc = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  }
  if (rc != 0) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, what,
                "'" + host + "' is no address and no known name: " + gai_strerror(rc), rc);
  }
  std::vector<Address> found;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    sockaddr_storage storage{};
    std::memcpy(&storage, info->ai_addr, info->ai_addrlen);
    Address address = Address::from(storage);
    address.port = port;
    if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

std::vector<Address> interface_addresses(std::uint16_t port, bool v4, bool v6) {
  std::vector<Address> outside, loopback;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (!(family == AF_INET && v4) && !(family == AF_INET6 && v6)) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    Address address = Address::from(storage);
    address.port = port;
    if (address.v6 && address.ip[0] == std::byte{0xfe} &&
        (address.ip[1] & std::byte{0xc0}) == std::byte{0x80})
      continue;
    (address.loopback() ? loopback : outside).push_back(address);
  }
  freeifaddrs(list);
  return outside.empty() ? loopback : outside;
}

}  // namespace kvferry::transport::tcp
