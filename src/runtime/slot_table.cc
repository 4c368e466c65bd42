#include "runtime/slot_table.h"

namespace kvferry::runtime {

SlotTable::SlotTable(std::uint32_t slots) : slots_(slots) {
  free_.reserve(slots);
  for (std::uint32_t slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
}

std::optional<Handle> SlotTable::take() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t index = free_.back();
  free_.pop_back();
  const std::uint32_t before = slots_[index].generation;
  Slot fresh;
  fresh.generation = before == ~0U ? 1 : before + 1;  // 0 means "never opened"
  fresh.open = true;
  fresh.taken = true;
  slots_[index] = fresh;
  ++taken_;
  return Handle{index, fresh.generation};
}

void SlotTable::give_back(Handle handle) {
  if (handle.slot >= slots_.size()) return;
  Slot& slot = slots_[handle.slot];
  if (!slot.taken || slot.generation != handle.generation) return;
  slot.taken = false;
  slot.open = false;
  free_.push_back(handle.slot);
  --taken_;
}

Slot* SlotTable::find(Handle handle) noexcept {
  if (handle.slot >= slots_.size()) return nullptr;
  Slot& slot = slots_[handle.slot];
  return slot.open && slot.generation == handle.generation ? &slot : nullptr;
}

const Slot* SlotTable::peek(Handle handle) const noexcept {
  if (handle.slot >= slots_.size()) return nullptr;
  const Slot& slot = slots_[handle.slot];
  return slot.taken && slot.generation == handle.generation ? &slot : nullptr;
}

}  // namespace kvferry::runtime
