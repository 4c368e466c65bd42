#include "sim/explore_model.h"

#include <algorithm>
#include <type_traits>

#include "base/checksum.h"
#include "sim/explore_step.h"
#include "sim/text.h"

namespace kvferry::sim {
namespace {

using Kind = ExploreMove::Kind;

template <class T>
void put(std::string& bytes, T v) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

ExploreModel::ExploreModel(const ExploreShape& shape, Removed removed) : shape_(shape), removed_(removed) {
  for (std::uint32_t i = 0; i < shape_.cluster.nodes(); ++i) places_.push_back(place_of(shape_.cluster, i));
}

core::EngineConfig ExploreModel::config(std::uint32_t node, LifeIndex life) const {
  LifeSpec spec;
  spec.node = node;
  spec.life = life;
  spec.self = Incarnation{1000ULL + life, 77ULL + life};
  spec.token_seed = 5ULL + life;
  core::EngineConfig c = config_of(shape_.cluster, spec);
  c.limits = shape_.limits;
  c.trace = true;
#ifdef KVFERRY_MUTANTS
  c.mutant = removed_.rule;
#endif
  return c;
}

ExploreState ExploreModel::initial(Laws& laws) {
  ExploreState s;
  auto mover = std::make_shared<SimTransport>(shape_.cluster.mover, shape_.cluster.fence, removed_.mover);
  const std::uint32_t nodes = shape_.cluster.nodes();
  s.next_link.assign(nodes, 0);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    ExploreNode n;
    n.life = mover->birth(i, geometry_of(shape_.cluster, places_[i]));
    n.engine = engines_.add(n.life, config(i, n.life));
    n.users.resize(shape_.programs[i].size());
    s.nodes.push_back(std::move(n));
  }
  s.mover = std::move(mover);
  ExploreStep step(*this, s, laws);
  for (std::uint32_t i = shape_.cluster.senders(); i < nodes; ++i) {
    for (std::uint32_t e = 0; e < shape_.cluster.senders(); ++e) {
      step.feed(i, core::in::Endpoint{EndpointId{e}, name_of_node(shape_.cluster, e) + ":1"});
    }
  }
  if (!shape_.handshake) {
    for (std::uint32_t i = shape_.cluster.senders(); i < nodes; ++i) {
      for (std::uint32_t e = 0; e < shape_.cluster.senders(); ++e) step.link(i, e, EndpointId{e});
    }
    for (std::size_t k = 0; k < 100 && !step.state().sent.empty(); ++k) {
      const FrameId f = step.state().sent.front();
      step.deliver(f, false);
      std::erase(step.state().sent, f);
    }
  }
  return step.finish();
}

bool find_link(const ExploreState& s, std::uint32_t node, LinkId id, std::size_t& link, std::size_t& side) {
  for (std::size_t i = 0; i < s.links.size(); ++i) {
    for (std::size_t e = 0; e < 2; ++e) {
      if (s.links[i].node[e] != node || s.links[i].id[e] != id || !s.links[i].up[e]) continue;
      link = i;
      side = e;
      return true;
    }
  }
  return false;
}

// By the newest link between the two: a late frame may also come over a later connection.
bool ExploreModel::deliverable(const ExploreState& s, FrameId f, LinkId& at) const {
  const KnownFrame& frame = engines_.frame(f);
  if (!s.nodes[frame.to].up) return false;
  for (std::size_t i = s.links.size(); i-- > 0;) {
    const ExploreLink& l = s.links[i];
    for (std::size_t e = 0; e < 2; ++e) {
      if (l.broken || l.node[e] != frame.to || l.node[1 - e] != frame.from || !l.up[e]) continue;
      at = l.id[e];
      return true;
    }
  }
  return false;
}

bool ExploreModel::owed(const ExploreState& s, FrameId f) {
  const KnownFrame frame = engines_.frame(f);
  if (!s.nodes[frame.from].up) return false;
  // A link that stays mute is made anew, and the HELLO is said again: that is its re-send.
  if (std::holds_alternative<wire::Hello>(frame.message.body)) return true;
  for (const core::out::Send& send : engines_.owed(s.nodes[frame.from].engine)) {
    std::size_t link = 0, side = 0;
    if (!find_link(s, frame.from, send.link, link, side) || s.links[link].node[1 - side] != frame.to)
      continue;
    if (engines_.frame(frame.from, frame.to, send.message) == f) return true;
  }
  return false;
}

void ExploreModel::moves(const ExploreState& s, std::vector<ExploreMove>& out) {
  out.clear();
  for (const FrameId f : s.sent) {
    LinkId at;
    if (deliverable(s, f, at)) out.push_back({Kind::kDeliver, f, 0, owed(s, f)});
  }
  timer_moves(s, out);
  mover_moves(s, out);
  for (std::uint32_t i = 0; i < s.pending.size(); ++i) out.push_back({Kind::kPending, i, 0, true});
  user_moves(s, out);
  fault_moves(s, out);
  rest_moves(s, out);
}

// What waits on purpose comes last, when nothing else that is bound to happen is left: a dial after a refused
// one, and, once a fault has struck, long deadlines.
void ExploreModel::rest_moves(const ExploreState& s, std::vector<ExploreMove>& out) {
  if (std::any_of(out.begin(), out.end(), [](const ExploreMove& m) { return m.fair; })) return;
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    if (!s.nodes[n].up) continue;
    const auto& timers = engines_.timers(s.nodes[n].engine);
    for (std::uint32_t t = 0; t < timers.size(); ++t) {
      const bool due = std::string_view(timers[t].name) == "redial" ||
                       (!clean(s) && contains(shape_.rest_timers, timers[t].name));
      if (due) out.push_back({Kind::kTimer, n, t, true});
    }
  }
}

