// A wire and a mover in 150 lines: engines joined by queues, time a plain field. No thread, no socket.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine.h"

namespace kvferry::core::test {

inline Layout small_layout(std::uint32_t pages = 16, std::uint32_t layers = 2) {
  Layout l;
  l.page_tokens = 4;
  Component kv;
  kv.name = "kv";
  kv.dtype = "u8";
  kv.item_bytes = 64;
  kv.items = pages;
  for (std::uint32_t k = 0; k < layers; ++k) kv.layers.push_back({k, RegionId{0}, k * 64ULL * pages, 64});
  Component aux;
  aux.kind = ComponentKind::kAux;
  aux.space = Space::kAux;
  aux.name = "aux";
  aux.dtype = "u8";
  aux.item_bytes = 16;
  aux.items = 4;
  aux.layers.push_back({0, RegionId{0}, layers * 64ULL * pages, 16});
  l.components = {kv, aux};
  return l;
}

enum class Kind { kPush, kPull, kLanded };

inline MoverConfig mover(Kind kind) {
  MoverConfig m;
  Capabilities& c = m.capabilities;
  c.name = "test";
  c.access = kind == Kind::kPull ? Access::kRead : Access::kWrite;
  c.visible = kind == Kind::kLanded ? Visible::kRemoteLanded : Visible::kReceiverPlaced;
  c.revoke = kind == Kind::kLanded ? RevokeMode::kMoverDrains : RevokeMode::kLenderStops;
  c.fence = FenceMode::kAtOnce;
  return m;
}

// One process: an engine, what it said, what its mover still has to do.
struct Node {
  std::unique_ptr<Engine> engine;
  std::string endpoint;
  std::deque<out::Post> posts;
  std::vector<Output> seen;                     // every output but Send, in order
  std::map<std::uint32_t, Poll> polls;          // by slot
  std::set<std::uint32_t> terminal, closed;
  std::map<std::uint32_t, Error> causes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> returned;   // slot, chunk
  std::map<std::uint32_t, std::size_t> peer_node;                  // PeerId -> index of node
};

class Net {
 public:
  explicit Net(Kind kind) : kind_(kind) {}

  std::size_t add(const std::string& name, EngineConfig c = {}) {
    c.self = {1000 + nodes.size(), 7 + nodes.size()};
    c.name = name;
    c.endpoint = name + ":1";
    if (c.layout.components.empty()) c.layout = small_layout();
    c.movers = {mover(kind_)};
    Node n;
    n.engine = std::make_unique<Engine>(c);
    n.endpoint = c.endpoint;
    nodes.push_back(std::move(n));
    configs.push_back(c);
    return nodes.size() - 1;
  }
  // A new life at the same place.
  void restart(std::size_t i) {
    configs[i].self.started_ms += 1000;
    nodes[i].engine = std::make_unique<Engine>(configs[i]);
    nodes[i].posts.clear();
    std::vector<std::uint32_t> cut;
    for (const auto& [id, l] : links) {
      if (l.a == i || l.b == i) cut.push_back(id);
    }
    for (const auto id : cut) drop_link(id);
  }
  void drop_link(std::uint32_t id) {
    Link& l = links.at(id);
    if (!l.up) return;
    l.up = false;
    feed(l.a, in::LinkDown{LinkId{id}, Error{Code::kPeerLost, Who::kPeer, Next::kRetry, 0, "link", "reset"}});
    feed(l.b, in::LinkDown{LinkId{id}, Error{Code::kPeerLost, Who::kPeer, Next::kRetry, 0, "link", "reset"}});
  }
  void feed(std::size_t i, const Input& input) {
    Outputs out;
    nodes[i].engine->step(input, now, out);
    for (auto& o : out) act(i, std::move(o));
  }
  void tick(Duration d) {
    now += d;
    for (std::size_t i = 0; i < nodes.size(); ++i) feed(i, in::Tick{});
    settle();
  }
  // Delivers every message and, unless held, completes every operation.
  void settle() {
    for (int guard = 0; guard < 100000; ++guard) {
      bool moved = false;
      if (!wire.empty()) {
        auto [to, link, m] = std::move(wire.front());
        wire.pop_front();
        if (links.at(link.value).up) feed(to, in::Received{link, std::move(m)});
        moved = true;
      }
      for (std::size_t i = 0; i < nodes.size() && !hold; ++i) {
        if (nodes[i].posts.empty()) continue;
        complete(i);
        moved = true;
      }
      if (!moved) return;
    }
  }
  void complete(std::size_t i, Error error = {}) {
    const out::Post post = nodes[i].posts.front();
    nodes[i].posts.pop_front();
    if (error.ok() && kind_ == Kind::kPush) {
      const std::size_t to = nodes[i].peer_node.at(post.peer.value);
      std::uint64_t bytes = 0;
      const PairPlan* plan = nodes[i].engine->plan(post.peer);
      for (std::size_t s = 0; s < kSpaces; ++s) {
        for (const auto& r : post.runs[s]) bytes += r.count * plan->item_bytes[s];
      }
      feed(to, in::Arrived{PeerId{0}, post.ticket.loan, bytes, post.notice});
    }
    feed(i, in::Completed{post.op, error});
    feed(i, in::Quiesced{post.op});
  }

