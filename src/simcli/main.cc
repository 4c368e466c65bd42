// kvferry-sim: the simulator and the explorer, with the switches that remove one rule each. `kvferry sim` and
// `kvferry explore` run this program. Exit: 0 every law held, 1 a law was broken, 2 usage.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "sim/campaign.h"
#include "sim/explorer.h"
#include "simcli/render.h"

namespace {

using kvferry::Error;
using kvferry::Result;
namespace sim = kvferry::sim;
namespace simcli = kvferry::simcli;

struct SimFlags {
  std::string seeds = "1..2000", shape, mutant;
  bool list_mutants = false, list_shapes = false, trace = false, json = false;
  std::uint64_t most = 1;
};

int usage(const Error& e) {
  std::fprintf(stderr, "kvferry-sim: %s\n", e.line().c_str());
  return 2;
}

Result<> parse_seeds(const std::string& text, sim::CampaignOptions& o) {
  const auto bad = [&](const std::string& why) {
    return kvferry::fail(kvferry::Code::kUsage, kvferry::Who::kConfig, kvferry::Next::kAfterFix,
                         "--seeds \"" + text + "\"", why);
  };
  const auto dots = text.find("..");
  const std::string first = text.substr(0, dots);
  const std::string last = dots == std::string::npos ? first : text.substr(dots + 2);
  const auto number = [](const std::string& s, std::uint64_t& value) {
    if (s.empty() || s.size() > 18 || s.find_first_not_of("0123456789") != std::string::npos) return false;
    value = std::stoull(s);
    return true;
  };
  if (!number(first, o.first) || !number(last, o.last))
    return bad("say A..B with two whole numbers below 10^18, or one seed");
  if (o.last < o.first)
    return bad("the range is inclusive and must not be empty; say the smaller seed first");
  return {};
}

// Everything that happens under the first seed; when it breaks a law, in the smallest scenario that still
// does.
int print_trace(const SimFlags& f, sim::CampaignOptions o) {
  sim::Coverage coverage;
  o.last = o.first;
  o.keep = 1'000'000;
  const auto r = sim::run_campaign(o);
  if (!r) return usage(r.error());
  if (!r->violations.empty()) return std::fputs(simcli::text_of(r->violations[0]).c_str(), stdout), 1;
  const auto run = sim::run_seed(o.first, f.shape, o.removed, coverage, o.keep);
  if (!run) return usage(run.error());
  for (const std::string& line : run->last) std::printf("%s\n", line.c_str());
  std::printf("seed %llu: %llu events, trace %016llx, every law held\n",
              static_cast<unsigned long long>(run->seed), static_cast<unsigned long long>(run->events),
              static_cast<unsigned long long>(run->trace_hash));
  return 0;
}

int run_sim(const SimFlags& f) {
  if (f.list_mutants) return std::fputs(simcli::list_of_mutants().c_str(), stdout), 0;
  if (f.list_shapes) {
    for (const std::string& name : sim::shape_names()) std::printf("%s\n", name.c_str());
    return 0;
  }
  sim::CampaignOptions o;
  o.shape = f.shape;
  o.check_trace = true;
  o.most_violations = f.most;
  if (const auto seeds = parse_seeds(f.seeds, o); !seeds) return usage(seeds.error());
  if (!f.mutant.empty()) {
    const auto removed = sim::removed_by_name(f.mutant);
    if (!removed) return usage(removed.error());
    o.removed = *removed;
  }
  if (f.trace) return print_trace(f, o);
  o.progress = [](std::uint64_t done, std::uint64_t all) {
    std::fprintf(stderr, "\r%llu of %llu seeds", static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(all));
  };
  const auto r = sim::run_campaign(o);
  if (!r) return usage(r.error());
  if (r->seeds >= 256) std::fprintf(stderr, "\n");
  std::fputs(simcli::text_of(*r).c_str(), f.json ? stderr : stdout);
  if (f.json) std::printf("%s\n", simcli::json_of(*r).c_str());
  return r->violations.empty() ? 0 : 1;
}

struct ExploreFlags {
  std::string shape, mutant;
  bool list_shapes = false, list_mutants = false, json = false, quick = false;
  std::uint64_t most_states = 30'000'000;
};

Result<std::vector<sim::ExploreShape>> shapes_of(const ExploreFlags& f) {
  std::vector<sim::ExploreShape> shapes;
  for (sim::ExploreShape& s : sim::explore_shapes()) {
    if (f.shape.empty() ? (!f.quick || s.quick) : s.name == f.shape) shapes.push_back(std::move(s));
  }
  if (!shapes.empty()) return shapes;
  return kvferry::fail(kvferry::Code::kUsage, kvferry::Who::kConfig, kvferry::Next::kAfterFix,
                       "--shape \"" + f.shape + "\"",
                       "not a shape of the explorer; --list-shapes prints them");
}

int run_explore(const ExploreFlags& f) {
  if (f.list_mutants) return std::fputs(simcli::list_of_mutants().c_str(), stdout), 0;
  if (f.list_shapes) return std::fputs(simcli::list_of_shapes().c_str(), stdout), 0;
  const auto shapes = shapes_of(f);
  if (!shapes) return usage(shapes.error());
  sim::ExploreOptions o;
  o.most_states = f.most_states;
  if (!f.mutant.empty()) {
    const auto removed = sim::removed_by_name(f.mutant);
    if (!removed) return usage(removed.error());
    o.removed = *removed;
  }
  o.progress = [](std::uint64_t states, std::size_t frontier) {
    std::fprintf(stderr, "\r%llu states, %zu to look at   ", static_cast<unsigned long long>(states),
                 frontier);
  };
  std::vector<sim::ExploreResult> all;
  bool good = true;
  for (const sim::ExploreShape& s : *shapes) {
    all.push_back(sim::explore(s, o));
    good = good && all.back().closed && !all.back().broken;
    std::fprintf(stderr, "\r                                        \r");
    std::fputs(simcli::text_of(all.back()).c_str(), f.json ? stderr : stdout);
    std::fflush(stdout);
  }
  if (f.json) std::printf("%s\n", simcli::json_of(all).c_str());
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Random and exhaustive checks of the protocol on the real code, without a socket.",
               "kvferry-sim");
  app.require_subcommand(1);
  SimFlags f;
  CLI::App* simulate = app.add_subcommand(
      "sim", "Simulate clusters with faults, one per seed.\nExample: kvferry sim --seeds 1..20000 --json");
  simulate->add_option("--seeds", f.seeds, "inclusive range A..B, or one seed")->capture_default_str();
  simulate->add_option("--shape", f.shape, "SHAPE, SHAPE:MOVER or :MOVER instead of one drawn per seed");
  simulate->add_option("--mutant", f.mutant, "remove one rule and see which law notices");
  simulate->add_option("--most", f.most, "stop after this many seeds that break a law")
      ->capture_default_str();
  simulate->add_flag("--list-mutants", f.list_mutants, "print the rules that can be removed");
  simulate->add_flag("--list-shapes", f.list_shapes, "print the shapes");
  simulate->add_flag("--trace", f.trace, "print everything that happens under the first seed");
  simulate->add_flag("--json", f.json, "one JSON object as the last line of stdout");
  ExploreFlags x;
  CLI::App* search = app.add_subcommand(
      "explore", "Search named shapes exhaustively.\nExample: kvferry explore --shape 1x1-placed --json");
  search->add_option("--shape", x.shape, "one shape instead of all");
  search->add_option("--mutant", x.mutant, "remove one rule and see what the search finds");
  search->add_option("--most-states", x.most_states, "give up beyond this many states of a shape")
      ->capture_default_str();
  search->add_flag("--quick", x.quick, "only the small shapes");
  search->add_flag("--list-shapes", x.list_shapes, "print the shapes with their fault budgets");
  search->add_flag("--list-mutants", x.list_mutants, "print the rules that can be removed");
  search->add_flag("--json", x.json, "one JSON object as the last line of stdout");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return search->parsed() ? run_explore(x) : run_sim(f);
}
