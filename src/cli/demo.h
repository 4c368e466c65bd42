// `kvferry demo`: one prefill and one decode process, rooms of several sizes, aborts, and both killed and
// restarted. Thread rule: call from main, once per process.
#pragma once

#include <cstdint>
#include <string>

#include "cli/config.h"

namespace kvferry::cli {

struct DemoOptions {
  std::string mover = "shm";  // --mover shm|tcp
  std::uint64_t seed = 1;     // --seed N
  bool json = false;          // --json: the last line of stdout is one JSON object
  ConfigOptions config;       // --file, --set and the environment
};

// Returns the exit status: 0 promises kept, 1 one was broken, 2 usage, 3 environment. Errors go to stderr,
// one line.
int run_demo(const DemoOptions&);

}  // namespace kvferry::cli