  struct Link {
    std::size_t a = 0, b = 0;
    bool up = true;
  };
  struct Frame {
    std::size_t to;
    LinkId link;
    wire::Message message;
  };
  std::vector<Node> nodes;
  std::vector<EngineConfig> configs;
  std::map<std::uint32_t, Link> links;
  std::deque<Frame> wire;
  TimePoint now{std::chrono::seconds(10)};
  bool hold = false;

 private:
  void act(std::size_t i, Output o) {
    Node& n = nodes[i];
    if (auto* send = std::get_if<out::Send>(&o)) {
      const Link& l = links.at(send->link.value);
      if (l.up) wire.push_back({l.a == i ? l.b : l.a, send->link, std::move(send->message)});
      return;
    }
    if (auto* dial = std::get_if<out::Dial>(&o)) {
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (nodes[k].endpoint != endpoint_names[dial->endpoint.value]) continue;
        const LinkId id{++next_link_};
        links[id.value] = {i, k, true};
        feed(k, in::LinkUp{id, {}, false});
        feed(i, in::LinkUp{id, dial->endpoint, true});
        return;
      }
      feed(i, in::DialFailed{dial->endpoint, Error{Code::kEnvironment, Who::kPeer, Next::kRetry, 111, "",
                                                   "connection refused"}});
      return;
    }
    if (auto* close = std::get_if<out::CloseLink>(&o)) {
      Link& l = links.at(close->link.value);
      if (!l.up) return;
      l.up = false;
      feed(l.a == i ? l.b : l.a,
           in::LinkDown{close->link, Error{Code::kPeerLost, Who::kPeer, Next::kRetry, 0, "", "closed"}});
      return;
    }
    n.seen.push_back(o);
    if (auto* add = std::get_if<out::AddPeer>(&o)) {
      const std::string name = n.engine->peer_name(add->peer);
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (name.find("@" + nodes[k].endpoint) != std::string::npos) n.peer_node[add->peer.value] = k;
      }
      feed(i, in::PeerReady{add->peer, {}});
    } else if (auto* fence = std::get_if<out::Fence>(&o)) {
      std::deque<out::Post> kept;
      std::swap(kept, nodes[i].posts);
      for (auto& p : kept) {
        if (p.peer != fence->peer) {
          nodes[i].posts.push_back(p);
          continue;
        }
        feed(i,
             in::Completed{p.op, Error{Code::kTransport, Who::kTransport, Next::kNewRoom, 0, "", "fenced"}});
        feed(i, in::Quiesced{p.op});
      }
      feed(i, in::PeerFenced{fence->peer, {}});
    } else if (auto* revoke = std::get_if<out::Revoke>(&o)) {
      feed(i, in::Revoked{revoke->loan});
    } else if (auto* post = std::get_if<out::Post>(&o)) {
      n.posts.push_back(std::move(*post));
    } else if (auto* publish = std::get_if<out::Publish>(&o)) {
      n.polls[publish->handle.slot] = publish->poll;
    } else if (auto* failing = std::get_if<out::Failing>(&o)) {
      n.causes[failing->handle.slot] = failing->cause;
    } else if (auto* terminal = std::get_if<out::Terminal>(&o)) {
      n.terminal.insert(terminal->handle.slot);
    } else if (auto* closed = std::get_if<out::Closed>(&o)) {
      n.closed.insert(closed->handle.slot);
    } else if (auto* chunk = std::get_if<out::ChunkReturned>(&o)) {
      n.returned.emplace_back(chunk->handle.slot, chunk->chunk);
    }
  }

  Kind kind_;
  std::uint32_t next_link_ = 0;

 public:
  std::map<std::uint32_t, std::string> endpoint_names;
};

}  // namespace kvferry::core::test
