#include "sim/law.h"

namespace kvferry::sim {

const char* name_of(Law law) noexcept {
  switch (law) {
    case Law::kStrangerWrite: return "S1 stranger write";
    case Law::kWrongContent: return "S2 wrong content";
    case Law::kStatus: return "S3 status";
    case Law::kLedger: return "S4 ledger";
    case Law::kLiveness: return "S5 liveness";
    case Law::kLimits: return "S6 limits";
    case Law::kTrace: return "S7 trace";
    case Law::kCause: return "S8 cause";
    case Law::kTime: return "S9 time";
  }
  return "?";
}

}  // namespace kvferry::sim
