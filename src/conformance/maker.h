// Makes the transport under test: a mover of this build by name, or one out of a plug-in. Thread rule: one
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kvferry/transport.h"
#include "transport/loopback/loopback.h"

namespace kvferry::conformance {

// Where a party's memory comes from; freed with the last copy. `bytes` is a multiple of 4096.
struct PartyMemory {
  std::shared_ptr<void> owner;
  void* address = nullptr;
};

struct Made {
  std::unique_ptr<Transport> transport;
  std::function<Result<PartyMemory>(std::uint64_t bytes)> allocate;  // zeroed and touched
};

struct MakerSpec {
  std::string mover;           // of make_transport; or "shm-pool", shm whose memory is an allocated pool
  std::string plugin;          // path of a library; else empty
  std::string plugin_options;  // JSON text for it
  std::string bind;            // tcp: address to listen on
  std::shared_ptr<transport::LoopbackFabric> fabric;  // loopback: shared by the parties of one process
  std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>
      wrap;  // a decorator to be held to the same
};

Result<Made> make(const MakerSpec&);

// A transport of a plug-in: LIB.so exports `extern "C" kvferry::Transport* kvferry_make_transport(const char*
// options)`. The library stays loaded as long as the transport lives.
Result<std::unique_ptr<Transport>> load_plugin(const std::string& path, const std::string& options);

}  // namespace kvferry::conformance
