#include "cli/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/replay_check.h"
#include "cli/worker.h"
#include "replay/replay_run.h"
#include "replay/setup.h"

namespace kvferry::cli {
namespace {

constexpr int kBroken = 1, kUsageExit = 2, kEnvironmentExit = 3;

int complain(const Error& error) {
  std::fprintf(stderr, "kvferry replay: %s\n", error.line().c_str());
  return error.code == Code::kUsage ? kUsageExit : kEnvironmentExit;
}

Result<replay::Area> make_area(const CheckedReplay& checked, const replay::Trace& trace,
                               const std::string& mover) {
  replay::PoolWish wish;
  wish.model = checked.model;
  wish.page_tokens = checked.page_tokens;
  wish.chunk_tokens = checked.chunk_tokens;
  wish.pool_mib = checked.pool_mib;
  wish.longest_prompt =
      std::ranges::max(trace.requests, {}, &replay::TraceRequest::input_tokens).input_tokens;
  wish.aux_slots = replay::kLiveRoomsPerDecode * checked.decode + 16;  // a few more than rooms can be open
  Result<replay::Shape> shape = replay::make_shape(wish);
  if (!shape) return tl::unexpected(shape.error());
  if (Result<> fits = replay::check_memory(*shape, checked.prefill + checked.decode); !fits) {
    return tl::unexpected(fits.error());
  }
  std::fprintf(
      stderr,
      "kvferry replay: %zu requests; %u prefill and %u decode over %s; %s, pools of %llu MiB (%u pages)\n",
      trace.requests.size(), checked.prefill, checked.decode, mover.c_str(), shape->model.name.c_str(),
      static_cast<unsigned long long>(shape->page_bytes() * shape->pages >> 20), shape->pages);
  return replay::Area::create(replay::make_config(*shape, mover, checked.prefill, checked.decode,
                                                  checked.chunk_tokens, checked.plan.seed),
                              trace);
}

int report(const replay::ReplayRun& run, const replay::Tally& tally, bool json) {
  std::printf("%s", replay::to_text(tally).c_str());
  if (json) std::printf("%s\n", replay::to_json(tally).c_str());
  std::fflush(stdout);
  const std::vector<std::string> broken = replay::broken_promises(tally);
  for (const std::string& line : broken)
    std::fprintf(stderr, "kvferry replay: promise broken: %s\n", line.c_str());
  if (!broken.empty()) return kBroken;
  for (const std::string& kill : run.kills_not_fired()) {
    std::fprintf(
        stderr,
        "kvferry replay: --kill %s: never fired: the run ended before its time came, or the process was not "
        "running any more; give an earlier time or let it restart\n",
        kill.c_str());
  }
  return run.kills_not_fired().empty() ? 0 : kUsageExit;
}

}  // namespace

int run_replay(const ReplayOptions& options) {
  const Result<CheckedReplay> checked = check_replay(options);
  if (!checked) return complain(checked.error());
  const auto resolved = load_config(options.config);
  if (!resolved) return report_error(resolved.error());
  const Result<replay::Trace> trace = replay::load_trace(options.trace, checked->limits);
  if (!trace) return complain(trace.error());
  Result<replay::Area> area = make_area(*checked, *trace, options.mover);
  if (!area) return complain(area.error());
  replay::Fleet fleet(*area, {"/proc/self/exe", kWorkerVerb, config::differing(resolved->config)});
  replay::Referee referee(*area, fleet);
  if (Result<> started = referee.start(); !started) return complain(started.error());
  const std::int64_t begin = replay::monotonic_ns();
  std::string early;
  replay::ReplayRun run(*trace, checked->plan, *area, referee);
  run.run();
  const std::int64_t end = replay::monotonic_ns();
  referee.finish();
  replay::Tally tally = referee.tally();
  tally.seconds = static_cast<double>(end - begin) / 1e9;
  tally.prompts_cut = trace->cut;
  if (!run.ended_early().empty()) tally.note = run.ended_early();
  const int status = report(run, tally, options.json);
  if (referee.fatal().empty()) return status;
  std::fprintf(stderr, "kvferry replay: a process could not be started again: %s\n", referee.fatal().c_str());
  return kEnvironmentExit;
}

}  // namespace kvferry::cli
