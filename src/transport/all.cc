#include "transport/all.h"

#include <utility>

namespace kvferry {
namespace {

Result<std::unique_ptr<Transport>> loopback(const TransportOptions& options, transport::LoopbackKind kind) {
  auto fabric = options.fabric ? options.fabric : std::make_shared<transport::LoopbackFabric>();
  return transport::make_loopback(std::move(fabric), kind);
}

}  // namespace

std::vector<std::string> transport_names() {
  return {"tcp",
#ifdef KVFERRY_HAS_SHM
          "shm",
#endif
          "loopback-push", "loopback-pull", "loopback-landed"};
}

Result<std::unique_ptr<Transport>> make_transport(std::string_view name, const TransportOptions& options) {
  if (name == "tcp") {
    auto made = open_tcp(options.tcp);
    if (!made) return tl::unexpected(made.error());
    return std::move(*made);
  }
#ifdef KVFERRY_HAS_SHM
  if (name == "shm") return make_shm(options.shm);
#endif
  if (name == "loopback" || name == "loopback-push") return loopback(options, transport::LoopbackKind::kPush);
  if (name == "loopback-pull") return loopback(options, transport::LoopbackKind::kPull);
  if (name == "loopback-landed") return loopback(options, transport::LoopbackKind::kLanded);
  std::string known;
  for (const std::string& each : transport_names()) known += (known.empty() ? "" : ", ") + each;
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "mover '" + std::string(name) + "'",
              "there is no such mover; known are " + known);
}

}  // namespace kvferry
