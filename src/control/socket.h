// Small words around POSIX sockets: an owned descriptor, an address, a listener. Non-blocking unless it says
// otherwise. Thread rule: values; one owner.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/endpoint.h"
#include "kvferry/error.h"

namespace kvferry::control {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::string host() const;  // "10.0.0.5", "::1"; an IPv4 address inside IPv6 prints as IPv4
  std::uint16_t port() const;
  void set_port(std::uint16_t);
  std::string text() const;  // "10.0.0.5:8998", "[::1]:8998"
};

// An address written in digits; nothing for a name. An empty host is not an address to dial: nothing.
std::optional<Address> numeric_address(const HostPort&);

Address local_address(int fd);
Address remote_address(int fd);

// A text for an errno value, for errors: "connection refused (ECONNREFUSED, 111)".
std::string errno_text(int);

// Listens on `where`; an empty host means every address, IPv6 and IPv4. Names are looked up here (may block
// on DNS). An address in use is retried for `patience` (a killed predecessor may still be on its way out),
// then kEnvironment names it. SO_REUSEADDR is set: connections of the predecessor in TIME_WAIT do not matter.
Result<Fd> listen_on(const HostPort& where, std::chrono::milliseconds patience, int backlog);

// TCP_NODELAY, and SO_REUSEADDR so that an outgoing connection never keeps a listener from its port.
void set_low_latency(int fd);

// An address of this host that others can dial: not loopback, not link-local, up; IPv4 first. Nothing if
// there is none.
std::optional<std::string> first_outside_host();

}  // namespace kvferry::control
