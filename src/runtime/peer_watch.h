// Watches processes of this host: a pidfd is readable from the moment its process has ended, kill -9
// included. Thread rule: progress thread only.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvferry/types.h"
#include "runtime/owned_fd.h"

namespace kvferry::runtime {

struct Death {
  PeerId peer;
  std::string evidence;  // "process 4711 ended"
};

class PeerWatch {
 public:
  PeerWatch();
  // A process that is gone already is reported by the next take(). Our own process and 0 are not watched.
  void watch(PeerId, std::uint64_t pid);
  void forget(PeerId);
  void take(std::vector<Death>& out);   // each watched process once
  int fd() const noexcept {
    return epoll_.get();
  }  // readable when take() has something; -1: watching is unavailable
  std::size_t watched() const noexcept { return watched_.size(); }

 private:
  struct Watched {
    OwnedFd fd;
    std::uint64_t pid = 0;
  };
  OwnedFd epoll_;
  std::unordered_map<std::uint32_t, Watched> watched_;
  std::vector<Death> dead_already_;
};

}  // namespace kvferry::runtime
