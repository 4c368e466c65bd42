#include "kvferry/types.h"

namespace kvferry {

const char* name_of(Poll poll) noexcept {
  switch (poll) {
    case Poll::kFailed: return "Failed";
    case Poll::kBootstrapping: return "Bootstrapping";
    case Poll::kWaitingForInput: return "WaitingForInput";
    case Poll::kTransferring: return "Transferring";
    case Poll::kSuccess: return "Success";
    case Poll::kStale: return "Stale";
  }
  return "unknown poll";
}

const char* name_of(Role role) noexcept {
  switch (role) {
    case Role::kSender: return "sender";
    case Role::kReceiver: return "receiver";
  }
  return "unknown role";
}

}  // namespace kvferry
