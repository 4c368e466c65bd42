// The life of a leg as data: state x event -> next. Role-blind: the same rows for lender and mover side.
// docs/protocol.md prints this table and its diagram is generated from it. Pure; no thread rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvferry::core {

enum class LegState : std::uint8_t {
  kIdle,      // no loan: no GRANT was ever emitted (receiver) or accepted (sender) for it
  kGranted,   // lent; nothing moved yet
  kActive,    // bytes may be moving
  kSealed,    // all in place, proven, and quiet
  kRevoking,  // recalled; bytes may still move
  kQuiet,     // ended without success; nothing can move
  kLost,      // ended without success; cannot be proven quiet yet
};
inline constexpr std::size_t kLegStates = 7;

enum class LegEvent : std::uint8_t {
  kGrant,         // GRANT emitted (receiver) or bound (sender)
  kByte,          // an operation was posted, or bytes arrived
  kSeal,          // every chunk of the manifest is proven and nothing is outstanding
  kCut,           // the leg ends without success; not proven quiet yet
  kDrained,       // proven: nothing of it can move any more
  kDrainTimeout,  // the drain deadline ran out
};
inline constexpr std::size_t kLegEvents = 6;

// How a cell is meant. kIgnore: legal and without effect. kLocalBug: cannot happen unless we are wrong
// (checked).
enum class Cell : std::uint8_t { kMove, kIgnore, kLocalBug };

struct LegRow {
  Cell cell;
  LegState next;
};

namespace leg_table_detail {
using enum LegState;
inline constexpr LegRow go(LegState s) { return {Cell::kMove, s}; }
inline constexpr LegRow stay(LegState s) { return {Cell::kIgnore, s}; }
inline constexpr LegRow bug(LegState s) { return {Cell::kLocalBug, s}; }
}  // namespace leg_table_detail

inline constexpr std::array<std::array<LegRow, kLegEvents>, kLegStates> kLegTable = [] {
  using namespace leg_table_detail;
  return std::array<std::array<LegRow, kLegEvents>, kLegStates>{{
      // A cell is "bug" when nothing may ever lead there: the simulator and the explorer hold that none is
      // hit.
      //               kGrant         kByte            kSeal           kCut             kDrained kDrainTimeout
      /* Idle     */ {{go(kGranted), bug(kIdle), bug(kIdle), go(kQuiet), bug(kIdle), bug(kIdle)}},
      /* Granted  */ {{bug(kGranted), go(kActive), go(kSealed), go(kRevoking), bug(kGranted), bug(kGranted)}},
      /* Active   */ {{bug(kActive), stay(kActive), go(kSealed), go(kRevoking), bug(kActive), bug(kActive)}},
      /* Sealed   */ {{bug(kSealed), bug(kSealed), bug(kSealed), bug(kSealed), bug(kSealed), bug(kSealed)}},
      /* Revoking */
      {{bug(kRevoking), bug(kRevoking), bug(kRevoking), bug(kRevoking), go(kQuiet), go(kLost)}},
      /* Quiet    */ {{bug(kQuiet), bug(kQuiet), bug(kQuiet), bug(kQuiet), stay(kQuiet), bug(kQuiet)}},
      /* Lost     */ {{bug(kLost), bug(kLost), bug(kLost), bug(kLost), go(kQuiet), bug(kLost)}},
  }};
}();

inline constexpr const LegRow& leg_row(LegState s, LegEvent e) {
  return kLegTable[static_cast<std::size_t>(s)][static_cast<std::size_t>(e)];
}
inline constexpr bool is_closed(LegState s) { return s == LegState::kSealed || s == LegState::kQuiet; }

inline constexpr std::array<const char*, kLegStates> kLegStateNames = {
    "Idle", "Granted", "Active", "Sealed", "Revoking", "Quiet", "Lost"};
inline constexpr std::array<const char*, kLegEvents> kLegEventNames = {"grant", "byte",    "seal",
                                                                       "cut",   "drained", "drain timeout"};

}  // namespace kvferry::core
