// What callers and the progress thread share, and by what each part is guarded. One per manager.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine.h"
#include "kvferry/manager.h"
#include "observe/flight_recorder.h"
#include "runtime/command.h"
#include "runtime/command_queue.h"
#include "runtime/event_queue.h"
#include "runtime/slot_table.h"
#include "runtime/status_board.h"

namespace kvferry::runtime {

struct MoverFacts {  // for status_json
  std::string name;
  std::size_t in_flight = 0;
};

struct Shared {
  Shared(const ManagerOptions& settings, WakeEvent command_wake, WakeEvent event_wake, core::Engine first)
      : limits(settings.limits),
        queue(settings.limits.commands, std::move(command_wake)),
        slots(settings.limits.rooms),
        board(settings.limits.rooms),
        events(settings.limits.events, std::move(event_wake),
               [this](Handle handle) { return board.poll(handle) == Poll::kStale; }),
        engine(std::move(first)),
        known(settings.limits.rooms) {
    if (settings.recorder_events > 0) recorder.emplace(settings.recorder_events);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const Limits limits;

  CommandQueue<Command> queue;                        // its lock guards the three below, too
  SlotTable slots;
  std::unordered_map<std::string, EndpointId> endpoints;
  bool stopping = false;                              // no command is taken any more

  StatusBoard board;                                  // atomic
  EventQueue events;                                  // its own lock
  std::atomic<std::uint64_t> refused{0};              // commands refused at the edge

  std::mutex core;  // held for one step or one read; guards all that follows
  core::Engine engine;  // only the progress thread changes it
  std::vector<std::uint32_t> known;  // by slot: the generation whose Open the engine has seen
  std::map<std::uint32_t, std::uint32_t> peers;  // PeerId -> mover
  std::vector<MoverFacts> movers;
  std::uint64_t frames_dropped = 0;  // the channel would not take them; the debts are said again
  std::uint64_t input_faults = 0;  // an exception in the core: a bug, logged, survived
  std::uint64_t repeated_completions = 0;  // a mover said something twice

  mutable std::mutex trace;  // held for one event or one dump; guards the recorder
  std::optional<observe::FlightRecorder> recorder;  // empty: not wanted
};

}  // namespace kvferry::runtime
