#include "cli/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/worker.h"
#include "replay/demo_script.h"
#include "replay/mover_setup.h"
#include "replay/setup.h"

namespace kvferry::cli {
namespace {

constexpr int kBroken = 1, kUsageExit = 2, kEnvironmentExit = 3;
constexpr std::uint64_t kPoolMib = 384;   // of each process
constexpr std::uint32_t kChunkTokens = 512;
constexpr char kModel[] = "SmolLM2-135M";

int complain(const Error& error) {
  std::fprintf(stderr, "kvferry demo: %s\n", error.line().c_str());
  return error.code == Code::kUsage ? kUsageExit : kEnvironmentExit;
}

Result<replay::Area> make_area(const DemoOptions& options, const replay::Trace& trace) {
  Result<replay::Model> model = replay::find_model(kModel);
  if (!model) return tl::unexpected(model.error());
  replay::PoolWish wish;
  wish.model = std::move(*model);
  wish.pool_mib = kPoolMib;
  wish.chunk_tokens = kChunkTokens;
  wish.aux_slots = 64;
  Result<replay::Shape> shape = replay::make_shape(wish);
  if (!shape) return tl::unexpected(shape.error());
  if (Result<> fits = replay::check_memory(*shape, 2); !fits) return tl::unexpected(fits.error());
  return replay::Area::create(
      replay::make_config(*shape, options.mover, 1, 1, wish.chunk_tokens, options.seed), trace);
}

}  // namespace

int run_demo(const DemoOptions& options) {
  if (!replay::known_mover(options.mover)) {
    return complain({Code::kUsage, Who::kConfig, Next::kAfterFix, 0, fmt::format("--mover {}", options.mover),
                     "must be shm or tcp"});
  }
  const auto resolved = load_config(options.config);
  if (!resolved) return report_error(resolved.error());
  const replay::Trace trace = replay::DemoScript::prompts(options.seed);
  Result<replay::Area> area = make_area(options, trace);
  if (!area) return complain(area.error());
  std::fprintf(
      stderr, "kvferry demo: one prefill and one decode process over %s; KV cache of %s, pools of %llu MiB\n",
      options.mover.c_str(), kModel, static_cast<unsigned long long>(kPoolMib));
  replay::Fleet fleet(*area, {"/proc/self/exe", kWorkerVerb, config::differing(resolved->config)});
  replay::Referee referee(*area, fleet);
  if (Result<> started = referee.start(); !started) return complain(started.error());
  const std::int64_t begin = replay::monotonic_ns();
  replay::DemoScript script(*area, referee);
  script.play();
  const std::int64_t end = replay::monotonic_ns();
  referee.finish();
  replay::Tally tally = referee.tally();
  tally.seconds = static_cast<double>(end - begin) / 1e9;
  const bool planned = std::ranges::all_of(script.rows(), &replay::DemoRow::as_planned);
  if (!planned && tally.note.empty()) tally.note = "an act did not end as it was meant to";
  if (!script.trouble().empty()) tally.note = script.trouble();
  std::printf("%s\n%s", replay::to_table(script.rows()).c_str(), replay::to_text(tally).c_str());
  if (options.json) std::printf("%s\n", replay::to_json(tally, script.rows()).c_str());
  std::fflush(stdout);
  if (!referee.fatal().empty()) return kEnvironmentExit;
  return replay::broken_promises(tally).empty() ? 0 : kBroken;
}

}  // namespace kvferry::cli
