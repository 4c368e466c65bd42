// A rank's side of the registry: keeps registrations alive and finds the endpoints of groups. An unreachable
// server is a status and an error text, never the end of the process; registrations come back by themselves
// when it does. Thread rule: every method from any thread; none waits for the network but the ones that say
// so. Callbacks run on the client's own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"
#include "kvferry/clock.h"

namespace kvferry::bootstrap {

struct ClientOptions {
  std::string server;                                // HOST:PORT of the bootstrap server
  std::chrono::milliseconds request_timeout{2000};   // connect, ask and answer, each
  std::chrono::milliseconds retry_first{50};         // after a failure; doubles up to retry_most
  std::chrono::milliseconds retry_most{2000};
  std::chrono::milliseconds resolve_every{50};       // how often an incomplete group is asked for
  std::shared_ptr<Clock> clock;                      // of leases and deadlines; empty: the system\'s
};

struct ClientStatus {
  bool reachable = false;           // the last request was answered
  std::uint32_t held = 0;           // registrations asked for
  std::uint32_t registered = 0;     // of them: acknowledged, lease running
  std::uint32_t superseded = 0;     // of them: a newer process took the rank; given up
  std::uint64_t registrations =
      0;  // answers "created" or "replaced": 1 a rank, more after restarts of the server
  std::uint64_t renewals = 0;       // answers "renewed"
  std::uint64_t failures = 0;       // requests without an answer
  Error last_error;  // of the last request that failed or was refused; ok() when the last one worked
};

struct ResolvedRank {
  std::uint32_t rank = 0;
  std::string endpoint, name;
  Incarnation incarnation;
};

class BootstrapClient {
 public:
  using Found = std::function<void(Result<std::vector<ResolvedRank>>)>;

  // kUsage for a bad `server`; the server itself need not be there.
  static Result<std::unique_ptr<BootstrapClient>> start(ClientOptions);
  ~BootstrapClient();  // stop()
  BootstrapClient(const BootstrapClient&) = delete;
  BootstrapClient& operator=(const BootstrapClient&) = delete;

  // Registers and renews at a third of the lease until release() or stop(). The same (group, rank) again
  // replaces the earlier wish (a new draining flag, say).
  void hold(core::Registration);
  void release(const std::string& group, std::uint32_t rank);  // and tells the server, once

  // Calls `found` once: all ranks of the group in rank order when it is ready and not draining, or by the
  // deadline an error that names the group, the server and what is missing. stop() answers the waiting ones
  // with kAborted.
  void resolve(std::string group, std::chrono::milliseconds deadline, Found found);
  // The same, waiting for the answer.
  Result<std::vector<ResolvedRank>> resolve(std::string group, std::chrono::milliseconds deadline);

  ClientStatus status() const;
  // Waits until every held registration is acknowledged; false at the deadline.
  bool wait_registered(std::chrono::milliseconds deadline) const;
  // Ends the thread; tells the server about held registrations for at most `farewell` (0: lets the leases
  // end).
  void stop(std::chrono::milliseconds farewell = std::chrono::milliseconds(0));

 private:
  struct Rep;
  explicit BootstrapClient(std::unique_ptr<Rep>);
  std::unique_ptr<Rep> rep_;
};

}  // namespace kvferry::bootstrap
