#include "sim/explore_step.h"

#include <algorithm>

#include "base/checksum.h"
#include "sim/text.h"

namespace kvferry::sim {
namespace {
using Kind = ExploreMove::Kind;
using PKind = ExplorePending::Kind;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

const Error kReset{Code::kTransport, Who::kTransport, Next::kRetry, 104, "link", "connection reset"};
}  // namespace

SimTransport& ExploreStep::mover() {
  if (!mover_) mover_ = std::make_shared<SimTransport>(*s_.mover);
  return *mover_;
}

ExploreState ExploreStep::finish() {
  run();
  forget_dead_links();
  if (mover_) {
    std::string bytes;
    mover_->canonical(bytes);
    s_.mover_print = fingerprint_of(bytes);
    s_.mover = std::move(mover_);
  }
  return std::move(s_);
}

std::uint32_t ExploreStep::node_of(LifeIndex life) const {
  for (std::uint32_t n = 0; n < s_.nodes.size(); ++n) {
    if (s_.nodes[n].up && s_.nodes[n].life == life) return n;
  }
  return ~0U;
}

void ExploreStep::take(const ExploreMove& m, bool answered) {
  switch (m.kind) {
    case Kind::kDeliver: return deliver(m.a, answered);
    case Kind::kTimer: {
      const auto& timers = m_.engines_.timers(s_.nodes[m.a].engine);
      const bool budget = std::find(m_.shape_.timers.begin(), m_.shape_.timers.end(), timers[m.b].name) !=
                          m_.shape_.timers.end();
      if (budget && !m.fair) ++s_.timeouts;
      const EngineStep& step = m_.engines_.fire(s_.nodes[m.a].engine, m.b);
      s_.nodes[m.a].engine = step.after;
      return act(m.a, step.outputs);
    }
    case Kind::kLand:
    case Kind::kArrive:
    case Kind::kComplete:
    case Kind::kFail:
    case Kind::kQuiesce: return mover_move(m);
    case Kind::kPending: {
      const ExplorePending p = s_.pending[m.a];
      s_.pending.erase(s_.pending.begin() + m.a);
      return pending(p);
    }
    case Kind::kCrash: return crash(m.a, m.b);
    case Kind::kRestart: return restart(m.a);
    case Kind::kCut: return cut(m.a);
    default: return user_move(m);
  }
}

void ExploreStep::run() {
  while (!todo_.empty() || !hellos_.empty()) {
    if (todo_.empty()) {
      const FrameId f = hellos_.front();
      hellos_.pop_front();
      hand_over(f);
      continue;
    }
    const auto [node, input] = std::move(todo_.front());
    todo_.pop_front();
    feed(node, input);
  }
}

void ExploreStep::feed(std::uint32_t node, const core::Input& input) {
  if (!s_.nodes[node].up) return;
  const std::uint64_t key = (0x1ULL << 60) | (hash64(std::string_view(text_of(input))) >> 4);
  const EngineStep& step = m_.engines_.step(s_.nodes[node].engine, input, key);
  s_.nodes[node].engine = step.after;
  act(node, step.outputs);
}

void ExploreStep::hand_over(FrameId f) {
  LinkId at;
  if (!m_.deliverable(s_, f, at)) return;
  const KnownFrame frame = m_.engines_.frame(f);
  const std::uint64_t key = (0x2ULL << 60) | (static_cast<std::uint64_t>(f) << 24) | at.value;
  const EngineStep& step =
      m_.engines_.step(s_.nodes[frame.to].engine, core::in::Received{at, frame.message}, key);
  s_.nodes[frame.to].engine = step.after;
  act(frame.to, step.outputs);
}

void ExploreStep::deliver(FrameId f, bool answered) {
  LinkId at;
  if (!m_.deliverable(s_, f, at)) return;
  const KnownFrame frame = m_.engines_.frame(f);
  if (!m_.shape_.duplicates) std::erase(s_.sent, f);
  said_.clear();
  hand_over(f);
  if (!answered) return;
  run();
  const std::vector<FrameId> answers = said_;
  for (const FrameId answer : answers) {
    if (m_.engines_.frame(answer).to == frame.from) deliver(answer, false);
  }
}

void ExploreStep::act(std::uint32_t node, const core::Outputs& outputs) {
  namespace out = core::out;
  const LifeIndex life = s_.nodes[node].life;
  for (const core::Output& o : outputs) {
    std::visit(Overloaded{
                   [&](const out::Send& x) { send(node, x); },
                   [&](const out::Dial& x) { dial(node, x.endpoint); },
                   [&](const out::CloseLink& x) { close_link(node, x.link); },
                   [&](const out::AddPeer& x) {
                     mover().add_peer(life, x.peer, x.description);
                     todo_.emplace_back(node, core::in::PeerReady{x.peer, Error{}});
                   },
                   [&](const out::WatchPeer&) {},
                   [&](const out::DropPeer& x) { mover().drop_peer(life, x.peer); },
                   [&](const out::Fence& x) { add_pending({PKind::kFence, life, x.peer.value, 0}); },
                   [&](const out::Lend& x) { mover().lend(life, x, laws_); },
                   [&](const out::Revoke& x) {
                     mover().revoke(life, x.loan);
                     add_pending({PKind::kRevoke, life, x.loan.slot, x.loan.serial});
                   },
                   [&](const out::Post& x) {
                     const core::PairPlan* plan = m_.engines_.at(s_.nodes[node].engine).plan(x.peer);
                     if (plan != nullptr) mover().post(life, x, *plan, laws_);
                   },
                   [&](const out::Cancel&) {},
                   [&](const out::Publish& x) { publish(node, x.handle, x.poll); },
                   [&](const out::Failing& x) { failing(node, x.handle, x.cause); },
                   [&](const out::ChunkReturned& x) { returned(node, x.handle, x.chunk); },
                   [&](const out::Terminal& x) { terminal(node, x.handle); },
                   [&](const out::Closed& x) {
                     if (ExploreUser* u = user_of(node, x.handle)) u->closed = true;
                   },
                   [&](const out::RekeyRegions& x) { add_pending({PKind::kRekey, life, x.generation, 0}); },
                   [&](const out::Trace& x) {
                     if (std::string_view(x.what) == "leg bug")
                       laws_.broken(Law::kStatus, "a leg event that the table calls impossible here");
                   },
               },
               o);
  }
}

// ---- links
// ---------------------------------------------------------------------------------------------------------

void ExploreStep::send(std::uint32_t node, const core::out::Send& x) {
  std::size_t link = 0, side = 0;
  if (!find_link(s_, node, x.link, link, side) || s_.links[link].broken) return;
  if (std::holds_alternative<wire::Computing>(x.message.body))
    return;  // a word of patience: it moves clocks only
  const FrameId f = m_.engines_.frame(node, s_.links[link].node[1 - side], x.message);
  if (!m_.shape_.handshake && std::holds_alternative<wire::Hello>(x.message.body))
    return hellos_.push_back(f);
  said_.push_back(f);
  const auto where = std::lower_bound(s_.sent.begin(), s_.sent.end(), f);
  if (where == s_.sent.end() || *where != f) s_.sent.insert(where, f);
}

void ExploreStep::link(std::uint32_t dialler, std::uint32_t target, EndpointId endpoint) {
  ExploreLink l;
  l.node[0] = dialler;
  l.node[1] = target;
  l.id[0] = LinkId{++s_.next_link[dialler]};
  l.id[1] = LinkId{++s_.next_link[target]};
  s_.links.push_back(l);
  todo_.emplace_back(target, core::in::LinkUp{l.id[1], EndpointId{~0U}, false});
  todo_.emplace_back(dialler, core::in::LinkUp{l.id[0], endpoint, true});
  run();
}

void ExploreStep::dial(std::uint32_t node, EndpointId endpoint) {
  const std::uint32_t target = endpoint.value;
  if (!s_.nodes[target].up) {
    todo_.emplace_back(node, core::in::DialFailed{endpoint, kReset});
    return;
  }
  ExploreLink l;
  l.node[0] = node;
  l.node[1] = target;
  l.id[0] = LinkId{++s_.next_link[node]};
  l.id[1] = LinkId{++s_.next_link[target]};
  s_.links.push_back(l);
  todo_.emplace_back(target, core::in::LinkUp{l.id[1], EndpointId{~0U}, false});
  todo_.emplace_back(node, core::in::LinkUp{l.id[0], endpoint, true});
}

void ExploreStep::close_link(std::uint32_t node, LinkId id) {
  std::size_t link = 0, side = 0;
  if (!find_link(s_, node, id, link, side)) return;
  ExploreLink& l = s_.links[link];
  l.up[side] = false;
  if (l.broken) return;
  l.broken = true;
  add_pending({PKind::kLinkDown, s_.nodes[l.node[1 - side]].life, l.id[1 - side].value, 0});
}

void ExploreStep::cut(std::uint32_t link) {
  ++s_.cuts;
  ExploreLink& l = s_.links[link];
  l.broken = true;
  for (std::size_t e = 0; e < 2; ++e) {
    if (l.up[e]) add_pending({PKind::kLinkDown, s_.nodes[l.node[e]].life, l.id[e].value, 0});
  }
}

void ExploreStep::forget_dead_links() {
  std::erase_if(s_.links, [](const ExploreLink& l) { return l.broken && !l.up[0] && !l.up[1]; });
}

// ---- mover and processes
// ----------------------------------------------------------------------------------------------

void ExploreStep::effects(Effects& list) {
  for (Effect& e : list) {
    const std::uint32_t node = node_of(e.life);
    if (node != ~0U) feed(node, e.input);
  }
}

void ExploreStep::mover_move(const ExploreMove& m) {
  Effects list;
  switch (m.kind) {
    case Kind::kLand: mover().land(m.a, ~0U, laws_); break;
    case Kind::kArrive: mover().arrive(m.a, list); break;
    case Kind::kComplete: mover().complete(m.a, list); break;
    case Kind::kFail:
      ++s_.failures;
      mover().fail(m.a, "an injected error", list);
      break;
    default: mover().quiesce(m.a, list); break;
  }
  effects(list);
}

void ExploreStep::add_pending(const ExplorePending& p) {
  const auto where = std::lower_bound(s_.pending.begin(), s_.pending.end(), p);
  if (where == s_.pending.end() || *where != p) s_.pending.insert(where, p);
}

void ExploreStep::pending(const ExplorePending& p) {
  const std::uint32_t node = node_of(p.life);
  if (node == ~0U) return;
  Effects list;
  switch (p.kind) {
    case PKind::kLinkDown: {
      const LinkId id{static_cast<std::uint32_t>(p.a)};
      std::size_t link = 0, side = 0;
      if (!find_link(s_, node, id, link, side)) return;
      s_.links[link].up[side] = false;
      return feed(node, core::in::LinkDown{id, kReset});
    }
    case PKind::kFence: mover().finish_fence(p.life, PeerId{static_cast<std::uint32_t>(p.a)}, list); break;
    case PKind::kRevoke:
      mover().finish_revoke(p.life, LoanId{static_cast<std::uint32_t>(p.a), p.b}, list);
      break;
    case PKind::kRekey: mover().finish_rekey(p.life, static_cast<std::uint32_t>(p.a), list); break;
    case PKind::kPeerDead:
      return feed(node, core::in::PeerDead{PeerId{static_cast<std::uint32_t>(p.a)}, "its process ended"});
  }
  effects(list);
}

// `stray`: 1 + the frame that outlives the connections of the dead process; 0: none. One is enough: a frame
// of a dead life or for one meets its answer (WHO, or a refusal) alone.
void ExploreStep::crash(std::uint32_t node, std::uint32_t stray) {
  ++s_.crashes;
  std::erase_if(s_.sent, [&](FrameId f) {
    const KnownFrame& frame = m_.engines_.frame(f);
    return (frame.from == node || frame.to == node) && f + 1 != stray;
  });
  ExploreNode& n = s_.nodes[node];
  for (std::uint32_t u = 0; u < n.users.size(); ++u) {
    ExploreUser& user = n.users[u];
    if (!user.opened || user.closed) continue;
    const bool live = user.granted && !user.terminal;
    if (live) user.complete |= m_.complete_parts(*s_.mover, node, n.life, u);
    user.gone = true;
  }
  for (ExploreLink& l : s_.links) {
    for (std::size_t e = 0; e < 2; ++e) {
      if (l.node[e] != node || !l.up[e]) continue;
      l.up[e] = false;
      if (l.broken) continue;
      l.broken = true;
      if (l.up[1 - e]) add_pending({PKind::kLinkDown, s_.nodes[l.node[1 - e]].life, l.id[1 - e].value, 0});
    }
  }
  std::erase_if(s_.pending, [&](const ExplorePending& p) { return p.life == n.life; });
  mover().die(n.life);
  n.up = false;
}

void ExploreStep::restart(std::uint32_t node) {
  ExploreNode& n = s_.nodes[node];
  n.life = mover().birth(node, geometry_of(m_.shape_.cluster, m_.places_[node]));
  n.engine = m_.engines_.add(n.life, m_.config(node, n.life));
  n.up = true;
  s_.next_link[node] = 0;
  if (m_.places_[node].role != Role::kReceiver) return;
  for (std::uint32_t e = 0; e < m_.shape_.cluster.senders(); ++e) {
    feed(node, core::in::Endpoint{EndpointId{e}, name_of_node(m_.shape_.cluster, e) + ":1"});
  }
}

}  // namespace kvferry::sim
