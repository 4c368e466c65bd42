#include "sim/mover_kind.h"

namespace kvferry::sim {

const char* name_of(MoverKind kind) noexcept {
  switch (kind) {
    case MoverKind::kPlaced: return "placed";
    case MoverKind::kLanded: return "landed";
    case MoverKind::kNotified: return "notified";
    case MoverKind::kPull: return "pull";
  }
  return "?";
}

Capabilities capabilities_of(MoverKind kind, FenceMode fence) {
  Capabilities c;
  c.name = name_of(kind);
  c.access = kind == MoverKind::kPull ? Access::kRead : Access::kWrite;
  switch (kind) {
    case MoverKind::kPlaced:
    case MoverKind::kPull: c.visible = Visible::kReceiverPlaced; break;
    case MoverKind::kLanded: c.visible = Visible::kRemoteLanded; break;
    case MoverKind::kNotified: c.visible = Visible::kRemoteNotified; break;
  }
  const bool own_process_places = c.visible == Visible::kReceiverPlaced;
  c.revoke = own_process_places ? RevokeMode::kLenderStops : RevokeMode::kMoverDrains;
  c.fence = own_process_places ? FenceMode::kAtOnce : fence;
  c.max_in_flight = 64;
  c.max_loans = 4096;
  return c;
}

}  // namespace kvferry::sim
