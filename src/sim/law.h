// The laws that every run must keep, and the first breach of one. Values; no thread rule.
#pragma once

#include <optional>
#include <string>

namespace kvferry::sim {

enum class Law : unsigned char {
  kStrangerWrite,   // S1: a byte only lands in a page under its own live grant
  kWrongContent,    // S2: Success implies that the content equals the oracle
  kStatus,          // S3: a status never moves backwards, a terminal is told once and is quiet
  kLedger,          // S4: free + lent + quarantined = all pages
  kLiveness,        // S5: when faults stop, everything ends
  kLimits,          // S6: every table stays within its limit
  kTrace,           // S7: the same seed gives the same trace
  kCause,           // S8: one cause per room, known to every rank
  kTime,  // S9: no room outlives its named deadlines, none is judged by a deadline that does not apply
};

const char* name_of(Law) noexcept;  // "S1 stranger write", ...

struct Breach {
  Law law = Law::kLedger;
  std::string text;
};

// Keeps the first breach; later ones are consequences.
class Laws {
 public:
  void broken(Law law, std::string text) {
    if (!breach_) breach_ = Breach{law, std::move(text)};
  }
  const std::optional<Breach>& breach() const { return breach_; }

 private:
  std::optional<Breach> breach_;
};

}  // namespace kvferry::sim
