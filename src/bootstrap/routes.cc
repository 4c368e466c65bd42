#include "bootstrap/routes.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace kvferry::bootstrap {
namespace {

using Json = nlohmann::json;

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

HttpReply answer(const Json& j, unsigned status = 200) {
  return {status, dump(j) + "\n", "application/json", ""};
}
HttpReply answer(const Complaint& c) { return {c.status, write_complaint(c) + "\n", "application/json", ""}; }

std::int64_t ms(Duration d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); }
const char* role_text(Role role) { return role == Role::kSender ? "prefill" : "decode"; }

std::string cut(std::string_view text) {
  return text.size() <= 80 ? std::string(text) : std::string(text.substr(0, 80)) + "...";
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
    i += 2;
  }
  return out;
}

// The next segment of a path that begins with '/'; empty when there is none.
std::string_view next_segment(std::string_view& path) {
  if (path.empty() || path.front() != '/') return {};
  path.remove_prefix(1);
  const auto end = path.find('/');
  const std::string_view segment = path.substr(0, end);
  path = end == std::string_view::npos ? std::string_view{} : path.substr(end);
  return segment;
}

HttpReply not_found(std::string_view what, std::string_view value, std::string_view fix) {
  Complaint c{404, "not_found", std::string(what), cut(value), "is not known here", std::string(fix), {}};
  c.message = c.field + " " + c.value + " " + c.limit + "; " + c.fix;
  return answer(c);
}

HttpReply bad_value(std::string_view field, std::string_view value, std::string_view limit,
                    std::string_view fix) {
  Complaint c{400, "usage", std::string(field), cut(value), std::string(limit), std::string(fix), {}};
  c.message = c.field + " \"" + c.value + "\" " + c.limit + "; " + c.fix;
  return answer(c);
}

HttpReply bad_method(std::string_view method, const char* allow) {
  Complaint c{405, "method", "method", cut(method), "is not offered here", std::string("use ") + allow, {}};
  c.message = "method " + c.value + " is not offered here; use " + allow;
  HttpReply reply = answer(c);
  reply.allow = allow;
  return reply;
}

void metric(std::string& out, std::string_view name, std::string_view help, bool gauge, std::uint64_t value) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name);
  out.append(gauge ? " gauge\n" : " counter\n")
      .append(name)
      .append(" ")
      .append(std::to_string(value))
      .append("\n");
}

}  // namespace

Routes::Routes(core::RegistryLimits limits, Incarnation server) : registry_(limits), server_(server) {}

HttpReply Routes::handle(const HttpRequest& request, TimePoint now) {
  HttpReply reply = route(request, now);
  count(reply.status);
  return reply;
}

HttpReply Routes::refuse(unsigned status, std::string_view why) {
  Complaint c{status, status == 400 ? "http" : "too_large", "request", "", std::string(why), "", {}};
  c.message = "request: " + c.limit;
  count(status);
  return answer(c);
}

void Routes::count(unsigned status) {
  ++counters_.requests;
  switch (status) {
    case 200:
    case 201: ++counters_.ok; break;
    case 404: ++counters_.not_found; break;
    case 405: ++counters_.bad_method; break;
    case 409: ++counters_.conflict; break;
    case 413:
    case 431: ++counters_.too_large; break;
    case 503: ++counters_.exhausted; break;
    default: ++counters_.bad_request; break;
  }
}

HttpReply Routes::route(const HttpRequest& request, TimePoint now) {
  const auto question = request.target.find('?');
  std::string_view path = request.target.substr(0, question);
  const std::string_view query =
      question == std::string_view::npos ? "" : request.target.substr(question + 1);
  const std::string_view whole = path;
  const bool get = request.method == "GET";
  const std::string_view first = next_segment(path);
  if (first == "metrics" && path.empty()) return get ? show_metrics(now) : bad_method(request.method, "GET");
  const std::string_view second = next_segment(path);
  if (first == "v1" && second == "health" && path.empty())
    return get ? show_health(now) : bad_method(request.method, "GET");
  if (first != "v1" || second != "groups")
    return not_found("path", whole, "see /v1/groups, /v1/groups/{group}, /v1/health and /metrics");
  if (path.empty()) return get ? show_groups(now) : bad_method(request.method, "GET");
  const auto group = percent_decoded(next_segment(path));
  if (!group) return bad_value("group", whole, "holds a % that is no %XX", "encode the group's name");
  if (path.empty()) return get ? show_group(*group, now) : bad_method(request.method, "GET");
  const std::string_view ranks = next_segment(path);
  const std::string_view rank = next_segment(path);
  if (ranks != "ranks" || !path.empty())
    return not_found("path", whole, "use /v1/groups/{group}/ranks/{rank}");
  return rank_route(request, *group, rank, query, now);
}

HttpReply Routes::rank_route(const HttpRequest& request, std::string_view group, std::string_view rank,
                             std::string_view query, TimePoint now) {
  if (request.method != "PUT" && request.method != "DELETE") return bad_method(request.method, "PUT, DELETE");
  std::uint32_t number = 0;
  const auto* end = rank.data() + rank.size();
  const auto parsed = std::from_chars(rank.data(), end, number);
  if (rank.empty() || parsed.ec != std::errc{} || parsed.ptr != end)
    return bad_value("rank", rank, "is no number from 0 to 4294967295",
                     "use /v1/groups/{group}/ranks/{rank}");
  if (request.method == "PUT") return put(request, std::string(group), number, now);
  return remove(std::string(group), number, query, now);
}

