// The two parties of one check: the near one lives here, the far one here too, in a child process, or on
// another host. Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "conformance/local_party.h"
#include "conformance/party.h"

namespace kvferry::conformance {

// How to make both parties; a list of these is what a suite is stamped with.
struct HarnessSpec {
  enum class Far : std::uint8_t { kSameProcess, kChild, kStream };
  std::string label;  // "tcp_two_processes": letters, digits and underscores
  MakerSpec maker;
  Far far = Far::kSameProcess;
  std::vector<std::string>
      child_command;  // kChild: program and arguments; the number of a descriptor is appended
  int stream = -1;  // kStream: a connection to serve_party(); borrowed, restarted for each world
  std::uint64_t time_factor = 1;  // sanitizers and slow machines: what is allowed for CPU time and waiting
};

class World {
 public:
  static Result<std::unique_ptr<World>> start(const HarnessSpec&);
  ~World();

  Party& near() { return *near_; }
  Party& far() { return *far_; }
  const HarnessSpec& spec() const noexcept { return spec_; }
  bool two_processes() const noexcept { return spec_.far != HarnessSpec::Far::kSameProcess; }
  bool may_signal() const noexcept { return spec_.far != HarnessSpec::Far::kStream; }

  void pump();  // both make progress, as far as they may
  void kill_far();  // SIGKILL; in one process: the transport is destroyed. Later calls to far() fail.
  void
  stop_far();  // SIGSTOP; in one process: no progress() any more. far() must not be called until continued.
  void continue_far();
  bool far_runs() const noexcept { return far_runs_; }

 private:
  explicit World(HarnessSpec spec) : spec_(std::move(spec)) {}
  Result<> start_child();
  void end_child();

  HarnessSpec spec_;
  std::unique_ptr<LocalParty> near_;
  std::unique_ptr<Party> far_;
  LocalParty* far_local_ = nullptr;  // far_, when it lives here
  pid_t child_ = -1;
  bool far_runs_ = true;
};

}  // namespace kvferry::conformance
