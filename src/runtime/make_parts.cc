#include <utility>

#include "base/endpoint.h"
#include "control/tcp_channel.h"
#include "kvferry/parts.h"
#include "transport/all.h"

namespace kvferry {
namespace {

Result<TransportOptions> transport_options(const PartsOptions& options) {
  const auto bind = parse_host_port(options.bind, "bind address");
  if (!bind) return tl::unexpected(bind.error());
  TransportOptions made;
  made.tcp.bind = is_any_host(bind->host) ? "" : bind->host;
  made.tcp.streams = options.tcp_streams;
  made.tcp.congestion = options.tcp_congestion;
  if (!options.advertise.empty()) {
    // The control channel's port means nothing to the mover: only the host is shared.
    const auto advertised = parse_host_port(options.advertise, "advertised address");
    made.tcp.advertise.push_back(advertised ? advertised->host : options.advertise);
  }
#ifdef KVFERRY_HAS_SHM
  for (const auto& pool : options.pools) made.shm.pools.push_back(pool->shared());
  made.shm.adopt = options.shm_adopt;
  made.shm.allow_foreign = options.shm_foreign;
#endif
  return made;
}

}  // namespace

Result<Parts> make_parts(const PartsOptions& options, std::vector<std::string>* left_out) {
  const auto wanted = transport_options(options);
  if (!wanted) return tl::unexpected(wanted.error());
  control::TcpChannelOptions channel_options;
  channel_options.bind = options.bind;
  channel_options.advertise = options.advertise;
  auto channel = control::make_tcp_channel(std::move(channel_options));
  if (!channel) return tl::unexpected(channel.error());
  Parts parts;
  parts.clock = std::make_shared<SystemClock>();
  parts.channel = std::move(*channel);
  Error last{Code::kUsage,    Who::kConfig,
             Next::kAfterFix, 0,
             "movers",        "no mover was named; name \"shm\" or \"tcp\""};
  for (const std::string& name : options.movers) {
    auto mover = make_transport(name, *wanted);
    if (mover) {
      parts.transports.push_back(std::move(*mover));
      continue;
    }
    last = mover.error();
    if (last.code == Code::kUsage) return tl::unexpected(std::move(last));
    if (left_out != nullptr) left_out->push_back(name + ": " + last.line());
  }
  if (parts.transports.empty()) return tl::unexpected(std::move(last));
  return parts;
}

}  // namespace kvferry
