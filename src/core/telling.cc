// What a receiver tells of rooms that ended before their GRANT: by a REVOKE with a number of its own, within
// the window.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

// A receiver's room that ended before its prefill rank was known: the rank is told when it says HELLO.
void Engine::State::tell_later(const Room& r, const Leg& leg, const Cause& cause) {
  if (leg.endpoint.value >= endpoints.size()) return;
  Endpoint& e = endpoints[leg.endpoint.value];
  std::erase_if(e.tells, [this](const Endpoint::Tell& t) { return t.until <= now; });
  if (e.tells.size() >= cfg.limits.grant_window) return;
  e.tells.push_back({r.id, r.tag, r.leg_index, cause, r.created + cfg.deadlines.handshake});
}

void Engine::State::tell_now(Peer& p, Endpoint& e) {
  const auto tells = std::move(e.tells);
  e.tells.clear();
  for (const auto& t : tells) {
    if (t.until <= now) continue;
    tell(p, {t.room, t.tag, t.leg, t.cause});
  }
}

// Rule 16: a number is taken and recalled in one step. Beyond the window it waits; beyond the bound it is not
// told, and the peer's bootstrap deadline ends its room.
void Engine::State::tell(Peer& p, Peer::Tell t) {
  if (!p.tells.empty() || window_full(p)) {
    if (p.tells.size() < p.grant_window) p.tells.push_back(std::move(t));
    return;
  }
  say_over(p, std::move(t));
}

void Engine::State::say_over(Peer& p, Peer::Tell t) {
  const GrantNumber floor = floor_of(p);  // before the number is taken: not above it
  const GrantNumber number = p.next_number++;
  owe(p, {kind_of<wire::Revoke>(), number, 0},
      wire::Revoke{number, t.room, t.tag, t.leg, std::move(t.cause), floor});
}

// The floor may have moved: who waited for the window goes on.
void Engine::State::window_moved(Peer& p) {
  while (!p.tells.empty() && !window_full(p)) {
    Peer::Tell t = std::move(p.tells.front());
    p.tells.pop_front();
    say_over(p, std::move(t));
    if (p.life == Peer::Life::kDead) return;
  }
  if (p.waiting_window.empty() || window_full(p)) return;
  const auto waiting = std::move(p.waiting_window);
  p.waiting_window.clear();
  for (const GrantOut& w : waiting) {
    Room* r = find(w.room);
    if (r == nullptr || r->failing || w.leg >= r->legs.size()) continue;
    r->legs[w.leg].waits_window = false;
    emit_grants(*r);
  }
}

}  // namespace kvferry::core
