#include "runtime/peer_watch.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

namespace kvferry::runtime {
namespace {

int open_pidfd(std::uint64_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

}  // namespace

PeerWatch::PeerWatch() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

void PeerWatch::watch(PeerId peer, std::uint64_t pid) {
  if (pid == 0 || pid > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) return;
  if (pid == static_cast<std::uint64_t>(::getpid()) || !epoll_.open()) return;
  OwnedFd fd(open_pidfd(pid));
  if (!fd.open()) {
    if (errno == ESRCH) dead_already_.push_back({peer, fmt::format("process {} ended", pid)});
    return;  // anything else: the connection's own silence is the evidence, after the grace
  }
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.u64 = peer.value;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &interest) != 0) return;
  watched_.insert_or_assign(peer.value, Watched{std::move(fd), pid});
}

void PeerWatch::forget(PeerId peer) { watched_.erase(peer.value); }  // closing removes it from the epoll set

void PeerWatch::take(std::vector<Death>& out) {
  out.insert(out.end(), dead_already_.begin(), dead_already_.end());
  dead_already_.clear();
  if (watched_.empty()) return;
  std::array<epoll_event, 64> ready{};
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const PeerId peer{static_cast<std::uint32_t>(ready[static_cast<std::size_t>(i)].data.u64)};
    const auto found = watched_.find(peer.value);
    if (found == watched_.end()) continue;
    out.push_back({peer, fmt::format("process {} ended", found->second.pid)});
    watched_.erase(found);
  }
}

}  // namespace kvferry::runtime
