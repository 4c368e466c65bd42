#include "bootstrap/json_body.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

namespace kvferry::bootstrap {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 9> kFields = {"endpoint", "incarnation", "role",     "tp",  "pp",
                                                     "dp",       "lease_ms",    "draining", "name"};

std::string cut(std::string text) {
  if (text.size() <= 80) return text;
  return text.substr(0, 80) + "...";
}

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Brackets outside of strings: the parser itself builds any depth.
std::uint32_t depth_of(std::string_view text) {
  std::uint32_t depth = 0, most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '{' || c == '[')) {
      most = std::max(most, ++depth);
    } else if (!quoted && (c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return most;
}

bool complain(Complaint& why, std::string field, std::string value, std::string limit, std::string fix) {
  why =
      Complaint{400, "usage", std::move(field), cut(std::move(value)), std::move(limit), std::move(fix), {}};
  why.message = why.field + " " + why.value + ": " + why.limit + "; " + why.fix;
  return false;
}

bool parse(std::string_view body, Json& out, Complaint& why) {
  if (body.empty())
    return complain(why, "body", "(empty)", "must be one JSON object", "send the registration as JSON");
  if (const auto depth = depth_of(body); depth > kMaxJsonDepth)
    return complain(why, "body", "depth " + std::to_string(depth),
                    "at most " + std::to_string(kMaxJsonDepth) + " levels", "send a flat JSON object");
  try {
    out = Json::parse(body);
  } catch (const Json::parse_error& e) {
    return complain(why, "body", "byte " + std::to_string(e.byte), "is not JSON there",
                    "send one JSON object");
  } catch (const Json::exception& e) {
    return complain(why, "body", "(unreadable)", e.what(), "send one JSON object");
  }
  if (!out.is_object())
    return complain(why, "body", std::string("a JSON ") + out.type_name(), "must be a JSON object",
                    "send {\"endpoint\": ..., \"incarnation\": ..., \"role\": ...}");
  return true;
}

bool known_fields(const Json& body, Complaint& why) {
  for (const auto& item : body.items()) {
    const std::string& key = item.key();
    if (key.rfind("x_", 0) == 0 || std::find(kFields.begin(), kFields.end(), key) != kFields.end()) continue;
    std::string all;
    for (const auto field : kFields) all += (all.empty() ? "" : ", ") + std::string(field);
    return complain(why, cut(key), cut(dump(item.value())), "is no field of a registration",
                    "the fields are " + all + "; own ones begin with x_");
  }
  return true;
}

bool text_field(const Json& body, const char* name, bool required, std::string& out, Complaint& why) {
  const auto at = body.find(name);
  if (at == body.end() && !required) return true;
  if (at == body.end())
    return complain(why, name, "(missing)", "is required", std::string("add \"") + name + "\" as a string");
  if (!at->is_string()) return complain(why, name, dump(*at), "must be a string", "put it in double quotes");
  out = at->get<std::string>();
  return true;
}

bool number_field(const Json& body, const char* name, std::uint64_t most, std::uint64_t& out,
                  Complaint& why) {
  const auto at = body.find(name);
  if (at == body.end()) return true;
  const std::string limit = "must be an integer from 1 to " + std::to_string(most);
  if (!at->is_number_unsigned() || at->get<std::uint64_t>() < 1 || at->get<std::uint64_t>() > most)
    return complain(why, name, dump(*at), limit, std::string("correct \"") + name + "\" or leave it out");
  out = at->get<std::uint64_t>();
  return true;
}

bool read_incarnation(const Json& body, Incarnation& out, Complaint& why) {
  std::string text;
  if (!text_field(body, "incarnation", true, text, why)) return false;
  const auto parsed = core::parse_incarnation(text);
  if (!parsed)
    return complain(why, "incarnation", text,
                    "must be START_MS-RANDOM, a decimal and up to 16 hexadecimal digits",
                    "write it like 1754000000000-00f3a9c1d2e4b567");
  out = *parsed;
  return true;
}

bool read_role(const Json& body, Role& out, Complaint& why) {
  std::string text;
  if (!text_field(body, "role", true, text, why)) return false;
  if (text != "prefill" && text != "decode")
    return complain(why, "role", text, "must be prefill or decode", "correct \"role\"");
  out = text == "prefill" ? Role::kSender : Role::kReceiver;
  return true;
}

bool read_numbers(const Json& body, core::Registration& out, Complaint& why) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t tp = out.shape.tp, pp = out.shape.pp, dp = out.shape.dp, lease_ms = 0;
  if (!number_field(body, "tp", kMost, tp, why) || !number_field(body, "pp", kMost, pp, why) ||
      !number_field(body, "dp", kMost, dp, why) || !number_field(body, "lease_ms", kMost, lease_ms, why))
    return false;
  out.shape = {static_cast<std::uint32_t>(tp), static_cast<std::uint32_t>(pp),
               static_cast<std::uint32_t>(dp)};
  out.lease = std::chrono::milliseconds(static_cast<std::int64_t>(lease_ms));
  return true;
}

}  // namespace

