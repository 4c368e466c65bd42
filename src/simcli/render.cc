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
  s += fmt::format(
      "{} seeds, {} events in {:.1f} s ({:.2f} M events/s with the real codec), median {} events and {} "
      "rooms a seed\n",
      r.seeds, r.events, r.seconds, rate / 1e6, r.median_events, r.median_rooms);
  s += fmt::format("mix: {} frames, {} mover steps, {} ticks, {} user steps, {} mover answers\n", c.frames,
                   c.mover_steps, c.ticks, c.user_steps, c.inputs);
  s += fmt::format("handles: {} succeeded, {} failed with a cause; {} restarts\n", r.succeeded, r.failed,
                   c.restarts);
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
  return s + fmt::format("LAW BROKEN: {}\n  {}\n  {}\n  after {} events; replay: {}\n", v.law, v.text,
                         v.scenario, v.steps, v.replay);
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
    j["violations"].push_back(
        {{"seed", v.seed}, {"law", v.law}, {"steps", v.steps}, {"text", v.text}, {"replay", v.replay}});
  }
  j["coverage"] = nlohmann::json::object();
  for (const sim::CoverageRow& row : sim::rows_of(r.coverage)) j["coverage"][row.what] = row.hits;
  j["mix"] = {{"frames", r.coverage.frames},
              {"mover_steps", r.coverage.mover_steps},
              {"ticks", r.coverage.ticks},
              {"user_steps", r.coverage.user_steps},
              {"mover_answers", r.coverage.inputs}};
  return j.dump();
}

std::string text_of(const sim::ExploreResult& r) {
  std::string s =
      fmt::format("{:<28} {:>9} states {:>10} edges {:>7} engines {:>6} frames {:>7} ends {:6.1f} s  {}\n",
                  r.shape, r.states, r.edges, r.engines, r.frames, r.ends, r.seconds,
                  r.broken   ? "BROKEN"
                  : r.closed ? "closed, safe and live"
                             : "NOT CLOSED");
  if (!r.broken) return s;
  s += fmt::format("  LAW BROKEN: {}\n  {}\n  budget: {}\n  {} steps:\n", r.broken->law, r.broken->text,
                   r.budget, r.broken->steps.size());
  constexpr std::size_t kMostSteps = 60;
  const std::size_t from = r.broken->steps.size() > kMostSteps ? r.broken->steps.size() - kMostSteps : 0;
  if (from > 0) s += fmt::format("    ... {} steps before\n", from);
  for (std::size_t k = from; k < r.broken->steps.size(); ++k) s += "    " + r.broken->steps[k] + "\n";
  if (!r.broken->after.empty()) s += "  then\n";
  for (const std::string& step : r.broken->after) s += "    " + step + "\n";
  return s;
}

std::string json_of(const std::vector<sim::ExploreResult>& all) {
  nlohmann::json j;
  std::uint64_t states = 0;
  bool closed = true;
  j["violations"] = nlohmann::json::array();
  j["shapes"] = nlohmann::json::array();
  for (const sim::ExploreResult& r : all) {
    states += r.states;
    closed = closed && r.closed;
    j["shapes"].push_back({{"shape", r.shape},
                           {"states", r.states},
                           {"edges", r.edges},
                           {"closed", r.closed},
                           {"seconds", r.seconds},
                           {"budget", r.budget},
                           {"broken", r.broken.has_value()}});
    if (r.broken) {
      j["violations"].push_back({{"shape", r.shape},
                                 {"law", r.broken->law},
                                 {"steps", r.broken->steps.size()},
                                 {"text", r.broken->text},
                                 {"path", r.broken->steps}});
    }
  }
  j["states"] = states;
  j["closed"] = closed;
  return j.dump();
}

std::string list_of_shapes() {
  std::string s;
  for (const sim::ExploreShape& shape : sim::explore_shapes()) {
    s += fmt::format("{:<28} {}; {}\n", shape.name, shape.about, sim::budget_of(shape));
  }
  return s;
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
