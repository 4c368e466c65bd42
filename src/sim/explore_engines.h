// Engine values, each kept once: a state of the explorer names engines by number, and a step that was taken
// before is looked up instead of taken again. Equal means: equal canonical bytes and equal loan numbers
// handed out so far (those are seen by others; operation numbers are not, and are above all that are in
// flight in either of two equal engines). Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine.h"
#include "wire/codec.h"

namespace kvferry::sim {

struct Fingerprint {
  std::uint64_t a = 0, b = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint_of(const std::string& bytes);
struct FingerprintHash {
  std::size_t operator()(const Fingerprint& f) const { return static_cast<std::size_t>(f.a); }
};

using EngineId = std::uint32_t;
using FrameId = std::uint32_t;

// A frame as a set of sent messages knows it: who to whom, and the bytes. Kept once; decoded by the real
// codec.
struct KnownFrame {
  std::uint32_t from = 0, to = 0;  // nodes
  wire::Message message;
};

struct EngineStep {
  EngineId after = 0;
  core::Outputs outputs;
};

class EngineTable {
 public:
  static constexpr TimePoint kNow = TimePoint{} + std::chrono::hours(1);  // time stands still

  EngineId add(std::uint32_t life, const core::EngineConfig&);
  const core::Engine& at(EngineId id) const { return *slots_[id].engine; }
  // `key` tells inputs apart that may be given in one state.
  const EngineStep& step(EngineId, const core::Input&, std::uint64_t key);
  const EngineStep& fire(EngineId, std::size_t timer);   // index in timers()
  const std::vector<core::TimerRef>& timers(EngineId);
  // What this engine would say again if asked: a message counts as owed only while it is among these.
  const std::vector<core::out::Send>& owed(EngineId);
  std::size_t size() const { return slots_.size(); }

  FrameId frame(std::uint32_t from, std::uint32_t to, const wire::Message&);
  const KnownFrame& frame(FrameId id) const { return frames_[id]; }
  std::size_t frames() const { return frames_.size(); }

 private:
  struct Slot {
    std::unique_ptr<core::Engine> engine;
    std::uint32_t life = 0;            // whose: an engine of the next life is another one
    std::uint64_t loans = 0;           // the highest serial handed out
    bool timers_known = false, owed_known = false;
    std::vector<core::TimerRef> timers;
    std::vector<core::out::Send> owed;
  };
  struct Key {
    EngineId id;
    std::uint64_t input;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const {
      return static_cast<std::size_t>((k.input ^ k.id) * 0x9e3779b97f4a7c15ULL);
    }
  };

  EngineId intern(Slot);
  const EngineStep& remember(Key, Slot, core::Outputs);

  std::vector<Slot> slots_;
  std::unordered_map<Fingerprint, EngineId, FingerprintHash> by_print_;
  std::unordered_map<Key, EngineStep, KeyHash> steps_;
  std::vector<KnownFrame> frames_;
  std::unordered_map<Fingerprint, FrameId, FingerprintHash> frame_by_print_;
  wire::Encoder encoder_;
};

}  // namespace kvferry::sim
