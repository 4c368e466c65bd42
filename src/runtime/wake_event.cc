#include "runtime/wake_event.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace kvferry::runtime {

Result<WakeEvent> WakeEvent::make() {
  OwnedFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.open()) {
    const int reason = errno;
    return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "manager: eventfd",
                std::string(std::strerror(reason)) + "; raise the limit of open files (ulimit -n)", reason);
  }
  return WakeEvent(std::move(fd));
}

void WakeEvent::set() const noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full, so the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void WakeEvent::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace kvferry::runtime
