#include "bootstrap/answers.h"

#include <nlohmann/json.hpp>

#include "base/endpoint.h"

namespace kvferry::bootstrap {
namespace {

using Json = nlohmann::json;

Json parsed(std::string_view body) {
  Json out = Json::parse(body, nullptr, false);
  return out.is_object() ? out : Json::object();
}

std::string text_of(const Json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_string() ? at->get<std::string>() : std::string{};
}

std::uint64_t number_of(const Json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

bool flag_of(const Json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_boolean() && at->get<bool>();
}

std::string error_text(unsigned status, const Json& j) {
  const auto error = j.find("error");
  if (error != j.end() && error->is_object()) return text_of(*error, "message");
  return "HTTP status " + std::to_string(status) + "; is that a kvferry bootstrap server?";
}

std::string missing_text(const Json& j) {
  std::string out = std::to_string(number_of(j, "registered")) + " of " +
                    std::to_string(number_of(j, "required")) + " ranks are registered, missing";
  std::size_t shown = 0;
  const auto missing = j.find("missing");
  if (missing == j.end() || !missing->is_array()) return out;
  for (const auto& rank : *missing) {
    if (++shown > 8) return out + " and " + std::to_string(missing->size() - 8) + " more";
    if (rank.is_number_unsigned())
      out += (shown > 1 ? ", " : " ") + std::to_string(rank.get<std::uint64_t>());
  }
  return out;
}

bool read_rank(const Json& j, std::size_t expected, ResolvedRank& out) {
  if (!j.is_object() || number_of(j, "rank") != expected) return false;
  out.rank = static_cast<std::uint32_t>(expected);
  out.endpoint = text_of(j, "endpoint");
  out.name = text_of(j, "name");
  const auto incarnation = core::parse_incarnation(text_of(j, "incarnation"));
  if (incarnation) out.incarnation = *incarnation;
  return incarnation && parse_host_port(out.endpoint).has_value();
}

}  // namespace

PutAnswer read_put_answer(unsigned status, std::string_view body) {
  const Json j = parsed(body);
  PutAnswer out;
  if (status == 200 || status == 201) out.outcome = text_of(j, "outcome");
  if (!out.outcome.empty()) return out;
  const auto error = j.find("error");
  if (error != j.end() && error->is_object()) out.code = text_of(*error, "code");
  out.message = error_text(status, j);
  return out;
}

GroupAnswer read_group_answer(unsigned status, std::string_view body) {
  GroupAnswer out;
  const Json j = parsed(body);
  if (status == 404) {
    out.missing = "no rank of it is registered";
    return out;
  }
  const auto ranks = j.find("ranks");
  if (status != 200 || ranks == j.end() || !ranks->is_array()) {
    out.missing = error_text(status, j);
    return out;
  }
  if (!flag_of(j, "ready")) {
    out.missing = missing_text(j);
    return out;
  }
  if (flag_of(j, "draining")) {
    out.missing = "it is draining and takes no new rooms";
    return out;
  }
  for (const auto& rank : *ranks) {
    ResolvedRank next;
    if (!read_rank(rank, out.ranks.size(), next)) {
      out.missing = "the answer about rank " + std::to_string(out.ranks.size()) + " cannot be read";
      return out;
    }
    out.ranks.push_back(std::move(next));
  }
  out.ready = out.ranks.size() == number_of(j, "required");
  if (!out.ready)
    out.missing = "the answer lists " + std::to_string(out.ranks.size()) + " ranks and calls it ready";
  return out;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kSafe = "-._~:@";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kSafe.find(c) != std::string_view::npos;
    const auto byte = static_cast<unsigned char>(c);
    if (plain) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    }
  }
  return out;
}

}  // namespace kvferry::bootstrap