bool read_registration(std::string_view body, core::Registration& out, Complaint& why) {
  Json json;
  if (!parse(body, json, why) || !known_fields(json, why)) return false;
  if (!text_field(json, "endpoint", true, out.endpoint, why) ||
      !read_incarnation(json, out.incarnation, why) || !read_role(json, out.role, why) ||
      !text_field(json, "name", false, out.name, why) || !read_numbers(json, out, why))
    return false;
  const auto draining = json.find("draining");
  if (draining == json.end()) return true;
  if (!draining->is_boolean())
    return complain(why, "draining", dump(*draining), "must be true or false",
                    "correct \"draining\" or leave it out");
  out.draining = draining->get<bool>();
  return true;
}

std::string write_registration(const core::Registration& r) {
  Json body = {{"endpoint", r.endpoint},
               {"incarnation", core::print_incarnation(r.incarnation)},
               {"role", r.role == Role::kSender ? "prefill" : "decode"},
               {"tp", r.shape.tp},
               {"pp", r.shape.pp},
               {"dp", r.shape.dp}};
  if (!r.name.empty()) body["name"] = r.name;
  if (r.draining) body["draining"] = true;
  if (r.lease != Duration{0})
    body["lease_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(r.lease).count();
  return dump(body);
}

std::string write_complaint(const Complaint& c) {
  Json error = {{"status", c.status}, {"code", c.code}, {"message", c.message}};
  if (!c.field.empty()) error["field"] = c.field;
  if (!c.value.empty()) error["value"] = c.value;
  if (!c.limit.empty()) error["limit"] = c.limit;
  if (!c.fix.empty()) error["fix"] = c.fix;
  return dump(Json{{"error", error}});
}

// The registry's texts read "FIELD VALUE" and "LIMIT; FIX".
Complaint complaint_of(const Error& error) {
  Complaint out;
  out.message = error.what + ": " + error.why;
  switch (error.code) {
    case Code::kSuperseded: out.status = 409, out.code = "superseded"; break;
    case Code::kMismatch: out.status = 409, out.code = "mismatch"; break;
    case Code::kRefused: out.status = 409, out.code = "refused"; break;
    case Code::kExhausted: out.status = 503, out.code = "exhausted"; break;
    default: out.status = 400, out.code = "usage"; break;
  }
  const auto space = error.what.find(' ');
  out.field = error.what.substr(0, space);
  out.value = space == std::string::npos ? std::string{} : error.what.substr(space + 1);
  const auto fix = error.why.rfind("; ");
  out.limit = error.why.substr(0, fix);
  if (fix != std::string::npos) out.fix = error.why.substr(fix + 2);
  return out;
}

}  // namespace kvferry::bootstrap
