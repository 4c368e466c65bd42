// Who owns which slot of the board, and what the callers of that handle have asked for so far, so that a
// wrong call is refused at the edge before anything moves. Thread rule: guarded by the command queue's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::runtime {

struct Slot {
  std::uint32_t generation = 0;   // of the present or latest opener
  bool open = false;              // between open() and close()
  bool taken = false;             // between open() and the engine's word that it is closed
  Role role = Role::kSender;
  RoomId room;
  TimePoint opened;
  bool granted = false;           // receiver: grant() was called
  bool last_pushed = false;       // sender: the last chunk was pushed
  std::uint32_t chunks = 0;       // sender: chunks pushed
  std::uint64_t tokens = 0;       // sender: tokens pushed
};

class SlotTable {
 public:
  explicit SlotTable(std::uint32_t slots);

  std::optional<Handle> take();       // empty: every slot is taken
  void give_back(Handle);             // no effect unless the handle holds the slot
  Slot* find(Handle) noexcept;        // null: closed, reused, or never existed
  const Slot* peek(
      Handle) const noexcept;  // the same, but a closed handle is found until its slot is given back
  std::uint32_t taken() const noexcept { return taken_; }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }

 private:
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;   // a stack, so that few slots stay warm
  std::uint32_t taken_ = 0;
};

}  // namespace kvferry::runtime
