// The state as bytes for the explorer's fingerprint: no absolute time, no statistics, no serial counters.
#include <algorithm>
#include <cstring>

#include "core/state.h"

namespace kvferry::core {

namespace {
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  Writer& operator<<(T v) {
    char raw[sizeof(T)];
    std::memcpy(raw, &v, sizeof v);
    out_.append(raw, sizeof v);
    return *this;
  }
  template <class Tag, class Rep>
  Writer& operator<<(Id<Tag, Rep> v) {
    return *this << v.value;
  }
  Writer& operator<<(Handle h) { return *this << h.slot << h.generation; }
  Writer& operator<<(LoanId l) { return *this << l.slot << l.serial; }
  Writer& operator<<(const Tag& t) { return *this << t.attempt << t.tokens << t.last_block_hash; }
  Writer& operator<<(const Incarnation& i) { return *this << i.started_ms << i.random; }
  // A cause whole: it travels in REVOKE and FAIL, and frames are told apart by it.
  Writer& operator<<(const Cause& c) {
    out_ += c.what;
    out_ += '\0';
    out_ += c.why;
    out_ += '\0';
    return *this << c.code << c.who << c.next << c.status;
  }
  Writer& operator<<(const PageRuns& runs) {
    *this << runs.size();
    for (const auto& r : runs) *this << r.first << r.count;
    return *this;
  }

 private:
  std::string& out_;
};

void write_leg(Writer& w, const Leg& l) {
  w << l.state << l.peer << l.number << l.endpoint << l.loan << l.loan_live << l.loan_revoking
    << l.remote_drained << l.done << l.done_said << l.waits_window << l.reads << l.fence_failed << l.evidence
    << l.refusal << l.recalled << l.refused_chunk;
  w << l.manifest.chunks.size();
  for (const auto& p : l.proofs) w << p.state << p.bytes << p.loan;
}

void write_room(Writer& w, const Room& r) {
  w << r.used;
  if (!r.used) return;
  w << r.handle << r.registered << r.id << r.role << r.tag << r.shown << r.failing << r.terminal << r.detached
    << r.legs_required << r.pushed_last << r.prefix_known << r.bound_all << r.posted_any << r.granted
    << r.grant_fired << r.lent << r.first_byte << (r.renew_number > 0);
  if (r.failing) w << r.cause;
  w << r.spec.pages << r.legs.size();
  for (const auto& l : r.legs) write_leg(w, l);
  w << r.chunks.size();
  for (const auto& c : r.chunks) w << c.holds << c.passed << c.fired << c.returned << c.spec.pages;
}

void write_peer(Writer& w, const Peer& p) {
  w << p.id << p.life_id << p.life << p.link << p.their_session << p.told_session << p.answered << p.ended
    << p.refused << p.added << p.ready << p.fencing << p.fenced << p.fence_failed << p.path << p.their_path
    << p.path_error.code << p.early_offers.size() << p.next_number << p.seen.base() << p.parked << p.ops;
  p.seen.each([&](std::uint64_t n) { w << n; });
  w << std::uint64_t{0};
  p.sealed.each([&](std::uint64_t n) { w << n; });
  w << p.out.size();
  for (const auto& [n, o] : p.out) w << n << o.room << o.leg;
  w << p.in.size();
  for (const auto& [n, g] : p.in) {
    w << n << g.state << g.room << g.outstanding << g.incomplete << g.revoke_asked << g.fail_said
      << g.next_chunk << g.tokens << g.last_posted << g.done_said << g.grant.sealed << g.grant.leg
      << g.grant.tag << g.grant.ticket.loan << g.grant.path << g.grant.pages << g.grant.tokens
      << g.grant.prefix_tokens;
    for (const auto& l : g.loans) w << l;
  }
  w << p.debts.size();
  for (const auto& [k, d] : p.debts) {
    w << k.kind << k.number << k.sub;
    if (const auto* f = std::get_if<wire::Fail>(&d.body)) w << f->drained << f->cause;
    if (const auto* v = std::get_if<wire::Revoke>(&d.body)) w << v->cause << v->floor;
    if (const auto* g = std::get_if<wire::Grant>(&d.body)) w << g->sealed << g->floor;
    if (const auto* r = std::get_if<wire::Release>(&d.body)) w << r->loan;
  }
  w << p.dropped << p.watched;
  for (const auto& o : p.early_offers) w << o.grant << o.chunk << o.ticket.loan;
  w << p.waiting_window.size() << p.blocked.size() << p.tells.size();
  for (const auto& t : p.tells) w << t.room << t.tag << t.leg << t.cause;
  for (const auto& [room, s] : p.sealed_rooms) w << room << s;
}
}  // namespace

void Engine::State::canonical(std::string& bytes) const {
  Writer w(bytes);
  w << next_peer << next_grant_base << path_base << stopping << rekey_wanted << rekeying << region_generation
    << rooms.size();
  for (const Room& r : rooms) write_room(w, r);
  w << peers.size();
  for (const auto& [id, p] : peers) write_peer(w, p);
  w << links.size();
  for (const auto& [id, l] : links) w << id << l.peer << l.endpoint << l.dialled << (l.bad > 0);
  for (const Endpoint& e : endpoints) {
    w << e.peer << e.link << e.dialling << e.wanted << e.waiters.size() << e.tells.size();
    for (const auto& t : e.tells) w << t.room << t.tag << t.leg << t.cause;
  }
  w << ops.size();
  for (const auto& [id, op] : ops)  // by number: the mover knows it by that
    w << id << op.peer << op.grant << op.room << op.leg << op.chunk << op.completed << op.failed << op.holds;
  for (const LoanRec& l : loans)
    w << l.serial << l.peer << l.grant << l.room << l.leg << l.holds << l.revoking;
  for (const auto& space : owner) {
    for (const auto o : space) w << o;
  }
  for (const auto& space : readers) {
    for (const auto n : space) w << n;
  }
  for (const auto& [key, g] : graves) {
    w << key.first << key.second << g.cause;
    for (const bool b : g.registered) w << b;
  }
  for (const auto& [room, list] : recalls) {
    for (const auto& c : list) w << room << c.peer << c.number << c.leg << c.tag << c.cause;
  }
  for (const auto& [event, h] : event_waits) w << event << h;
}

}  // namespace kvferry::core
