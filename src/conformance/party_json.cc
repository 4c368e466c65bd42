#include "conformance/party_json.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/bytes.h"

namespace kvferry::conformance {
namespace {

constexpr std::uint32_t kMaxMessage = 64U << 20;

template <class E>
E enum_from(const Json& json) {
  return static_cast<E>(json.get<std::uint8_t>());
}
template <class E>
std::uint8_t number(E value) {
  return static_cast<std::uint8_t>(value);
}

Json loan_id(LoanId id) { return Json::array({id.slot, id.serial}); }
LoanId loan_id_from(const Json& json) {
  return {json.at(0).get<std::uint32_t>(), json.at(1).get<std::uint64_t>()};
}

Json plane(const Plane& p) { return Json::array({p.region.value, p.base, p.stride}); }
Plane plane_from(const Json& j) {
  return {RegionId{j.at(0).get<std::uint32_t>()}, j.at(1).get<std::uint64_t>(), j.at(2).get<std::uint64_t>()};
}

Json notice(const Notice& n) {
  return to_json(
      std::vector<std::byte>(n.bytes.begin(), n.bytes.begin() + std::min<std::size_t>(n.size, kMaxNotice)));
}
Notice notice_from(const Json& json) {
  const std::vector<std::byte> bytes = bytes_from(json);
  Notice n;
  n.size = static_cast<std::uint8_t>(std::min(bytes.size(), kMaxNotice));
  std::copy_n(bytes.begin(), n.size, n.bytes.begin());
  return n;
}

bool read_all(int stream, std::span<std::byte> into, int ms) {
  while (!into.empty()) {
    pollfd entry{stream, POLLIN, 0};
    const int ready = poll(&entry, 1, ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = recv(stream, into.data(), into.size(), 0);
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

Json to_json(const std::vector<std::byte>& bytes) {
  const auto octets = octets_of(bytes);
  return Json::binary(std::vector<std::uint8_t>(octets.begin(), octets.end()));
}

std::vector<std::byte> bytes_from(const Json& json) {
  const auto& octets = json.get_binary();
  const auto bytes = bytes_of_octets(std::span<const std::uint8_t>(octets.data(), octets.size()));
  return {bytes.begin(), bytes.end()};
}

Json to_json(const Error& e) {
  return {{"code", number(e.code)}, {"who", number(e.who)}, {"next", number(e.next)},
          {"status", e.status},     {"what", e.what},       {"why", e.why}};
}

Error error_from(const Json& j) {
  return {enum_from<Code>(j.at("code")),   enum_from<Who>(j.at("who")),
          enum_from<Next>(j.at("next")),   j.at("status").get<std::int32_t>(),
          j.at("what").get<std::string>(), j.at("why").get<std::string>()};
}

Json to_json(const Capabilities& c) {
  return {{"name", c.name},
          {"memory", c.memory},
          {"access", number(c.access)},
          {"visible", number(c.visible)},
          {"revoke", number(c.revoke)},
          {"fence", number(c.fence)},
          {"same_host_only", c.same_host_only},
          {"reposts", c.reposts},
          {"max_in_flight", c.max_in_flight},
          {"max_loans", c.max_loans}};
}

Capabilities capabilities_from(const Json& j) {
  Capabilities c;
  c.name = j.at("name").get<std::string>();
  c.memory = j.at("memory").get<std::uint8_t>();
  c.access = enum_from<Access>(j.at("access"));
  c.visible = enum_from<Visible>(j.at("visible"));
  c.revoke = enum_from<RevokeMode>(j.at("revoke"));
  c.fence = enum_from<FenceMode>(j.at("fence"));
  c.same_host_only = j.at("same_host_only").get<bool>();
  c.reposts = j.at("reposts").get<bool>();
  c.max_in_flight = j.at("max_in_flight").get<std::uint32_t>();
  c.max_loans = j.at("max_loans").get<std::uint32_t>();
  return c;
}

Json to_json(const OpSpec& op) {
  Json groups = Json::array();
  for (const OpGroup& group : op.groups) {
    Json planes = Json::array(), runs = Json::array();
    for (const PlanePair& p : group.planes) {
      planes.push_back({plane(p.local), plane(p.remote), p.bytes, p.repeat, p.local_step, p.remote_step});
    }
    for (const RunPair& r : group.runs) runs.push_back(Json::array({r.local, r.remote, r.count}));
    groups.push_back({{"planes", planes}, {"runs", runs}});
  }
  return {{"op", op.op.value},           {"access", number(op.access)},
          {"peer", op.peer.value},       {"loan", loan_id(op.ticket.loan)},
          {"token", op.ticket.token},    {"groups", groups},
          {"notice", notice(op.notice)}, {"priority", op.priority}};
}

OpSpec op_from(const Json& j) {
  OpSpec op;
  op.op = OpId{j.at("op").get<std::uint64_t>()};
  op.access = enum_from<Access>(j.at("access"));
  op.peer = PeerId{j.at("peer").get<std::uint32_t>()};
  op.ticket = {loan_id_from(j.at("loan")), j.at("token").get<std::uint64_t>()};
  for (const Json& g : j.at("groups")) {
    OpGroup& group = op.groups.emplace_back();
    for (const Json& p : g.at("planes")) {
      group.planes.push_back({plane_from(p.at(0)), plane_from(p.at(1)), p.at(2).get<std::uint32_t>(),
                              p.at(3).get<std::uint32_t>(), p.at(4).get<std::uint32_t>(),
                              p.at(5).get<std::uint32_t>()});
    }
    for (const Json& r : g.at("runs")) {
      group.runs.push_back(
          {r.at(0).get<std::uint32_t>(), r.at(1).get<std::uint32_t>(), r.at(2).get<std::uint32_t>()});
    }
  }
  op.notice = notice_from(j.at("notice"));
  op.priority = j.at("priority").get<std::uint8_t>();
  return op;
}

Json to_json(const LoanSpec& loan) {
  Json groups = Json::array();
  for (const LoanGroupSpec& group : loan.groups) {
    Json planes = Json::array(), runs = Json::array();
    for (const Plane& p : group.planes) planes.push_back(plane(p));
    for (const PageRun& r : group.runs) runs.push_back(Json::array({r.first, r.count}));
    groups.push_back({{"planes", planes}, {"item_bytes", group.item_bytes}, {"runs", runs}});
  }
  return {{"id", loan_id(loan.id)},
          {"token", loan.token},
          {"peer", loan.peer.value},
          {"access", number(loan.access)},
          {"groups", groups}};
}

LoanSpec loan_from(const Json& j) {
  LoanSpec loan;
  loan.id = loan_id_from(j.at("id"));
  loan.token = j.at("token").get<std::uint64_t>();
  loan.peer = PeerId{j.at("peer").get<std::uint32_t>()};
  loan.access = enum_from<Access>(j.at("access"));
  for (const Json& g : j.at("groups")) {
    LoanGroupSpec& group = loan.groups.emplace_back();
    for (const Json& p : g.at("planes")) group.planes.push_back(plane_from(p));
    group.item_bytes = g.at("item_bytes").get<std::vector<std::uint32_t>>();
    for (const Json& r : g.at("runs"))
      group.runs.push_back({r.at(0).get<std::uint32_t>(), r.at(1).get<std::uint32_t>()});
  }
  return loan;
}

Json to_json(const SeenEvent& seen) {
  const Event& e = seen.event;
  return {{"kind", number(e.kind)},     {"peer", e.peer.value},      {"op", e.op.value},
          {"loan", loan_id(e.loan)},    {"region", e.region.value},  {"bytes", e.bytes},
          {"notice", notice(e.notice)}, {"error", to_json(e.error)}, {"hash", seen.watched_hash}};
}

SeenEvent seen_from(const Json& j) {
  SeenEvent seen;
  Event& e = seen.event;
  e.kind = enum_from<Event::Kind>(j.at("kind"));
  e.peer = PeerId{j.at("peer").get<std::uint32_t>()};
  e.op = OpId{j.at("op").get<std::uint64_t>()};
  e.loan = loan_id_from(j.at("loan"));
  e.region = RegionId{j.at("region").get<std::uint32_t>()};
  e.bytes = j.at("bytes").get<std::uint64_t>();
  e.notice = notice_from(j.at("notice"));
  e.error = error_from(j.at("error"));
  seen.watched_hash = j.at("hash").get<std::uint64_t>();
  return seen;
}

Json to_json(const CallCosts& c) {
  return {{"calls", c.calls},
          {"over_1ms", c.over_1ms},
          {"slept", c.slept},
          {"worst_ns", c.worst_ns},
          {"worst_call", c.worst_call}};
}

CallCosts costs_from(const Json& j) {
  return {j.at("calls").get<std::uint64_t>(), j.at("over_1ms").get<std::uint64_t>(),
          j.at("slept").get<std::uint64_t>(), j.at("worst_ns").get<std::uint64_t>(),
          j.at("worst_call").get<std::string>()};
}

bool write_message(int stream, const Json& message) {
  const std::vector<std::uint8_t> body = Json::to_cbor(message);
  std::vector<std::byte> frame(4 + body.size());
  Writer writer(frame);
  writer.u32(static_cast<std::uint32_t>(body.size()));
  writer.bytes(bytes_of_octets(body));
  std::span<const std::byte> rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = send(stream, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest = rest.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool read_message(int stream, Json& message, int ms) {
  std::array<std::byte, 4> head;
  if (!read_all(stream, head, ms)) return false;
  const auto size = load_le<std::uint32_t>(head);
  if (size > kMaxMessage) return false;
  std::vector<std::byte> body(size);
  if (!read_all(stream, body, ms)) return false;
  message = Json::from_cbor(octets_of(body), true, false);
  return !message.is_discarded();
}

}  // namespace kvferry::conformance
