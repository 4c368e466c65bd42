// The life of one worker process: start, work in slices between messages and events, end when told to or when
// the parent is gone. Thread rule: the process's main thread.
#pragma once

#include <cstdint>

#include "config/settings.h"

namespace kvferry::replay {

struct WorkerArgs {
  int area_fd = -1;  // inherited: the parent's Area
  int link_fd = -1;  // inherited: one end of a socket pair
  std::uint32_t slot = 0;  // which process of the run
  config::Config config;  // as the parent resolved it
};

// Exit status: 0 ended as told, 3 it could not start (the parent has the reason).
int worker_main(const WorkerArgs&);

}  // namespace kvferry::replay