void ExploreModel::timer_moves(const ExploreState& s, std::vector<ExploreMove>& out) {
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    if (!s.nodes[n].up) continue;
    const auto& timers = engines_.timers(s.nodes[n].engine);
    for (std::uint32_t t = 0; t < timers.size(); ++t) {
      const std::string_view name = timers[t].name;
      const bool again = (name == "heartbeat" && shape_.pings) ||
                         (!shape_.duplicates && (name == "resend" || name == "hello"));
      const bool fair = again || (!clean(s) && contains(shape_.fair_timers, name));
      const bool accuses = contains(shape_.timers, name) && s.timeouts < shape_.timeouts;
      if (fair || accuses) out.push_back({Kind::kTimer, n, t, fair});
    }
  }
}

void ExploreModel::mover_moves(const ExploreState& s, std::vector<ExploreMove>& out) const {
  const auto& ops = s.mover->ops();
  for (OpIndex i = 0; i < ops.size(); ++i) {
    if (!ops[i].used) continue;
    if (s.mover->can_land(i)) out.push_back({Kind::kLand, i, 0, !s.mover->orphan(i)});
    if (s.mover->can_arrive(i)) out.push_back({Kind::kArrive, i, 0, true});
    if (s.mover->can_complete(i)) out.push_back({Kind::kComplete, i, 0, true});
    if (s.mover->can_fail(i) && s.failures < shape_.failures) out.push_back({Kind::kFail, i, 0, false});
    if (s.mover->can_quiesce(i)) out.push_back({Kind::kQuiesce, i, 0, true});
  }
}

void ExploreModel::user_moves(const ExploreState& s, std::vector<ExploreMove>& out) const {
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    if (!s.nodes[n].up) continue;
    for (std::uint32_t u = 0; u < s.nodes[n].users.size(); ++u) room_moves(s, n, u, out);
  }
}

void ExploreModel::room_moves(const ExploreState& s, std::uint32_t n, std::uint32_t u,
                              std::vector<ExploreMove>& out) const {
  const ExploreUser& user = s.nodes[n].users[u];
  const ExploreRoom& room = room_of(n, u);
  if (user.gone || user.closed) return;
  if (!user.opened) {
    const bool ready = u == 0 ||
                       (room.after_last ? s.nodes[n].users[u - 1].closed : s.nodes[n].users[u - 1].opened) ||
                       s.nodes[n].users[u - 1].gone;
    if (ready) out.push_back({Kind::kOpen, n, u, true});
    return;
  }
  if (user.terminal) return out.push_back({Kind::kClose, n, u, true});
  if (room.may_abort && s.aborts < shape_.aborts && !user.failing) out.push_back({Kind::kAbort, n, u, false});
  if (user.failing) return;
  const Memory& memory = s.mover->memory(s.nodes[n].life);
  const auto own = [&](std::uint32_t page) {
    return memory.lending(Space::kPages, page) == 0 && memory.held(Space::kPages, page) == 0;
  };
  if (places_[n].role == Role::kReceiver) {
    const bool free = room.steals || std::all_of(room.pages.begin(), room.pages.end(), own);
    if (!user.granted && user.shown >= Poll::kWaitingForInput && free)
      out.push_back({Kind::kGrant, n, u, true});
    if (user.granted && room.event && !user.fired) out.push_back({Kind::kFired, n, u, true});
    return;
  }
  const auto chunks = std::max<std::size_t>(1, room.pages.size());
  if (user.pushed < chunks && (room.pages.empty() || own(room.pages[user.pushed])))
    out.push_back({Kind::kPush, n, u, true});
  if (user.pushed > 0 && room.event && !user.fired) out.push_back({Kind::kFired, n, u, true});
}

