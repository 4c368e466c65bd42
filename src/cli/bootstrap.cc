#include "cli/bootstrap.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>

#include "bootstrap/service.h"

namespace kvferry::cli {
namespace {

Incarnation draw_incarnation() {
  std::random_device device;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::uint64_t high = device(), low = device();
  return {static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()),
          high << 32U | low};
}

bootstrap::ServiceOptions service_options(const config::Config& c) {
  bootstrap::ServiceOptions out;
  out.listen = c.bootstrap_listen;
  out.max_connections = c.bootstrap_connections;
  out.max_body = c.bootstrap_body_bytes;
  out.limits.groups = c.bootstrap_groups;
  out.limits.entries = c.bootstrap_entries;
  out.limits.lease_default = c.deadlines.lease;
  out.limits.lease_least = std::min(out.limits.lease_least, c.deadlines.lease);
  out.limits.lease_most = std::max(out.limits.lease_most, c.deadlines.lease);
  out.server = draw_incarnation();
  return out;
}

std::string listening_json(const bootstrap::BootstrapService& service) {
  return "{\"event\":\"listening\",\"endpoint\":\"" + service.endpoint() + "\",\"server\":\"" +
         core::print_incarnation(service.server()) + "\"}\n";
}

std::string counters_json(const bootstrap::BootstrapService& service) {
  const auto c = service.counters();
  std::string out = "{\"event\":\"stopped\",\"endpoint\":\"" + service.endpoint() + "\"";
  const auto add = [&](const char* name, std::uint64_t value) {
    out += ",\"" + std::string(name) + "\":" + std::to_string(value);
  };
  add("requests", c.routes.requests);
  add("ok", c.routes.ok);
  add("bad_request", c.routes.bad_request);
  add("not_found", c.routes.not_found);
  add("bad_method", c.routes.bad_method);
  add("conflict", c.routes.conflict);
  add("too_large", c.routes.too_large);
  add("exhausted", c.routes.exhausted);
  add("created", c.registry.created);
  add("renewed", c.registry.renewed);
  add("replaced", c.registry.replaced);
  add("removed", c.registry.removed);
  add("expired", c.registry.expired);
  add("connections", c.connections_accepted);
  add("connections_refused", c.connections_refused);
  return out + "}\n";
}

void say(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

int run_bootstrap(const BootstrapOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto resolved = load_config(options.config);
  if (!resolved) return report_error(resolved.error());
  const auto service = bootstrap::BootstrapService::start(service_options(resolved->config));
  if (!service) return report_error(service.error());
  say(options.json ? listening_json(**service) : "listening on http://" + (*service)->endpoint() + "/v1/\n");
  int signal = 0;
  sigwait(&signals, &signal);
  (*service)->stop();
  if (options.json) say(counters_json(**service));
  return 0;
}

}  // namespace kvferry::cli
