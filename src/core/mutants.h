// One switch per rule: a mutant removes the rule, and a test shows that the explorer or the simulator
// notices. The switches exist only in objects compiled with KVFERRY_MUTANTS; production code sees `false`
// constants.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kvferry::core {

#define KVFERRY_MUTANT_LIST(X)                                                                             \
  X(kNone, "none", "")                                                                                     \
  X(kLentAtReady, "lent-at-ready", "1: a leg counts as lent only when READY arrives")                      \
  X(kNoSeenBitmap, "no-seen-bitmap", "2: a grant may be accepted twice")                                   \
  X(kRevokeNotSeen, "revoke-not-seen", "2: REVOKE does not mark its number seen")                          \
  X(kBelowWindowAccepted, "below-window-accepted", "2: a number below the window is accepted")             \
  X(kFloorPassesRevoke, "floor-passes-revoke", "2: the floor passes a number whose REVOKE is unanswered")  \
  X(kNoWindowLimit, "no-window-limit", "2: the receiver runs past the window")                             \
  X(kStaleWhileRunning, "stale-while-running",                                                             \
    "2: a repeated GRANT is answered STALE while its operation runs")                                      \
  X(kRevokedWhileRunning, "revoked-while-running", "3: REVOKED is said with operations outstanding")       \
  X(kSealedIgnoresRevoke, "sealed-ignores-revoke", "3: a sealed sender does not answer REVOKE")            \
  X(kNoResend, "no-resend", "4: debts are sent once")                                                      \
  X(kDebtsDieWithRoom, "debts-die-with-room", "4: debts are dropped when the room ends")                   \
  X(kUnknownKeyDropped, "unknown-key-dropped", "4: a message about an unknown key is not answered")        \
  X(kDoneBeforeQuiesced, "done-before-quiesced",                                                           \
    "5: DONE is said when operations are completed but not quiesced")                                      \
  X(kFailedBeforeQuiet, "failed-before-quiet", "6: Failed is shown before the legs are quiet")             \
  X(kDrainTimeoutIsQuiet, "drain-timeout-is-quiet", "6: the drain deadline releases the pages anyway")     \
  X(kPageLentTwice, "page-lent-twice", "8: a page still lent is lent again")                               \
  X(kPageBackAtFirstLeg, "page-back-at-first-leg", "8: pages return when the first leg closes")            \
  X(kSourceBackAtPost, "source-back-at-post",                                                              \
    "9: source pages return when the operation is completed, not quiesced")                                \
  X(kDeathIsSilence, "death-is-silence", "10: a dead peer counts as silent without a fence")               \
  X(kNoIncarnationCheck, "no-incarnation-check", "10: messages for another life are taken")                \
  X(kDownIsDead, "down-is-dead", "11: a lost connection fails the rooms at once")                          \
  X(kSuccessAtFirstLeg, "success-at-first-leg", "14: Success when any leg is sealed")                      \
  X(kReceiverSiblingsGoOn, "receiver-siblings-go-on",                                                      \
    "16: a failed leg does not abort its siblings (receiver)")                                             \
  X(kSenderSiblingsGoOn, "sender-siblings-go-on", "16: a failed leg does not abort its siblings (sender)") \
  X(kRefusalIsCause, "refusal-is-cause",                                                                   \
    "16: the lender's refusal fails the room before its REVOKE tells why")                                 \
  X(kLateLegUntold, "late-leg-untold", "16: a leg that registers after the failure is parked")             \
  X(kRevokeWithoutCause, "revoke-without-cause", "16: REVOKE does not carry the first cause")              \
  X(kIdleLegUntold, "idle-leg-untold", "16: a receiver failing with an Idle leg tells that peer nothing")  \
  X(kLegsTotalIgnored, "legs-total-ignored", "17: the number of legs in GRANT is ignored")                 \
  X(kNoTag, "no-tag", "18: tags are ignored")                                                              \
  X(kPostedRoomRebinds, "posted-room-rebinds", "18: a higher grant rebinds a room that has posted")        \
  X(kHigherGrantIgnored, "higher-grant-ignored", "18: a higher grant for a bound room is ignored")         \
  X(kNoRecall, "no-recall", "18: REVOKE of a parked or unknown grant is not remembered")                   \
  X(kSealedNotTold, "sealed-not-told", "18: GRANT does not tell that a lower one ended Sealed")            \
  X(kTerminalGrantDropped, "terminal-grant-dropped", "18: a GRANT for a terminal room is dropped")         \
  X(kDuplicateOpenFailsFirst, "duplicate-open-fails-first", "18: a duplicate open fails the first room")   \
  X(kCloseForgetsOps, "close-forgets-ops", "18: close on a live room forgets its operations")              \
  X(kEmptyLegNeedsNoDone, "empty-leg-needs-no-done", "19: a leg without pages seals without DONE")         \
  X(kTerminalNotSticky, "terminal-not-sticky", "law 5: a late DONE revives a failed leg")                  \
  X(kLastCauseWins, "last-cause-wins", "law 5: the last cause wins")                                       \
  X(kBootstrapHitsGranted, "bootstrap-hits-granted",                                                       \
    "20: the bootstrap deadline hits a room whose last grant came")                                        \
  X(kNoBootstrap, "no-bootstrap", "20: a sender in Bootstrapping has no deadline (the founding bug)")      \
  X(kRenewalRevives, "renewal-revives", "20: a renewal revives a failed room")                             \
  X(kEventIgnored, "event-ignored", "23: operations are posted before the source event fired")             \
  X(kGrantEventIgnored, "grant-event-ignored", "23: GRANT leaves before the destination event fired")      \
  X(kReturnBeforeRevoked, "return-before-revoked", "26: pages return before the lease word is dead")       \
  X(kReleaseByRoom, "release-by-room", "26: RELEASE is matched without its loan")                          \
  X(kReadAccepted, "read-accepted", "26: a failed read counts as landed")

enum class Mutant : std::uint8_t {
#define X(id, name, rule) id,
  KVFERRY_MUTANT_LIST(X)
#undef X
};

#ifdef KVFERRY_MUTANTS
struct MutantInfo {
  Mutant id;
  std::string_view name, rule;
};
inline constexpr std::array kMutants = {
#define X(id, name, rule) MutantInfo{Mutant::id, name, rule},
    KVFERRY_MUTANT_LIST(X)
#undef X
};
#endif

}  // namespace kvferry::core
