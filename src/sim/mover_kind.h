// The four kinds of mover that the proof covers, and the switches that break one promise of a mover each.
// Values; no thread rule.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kvferry/transport.h"

namespace kvferry::sim {

enum class MoverKind : std::uint8_t {
  kPlaced,    // push; the receiver's own process places the bytes and checks loan and token (tcp)
  kLanded,    // push; one-sided, the sender learns when bytes are in place and says DONE
  kNotified,  // push; one-sided, the receiver gets a notice with or after the bytes
  kPull,      // the receiver reads the sender's lent pages and checks a lease word after the copy (shm)
};
inline constexpr std::array kMoverKinds = {MoverKind::kPlaced, MoverKind::kLanded, MoverKind::kNotified,
                                           MoverKind::kPull};

const char* name_of(MoverKind) noexcept;
Capabilities capabilities_of(MoverKind, FenceMode);

// A mover that breaks its word. The laws must notice each of them: a proof that cannot fail proves nothing.
#define KVFERRY_MOVER_MUTANT_LIST(X)                                                                       \
  X(kNone, "none", "")                                                                                     \
  X(kNoTokenCheck, "mover-no-token-check", "26: a placed frame is not checked against its loan")           \
  X(kWordIsLiveBit, "mover-word-is-live-bit", "26: the lease word has no generation")                      \
  X(kWordCheckedBefore, "mover-word-checked-before", "26: the lease word is checked before the copy only") \
  X(kRevokeKeepsWord, "mover-revoke-keeps-word", "26: recalling a read loan leaves the word alive")        \
  X(kFenceLies, "mover-fence-lies", "7: the fence is reported before the path is silent")                  \
  X(kFenceKeepsPath, "mover-fence-keeps-path", "7: a fence only flushes; the old path stays usable")       \
  X(kKeyRepeats, "mover-key-repeats", "7: region keys are the same in the next life")                      \
  X(kOldKeyLands, "mover-old-key-lands", "7: re-keyed regions still take the old key")                     \
  X(kQuiescedEarly, "mover-quiesced-early", "5: Quiesced is said while bytes may still land")              \
  X(kCompletedEarly, "mover-completed-early", "19: Completed is said before the bytes are in place")       \
  X(kRevokedEarly, "mover-revoked-early", "25: Revoked is said while frames are still placed")

enum class MoverMutant : std::uint8_t {
#define X(id, name, rule) id,
  KVFERRY_MOVER_MUTANT_LIST(X)
#undef X
};
struct MoverMutantInfo {
  MoverMutant id;
  std::string_view name, rule;
};
inline constexpr std::array kMoverMutants = {
#define X(id, name, rule) MoverMutantInfo{MoverMutant::id, name, rule},
    KVFERRY_MOVER_MUTANT_LIST(X)
#undef X
};

}  // namespace kvferry::sim
