#include "sim/explore_engines.h"

#include <string_view>

#include "base/check.h"
#include "base/checksum.h"

namespace kvferry::sim {
namespace {

void put(std::string& bytes, std::uint64_t v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof v); }

// Timers that only say something again; they accuse nobody.
bool is_resend(std::string_view name) { return name == "resend" || name == "hello"; }

}  // namespace

Fingerprint fingerprint_of(const std::string& bytes) { return {hash64(bytes, 1), hash64(bytes, 2)}; }

EngineId EngineTable::add(std::uint32_t life, const core::EngineConfig& config) {
  Slot slot;
  slot.life = life;
  slot.engine = std::make_unique<core::Engine>(config);
  return intern(std::move(slot));
}

EngineId EngineTable::intern(Slot slot) {
  std::string bytes;
  put(bytes, slot.life);
  put(bytes, slot.loans);
  slot.engine->canonical(bytes);
  const auto [it, fresh] = by_print_.try_emplace(fingerprint_of(bytes), static_cast<EngineId>(slots_.size()));
  if (fresh) slots_.push_back(std::move(slot));
  return it->second;
}

const EngineStep& EngineTable::remember(Key key, Slot slot, core::Outputs outputs) {
  for (const core::Output& o : outputs) {
    if (const auto* lend = std::get_if<core::out::Lend>(&o))
      slot.loans = std::max(slot.loans, lend->loan.serial);
  }
  EngineStep step;
  step.after = intern(std::move(slot));
  step.outputs = std::move(outputs);
  return steps_.emplace(key, std::move(step)).first->second;
}

const EngineStep& EngineTable::step(EngineId id, const core::Input& input, std::uint64_t key) {
  const Key k{id, key};
  if (const auto it = steps_.find(k); it != steps_.end()) return it->second;
  const Slot& from = slots_[id];
  Slot next;
  next.life = from.life;
  next.loans = from.loans;
  next.engine = std::make_unique<core::Engine>(*from.engine);
  core::Outputs outputs;
  next.engine->step(input, kNow, outputs);
  return remember(k, std::move(next), std::move(outputs));
}

const EngineStep& EngineTable::fire(EngineId id, std::size_t timer) {
  const Key k{id, (0x7ULL << 60) | timer};
  if (const auto it = steps_.find(k); it != steps_.end()) return it->second;
  const core::TimerRef ref = timers(id)[timer];
  const Slot& from = slots_[id];
  Slot next;
  next.life = from.life;
  next.loans = from.loans;
  next.engine = std::make_unique<core::Engine>(*from.engine);
  core::Outputs outputs;
  next.engine->fire(ref, kNow, outputs);
  return remember(k, std::move(next), std::move(outputs));
}

const std::vector<core::TimerRef>& EngineTable::timers(EngineId id) {
  Slot& slot = slots_[id];
  if (!slot.timers_known) {
    slot.engine->armed(slot.timers);
    slot.timers_known = true;
  }
  return slot.timers;
}

const std::vector<core::out::Send>& EngineTable::owed(EngineId id) {
  if (slots_[id].owed_known) return slots_[id].owed;
  std::vector<core::out::Send> owed;
  const std::size_t count = timers(id).size();
  for (std::size_t t = 0; t < count; ++t) {
    const core::TimerRef ref = timers(id)[t];
    if (!is_resend(ref.name)) continue;
    core::Engine copy(*slots_[id].engine);
    core::Outputs outputs;
    copy.fire(ref, kNow, outputs);
    for (core::Output& o : outputs) {
      if (auto* send = std::get_if<core::out::Send>(&o)) owed.push_back(std::move(*send));
    }
  }
  slots_[id].owed = std::move(owed);
  slots_[id].owed_known = true;
  return slots_[id].owed;
}

FrameId EngineTable::frame(std::uint32_t from, std::uint32_t to, const wire::Message& message) {
  const auto bytes = encoder_.encode(message);
  std::string print;
  put(print, from);
  put(print, to);
  print.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto [it, fresh] =
      frame_by_print_.try_emplace(fingerprint_of(print), static_cast<FrameId>(frames_.size()));
  if (fresh) {
    auto decoded = wire::decode(bytes);
    KVF_CHECK(decoded.has_value(), "the codec does not read its own frame");
    frames_.push_back({from, to, std::move(*decoded)});
  }
  return it->second;
}

}  // namespace kvferry::sim
