#include "runtime/sleeper.h"

#include <algorithm>
#include <ctime>

namespace kvferry::runtime {

void Sleeper::watch(int fd) {
  if (fd >= 0) fds_.push_back(pollfd{fd, POLLIN, 0});
}

void Sleeper::clear() noexcept { fds_.clear(); }

void Sleeper::sleep(Duration most) {
  const auto ns = std::max<Duration::rep>(most.count(), 0);
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(ns / 1'000'000'000);
  time.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  ::ppoll(fds_.data(), static_cast<nfds_t>(fds_.size()), &time, nullptr);  // EINTR: the loop turns once more
}

}  // namespace kvferry::runtime
