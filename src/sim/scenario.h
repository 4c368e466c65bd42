// What one seed means: shape, faults with their rates, limits, deadlines, load. About half of the faults of a
// seed are zero (swarm testing). A plain value, so that a failing scenario can be made smaller. No thread
// rule.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/limits.h"
#include "sim/cluster.h"

namespace kvferry::sim {

#define KVFERRY_FAULT_LIST(X)                                                                    \
  X(kDrop, "drop", 0.002, 0.2) /* per frame */                                                   \
  X(kDuplicate, "duplicate", 0.002, 0.2) /* per frame */                                         \
  X(kReorder, "reorder", 0.002, 0.3) /* per frame */                                             \
  X(kDelay, "delay", 0.001, 0.1) /* per frame: up to seconds */                                  \
  X(kStrayFrame, "stray frame", 0.001, 0.05) /* per frame: comes again over a later link */      \
  X(kBadFrame, "bad frame", 0.0005, 0.01) /* per frame: garbage on the link */                   \
  X(kPartition, "partition", 0.02, 0.3) /* per second and cluster */                             \
  X(kClog, "clog", 0.02, 0.5) /* per second: a link stands still */                              \
  X(kLinkCut, "link cut", 0.02, 0.5) /* per second */                                            \
  X(kWriteError, "write error", 0.002, 0.2) /* per operation */                                  \
  X(kLateLanding, "late landing", 0.002, 0.2)                                                    \
  X(kTornWrite, "torn write", 0.01, 0.5)                                                         \
  X(kStall, "stall", 0.001, 0.1) /* an operation hangs for seconds */                            \
  X(kPathLost, "path lost", 0.001, 0.02) /* the mover says that the path to a live peer broke */ \
  X(kCrash, "crash", 0.01, 0.15) /* per second and cluster */                                    \
  X(kPowerLoss, "power loss", 0.2, 0.9) /* per crash: nobody is told */                          \
  X(kStop, "stopped process", 0.01, 0.2) /* per second */                                        \
  X(kAbort, "abort", 0.01, 0.4) /* per participant */                                            \
  X(kReject, "reject", 0.01, 0.2) /* per sending participant */                                  \
  X(kSlowUser, "slow user", 0.01, 0.3)                                                           \
  X(kNoShow, "no show", 0.01, 0.2) /* a participant never opens */                               \
  X(kReuse, "room reuse", 0.05, 0.9) /* per request */                                           \
  X(kDuplicateOpen, "duplicate open", 0.01, 0.2)                                                 \
  X(kCloseLive, "close live", 0.01, 0.2)                                                         \
  X(kEventFailed, "event failed", 0.01, 0.1)                                                     \
  X(kDisagree, "prefix disagrees", 0.01, 0.1)                                                    \
  X(kSkew, "clock skew", 0.5, 1.0) /* per node */                                                \
  X(kShrink, "limits shrunk", 0.5, 1.0) /* per limit */                                          \
  X(kFastDeadlines, "short deadlines", 1.0, 1.0)                                                 \
  X(kDoubleNotice, "double notice", 0.01, 0.3) /* per operation: Arrived is told twice */        \
  X(kTornFrame, "torn frame", 0.005, 0.3) /* per frame: its bytes come in two pieces */          \
  X(kBadPrefix, "bad prefix", 0.0002, 0.004) /* per frame: a length above the limit */           \
  X(kRegistryRestart, "registry restart", 0.02, 0.3) /* per second: away, then empty */          \
  X(kRegistryLost, "registry request lost", 0.01, 0.3) /* per request: no answer */              \
  X(kBadBody, "bad registry request", 0.05, 0.5) /* per request: garbage comes before it */

enum class Fault : std::uint8_t {
#define X(id, name, lo, hi) id,
  KVFERRY_FAULT_LIST(X)
#undef X
};
struct FaultInfo {
  Fault id;
  std::string_view name;
  double low, high;  // range of the rate when the seed has it at all
};
// Faults from here on are drawn after all else of a scenario.
inline constexpr Fault kDrawnLast = Fault::kTornFrame;
inline constexpr std::array kFaults = {
#define X(id, name, lo, hi) FaultInfo{Fault::id, name, lo, hi},
    KVFERRY_FAULT_LIST(X)
#undef X
};

struct Scenario {
  std::uint64_t seed = 0;
  ClusterShape shape;
  std::array<double, kFaults.size()> rates{};
  std::uint32_t requests = 24;
  Duration arrivals = std::chrono::seconds(6);  // requests come spread over this time; faults stop with it
  Limits limits;
  Deadlines deadlines;
  Duration latency = std::chrono::microseconds(200);
  Duration registry_lease = std::chrono::seconds(6);
  bool tags = true;

  double rate(Fault f) const { return rates[static_cast<std::size_t>(f)]; }
  std::string line() const;  // one line for a person
};

// `shape` empty: drawn. Else one of shape_names(), optionally with ":MOVER" behind it ("2x1:pull",
// ":landed").
Result<Scenario> draw_scenario(std::uint64_t seed, std::string_view shape);
std::vector<std::string> shape_names();

}  // namespace kvferry::sim
