// An eventfd: set() makes it readable, clear() makes it silent again. Thread rule: any thread.
#pragma once

#include "kvferry/error.h"
#include "runtime/owned_fd.h"

namespace kvferry::runtime {

class WakeEvent {
 public:
  static Result<WakeEvent> make();  // kEnvironment when no descriptor is left
  int fd() const noexcept { return fd_.get(); }
  void set() const noexcept;
  void clear() const noexcept;

 private:
  explicit WakeEvent(OwnedFd fd) noexcept : fd_(std::move(fd)) {}
  OwnedFd fd_;
};

}  // namespace kvferry::runtime
