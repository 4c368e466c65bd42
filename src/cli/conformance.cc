#include "cli/conformance.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <vector>

#include "conformance/remote_party.h"
#include "conformance/rendezvous.h"
#include "conformance/report.h"

namespace kvferry::cli {
namespace {

using conformance::HarnessSpec;
using conformance::Report;

enum Exit : int { kKept = 0, kBroken = 1, kUsage = 2, kEnvironment = 3 };

int complain(const Error& error) {
  std::cerr << error.line() << "\n";
  return error.code == Code::kUsage || error.code == Code::kMismatch ? kUsage : kEnvironment;
}

conformance::MakerSpec maker_of(const ConformanceOptions& options) {
  conformance::MakerSpec maker;
  maker.mover = options.mover;
  maker.plugin = options.plugin;
  maker.plugin_options = options.plugin_options;
  maker.bind = options.bind;
  const bool local = options.peer.empty() && options.listen.empty();
  if (maker.bind.empty() && local) maker.bind = "127.0.0.1";
  return maker;
}

// This program again, as the other process: the hidden --child takes the descriptor that World appends.
std::vector<std::string> child_command(const ConformanceOptions& options, const std::string& bind) {
  std::error_code error;
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe", error).string(),
                                    "conformance",
                                    "--mover",
                                    options.mover,
                                    "--bind",
                                    bind};
  if (!options.plugin.empty()) words.insert(words.end(), {"--plugin", options.plugin});
  if (!options.plugin_options.empty())
    words.insert(words.end(), {"--plugin-options", options.plugin_options});
  words.push_back("--child");
  return words;
}

std::vector<HarnessSpec> harnesses_of(const ConformanceOptions& options, int stream) {
  HarnessSpec base;
  base.maker = maker_of(options);
  std::string name = options.mover;
  std::replace(name.begin(), name.end(), '-', '_');
  if (stream >= 0) {
    base.label = name + "_two_hosts";
    base.far = HarnessSpec::Far::kStream;
    base.stream = stream;
    return {base};
  }
  base.label = name + "_one_process";
  std::vector<HarnessSpec> list = {base};
  if (options.mover.rfind("loopback", 0) == 0 && options.plugin.empty())
    return list;  // it has no other process
  base.label = name + "_two_processes";
  base.far = HarnessSpec::Far::kChild;
  base.child_command = child_command(options, base.maker.bind);
  list.push_back(base);
  return list;
}

int report_on(const ConformanceOptions& options, const std::vector<HarnessSpec>& harnesses) {
  std::vector<Report> reports;
  for (const HarnessSpec& spec : harnesses) {
    if (!options.json) std::cout << "== " << spec.label << "\n";
    reports.push_back(conformance::run_checks(spec, options.only, options.json ? nullptr : &std::cout));
    const Report& report = reports.back();
    if (report.outcomes.empty()) {
      return complain({Code::kUsage, Who::kConfig, Next::kAfterFix, 0, "--only " + options.only,
                       "no check has this in its name; run without --only to see them all"});
    }
    if (options.json) continue;
    std::cout << report.count(conformance::Verdict::Kind::kHeld) << " held, "
              << report.count(conformance::Verdict::Kind::kBroken) << " broken, "
              << report.count(conformance::Verdict::Kind::kSkipped)
              << " skipped: " << report.capabilities.name << " ("
              << conformance::describe(report.capabilities) << ")\n";
  }
  if (options.json) std::cout << conformance::json_of(reports) << "\n";
  const bool kept =
      std::all_of(reports.begin(), reports.end(), [](const Report& report) { return report.held(); });
  return kept ? kKept : kBroken;
}

int serve_one(const ConformanceOptions& options) {
  auto stream = conformance::meet_by_listening(
      options.listen, options.mover, nullptr,
      [](const std::string& bound) { std::cerr << "waiting for one run on " << bound << "\n"; });
  if (!stream) return complain(stream.error());
  const int rc = conformance::serve_party(*stream, maker_of(options));
  close(*stream);
  return rc;
}

}  // namespace

int run_conformance(const ConformanceOptions& options) {
  if (options.child >= 0) return conformance::serve_party(options.child, maker_of(options));
  if (!options.peer.empty() && !options.listen.empty()) {
    return complain({Code::kUsage, Who::kConfig, Next::kAfterFix, 0, "--peer and --listen",
                     "one side of a run listens and the other names it; give one of the two"});
  }
  {  // said once, and before anything else: the mover cannot be made at all
    auto made = conformance::LocalParty::start(maker_of(options));
    if (!made) return complain(made.error());
    const bool same_host = (*made)->capabilities().same_host_only;
    if (same_host && (!options.peer.empty() || !options.listen.empty())) {
      return complain({Code::kUsage, Who::kConfig, Next::kAfterFix, 0, "mover '" + options.mover + "'",
                       "it works within one host only; run it without --peer and --listen"});
    }
  }
  if (!options.listen.empty()) return serve_one(options);
  if (options.peer.empty()) return report_on(options, harnesses_of(options, -1));
  auto stream = conformance::meet_by_dialling(options.peer, options.mover);
  if (!stream) return complain(stream.error());
  const int rc = report_on(options, harnesses_of(options, *stream));
  close(*stream);
  return rc;
}

}  // namespace kvferry::cli
