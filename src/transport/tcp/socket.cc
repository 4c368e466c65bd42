#include "transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace kvferry::transport::tcp {
namespace {

int seconds_of(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  return static_cast<int>(std::clamp<std::int64_t>(seconds, 1, 32767));
}

Result<> set(const Fd& fd, int level, int name, int value, const char* text) {
  if (setsockopt(fd.get(), level, name, &value, sizeof value) == 0) return {};
  return tl::unexpected(
      environment_error("tcp socket", std::string(text) + " = " + std::to_string(value), errno));
}

constexpr int kBacklog = 1024;

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string errno_text(int error) { return std::generic_category().message(error); }

Error environment_error(const std::string& what, const std::string& call, int error) {
  return {Code::kEnvironment, Who::kLocal, Next::kAfterFix, error, what, call + ": " + errno_text(error)};
}

Result<> tune(const Fd& fd, const TcpOptions& options) {
  if (auto ok = set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"); !ok) return ok;
  if (!options.congestion.empty()) {
    const auto size = static_cast<socklen_t>(options.congestion.size());
    if (setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, options.congestion.data(), size) != 0 &&
        options.congestion_required) {
      return fail(Code::kEnvironment, Who::kConfig, Next::kAfterFix, "tcp.congestion",
                  "'" + options.congestion + "' is not to be had (" + errno_text(errno) +
                      "); sysctl net.ipv4.tcp_available_congestion_control lists what is",
                  errno);
    }
  }
  if (options.send_buffer != 0) {
    if (auto ok = set(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.send_buffer), "SO_SNDBUF"); !ok)
      return ok;
  }
  if (options.receive_buffer != 0) {
    if (auto ok = set(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(options.receive_buffer), "SO_RCVBUF"); !ok)
      return ok;
  }
  if (options.user_timeout.count() > 0) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options.user_timeout).count();
    const int value = static_cast<int>(std::clamp<std::int64_t>(ms, 1, 2147483647));
    if (auto ok = set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, value, "TCP_USER_TIMEOUT"); !ok) return ok;
  }
  if (options.keepalive_count != 0) {
    if (auto ok = set(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"); !ok) return ok;
    if (auto ok = set(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds_of(options.keepalive_idle), "TCP_KEEPIDLE"); !ok)
      return ok;
    if (auto ok =
            set(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds_of(options.keepalive_interval), "TCP_KEEPINTVL");
        !ok) {
      return ok;
    }
    const int count = static_cast<int>(std::min<std::uint32_t>(options.keepalive_count, 127));
    if (auto ok = set(fd, IPPROTO_TCP, TCP_KEEPCNT, count, "TCP_KEEPCNT"); !ok) return ok;
  }
  return {};
}

Result<Fd> listen_on(const Address& address, bool both, const TcpOptions& options) {
  const std::string what = "tcp listener " + address.text();
  Fd fd(socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return tl::unexpected(environment_error(what, "socket", errno));
  if (auto ok = set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"); !ok) return tl::unexpected(ok.error());
  if (address.v6) {
    if (auto ok = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? 0 : 1, "IPV6_V6ONLY"); !ok)
      return tl::unexpected(ok.error());
  }
  if (auto ok = tune(fd, options); !ok) return tl::unexpected(ok.error());
  sockaddr_storage storage{};
  const socklen_t size = address.fill(storage);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    return tl::unexpected(environment_error(what, "bind", errno));
  }
  if (listen(fd.get(), kBacklog) != 0) return tl::unexpected(environment_error(what, "listen", errno));
  return fd;
}

Result<Address> bound_address(const Fd& fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return tl::unexpected(environment_error("tcp listener", "getsockname", errno));
  }
  return Address::from(storage);
}

Result<Fd> dial(const Address& address, const TcpOptions& options) {
  const std::string what = "tcp connection to " + address.text();
  Fd fd(socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return tl::unexpected(environment_error(what, "socket", errno));
  if (auto ok = tune(fd, options); !ok) return tl::unexpected(ok.error());
  sockaddr_storage storage{};
  const socklen_t size = address.fill(storage);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0 && errno != EINPROGRESS) {
    return tl::unexpected(environment_error(what, "connect", errno));
  }
  return fd;
}

int connect_result(const Fd& fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

void abort_on_close(const Fd& fd) noexcept {
  const linger rst{1, 0};
  if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &rst, sizeof rst);
}

}  // namespace kvferry::transport::tcp