HttpReply Routes::put(const HttpRequest& request, std::string group, std::uint32_t rank, TimePoint now) {
  core::Registration r;
  r.group = std::move(group);
  r.rank = rank;
  Complaint why;
  if (!read_registration(request.body, r, why)) return answer(why);
  const auto outcome = registry_.put(r, now);
  if (!outcome) return answer(complaint_of(outcome.error()));
  const Duration lease = r.lease == Duration{0} ? registry_.limits().lease_default : r.lease;
  return answer(Json{{"group", r.group},
                     {"rank", r.rank},
                     {"outcome", core::name_of(*outcome)},
                     {"lease_ms", ms(lease)},
                     {"server", core::print_incarnation(server_)}},
                *outcome == core::Registry::Outcome::kCreated ? 201 : 200);
}

HttpReply Routes::remove(const std::string& group, std::uint32_t rank, std::string_view query,
                         TimePoint now) {
  Incarnation who;
  constexpr std::string_view kKey = "incarnation=";
  if (!query.empty()) {
    const auto parsed = query.substr(0, kKey.size()) == kKey
                            ? core::parse_incarnation(query.substr(kKey.size()))
                            : std::nullopt;
    if (!parsed)
      return bad_value("query", query, "is not incarnation=START_MS-RANDOM", "correct it or leave it out");
    who = *parsed;
  }
  const auto removed = registry_.remove(group, rank, who, now);
  if (!removed) return answer(complaint_of(removed.error()));
  if (!*removed)
    return not_found("rank", group + "/" + std::to_string(rank), "it was removed or its lease ended");
  return answer(Json{{"group", group}, {"rank", rank}, {"removed", true}});
}

HttpReply Routes::show_group(const std::string& name, TimePoint now) {
  const auto group = registry_.group(name, now);
  if (!group)
    return not_found("group", name, "no rank of it is registered; GET /v1/groups lists the known ones");
  Json ranks = Json::array();
  for (const auto& r : group->ranks)
    ranks.push_back({{"rank", r.rank},
                     {"endpoint", r.endpoint},
                     {"name", r.name},
                     {"incarnation", core::print_incarnation(r.incarnation)},
                     {"lease_ms", ms(r.lease)},
                     {"left_ms", ms(r.left)},
                     {"draining", r.draining}});
  return answer(Json{{"group", group->name},
                     {"role", role_text(group->role)},
                     {"tp", group->shape.tp},
                     {"pp", group->shape.pp},
                     {"dp", group->shape.dp},
                     {"required", group->shape.ranks()},
                     {"registered", group->ranks.size()},
                     {"missing", group->missing},
                     {"ready", group->ready},
                     {"draining", group->draining},
                     {"ranks", ranks}});
}

HttpReply Routes::show_groups(TimePoint now) {
  Json groups = Json::array();
  for (const auto& g : registry_.groups(now))
    groups.push_back({{"group", g.name},
                      {"role", role_text(g.role)},
                      {"registered", g.registered},
                      {"required", g.required},
                      {"ready", g.ready},
                      {"draining", g.draining}});
  return answer(Json{{"groups", groups}});
}

HttpReply Routes::show_health(TimePoint now) {
  registry_.expire(now);
  return answer(Json{{"status", "ok"},
                     {"server", core::print_incarnation(server_)},
                     {"groups", registry_.group_count()},
                     {"entries", registry_.entries()}});
}

void Routes::add_metric(std::string name, std::string help, bool gauge, std::uint64_t value) {
  metric(extra_metrics_, name, help, gauge, value);
}

HttpReply Routes::show_metrics(TimePoint now) {
  registry_.expire(now);
  const auto& r = registry_.counters();
  const auto& c = counters_;
  HttpReply reply{200, {}, "text/plain; version=0.0.4", ""};
  std::string& out = reply.body;
  metric(out, "kvferry_registry_groups", "Groups with a live rank.", true, registry_.group_count());
  metric(out, "kvferry_registry_entries", "Registered ranks.", true, registry_.entries());
  metric(out, "kvferry_registry_created_total", "Ranks registered afresh.", false, r.created);
  metric(out, "kvferry_registry_renewed_total", "Leases renewed.", false, r.renewed);
  metric(out, "kvferry_registry_replaced_total", "Ranks taken over by a newer life.", false, r.replaced);
  metric(out, "kvferry_registry_removed_total", "Ranks removed by request.", false, r.removed);
  metric(out, "kvferry_registry_expired_total", "Leases that ended.", false, r.expired);
  metric(out, "kvferry_registry_refused_total", "Registrations refused.", false, r.refused);
  metric(out, "kvferry_bootstrap_requests_total", "Requests answered before this one.", false, c.requests);
  metric(out, "kvferry_bootstrap_ok_total", "Answers 200 and 201.", false, c.ok);
  metric(out, "kvferry_bootstrap_bad_request_total", "Answers 400.", false, c.bad_request);
  metric(out, "kvferry_bootstrap_not_found_total", "Answers 404.", false, c.not_found);
  metric(out, "kvferry_bootstrap_bad_method_total", "Answers 405.", false, c.bad_method);
  metric(out, "kvferry_bootstrap_conflict_total", "Answers 409.", false, c.conflict);
  metric(out, "kvferry_bootstrap_too_large_total", "Answers 413 and 431.", false, c.too_large);
  metric(out, "kvferry_bootstrap_exhausted_total", "Answers 503.", false, c.exhausted);
  out += extra_metrics_;
  extra_metrics_.clear();
  return reply;
}

}  // namespace kvferry::bootstrap
