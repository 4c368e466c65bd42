// The outbox: what this side still owes an answer for. Debts outlive rooms and handles; they end by an answer
// or with the peer's life. The channel is reliable within a connection, so re-sending is a backstop with
// back-off.
#include <algorithm>

#include "base/check.h"
#include "core/message_table.h"
#include "core/state.h"

namespace kvferry::core {

void Engine::State::owe(Peer& p, DebtKey key, wire::Body body) {
  if (p.ended) return;
  KVF_DCHECK(kMessageTable[key.kind].again == Again::kDebt, "only debts are owed");
  if (p.debts.size() >= cfg.limits.debts_per_peer && !p.debts.contains(key)) {
    const std::string many = std::to_string(p.debts.size());
    p.debts.clear();
    return peer_dead(p, "it leaves more than debts_per_peer (" + many + ") messages unanswered", false);
  }
  Debt& d = p.debts[key];
  d.body = body;
  d.backoff = cfg.deadlines.resend_first;
  d.due = mut(Mutant::kNoResend) ? TimePoint::max() : now + d.backoff;
  if (d.due < p.debt_due) {
    p.debt_due = d.due;
    arm(p);
  }
  send(p, std::move(body));
}

void Engine::State::pay(Peer& p, std::uint8_t kind, GrantNumber number, std::uint32_t sub) {
  p.debts.erase({kind, number, sub});
}

void Engine::State::pay_all(Peer& p, std::uint8_t kind, GrantNumber number) {
  const auto first = p.debts.lower_bound({kind, number, 0});
  auto last = first;
  while (last != p.debts.end() && last->first.kind == kind && last->first.number == number) ++last;
  p.debts.erase(first, last);
}

// `all`: the connection was made anew. Otherwise only what is due.
void Engine::State::resend(Peer& p, bool all) {
  p.debt_due = TimePoint::max();
  if (mut(Mutant::kNoResend)) return;
  std::vector<DebtKey> due;
  for (auto& [key, d] : p.debts) {
    if (all || d.due <= now) {
      d.backoff =
          all ? cfg.deadlines.resend_first : std::min<Duration>(d.backoff * 2, cfg.deadlines.resend_most);
      d.due = now + d.backoff;
      due.push_back(key);
    }
    p.debt_due = std::min(p.debt_due, d.due);
  }
  if (p.link.value == 0) return;
  for (const DebtKey& key : due) {
    const auto it = p.debts.find(key);
    if (it == p.debts.end()) continue;
    ++count.debts_resent;
    send(p, it->second.body);
  }
}

void Engine::State::ack(Peer& p, wire::What what, GrantNumber number, std::uint32_t chunk, bool stale,
                        wire::Outcome outcome) {
  if (stale) ++count.stale_answered;
  wire::Ack a;
  a.what = what;
  a.grant = number;
  a.chunk = chunk;
  a.stale = stale;
  a.outcome = outcome;
  send(p, a);
}

}  // namespace kvferry::core
