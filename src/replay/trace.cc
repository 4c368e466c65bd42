#include "replay/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace kvferry::replay {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 40;  // characters of a bad value that an error repeats

struct Place {
  std::string_view source;
  std::uint32_t line = 0;

  tl::unexpected<Error> bad(std::string_view field, std::string why) const {
    std::string what = fmt::format("{}:{}", source, line);
    if (!field.empty()) what += fmt::format(": field \"{}\"", field);
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::move(what), std::move(why));
  }
};

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

// A whole number in [least, most]; `scale` units of the result are one unit of the file (fractions are kept
// so far).
Result<std::int64_t> number(const Json& object, const char* field, std::int64_t least, std::int64_t most,
                            std::int64_t scale, const Place& place) {
  const auto found = object.find(field);
  if (found == object.end())
    return place.bad(field, "is missing; a line needs timestamp, input_length, output_length and hash_ids");
  const std::string range =
      fmt::format("must be a {}number from {} to {}", scale == 1 ? "whole " : "", least, most);
  if (!found->is_number() || (scale == 1 && !found->is_number_integer())) {
    return place.bad(field, fmt::format("is {}, but {}", shown(*found), range));
  }
  const double value = found->get<double>();
  if (!(value >= static_cast<double>(least)) || !(value <= static_cast<double>(most))) {
    return place.bad(field, fmt::format("is {}, but {}", shown(*found), range));
  }
  if (scale == 1) return found->get<std::int64_t>();
  return static_cast<std::int64_t>(value * static_cast<double>(scale) + 0.5);
}

std::uint32_t blocks_of(std::uint32_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

Result<> read_hashes(const Json& object, TraceRequest& request, Trace& trace, const Place& place) {
  const auto found = object.find("hash_ids");
  if (found == object.end())
    return place.bad("hash_ids", "is missing; it lists one number for each 512 tokens of the prompt");
  if (!found->is_array())
    return place.bad("hash_ids", fmt::format("is {}, but must be a list of whole numbers", shown(*found)));
  const std::uint32_t needed = blocks_of(request.input_tokens);
  if (found->size() != needed) {
    return place.bad("hash_ids",
                     fmt::format("has {} entries, but input_length {} needs {} (one for each {} tokens)",
                                 found->size(), request.input_tokens, needed, kBlockTokens));
  }
  request.first_hash = static_cast<std::uint32_t>(trace.hashes.size());
  request.hashes = needed;
  for (std::size_t i = 0; i < needed; ++i) {
    const Json& id = (*found)[i];
    if (!id.is_number_unsigned()) {
      return place.bad("hash_ids",
                       fmt::format("entry {} is {}, but must be a whole number from 0", i, shown(id)));
    }
    trace.hashes.push_back(id.get<std::uint64_t>());
  }
  return {};
}

void cut(TraceRequest& request, Trace& trace, const TraceLimits& limits) {
  if (!limits.max_input_tokens || request.input_tokens <= *limits.max_input_tokens) return;
  request.input_tokens = *limits.max_input_tokens;
  request.hashes = blocks_of(request.input_tokens);
  trace.hashes.resize(request.first_hash + request.hashes);
  ++trace.cut;
}

Result<> read_line(std::string_view line, Trace& trace, const TraceLimits& limits, const Place& place) {
  const Json object = Json::parse(line.begin(), line.end(), nullptr, false);
  if (object.is_discarded()) return place.bad("", fmt::format("is not JSON: {}", line.substr(0, kShown)));
  if (!object.is_object())
    return place.bad("", fmt::format("is {}, but each line must be one JSON object", shown(object)));
  TraceRequest request;
  request.line = place.line;
  const Result<std::int64_t> at = number(object, "timestamp", 0, kMaxTimestampMs, 1000, place);
  if (!at) return tl::unexpected(at.error());
  const Result<std::int64_t> input = number(object, "input_length", 1, kMaxInputTokens, 1, place);
  if (!input) return tl::unexpected(input.error());
  const Result<std::int64_t> output = number(object, "output_length", 0, kMaxOutputTokens, 1, place);
  if (!output) return tl::unexpected(output.error());
  request.arrival_us = *at;
  request.input_tokens = static_cast<std::uint32_t>(*input);
  request.output_tokens = static_cast<std::uint32_t>(*output);
  if (Result<> read = read_hashes(object, request, trace, place); !read) return read;
  cut(request, trace, limits);
  trace.requests.push_back(request);
  return {};
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, std::string_view source, const TraceLimits& limits) {
  Trace trace;
  Place place{source, 0};
  while (!text.empty()) {
    if (limits.requests && trace.requests.size() >= *limits.requests) break;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++place.line;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (Result<> read = read_line(line, trace, limits, place); !read) return tl::unexpected(read.error());
  }
  if (trace.requests.empty()) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::string(source),
                "holds no request; a trace has one JSON object a line");
  }
  std::ranges::sort(trace.requests, {},
                    [](const TraceRequest& r) { return std::pair(r.arrival_us, r.line); });
  return trace;
}

Result<Trace> load_trace(const std::string& path, const TraceLimits& limits) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    const int code = errno;
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, fmt::format("--trace {}", path),
                fmt::format("cannot be read: {}", std::strerror(code)), code);
  }
  return parse_trace(text.str(), path, limits);
}

}  // namespace kvferry::replay
