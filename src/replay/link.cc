#include "replay/link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

namespace kvferry::replay {

static_assert(std::is_trivially_copyable_v<Message>);

Link::Link(int fd) : fd_(fd) { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

Link::~Link() {
  if (fd_ >= 0) close(fd_);
}

Link::Link(Link&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      out_(std::move(other.out_)),
      sent_(other.sent_),
      in_(std::move(other.in_)) {}

Link& Link::operator=(Link&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(out_, other.out_);
  std::swap(sent_, other.sent_);
  std::swap(in_, other.in_);
  return *this;
}

void Link::send(const Message& message) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&message);
  out_.insert(out_.end(), bytes, bytes + sizeof(message));
}

bool Link::flush() {
  while (unsent()) {
    const ssize_t n = ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN;
    }
    sent_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

bool Link::receive(std::vector<Message>& to) {
  bool open = true;
  std::array<std::uint8_t, 16384> piece;
  for (;;) {
    const ssize_t n = recv(fd_, piece.data(), piece.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || (n < 0 && errno != EAGAIN)) open = false;
    if (n <= 0) break;
    in_.insert(in_.end(), piece.begin(), piece.begin() + n);
    if (static_cast<std::size_t>(n) < piece.size()) break;
  }
  std::size_t at = 0;
  for (; in_.size() - at >= sizeof(Message); at += sizeof(Message)) {
    Message message;
    std::memcpy(static_cast<void*>(&message), in_.data() + at, sizeof(Message));
    to.push_back(message);
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
  return open;
}

}  // namespace kvferry::replay
