#include "observe/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>

namespace kvferry::observe {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warn", "error", "off"};

spdlog::level::level_enum level_of(Level level) {
  constexpr std::array kLevels = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                  spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
  return kLevels[static_cast<std::size_t>(level)];
}

}  // namespace

std::string_view name_of(Level level) noexcept { return kNames[static_cast<std::size_t>(level)]; }

Result<Level> parse_level(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<Level>(i);
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix,
              "log level \"" + std::string(text.substr(0, 32)) + "\"",
              "must be trace, debug, info, warn, error or off");
}

Sink make_stderr_sink(std::string name) {
  const auto logger =
      std::make_shared<spdlog::logger>(std::move(name), std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %n: %v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::warn);
  return [logger](Level level, std::string_view line) {
    logger->log(level_of(level), spdlog::string_view_t(line.data(), line.size()));
  };
}

Log::Log(LogOptions options) : options_(std::move(options)) {
  if (!options_.clock) options_.clock = std::make_shared<SystemClock>();
  if (!options_.sink) options_.sink = make_stderr_sink("kvferry");
}

Log::Topic& Log::topic(std::string_view name) {
  const auto at = topics_.find(name);
  if (at != topics_.end()) return at->second;
  if (topics_.size() >= options_.topics) return rest_;
  return topics_.emplace(name, Topic{}).first->second;
}

void Log::line(Level level, std::string_view name, std::string_view text) {
  if (!on(level)) return;
  std::uint64_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    Topic& t = topic(name);
    const TimePoint now = options_.clock->now();
    if (now - t.window >= std::chrono::seconds(1) || now < t.window) {
      t.window = now;
      t.lines = 0;
    }
    if (t.lines >= options_.lines_per_second) {
      ++t.held_back;
      ++held_back_;
      return;
    }
    ++t.lines;
    std::swap(before, t.held_back);
  }
  std::string out(name);
  out.append(out.empty() ? "" : ": ").append(text);
  if (before > 0) out += " (" + std::to_string(before) + " lines about this were held back)";
  options_.sink(level, out);
}

std::uint64_t Log::held_back() const {
  const std::lock_guard lock(mutex_);
  return held_back_;
}

}  // namespace kvferry::observe
