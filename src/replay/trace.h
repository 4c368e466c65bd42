// A recorded request trace in the public Mooncake format: JSON lines with `timestamp` (ms), `input_length`,
// `output_length` (tokens) and `hash_ids` (one per block of 512 prompt tokens). Values; no thread rule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"

namespace kvferry::replay {

inline constexpr std::uint32_t kBlockTokens = 512;            // tokens that one hash stands for
inline constexpr std::uint32_t kMaxInputTokens = 1U << 23;    // 4,096 chunks a room of 2,048 tokens
inline constexpr std::uint32_t kMaxOutputTokens = 1U << 24;
inline constexpr std::int64_t kMaxTimestampMs = 366LL * 86'400'000;  // a year of trace time

struct TraceRequest {
  std::uint32_t line = 0;          // of the file, from 1
  std::int64_t arrival_us = 0;     // trace time
  std::uint32_t input_tokens = 0;  // after the cut
  std::uint32_t output_tokens = 0;
  std::uint32_t first_hash = 0;    // index into Trace::hashes
  std::uint32_t hashes = 0;        // ceil(input_tokens / 512)
};

struct Trace {
  std::vector<TraceRequest> requests;  // by arrival, equal times in file order
  std::vector<std::uint64_t> hashes;
  std::uint32_t cut = 0;               // prompts that max_input_tokens shortened

  std::span<const std::uint64_t> hashes_of(const TraceRequest& r) const {
    return std::span(hashes).subspan(r.first_hash, r.hashes);
  }
};

struct TraceLimits {
  std::optional<std::uint64_t> requests;          // read this many lines
  std::optional<std::uint32_t> max_input_tokens;  // cut longer prompts and their hashes
};

// kUsage names source, line, field, value and limit. Blank lines are skipped, unknown fields ignored.
Result<Trace> parse_trace(std::string_view text, std::string_view source, const TraceLimits&);
// kUsage also for a file that cannot be opened (with errno's text).
Result<Trace> load_trace(const std::string& path, const TraceLimits&);

}  // namespace kvferry::replay
