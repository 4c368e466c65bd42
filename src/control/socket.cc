#include "control/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace kvferry::control {
namespace {

const in6_addr& v6_of(const Address& a) {
  return reinterpret_cast<const sockaddr_in6*>(&a.storage)->sin6_addr;
}

void set_flag(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

Error bind_error(const HostPort& where, const char* step, int error) {
  std::string fix;
  if (error == EADDRINUSE)
    fix = "; stop the process that listens there, or choose another port (0: any free one)";
  if (error == EACCES) fix = "; ports below 1024 need a privilege, choose a higher one";
  if (error == EADDRNOTAVAIL)
    fix = "; this host has no such address: bind one of its own, or 0.0.0.0 for all";
  return Error{Code::kEnvironment,
               Who::kConfig,
               Next::kAfterFix,
               error,
               "listen on " + print_host_port(where.host, where.port),
               std::string(step) + ": " + errno_text(error) + fix};
}

// Names and "every address" included; the passive list of getaddrinfo.
Result<Address> address_to_bind(const HostPort& where) {
  if (auto numeric = numeric_address(where)) return *numeric;
  Address out;
  if (is_any_host(where.host)) {
    auto* any = reinterpret_cast<sockaddr_in6*>(&out.storage);
    any->sin6_family = AF_INET6;
    any->sin6_addr = in6addr_any;
    any->sin6_port = htons(where.port);
    out.length = sizeof(sockaddr_in6);
    return out;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(where.host.c_str(), nullptr, &hints, &list);
  if (rc != 0 || list == nullptr)
    return fail(Code::kEnvironment, Who::kConfig, Next::kAfterFix,
                "listen on " + print_host_port(where.host, where.port),
                "the name \"" + where.host + "\" is not known here: " + ::gai_strerror(rc) +
                    "; bind a numeric address");
  std::memcpy(&out.storage, list->ai_addr, list->ai_addrlen);
  out.length = list->ai_addrlen;
  ::freeaddrinfo(list);
  out.set_port(where.port);
  return out;
}

}  // namespace

void Fd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    const in6_addr& v6 = v6_of(*this);
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      ::inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &v6, text, sizeof text);
    }
  }
  return text;
}

std::uint16_t Address::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

void Address::set_port(std::uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
}

std::string Address::text() const { return print_host_port(host(), port()); }

std::optional<Address> numeric_address(const HostPort& from) {
  if (from.host.empty()) return std::nullopt;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // no look-up: also reads fe80::1%eth0
  addrinfo* list = nullptr;
  if (::getaddrinfo(from.host.c_str(), nullptr, &hints, &list) != 0 || list == nullptr) return std::nullopt;
  Address out;
  std::memcpy(&out.storage, list->ai_addr, list->ai_addrlen);
  out.length = list->ai_addrlen;
  ::freeaddrinfo(list);
  out.set_port(from.port);
  return out;
}

Address local_address(int fd) {
  Address out;
  out.length = sizeof out.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.length) != 0) out.length = 0;
  return out;
}

Address remote_address(int fd) {
  Address out;
  out.length = sizeof out.storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.length) != 0) out.length = 0;
  return out;
}

std::string errno_text(int error) {
  const char* name = ::strerrorname_np(error);
  const char* words = ::strerrordesc_np(error);
  return std::string(words != nullptr ? words : "unknown error") + " (" + (name != nullptr ? name : "?") +
         ", " + std::to_string(error) + ")";
}

void set_low_latency(int fd) {
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
}

Result<Fd> listen_on(const HostPort& where, std::chrono::milliseconds patience, int backlog) {
  auto address = address_to_bind(where);
  if (!address) return tl::unexpected(address.error());
  const bool any = is_any_host(where.host);
  constexpr std::chrono::milliseconds kStep{10};
  for (std::chrono::milliseconds waited{0};; waited += kStep) {
    Fd fd(::socket(address->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd && errno == EAFNOSUPPORT && any && address->family() == AF_INET6) {  // a host without IPv6
      address = *numeric_address(HostPort{"0.0.0.0", where.port});
      continue;
    }
    if (!fd) return tl::unexpected(bind_error(where, "socket", errno));
    set_flag(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->family() == AF_INET6) set_flag(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
    const char* step = "bind";
    int rc = ::bind(fd.get(), address->raw(), address->length);
    if (rc == 0) {
      step = "listen";
      rc = ::listen(fd.get(), backlog);
    }
    if (rc == 0) return fd;
    const int error = errno;
    if (error == EADDRNOTAVAIL && any && address->family() == AF_INET6) {
      address = *numeric_address(HostPort{"0.0.0.0", where.port});
      continue;
    }
    if (error != EADDRINUSE || waited >= patience) return tl::unexpected(bind_error(where, step, error));
    std::this_thread::sleep_for(kStep);
  }
}

std::optional<std::string> first_outside_host() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::optional<std::string> v6;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    Address address;
    if (at->ifa_addr->sa_family == AF_INET) {
      address.length = sizeof(sockaddr_in);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      address.length = sizeof(sockaddr_in6);
    } else {
      continue;
    }
    std::memcpy(&address.storage, at->ifa_addr, address.length);
    if (address.family() == AF_INET) return address.host();
    const in6_addr& bytes = v6_of(address);
    if (!v6 && !IN6_IS_ADDR_LINKLOCAL(&bytes)) v6 = address.host();
  }
  return v6;
}

}  // namespace kvferry::control
