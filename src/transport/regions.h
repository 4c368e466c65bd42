// The regions a mover was given: checks of what lies inside them, and how many operations and loans touch
// each. Thread rule: belongs to the progress thread of its transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"

namespace kvferry::transport {

inline constexpr std::uint32_t kMaxRegions = 65536;  // RegionId::value is below this; 40 B each: 2.6 MiB

// Distinct regions that one operation or loan touches; handed back to release().
using RegionHold = std::vector<RegionId>;

class RegionTable {
 public:
  // `mover` names the transport in errors; `memory` are the bits of Memory that it can move.
  RegionTable(std::string mover, std::uint8_t memory) : mover_(std::move(mover)), memory_(memory) {}

  Result<> add(RegionId, const RegionView&);
  Result<> drop(RegionId);  // kRefused while something holds it
  bool has(RegionId id) const noexcept { return id.value < slots_.size() && slots_[id.value].has_value(); }
  std::byte* at(RegionId id, std::uint64_t offset) const noexcept {  // of a range that was checked
    return static_cast<std::byte*>(slots_[id.value]->view.address) + offset;
  }

  // Every item of every plane lies inside its region; no arithmetic overflows. Looks at planes and runs, not
  // at pieces.
  Result<> check_local(std::span<const PieceGroup>) const;
  Result<> check_loan(std::span<const LoanGroup>) const;

  RegionHold hold_local(std::span<const PieceGroup>);
  RegionHold hold_loan(std::span<const LoanGroup>);
  void retain(const RegionHold&) noexcept;  // once more; release() once more
  void release(const RegionHold&) noexcept;

 private:
  struct Slot {
    RegionView view;
    std::uint64_t users = 0;
  };
  Result<> inside(const Plane&, std::uint64_t last_item, std::uint64_t span_bytes) const;
  void hold_one(RegionHold&, RegionId);

  std::string mover_;
  std::uint8_t memory_ = 1;
  std::vector<std::optional<Slot>> slots_;
};

}  // namespace kvferry::transport
