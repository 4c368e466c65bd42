// An operation that a FaultMover keeps for later: its own copy of everything that post() was shown.
// Values, movable; no thread rule.
#pragma once

#include "kvferry/transport.h"
#include "transport/cursor.h"

namespace kvferry::testkit {

struct KeptOperation {
  OpId op;
  Access access = Access::kWrite;
  PeerId peer;
  Ticket ticket;
  transport::OwnedGroups groups;
  Notice notice;
  std::uint8_t priority = 0;

  static KeptOperation copy(const Operation&);
  // Half of the items of each group, rounded down. It carries a notice that a FaultMover at the target
  // swallows: a real mover would not announce half an operation.
  static KeptOperation half(const Operation&);
  static bool is_half(const Notice&) noexcept;
  bool empty() const noexcept { return groups.bytes() == 0; }
  Operation view() const { return Operation{op, access, peer, ticket, groups.view(), notice, priority}; }
};

}  // namespace kvferry::testkit