void ExploreModel::fault_moves(const ExploreState& s, std::vector<ExploreMove>& out) const {
  for (const std::uint32_t n : shape_.crashing) {
    if (!s.nodes[n].up || s.crashes >= shape_.crashes) continue;
    out.push_back({Kind::kCrash, n, 0, false});
    for (const FrameId f : s.sent) {
      const KnownFrame& frame = engines_.frame(f);
      if (frame.from == n || frame.to == n) out.push_back({Kind::kCrash, n, f + 1, false});
    }
  }
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    if (!s.nodes[n].up && shape_.restarts) out.push_back({Kind::kRestart, n, 0, true});
  }
  if (s.cuts < shape_.cuts) {
    for (std::uint32_t i = 0; i < s.links.size(); ++i) {
      if (!s.links[i].broken) out.push_back({Kind::kCut, i, 0, false});
    }
  }
}

ExploreState ExploreModel::apply(const ExploreState& from, const ExploreMove& move, bool answered,
                                 Laws& laws) {
  ExploreStep step(*this, from, laws);
  step.take(move, answered);
  return step.finish();
}

Fingerprint ExploreModel::print(const ExploreState& s) const {
  std::string b;
  b.reserve(512);
  for (const ExploreNode& n : s.nodes) {
    put(b, n.engine * 2 + (n.up ? 1U : 0U));
    put(b, n.life);
    for (const ExploreUser& u : n.users) {
      put(b, static_cast<std::uint16_t>(u.opened + u.granted * 2 + u.fired * 4 + u.failing * 8 +
                                        u.terminal * 16 + u.closed * 32 + u.gone * 64));
      put(b, u.complete);
      put(b, u.pushed);
      put(b, u.returned);
      put(b, u.shown);
      put(b, u.cause);
    }
  }
  put(b, s.mover_print);
  for (const ExploreLink& l : s.links) {
    put(b, l.node[0] * 16 + l.node[1]);
    put(b, l.id[0].value * 256 + l.id[1].value);
    put(b, static_cast<std::uint8_t>(l.up[0] + l.up[1] * 2 + l.broken * 4));
  }
  b.push_back('|');
  for (const FrameId f : s.sent) put(b, f);
  b.push_back('|');
  for (const ExplorePending& p : s.pending) {
    put(b, p.kind);
    put(b, p.life);
    put(b, p.a);
    put(b, p.b);
  }
  for (const std::uint32_t n : s.next_link) put(b, n);
  for (const std::uint8_t used : {s.aborts, s.crashes, s.failures, s.cuts, s.timeouts}) put(b, used);
  return fingerprint_of(b);
}

bool ExploreModel::clean(const ExploreState& s) const {
  return s.aborts == 0 && s.crashes == 0 && s.failures == 0 && s.cuts == 0 && s.timeouts == 0;
}

bool ExploreModel::closed(const ExploreState& s) {
  if (!s.pending.empty()) return false;
  for (const ExploreNode& n : s.nodes) {
    if (!n.up) {
      if (shape_.restarts) return false;
      continue;
    }
    for (const ExploreUser& u : n.users) {
      if (u.opened && !u.gone && !u.terminal) return false;
    }
    for (const core::TimerRef& t : engines_.timers(n.engine)) {
      const std::string_view name = t.name;
      if (name == "resend") return false;
    }
  }
  const auto& ops = s.mover->ops();
  for (OpIndex i = 0; i < ops.size(); ++i) {
    if (ops[i].used && !s.mover->orphan(i)) return false;
  }
  return true;
}

std::uint32_t ExploreModel::prompt_of(const ExploreRoom& r) {
  return static_cast<std::uint32_t>(r.room * 16 + (r.tagged ? r.attempt : 0));
}

std::uint32_t ExploreModel::cause_number(const Error& e) {
  const std::string text = e.line();
  const auto it = std::find(causes_.begin(), causes_.end(), text);
  if (it != causes_.end()) return static_cast<std::uint32_t>(it - causes_.begin());
  causes_.push_back(text);
  return static_cast<std::uint32_t>(causes_.size() - 1);
}

