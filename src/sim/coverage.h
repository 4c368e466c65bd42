// What a campaign has exercised: messages, faults, limits, deadlines, leg table cells. Unhit ones are listed.
// A plain value that adds up. Thread rule: one thread each; merge() at the end.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/leg_table.h"
#include "sim/scenario.h"
#include "wire/message.h"

namespace kvferry::sim {

struct Coverage {
  std::array<std::uint64_t, wire::kKinds> messages{};  // delivered and decoded, by kind
  std::array<std::uint64_t, kFaults.size()> faults{};  // injected
  std::array<std::array<std::uint64_t, core::kLegEvents>, core::kLegStates> legs{};  // cells [before][event]
  std::map<std::string, std::uint64_t> limits;  // limit name -> times it was met
  std::map<std::string, std::uint64_t> causes;  // why rooms failed: code and named deadline
  std::uint64_t frames = 0, mover_steps = 0, ticks = 0, user_steps = 0, inputs = 0, restarts = 0;

  void merge(const Coverage&);
};

struct CoverageRow {
  std::string what;  // "message GRANT"
  std::uint64_t hits = 0;
  std::string excuse;  // why it may stay unhit; empty: it must be hit
};
std::vector<CoverageRow> rows_of(const Coverage&);

}  // namespace kvferry::sim
