#include "replay/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace kvferry::replay {
namespace {

constexpr std::int64_t kTerminalNs = 200'000'000;
constexpr std::int64_t kLogNs = 5'000'000'000;

}  // namespace

ProgressLine::ProgressLine(std::uint64_t rooms, std::int64_t start_ns)
    : rooms_(rooms), start_ns_(start_ns), shown_ns_(start_ns), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

std::string ProgressLine::text(std::uint64_t done, std::uint64_t rooms, std::uint64_t bytes,
                               std::uint32_t live, std::int64_t trace_us, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0;
  const std::string left =
      done == 0
          ? "?"
          : fmt::format("{:.0f} s", seconds / static_cast<double>(done) * static_cast<double>(rooms - done));
  return fmt::format("{} of {} rooms, {} live, {:.2f} GB, {:.2f} GB/s, trace at {:.0f} s, {} left", done,
                     rooms, live, static_cast<double>(bytes) / 1e9, rate, static_cast<double>(trace_us) / 1e6,
                     left);
}

void ProgressLine::update(std::int64_t now_ns, std::uint64_t done, std::uint64_t bytes, std::uint32_t live,
                          std::int64_t trace_us) {
  if (now_ns - shown_ns_ < (terminal_ ? kTerminalNs : kLogNs)) return;
  shown_ns_ = now_ns;
  const std::string line =
      text(done, rooms_, bytes, live, trace_us, static_cast<double>(now_ns - start_ns_) / 1e9);
  std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  std::fflush(stderr);
  open_ = terminal_;
}

}  // namespace kvferry::replay
