#include "simcli/render.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvferry::simcli {
namespace {
constexpr std::uint64_t kEnoughHits = 100;
}

std::string text_of(const sim::CampaignResult& r) {
  std::string s;
  const double rate = r.seconds > 0 ? static_cast<double>(r.events) / r.seconds : 0;
  const sim::Coverage& c = r.coverage;
  s += fmt::format("{} seeds, {} events in {:.1f} s ({:.2f} M events/s with the real codec), median {} events and {} rooms a seed\n",
                   r.seeds, r.events, r.seconds, rate / 1e6, r.median_events, r.median_rooms);
  s += fmt::format("mix: {} frames, {} mover steps, {} ticks, {} user steps, {} mover answers\n", c.frames, c.mover_steps,
                   c.ticks, c.user_steps, c.inputs);
  s += fmt::format("handles: {} succeeded, {} failed with a cause; {} restarts\n", r.succeeded, r.failed, c.restarts);
  for (const sim::CoverageRow& row : sim::rows_of(c)) {
    if (row.hits >= kEnoughHits) continue;
    s += fmt::format("{} {}: {} hits{}{}\n", row.hits == 0 ? "unhit" : "rare ", row.what, row.hits,
                     row.excuse.empty() ? "" : " -- ", row.excuse);
  }
  for (const sim::Violation& v : r.violations) s += text_of(v);
  s += r.violations.empty() ? "every law held\n" : fmt::format("{} seeds broke a law\n", r.violations.size());
  return s;
}

std::string text_of(const sim::Violation& v) {
  std::string s;
  for (const std::string& line : v.trace) s += "    " + line + "\n";
  return s + fmt::format("LAW BROKEN: {}\n  {}\n  {}\n  after {} events; replay: {}\n", v.law, v.text, v.scenario, v.steps, v.replay);
}

std::string json_of(const sim::CampaignResult& r) {
  nlohmann::json j;
  j["seeds"] = r.seeds;
  j["events"] = r.events;
  j["events_per_s"] = r.seconds > 0 ? static_cast<double>(r.events) / r.seconds : 0.0;
  j["seconds"] = r.seconds;
  j["rooms"] = r.rooms;
  j["median_events"] = r.median_events;
  j["median_rooms"] = r.median_rooms;
  j["succeeded"] = r.succeeded;
  j["failed"] = r.failed;
  j["violations"] = nlohmann::json::array();
  for (const sim::Violation& v : r.violations) {
    j["violations"].push_back({{"seed", v.seed}, {"law", v.law}, {"steps", v.steps}, {"text", v.text}, {"replay", v.replay}});
  }
  j["coverage"] = nlohmann::json::object();
  for (const sim::CoverageRow& row : sim::rows_of(r.coverage)) j["coverage"][row.what] = row.hits;
  j["mix"] = {{"frames", r.coverage.frames}, {"mover_steps", r.coverage.mover_steps}, {"ticks", r.coverage.ticks},
              {"user_steps", r.coverage.user_steps}, {"mover_answers", r.coverage.inputs}};
  return j.dump();
}

std::string list_of_mutants() {
  std::string s;
#ifdef KVFERRY_MUTANTS
  for (const core::MutantInfo& m : core::kMutants) {
    if (m.id != core::Mutant::kNone) s += fmt::format("{:<28} {}\n", m.name, m.rule);
  }
#endif
  for (const sim::MoverMutantInfo& m : sim::kMoverMutants) {
    if (m.id != sim::MoverMutant::kNone) s += fmt::format("{:<28} {}\n", m.name, m.rule);
  }
  return s;
}

}  // namespace kvferry::simcli
