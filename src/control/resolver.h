// Names to addresses away from the progress thread: getaddrinfo can block for many seconds.
// Each look-up runs on a short-lived detached thread that owns a share of the state, so that nobody ever
// waits for DNS, not even the destructor. Thread rule: one owner thread calls; wake_fd() becomes readable
// when take() has answers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "control/socket.h"

namespace kvferry::control {

class Resolver {
 public:
  struct Answer {
    std::uint32_t token = 0;         // as given to start()
    std::vector<Address> addresses;  // with the port; empty: `error` says why
    Error error;
  };
  static constexpr std::uint32_t kMost = 16;  // look-ups that run at once

  Resolver();
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // kWouldBlock names the limit when kMost look-ups run already.
  Result<> start(std::uint32_t token, const HostPort& name);
  void take(std::vector<Answer>& out);
  int wake_fd() const noexcept;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace kvferry::control
