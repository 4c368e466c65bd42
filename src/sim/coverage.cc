#include "sim/coverage.h"

#include <algorithm>

namespace kvferry::sim {
namespace {

template <class A>
void add(A& to, const A& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

// The one place for reasons why something may stay unhit. Each is itself tested: a row that has a reason and
// is hit fails the long test.
std::string excuse_of_message(std::size_t kind) {
  const auto is = [&](const wire::Body& b) { return b.index() == kind; };
  if (is(wire::Stall{}) || is(wire::Resend{}) || is(wire::Regions{}))
    return "a seam of this version: nobody sends it yet";
  return "";
}

struct LimitRow {
  const char* name;  // a member of Limits
  const char* excuse;
};
constexpr const char* kTooLarge = "larger than what one seed holds, and not shrunk";
constexpr const char* kUnseen = "meeting it shows nothing outside the engine";
constexpr const char* kShell = "belongs to the manager, which the simulator does not run";
constexpr std::array kLimitRows = {
    LimitRow{"rooms", ""},
    LimitRow{"legs_per_room", kTooLarge},
    LimitRow{"chunks_per_room", ""},
    LimitRow{"peers", kTooLarge},
    LimitRow{"endpoints", kShell},
    LimitRow{"live_grants_per_peer", ""},
    LimitRow{"grant_window", kUnseen},
    LimitRow{"parked_grants_per_peer", ""},
    LimitRow{"recalls", kUnseen},
    LimitRow{"debts_per_peer", kUnseen},
    LimitRow{"page_runs_per_part", ""},
    LimitRow{"grant_parts", kTooLarge},
    LimitRow{"ops_in_flight", ""},
    LimitRow{"ops_in_flight_per_peer", ""},
    LimitRow{"bytes_in_flight_per_peer", kUnseen},
    LimitRow{"loans", ""},
    LimitRow{"text_bytes", ""},
    LimitRow{"bad_messages_per_peer", kTooLarge},
    LimitRow{"commands", kShell},
    LimitRow{"events", kShell},
};

}  // namespace

void Coverage::merge(const Coverage& o) {
  add(messages, o.messages);
  add(faults, o.faults);
  for (std::size_t s = 0; s < legs.size(); ++s) add(legs[s], o.legs[s]);
  for (const auto& [k, v] : o.limits) limits[k] += v;
  for (const auto& [k, v] : o.causes) causes[k] += v;
  frames += o.frames;
  mover_steps += o.mover_steps;
  ticks += o.ticks;
  user_steps += o.user_steps;
  inputs += o.inputs;
  restarts += o.restarts;
}

namespace {
template <std::size_t... I>
std::array<const char*, sizeof...(I)> message_names(std::index_sequence<I...>) {
  return {wire::name_of(wire::Body(std::in_place_index<I>))...};
}
}  // namespace

std::vector<CoverageRow> rows_of(const Coverage& c) {
  std::vector<CoverageRow> rows;
  const auto names = message_names(std::make_index_sequence<wire::kKinds>{});
  for (std::size_t k = 0; k < wire::kKinds; ++k) {
    rows.push_back({std::string("message ") + names[k], c.messages[k], excuse_of_message(k)});
  }
  for (const FaultInfo& f : kFaults) {
    rows.push_back({"fault " + std::string(f.name), c.faults[static_cast<std::size_t>(f.id)], ""});
  }
  for (std::size_t s = 0; s < core::kLegStates; ++s) {
    for (std::size_t e = 0; e < core::kLegEvents; ++e) {
      const core::LegRow& row = core::kLegTable[s][e];
      if (row.cell == core::Cell::kLocalBug) continue;  // must never be hit: law S3 catches it
      rows.push_back({std::string("leg ") + core::kLegStateNames[s] + " x " + core::kLegEventNames[e],
                      c.legs[s][e], ""});
    }
  }
  for (const LimitRow& l : kLimitRows) {
    const auto hits = c.limits.find(l.name);
    rows.push_back({std::string("limit ") + l.name, hits == c.limits.end() ? 0 : hits->second, l.excuse});
  }
  for (const auto& [name, hits] : c.limits) {
    const bool known =
        std::any_of(kLimitRows.begin(), kLimitRows.end(), [&](auto& l) { return l.name == name; });
    if (!known) rows.push_back({"limit " + name, hits, "no limit has this name"});
  }
  for (const auto& [name, hits] : c.causes) rows.push_back({"cause " + name, hits, ""});
  return rows;
}

}  // namespace kvferry::sim
