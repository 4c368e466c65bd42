// Lines for people, behind a rate limit by topic: a storm about one thing neither floods the disk nor hides
// the rest. No global logger: whoever logs is handed a Log. Thread rule: any thread; a line takes one short
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "kvferry/clock.h"
#include "kvferry/error.h"

namespace kvferry::observe {

enum class Level : std::uint8_t { kTrace = 0, kDebug, kInfo, kWarn, kError, kOff };
std::string_view name_of(Level) noexcept;             // "info"
Result<Level> parse_level(std::string_view);

using Sink = std::function<void(Level, std::string_view line)>;
// "2026-01-31 12:00:00.123 I prefill-0: text" on stderr, made by spdlog; flushed from warnings on.
Sink make_stderr_sink(std::string name);

struct LogOptions {
  Level least = Level::kInfo;
  std::uint32_t lines_per_second = 50;  // of one topic; more are counted and said with its next line
  std::size_t topics = 256;             // remembered; further ones share one budget
  std::shared_ptr<Clock> clock;         // empty: the system's
  Sink sink;                            // empty: stderr
};

class Log {
 public:
  explicit Log(LogOptions = {});
  void line(Level, std::string_view topic, std::string_view text);
  bool on(Level level) const noexcept { return level >= options_.least && level != Level::kOff; }
  std::uint64_t held_back() const;      // lines, since the start

 private:
  struct Topic {
    TimePoint window;
    std::uint32_t lines = 0;
    std::uint64_t held_back = 0;
  };
  Topic& topic(std::string_view);

  LogOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, Topic, std::less<>> topics_;
  Topic rest_;
  std::uint64_t held_back_ = 0;
};

}  // namespace kvferry::observe
