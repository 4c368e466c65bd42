// The worker processes of a run: started, listened to, killed with SIGKILL, started again on the same port.
// Thread rule: the parent's main thread. Ends only processes that it started, each by its pid.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "replay/area.h"
#include "replay/link.h"

namespace kvferry::replay {

struct FleetOptions {
  std::string program = "/proc/self/exe";  // executed as PROGRAM VERB AREA_FD LINK_FD SLOT [NAME=VALUE...]
  std::string verb;
  std::vector<std::string> settings;  // NAME=VALUE: those that differ from their defaults
};

struct FleetEvent {
  enum class Kind : std::uint8_t { kMessage, kReady, kTrouble, kBye, kDied } kind = Kind::kMessage;
  std::uint32_t slot = 0;
  std::uint32_t life = 0;     // which process of that slot
  Message message;            // kMessage
  bool expected = false;      // kDied: we killed it or told it to quit
  std::string text;           // kTrouble: why it could not start; kDied: "signal 11", "exit status 1"
};

class Fleet {
 public:
  Fleet(Area& area, FleetOptions);
  ~Fleet();  // kills what is left
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Gives each slot a free port of 127.0.0.1, below the range that outgoing connections use. Errors:
  // kEnvironment.
  Result<> choose_ports();
  Result<> spawn(std::uint32_t slot);        // the slot must have no process
  void kill(std::uint32_t slot);             // SIGKILL; kDied follows
  void send(std::uint32_t slot, const Message&);
  void quit(std::uint32_t slot);             // asks it to end; kBye and kDied follow
  // Waits at most timeout_ms for anything and appends what happened.
  void pump(int timeout_ms, std::vector<FleetEvent>& events);

  enum class State : std::uint8_t { kNone, kStarting, kReady, kEnding };
  State state(std::uint32_t slot) const { return workers_[slot].state; }
  std::uint32_t life(std::uint32_t slot) const { return workers_[slot].life; }
  std::string name(std::uint32_t slot) const;  // "prefill.0"

 private:
  struct Worker {
    State state = State::kNone;
    std::uint32_t life = 0;
    pid_t pid = -1;
    std::optional<Link> link;
    bool expected = false;
  };
  void read(std::uint32_t slot, std::vector<FleetEvent>& events);
  void reap(std::uint32_t slot, std::vector<FleetEvent>& events);

  Area& area_;
  FleetOptions options_;
  std::vector<Worker> workers_;
  std::vector<Message> scratch_;
};

}  // namespace kvferry::replay
