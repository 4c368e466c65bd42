// Non-blocking sockets: made, bound, dialled and tuned. Thread rule: one owner.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kvferry/error.h"
#include "transport/tcp/description.h"
#include "transport/tcp/tcp.h"

namespace kvferry::transport::tcp {

// Owns one descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

std::string errno_text(int error);
Error environment_error(const std::string& what, const std::string& call, int error);

// A listening socket. A v6 socket bound to "::" takes IPv4 as well when `both`.
Result<Fd> listen_on(const Address&, bool both, const TcpOptions&);
Result<Address> bound_address(const Fd&);
// Starts a connection; it is up (or has failed) when the socket becomes writable: see connect_result().
Result<Fd> dial(const Address&, const TcpOptions&);
int connect_result(const Fd&);  // 0 or an errno
// For dialled and accepted sockets alike. Never fails for what the kernel may refuse in the default settings.
Result<> tune(const Fd&, const TcpOptions&);
// Closing sends RST: bytes that the kernel still holds, of either direction, are dropped.
void abort_on_close(const Fd&) noexcept;

}  // namespace kvferry::transport::tcp
