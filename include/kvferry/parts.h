// The real parts of a manager: a TCP control channel, the system clock and the movers of this build, by name.
// Thread rule: make_parts from any thread; what it returns belongs to the manager that it is handed to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/export.h"
#include "kvferry/manager.h"
#include "kvferry/pool.h"

namespace kvferry {

struct PartsOptions {
  std::string bind =
      "127.0.0.1:0";  // HOST:PORT of the control channel; port 0: any free one. tcp binds to HOST, too
  std::string advertise;  // HOST or HOST:PORT that other hosts dial; empty: the bound address
  std::vector<std::string> movers = {"shm", "tcp"};  // in order of preference
  std::uint16_t tcp_streams = 2;  // connections to each peer
  std::string tcp_congestion = "cubic";  // TCP_CONGESTION; empty: the system's choice
  std::vector<std::shared_ptr<const Pool>> pools;  // regions inside one of these are shared as they are
  bool shm_adopt = false;  // re-map page-aligned regions onto a memfd, contents kept (one copy, mapped reads)
  bool shm_foreign = true;  // otherwise let receivers use process_vm_readv; false: refuse such regions
};

// kUsage for a value that cannot be, kEnvironment for what this host refuses (an address in use is named).
// A mover that this host cannot offer is left out and named in `left_out`; without any mover it is an error.
KVFERRY_API Result<Parts> make_parts(const PartsOptions&, std::vector<std::string>* left_out = nullptr);

}  // namespace kvferry
