// One epoll descriptor: what a transport waits for, and the descriptor by which others wait for it.
// Thread rule: belongs to the progress thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kvferry/error.h"
#include "transport/shm/file.h"

namespace kvferry::shm {

enum class Source : std::uint32_t { kDoor = 1, kVisitor, kWorker, kTimer, kPeer };

struct Ready {
  Source source = Source::kDoor;
  std::uint32_t id = 0;
  bool readable = false, writable = false, hung_up = false;
};

class Poller {
 public:
  static Result<Poller> create();
  Result<> add(int fd, Source, std::uint32_t id);       // watches for input and hang-up
  void watch_output(int fd, Source, std::uint32_t id, bool also_output) noexcept;
  void watch_nothing(int fd, Source, std::uint32_t id) noexcept;  // until watch_output is called
  void remove(int fd) noexcept;
  std::span<const Ready> poll() noexcept;  // never waits; at most 64 at a time, valid until the next call
  int fd() const noexcept { return file_.fd(); }

 private:
  explicit Poller(File file) : file_(std::move(file)) {}

  File file_;
  std::array<Ready, 64> ready_{};
};

}  // namespace kvferry::shm
