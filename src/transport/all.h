// Every mover of this build, by name: an explicit list. Thread rule: any thread; the transport then belongs
// to one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/loopback/loopback.h"
#include "transport/tcp/tcp.h"
#if __has_include("transport/shm/shm_transport.h")
#include "transport/shm/shm_transport.h"
#define KVFERRY_HAS_SHM 1
#endif

namespace kvferry {

struct TransportOptions {
  // Loopback transports reach each other over the same fabric; null: a fabric of its own, which reaches
  // nobody.
  std::shared_ptr<transport::LoopbackFabric> fabric;
  TcpOptions tcp;
#ifdef KVFERRY_HAS_SHM
  ShmOptions shm;
#endif
};

// Names: "tcp", "shm", "loopback-push" (also "loopback"), "loopback-pull", "loopback-landed".
// Errors: kUsage for an unknown name, listing the known ones; else what the mover says.
Result<std::unique_ptr<Transport>> make_transport(std::string_view name, const TransportOptions&);
std::vector<std::string> transport_names();

}  // namespace kvferry
