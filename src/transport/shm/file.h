// A file descriptor with an owner. Thread rule: one owner at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kvferry/error.h"

namespace kvferry::shm {

class File {
 public:
  File() = default;
  explicit File(int fd) noexcept : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { reset(); }

  int fd() const noexcept { return fd_; }  // -1: none
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

// "why: Permission denied (errno 13)" as an error of this host; `number` is an errno value.
tl::unexpected<Error> system_error(std::string what, std::string_view why, int number);

// A new memfd of exactly `bytes`, sealed against shrinking, growing and further seals; close-on-exec.
Result<File> make_memfd(const char* name, std::uint64_t bytes);

// A second descriptor of the same file that cannot write; where the system gives none, a plain duplicate.
Result<File> read_only(int fd);

// The size of a memfd that came from a peer, if it is sealed against shrinking and growing (else an error:
// reading a file that can shrink may end this process by SIGBUS).
Result<std::uint64_t> sealed_size(int fd, const std::string& what);

}  // namespace kvferry::shm
