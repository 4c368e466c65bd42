// Where the progress thread sleeps: a few descriptors and a time. Thread rule: progress thread only.
#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::runtime {

class Sleeper {
 public:
  void watch(int fd);          // -1 is ignored; the descriptor must stay open
  void clear() noexcept;
  void sleep(Duration most);   // returns early when a watched descriptor is readable

 private:
  std::vector<pollfd> fds_;
};

}  // namespace kvferry::runtime
