// `kvferry bootstrap`: the registry as a server until SIGINT or SIGTERM. Thread rule: call from main, once
// per process, before any other thread exists (signals are blocked here for all of them).
#pragma once

#include "cli/config.h"

namespace kvferry::cli {

struct BootstrapOptions {
  ConfigOptions config;  // --listen arrives in config.flags
  bool json = false;     // --json: a line when it listens, and the counters as the last line
};

// Returns the exit status: 0 ended when told to, 2 usage, 3 environment (the address is named).
int run_bootstrap(const BootstrapOptions&);

}  // namespace kvferry::cli
