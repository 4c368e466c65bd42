#include "sim/campaign.h"

#include <algorithm>
#include <chrono>

namespace kvferry::sim {
namespace {

RunResult run_scenario(const Scenario& s, Removed removed, Coverage& coverage, std::size_t keep) {
  return World(s, removed, coverage, keep).run();
}

// Fewer faults, then fewer requests, as long as the same law still breaks.
Scenario smaller(Scenario s, Removed removed, RunResult& best) {
  const Law law = best.breach->law;
  Coverage ignored;
  const auto breaks = [&](const Scenario& candidate) {
    RunResult r = run_scenario(candidate, removed, ignored, 0);
    if (!r.breach || r.breach->law != law || r.events > best.events) return false;
    best = std::move(r);
    return true;
  };
  for (int round = 0; round < 2; ++round) {
    for (double& rate : s.rates) {
      if (rate <= 0) continue;
      Scenario candidate = s;
      candidate.rates[static_cast<std::size_t>(&rate - s.rates.data())] = 0;
      if (breaks(candidate)) s = candidate;
    }
    for (std::uint32_t less = s.requests / 2; less > 0; less /= 2) {
      Scenario candidate = s;
      candidate.requests = s.requests > less ? s.requests - less : 1;
      if (candidate.requests < s.requests && breaks(candidate)) s = candidate;
    }
  }
  return s;
}

std::string replay_of(const CampaignOptions& o, std::uint64_t seed) {
  const std::string n = std::to_string(seed);
  std::string line = "kvferry-sim sim --seeds " + n + ".." + n + " --trace";
  if (!o.shape.empty()) line += " --shape " + o.shape;
  if (o.removed.mover != MoverMutant::kNone) {
    line += " --mutant " + std::string(kMoverMutants[static_cast<std::size_t>(o.removed.mover)].name);
  }
#ifdef KVFERRY_MUTANTS
  if (o.removed.rule != core::Mutant::kNone) {
    line += " --mutant " + std::string(core::kMutants[static_cast<std::size_t>(o.removed.rule)].name);
  }
#endif
  return line;
}

Violation explain(const CampaignOptions& o, const Scenario& drawn, RunResult broken) {
  Violation v;
  v.seed = drawn.seed;
  Scenario small = drawn;
  if (o.shrink) small = smaller(drawn, o.removed, broken);
  Coverage ignored;
  const RunResult again = run_scenario(small, o.removed, ignored, o.keep);
  v.law = name_of(broken.breach->law);
  v.text = again.breach ? again.breach->text : broken.breach->text;
  v.steps = again.events;
  v.scenario = drawn.line() + "\n  made smaller: " + small.line();
  v.trace = again.last;
  v.replay = replay_of(o, drawn.seed);
  return v;
}

std::uint64_t median(std::vector<std::uint64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<RunResult> run_seed(std::uint64_t seed, const std::string& shape, Removed removed, Coverage& coverage,
                           std::size_t keep) {
  auto scenario = draw_scenario(seed, shape);
  if (!scenario) return tl::unexpected(scenario.error());
  return run_scenario(*scenario, removed, coverage, keep);
}

Result<CampaignResult> run_campaign(const CampaignOptions& o) {
  CampaignResult all;
  std::vector<std::uint64_t> events, rooms;
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t seed = o.first; seed <= o.last && all.violations.size() < o.most_violations; ++seed) {
    auto scenario = draw_scenario(seed, o.shape);
    if (!scenario) return tl::unexpected(scenario.error());
    RunResult r = run_scenario(*scenario, o.removed, all.coverage, 0);
    ++all.seeds;
    all.events += r.events;
    all.rooms += r.rooms;
    all.succeeded += r.succeeded;
    all.failed += r.failed;
    events.push_back(r.events);
    rooms.push_back(r.rooms);
    if (o.check_trace && seed % 64 == 0 && !r.breach) {
      Coverage ignored;
      const RunResult twin = run_scenario(*scenario, o.removed, ignored, 0);
      if (twin.trace_hash != r.trace_hash) r.breach = Breach{Law::kTrace, "two runs of this seed differ"};
    }
    if (r.breach) all.violations.push_back(explain(o, *scenario, std::move(r)));
    if (o.progress && all.seeds % 256 == 0) o.progress(all.seeds, o.last - o.first + 1);
  }
  all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  all.median_events = median(events);
  all.median_rooms = median(rooms);
  return all;
}

Result<Removed> removed_by_name(const std::string& name) {
  Removed removed;
  for (const MoverMutantInfo& m : kMoverMutants) {
    if (m.name == name) {
      removed.mover = m.id;
      return removed;
    }
  }
#ifdef KVFERRY_MUTANTS
  for (const core::MutantInfo& m : core::kMutants) {
    if (m.name == name) {
      removed.rule = m.id;
      return removed;
    }
  }
#endif
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "--mutant \"" + name + "\"",
              "no mutant has this name; --list-mutants prints them all");
}

}  // namespace kvferry::sim
