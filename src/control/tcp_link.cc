#include "control/tcp_link.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace kvferry::control {
namespace {
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kKeepOut = 256 * 1024;  // an idle link keeps no more capacity than this

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }
}  // namespace

bool TcpLink::queue(std::span<const std::byte> frame, std::size_t queue_bytes) {
  const std::size_t cost = kFramePrefix + frame.size();
  if (cost > queue_bytes || queued() > queue_bytes - cost) return false;
  if (out_head_ > 0 && out_head_ >= out_.size() / 2) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_head_));
    out_head_ = 0;
  }
  append_frame(out_, frame);
  return true;
}

TcpLink::Io TcpLink::flush(std::uint64_t& bytes, std::uint64_t& calls) {
  while (queued() > 0 && !write_broken) {
    const ssize_t n = ::send(fd.get(), out_.data() + out_head_, queued(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && would_block(errno)) return Io::kBlocked;
    if (n < 0) {
      fail_with(Code::kPeerLost, Who::kPeer, Next::kRetry, "write: " + errno_text(errno), errno);
      write_broken = true;
      break;
    }
    ++calls;
    bytes += static_cast<std::uint64_t>(n);
    out_head_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  out_head_ = 0;
  if (out_.capacity() > kKeepOut) out_.shrink_to_fit();
  return write_broken ? Io::kBroken : Io::kDone;
}

TcpLink::Io TcpLink::fill(std::uint64_t& bytes) {
  const auto room = reader.space(kReadBytes);
  const ssize_t n = ::recv(fd.get(), room.data(), room.size(), MSG_DONTWAIT);
  if (n > 0) {
    bytes += static_cast<std::uint64_t>(n);
    reader.filled(static_cast<std::size_t>(n));
    return Io::kDone;
  }
  if (n < 0 && would_block(errno)) return Io::kBlocked;
  if (n == 0) {
    const std::string cut =
        reader.inside_frame() ? " inside a frame, after " + std::to_string(reader.buffered()) + " bytes of it"
                              : std::string{};
    if (end.ok())
      fail_with(Code::kPeerLost, Who::kPeer, Next::kRetry, "the other end closed the connection" + cut, 0);
  } else if (end.ok()) {
    fail_with(Code::kPeerLost, Who::kPeer, Next::kRetry, "read: " + errno_text(errno), errno);
  }
  return Io::kBroken;
}

TcpLink::Io TcpLink::connect_next(std::uint32_t tries) {
  int last = end.status;
  while (!candidates.empty()) {
    const Address to = candidates.back();
    candidates.pop_back();
    fd.reset(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
      last = errno;
      continue;
    }
    set_low_latency(fd.get());
    const int syns = static_cast<int>(tries > 1 ? tries - 1 : 1);
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_SYNCNT, &syns, sizeof syns);
    if (::connect(fd.get(), to.raw(), to.length) == 0) return check_connected();
    if (errno == EINPROGRESS || errno == EINTR) return Io::kBlocked;
    last = errno;
  }
  fail_with(Code::kTransport, Who::kTransport, Next::kRetry, "connect: " + errno_text(last), last);
  return Io::kBroken;
}

TcpLink::Io TcpLink::connect_result(std::uint32_t tries) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0) return check_connected();
  end.status = error;
  return connect_next(tries);
}

// A dial to a free port of this host can meet itself (simultaneous open): that is nobody, and it would keep
// the port from the process that is about to listen there. A reset leaves no TIME_WAIT behind.
TcpLink::Io TcpLink::check_connected() {
  if (local_address(fd.get()).text() != remote_address(fd.get()).text()) {
    end = Error{};
    return Io::kDone;
  }
  const linger reset{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  fd.reset();
  fail_with(Code::kTransport, Who::kTransport, Next::kRetry,
            "connect: " + errno_text(ECONNREFUSED) + ", nobody listens", ECONNREFUSED);
  return Io::kBroken;
}

void TcpLink::fail_with(Code code, Who who, Next next, std::string why, int status) {
  end = Error{code,
              who,
              next,
              status,
              "control link " + std::to_string(id.value) + (dialled ? " to " : " from ") + target,
              std::move(why)};
}

}  // namespace kvferry::control
