// The registry as an HTTP/1.1 server: routes.h behind Boost.Beast on a thread of its own.
// Thread rule: start, stop and the reads may be called from any thread. stop() is bounded: nothing in the
// service waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "bootstrap/routes.h"
#include "kvferry/clock.h"

namespace kvferry::bootstrap {

struct ServiceOptions {
  std::string listen = "127.0.0.1:8997";         // HOST:PORT; port 0: any free one
  core::RegistryLimits limits;
  Incarnation server;                            // names this life in answers; unknown: a random one
  std::uint32_t max_connections = 1024;          // beyond: closed at once, counted
  std::uint32_t max_header = 8 * 1024;           // bytes; beyond: 431
  std::uint64_t max_body = 16 * 1024;            // bytes; beyond: 413
  std::chrono::milliseconds request_timeout{
      10000};  // from the first byte of a request to the last of its answer
  std::chrono::milliseconds idle_timeout{75000};     // between the requests of one connection
  std::chrono::milliseconds bind_patience{400};      // how long an address in use is retried
  std::shared_ptr<Clock> clock;                  // of the leases; empty: the system's
};

struct ServiceCounters {
  RouteCounters routes;
  core::RegistryCounters registry;
  std::uint64_t connections_accepted = 0, connections_refused = 0, connections_timed_out = 0;
  std::uint64_t connections = 0;  // gauge
};

class BootstrapService {
 public:
  // kUsage names a bad value, kEnvironment an address that cannot be listened on; within a second.
  static Result<std::unique_ptr<BootstrapService>> start(ServiceOptions);
  ~BootstrapService();
  BootstrapService(const BootstrapService&) = delete;
  BootstrapService& operator=(const BootstrapService&) = delete;

  void stop();                   // idempotent; open connections are cut
  std::string endpoint() const;  // "host:port" with the real port
  Incarnation server() const;
  ServiceCounters counters() const;

 private:
  struct Rep;
  explicit BootstrapService(std::shared_ptr<Rep>);
  std::shared_ptr<Rep> rep_;
};

}  // namespace kvferry::bootstrap
