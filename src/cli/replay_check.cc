#include "cli/replay_check.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "replay/mover_setup.h"

namespace kvferry::cli {
namespace {

constexpr std::int64_t kMostProcesses = 64;
constexpr std::int64_t kMostPoolMib = 1 << 20;
constexpr std::int64_t kMostChunkTokens = 1 << 20;
constexpr double kMostDecodeMs = 1e6;
constexpr double kMostSpeed = 1e6;

tl::unexpected<Error> bad(std::string what, std::string why) {
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::move(what), std::move(why));
}

Result<> in_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return bad(fmt::format("{} {}", flag, value), fmt::format("must be from {} to {}", least, most));
}

Result<> in_range(const char* flag, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // false for a NaN
  return bad(fmt::format("{} {}", flag, value), fmt::format("must be from {} to {}", least, most));
}

Result<double> speed_of(const std::string& text) {
  if (text == "max") return 0.0;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || !(value > 0) || value > kMostSpeed) {
    return bad(fmt::format("--speed {}", text),
               fmt::format("must be \"max\" or a number above 0, at most {:.0f}", kMostSpeed));
  }
  return value;
}

Result<replay::Model> model_of(const ReplayOptions& options) {
  constexpr std::int64_t kDefaultBytes = 64;
  if (!options.model.empty() && options.bytes_per_token) {
    return bad("--model and --bytes-per-token", "exclude each other; give one of them");
  }
  if (!options.model.empty()) return replay::find_model(options.model);
  const std::int64_t bytes = options.bytes_per_token.value_or(kDefaultBytes);
  if (Result<> good = in_range("--bytes-per-token", bytes, 1, replay::kMaxBytesPerToken); !good) {
    return tl::unexpected(good.error());
  }
  return replay::plain_model(static_cast<std::uint32_t>(bytes));
}

Result<> check_tokens(const ReplayOptions& options) {
  if (Result<> good = in_range("--page-tokens", options.page_tokens, 1, replay::kBlockTokens); !good)
    return good;
  if (replay::kBlockTokens % options.page_tokens != 0) {
    return bad(fmt::format("--page-tokens {}", options.page_tokens),
               fmt::format("must divide {}, the tokens of one hash of the trace; give a power of two",
                           replay::kBlockTokens));
  }
  if (Result<> good = in_range("--chunk-tokens", options.chunk_tokens, 1, kMostChunkTokens); !good)
    return good;
  if (options.chunk_tokens % options.page_tokens != 0) {
    return bad(fmt::format("--chunk-tokens {}", options.chunk_tokens),
               fmt::format("must be a multiple of --page-tokens {}", options.page_tokens));
  }
  return {};
}

Result<> check_numbers(const ReplayOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  Result<> good = in_range("--requests", options.requests.value_or(1), 1, kMost);
  if (good)
    good = in_range("--max-input-tokens", options.max_input_tokens.value_or(1), 1, replay::kMaxInputTokens);
  if (good) good = in_range("--prefill", options.prefill, 1, kMostProcesses);
  if (good) good = in_range("--decode", options.decode, 1, kMostProcesses);
  if (good) good = in_range("--pool-mib", options.pool_mib.value_or(1), 1, kMostPoolMib);
  if (good) good = in_range("--decode-ms", options.decode_ms, 0, kMostDecodeMs);
  if (good) good = in_range("--abort-rate", options.abort_rate, 0, 1);
  if (good) good = check_tokens(options);
  return good;
}

Result<> check_kills(const ReplayOptions& options, replay::ReplayPlan& plan) {
  for (const std::string& text : options.kills) {
    Result<replay::KillSpec> spec = replay::parse_kill(text);
    if (!spec) return tl::unexpected(spec.error());
    const std::int64_t count = spec->side == replay::Side::kPrefill ? options.prefill : options.decode;
    if (spec->index >= count) {
      return bad(
          fmt::format("--kill {}", text),
          fmt::format("there are only {} {} processes, numbered from 0", count, replay::name_of(spec->side)));
    }
    plan.kills.push_back(std::move(*spec));
  }
  return {};
}

}  // namespace

Result<CheckedReplay> check_replay(const ReplayOptions& options) {
  if (options.trace.empty())
    return bad("--trace", "is missing; give a JSON lines file, as --trace FILE.jsonl");
  if (!replay::known_mover(options.mover)) {
    return bad(fmt::format("--mover {}", options.mover), "must be shm or tcp");
  }
  if (Result<> good = check_numbers(options); !good) return tl::unexpected(good.error());
  CheckedReplay checked;
  Result<double> speed = speed_of(options.speed);
  if (!speed) return tl::unexpected(speed.error());
  Result<replay::Model> model = model_of(options);
  if (!model) return tl::unexpected(model.error());
  if (Result<> good = check_kills(options, checked.plan); !good) return tl::unexpected(good.error());
  if (options.requests) checked.limits.requests = static_cast<std::uint64_t>(*options.requests);
  if (options.max_input_tokens)
    checked.limits.max_input_tokens = static_cast<std::uint32_t>(*options.max_input_tokens);
  checked.model = std::move(*model);
  checked.plan.speed = *speed;
  checked.plan.decode_ms = options.decode_ms;
  checked.plan.abort_rate = options.abort_rate;
  checked.plan.seed = options.seed;
  checked.prefill = static_cast<std::uint32_t>(options.prefill);
  checked.decode = static_cast<std::uint32_t>(options.decode);
  checked.page_tokens = static_cast<std::uint32_t>(options.page_tokens);
  checked.chunk_tokens = static_cast<std::uint32_t>(options.chunk_tokens);
  checked.pool_mib = static_cast<std::uint64_t>(options.pool_mib.value_or(0));
  return checked;
}

}  // namespace kvferry::cli
