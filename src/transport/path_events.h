// Events that speak of the path to a peer, in contrast to its operations and loans. Pure; no thread rule.
#pragma once

#include <deque>

#include "kvferry/transport.h"

namespace kvferry::transport {

inline bool speaks_of_path(const Event& event) noexcept {
  return event.kind == Event::Kind::kPeerReady || event.kind == Event::Kind::kPeerLost ||
         event.kind == Event::Kind::kPeerFenced;
}

// What drop_peer() owes: the id may name the next path at once, so nothing that was said of the old one is
// told any more.
inline void forget_path(std::deque<Event>& events, PeerId peer) {
  std::erase_if(events, [peer](const Event& event) { return event.peer == peer && speaks_of_path(event); });
}

}  // namespace kvferry::transport
