#include "transport/shm/poller.h"

#include <sys/epoll.h>

#include <cerrno>

namespace kvferry::shm {

namespace {

epoll_event event_of(std::uint32_t what, Source source, std::uint32_t id) noexcept {
  epoll_event event{};
  event.events = what;
  event.data.u64 = (static_cast<std::uint64_t>(source) << 32) | id;
  return event;
}

}  // namespace

Result<Poller> Poller::create() {
  File file{::epoll_create1(EPOLL_CLOEXEC)};
  if (!file) {
    return system_error("shm transport", "epoll_create1 failed", errno);
  }
  return Poller(std::move(file));
}

Result<> Poller::add(int fd, Source source, std::uint32_t id) {
  epoll_event event = event_of(EPOLLIN | EPOLLRDHUP, source, id);
  if (::epoll_ctl(file_.fd(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_error("shm transport", "epoll_ctl failed", errno);
  }
  return {};
}

void Poller::watch_output(int fd, Source source, std::uint32_t id, bool also_output) noexcept {
  const std::uint32_t output = also_output ? static_cast<std::uint32_t>(EPOLLOUT) : 0U;
  epoll_event event = event_of(EPOLLIN | EPOLLRDHUP | output, source, id);
  ::epoll_ctl(file_.fd(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::watch_nothing(int fd, Source source, std::uint32_t id) noexcept {
  epoll_event event = event_of(0, source, id);
  ::epoll_ctl(file_.fd(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::remove(int fd) noexcept { ::epoll_ctl(file_.fd(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<const Ready> Poller::poll() noexcept {
  std::array<epoll_event, std::tuple_size_v<decltype(ready_)>> events{};
  const int count = ::epoll_wait(file_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Ready& ready = ready_[static_cast<std::size_t>(i)];
    ready.source = static_cast<Source>(event.data.u64 >> 32);
    ready.id = static_cast<std::uint32_t>(event.data.u64);
    ready.readable = (event.events & EPOLLIN) != 0;
    ready.writable = (event.events & EPOLLOUT) != 0;
    ready.hung_up = (event.events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
  }
  return {ready_.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

}  // namespace kvferry::shm