bool ExploreModel::content_complete(const SimTransport& mover, std::uint32_t node, LifeIndex life,
                                    std::uint32_t user, const std::vector<std::uint32_t>& layers) const {
  const ExploreRoom& room = room_of(node, user);
  const Memory& m = mover.memory(life);
  for (std::uint32_t slot = 0; slot < places_[node].layers.size(); ++slot) {
    const std::uint32_t layer = places_[node].layers[slot];
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
    std::uint32_t writer = 0;
    for (std::uint32_t k = 0; k < room.pages.size(); ++k) {
      const Tag32& t = m.cell(Space::kPages, slot, room.pages[k]);
      if (t.content != content_of(prompt_of(room), Space::kPages, layer, k) ||
          (writer != 0 && writer != t.writer))
        return false;
      writer = t.writer;
    }
  }
  return true;
}

std::uint8_t ExploreModel::complete_parts(const SimTransport& mover, std::uint32_t node, LifeIndex life,
                                          std::uint32_t user) const {
  std::uint8_t parts = 0;
  for (std::uint32_t s = 0; s < shape_.cluster.senders(); ++s) {
    if (content_complete(mover, node, life, user, places_[s].layers))
      parts = static_cast<std::uint8_t>(parts | (1U << s));
  }
  return parts;
}

std::string ExploreModel::text(const ExploreState& s, const ExploreMove& m) {
  const auto node = [&](std::uint32_t n) { return name_of_node(shape_.cluster, n); };
  const auto room = [&] {
    const ExploreRoom& r = room_of(m.a, m.b);
    return " room " + std::to_string(r.room) + "/" + std::to_string(r.attempt);
  };
  switch (m.kind) {
    case Kind::kDeliver: {
      const KnownFrame& f = engines_.frame(m.a);
      return text_of(f.message) + " arrives at " + node(f.to) + " from " + node(f.from);
    }
    case Kind::kTimer: return node(m.a) + ": deadline " + engines_.timers(s.nodes[m.a].engine)[m.b].name;
    case Kind::kLand: return text_of(s.mover->ops()[m.a], static_cast<std::uint32_t>(MoverStep::kLand));
    case Kind::kArrive: return text_of(s.mover->ops()[m.a], static_cast<std::uint32_t>(MoverStep::kArrive));
    case Kind::kComplete:
      return text_of(s.mover->ops()[m.a], static_cast<std::uint32_t>(MoverStep::kComplete));
    case Kind::kFail: return text_of(s.mover->ops()[m.a], static_cast<std::uint32_t>(MoverStep::kFail));
    case Kind::kQuiesce: return text_of(s.mover->ops()[m.a], static_cast<std::uint32_t>(MoverStep::kQuiesce));
    case Kind::kPending: {
      static constexpr std::array kWhat = {
          "learns that its link is down", "hears that its fence is done", "hears that a loan is revoked",
          "hears that its regions are re-keyed", "learns that a process ended"};
      return "life " + std::to_string(s.pending[m.a].life) + " " +
             kWhat[static_cast<std::size_t>(s.pending[m.a].kind)];
    }
    case Kind::kOpen: return node(m.a) + " opens" + room();
    case Kind::kGrant: return node(m.a) + " grants" + room();
    case Kind::kPush:
      return node(m.a) + " pushes chunk " + std::to_string(s.nodes[m.a].users[m.b].pushed) + " of" + room();
    case Kind::kFired: return node(m.a) + ": the device event of" + room() + " fires";
    case Kind::kAbort: return node(m.a) + " aborts" + room();
    case Kind::kClose: return node(m.a) + " closes" + room();
    case Kind::kCrash:
      return node(m.a) + " crashes" +
             (m.b == 0
                  ? ""
                  : ", only this frame is still on its way: " + text_of(engines_.frame(m.b - 1).message));
    case Kind::kRestart: return node(m.a) + " starts again";
    case Kind::kCut: return "link " + std::to_string(m.a) + " is cut";
  }
  return "?";
}

std::string ExploreModel::show(const ExploreState& s) const {
  std::string out;
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    out += name_of_node(shape_.cluster, n) + (s.nodes[n].up ? "" : " (down)") + ":";
    for (std::uint32_t u = 0; u < s.nodes[n].users.size(); ++u) {
      const ExploreUser& user = s.nodes[n].users[u];
      out +=
          " room " + std::to_string(room_of(n, u).room) + "/" + std::to_string(room_of(n, u).attempt) + " ";
      out += !user.opened  ? "not opened"
             : user.gone   ? "gone"
             : user.closed ? "closed"
                           : kvferry::name_of(user.shown);
      if (user.failing) out += " (" + causes_[user.cause] + ")";
    }
    std::vector<core::TimerRef> timers;
    if (s.nodes[n].up) engines_.at(s.nodes[n].engine).armed(timers);
    out += " waits:";
    for (const core::TimerRef& t : timers) out += std::string(" ") + t.name;
    out += "; ";
  }
  return out + std::to_string(s.pending.size()) + " notices on their way";
}

}  // namespace kvferry::sim
