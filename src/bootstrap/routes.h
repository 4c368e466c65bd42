// The HTTP interface of the registry without HTTP: method, target and body in, status and JSON out. Pure and
// total on hostile bytes: the service, the simulator and the fuzzer call the same function. Thread rule: one
// owner at a time.
//
//   PUT    /v1/groups/{group}/ranks/{rank}    register or renew           201 created, 200 renewed or
//   replaced DELETE /v1/groups/{group}/ranks/{rank}    ?incarnation=I              200 GET /v1/groups/{group}
//   ranks, missing ones, ready  200 GET    /v1/groups                         one line a group            200
//   GET    /v1/health                                                     200
//   GET    /metrics                           Prometheus text             200
// Errors: 400 a value, 404 unknown, 405 method (with Allow), 409 superseded or mismatch, 413 too large, 503 a
// table is full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/json_body.h"
#include "core/registry.h"

namespace kvferry::bootstrap {

struct HttpRequest {
  std::string_view method, target, body;
};

struct HttpReply {
  unsigned status = 200;
  std::string body;
  const char* content_type = "application/json";
  const char* allow = "";  // 405 only
};

struct RouteCounters {  // monotonic; requests is the sum of the rest
  std::uint64_t requests = 0, ok = 0;
  std::uint64_t bad_request = 0, not_found = 0, bad_method = 0, conflict = 0, too_large = 0, exhausted = 0;
};

class Routes {
 public:
  // `server` names this life of the server in answers: a client sees a restart.
  Routes(core::RegistryLimits, Incarnation server);

  HttpReply handle(const HttpRequest&, TimePoint now);
  // What the HTTP parser refused: 400, 413 (body) or 431 (header); counted like the rest.
  HttpReply refuse(unsigned status, std::string_view why);

  const RouteCounters& counters() const { return counters_; }
  core::Registry& registry() { return registry_; }
  void add_metric(std::string name, std::string help, bool gauge,
                  std::uint64_t value);  // for the next /metrics only

 private:
  HttpReply route(const HttpRequest&, TimePoint now);
  HttpReply rank_route(const HttpRequest&, std::string_view group, std::string_view rank,
                       std::string_view query, TimePoint now);
  HttpReply put(const HttpRequest&, std::string group, std::uint32_t rank, TimePoint now);
  HttpReply remove(const std::string& group, std::uint32_t rank, std::string_view query, TimePoint now);
  HttpReply show_group(const std::string& group, TimePoint now);
  HttpReply show_groups(TimePoint now);
  HttpReply show_health(TimePoint now);
  HttpReply show_metrics(TimePoint now);
  void count(unsigned status);

  core::Registry registry_;
  Incarnation server_;
  RouteCounters counters_;
  std::string extra_metrics_;
};

}  // namespace kvferry::bootstrap
