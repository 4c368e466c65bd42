#include "sim/directory.h"

#include "bootstrap/answers.h"
#include "bootstrap/json_body.h"
#include "sim/world.h"

namespace kvferry::sim {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string endpoint_of(const ClusterShape& shape, std::uint32_t node) {
  return name_of_node(shape, node) + ":1";
}
}  // namespace

Directory::Directory(World& world)
    : world_(world), nodes_(world.scenario().shape.nodes()), newest_(world.scenario().shape.senders()) {
  restart();
  away_until_ = TimePoint{};
}

// Nothing is kept on disk: ranks register again when the server refuses to know them or their lease is due.
void Directory::restart() {
  routes_ = std::make_unique<bootstrap::Routes>(core::RegistryLimits{}, Incarnation{++lives_, lives_});
  newest_.assign(newest_.size(), Incarnation{});
  away_until_ = world_.now() + world_.between(milliseconds(20), seconds(2));
}

std::string Directory::group_of(std::uint32_t instance) const {
  return "prefill-" + std::to_string(instance);
}

void Directory::birth(std::uint32_t node, Incarnation self) {
  Node& n = nodes_[node];
  n.self = self;
  n.lives.push_back(self);
  const ClusterShape& shape = world_.scenario().shape;
  n.known.assign(shape.senders(), false);
  if (node < shape.senders()) return turn(node, 0, Duration{0});
  for (std::uint32_t i = 0; i < shape.prefill; ++i) turn(node, 1 + i, Duration{0});
}

bool Directory::knows(std::uint32_t node, std::uint32_t sender) const { return nodes_[node].known[sender]; }

void Directory::turn(std::uint32_t node, std::uint32_t question, Duration after) {
  SimEvent e;
  e.kind = SimEvent::Kind::kRegistry;
  e.a = node;
  e.b = question;
  e.c = world_.node(node).life;
  world_.plan(after, e);
}

void Directory::on_turn(const SimEvent& e) {
  const SimNode& n = world_.node(e.a);
  if (!n.up || n.life != e.c) return;
  const ClusterShape& shape = world_.scenario().shape;
  if (free_asks_.empty()) {
    free_asks_.push_back(static_cast<std::uint32_t>(asks_.size()));
    asks_.emplace_back();
  }
  const std::uint32_t slot = free_asks_.back();
  free_asks_.pop_back();
  Ask& ask = asks_[slot];
  ask = Ask{e.a, n.life, e.b, {}, {}};
  if (e.b == 0) {
    core::Registration r;
    r.group = group_of(n.place.instance);
    r.rank = n.place.rank;
    r.endpoint = endpoint_of(shape, e.a);
    r.name = name_of_node(shape, e.a);
    r.incarnation = nodes_[e.a].self;
    r.shape = {1, shape.prefill_ranks, 1};
    r.lease = world_.scenario().registry_lease;
    ask.target = "/v1/groups/" + r.group + "/ranks/" + std::to_string(r.rank);
    ask.body = bootstrap::write_registration(r);
  } else {
    ask.target = "/v1/groups/" + group_of(e.b - 1);
  }
  SimEvent there;
  there.kind = SimEvent::Kind::kRegistryAsk;
  there.a = slot;
  world_.plan(world_.between(std::chrono::microseconds(20), milliseconds(2)), there);
}

void Directory::on_ask(std::uint32_t slot) {
  const Ask ask = std::move(asks_[slot]);
  free_asks_.push_back(slot);
  bool done = false;
  const bool lost = away_until_ > world_.now() || world_.roll(Fault::kRegistryLost);
  if (!lost) {
    if (world_.roll(Fault::kBadBody)) throw_garbage(ask);
    const bool put = ask.question == 0;
    const auto reply = routes_->handle({put ? "PUT" : "GET", ask.target, ask.body}, world_.now());
    const bool same = world_.node(ask.node).up && world_.node(ask.node).life == ask.life;
    done = put ? answer_put(reply) : same && answer_resolve(ask.node, ask.question - 1, reply);
  }
  const SimNode& n = world_.node(ask.node);
  if (!n.up || n.life != ask.life) return;  // the one that asked is gone
  if (ask.question == 0) {
    return turn(ask.node, 0, done ? world_.scenario().registry_lease / 3 : Duration(milliseconds(50)));
  }
  if (!done) turn(ask.node, ask.question, milliseconds(50));
}

// Refused for good only when a newer life holds the rank: then the one that asked is over.
bool Directory::answer_put(const bootstrap::HttpReply& reply) {
  const auto said = bootstrap::read_put_answer(reply.status, reply.body);
  if (said.outcome.empty() && said.code != "superseded") {
    world_.laws().broken(Law::kStatus, "the registry refuses a good registration: " + said.message);
  }
  return !said.outcome.empty();
}

bool Directory::answer_resolve(std::uint32_t node, std::uint32_t instance,
                               const bootstrap::HttpReply& reply) {
  const auto said = bootstrap::read_group_answer(reply.status, reply.body);
  if (!said.ready) return false;
  const ClusterShape& shape = world_.scenario().shape;
  if (said.ranks.size() != shape.prefill_ranks) {
    world_.laws().broken(Law::kStatus, "a group of the registry is ready with " +
                                           std::to_string(said.ranks.size()) + " ranks");
    return false;
  }
  for (const auto& rank : said.ranks) {
    const std::uint32_t sender = instance * shape.prefill_ranks + rank.rank;
    if (!true_rank(sender, rank.endpoint, rank.incarnation)) return false;
    nodes_[node].known[sender] = true;
    world_.feed(node, core::in::Endpoint{EndpointId{sender}, rank.endpoint});
  }
  return true;
}

// What the registry says was once said to it, and never goes back to an older life.
bool Directory::true_rank(std::uint32_t sender, const std::string& endpoint, Incarnation life) {
  const auto& lives = nodes_[sender].lives;
  bool born = false;
  for (const Incarnation& i : lives) born = born || i == life;
  const std::string name = name_of_node(world_.scenario().shape, sender);
  if (!born || endpoint != endpoint_of(world_.scenario().shape, sender)) {
    world_.laws().broken(Law::kStatus, "the registry names a stranger as " + name + ": " + endpoint);
    return false;
  }
  if (life.started_ms < newest_[sender].started_ms) {
    world_.laws().broken(Law::kStatus, "the registry goes back to an older life of " + name);
    return false;
  }
  newest_[sender] = life;
  return true;
}

// A body cut short, bytes of no meaning, a path that is none: each is refused and counted, and costs nobody.
void Directory::throw_garbage(const Ask& ask) {
  Prng& rng = world_.rng();
  std::string body = ask.body, target = ask.target;
  switch (rng.below(3)) {
    case 0: body = body.substr(0, rng.below(std::max<std::size_t>(1, body.size()))); break;
    case 1:
      body.resize(rng.between(1, 60));
      for (char& c : body) c = static_cast<char>(rng.below(256));
      break;
    default: target += "/ranks/4294967296"; break;
  }
  routes_->registry().expire(world_.now());
  const std::size_t entries = routes_->registry().entries();
  const std::uint64_t ok = routes_->counters().ok, asked = routes_->counters().requests;
  const auto reply = routes_->handle({"PUT", target, body}, world_.now());
  const bool counted = routes_->counters().ok == ok && routes_->counters().requests == asked + 1;
  if (reply.status < 400 || routes_->registry().entries() != entries || !counted) {
    world_.laws().broken(Law::kLedger, "the registry takes garbage or does not count it: status " +
                                           std::to_string(reply.status));
  }
}

void Directory::at_rest() {
  const ClusterShape& shape = world_.scenario().shape;
  for (std::uint32_t sender = 0; sender < shape.senders(); ++sender) {
    const SimNode& n = world_.node(sender);
    const auto group = routes_->registry().group(group_of(n.place.instance), world_.now());
    const bool there = group && group->ready && group->ranks[n.place.rank].incarnation == nodes_[sender].self;
    if (!there) {
      world_.laws().broken(
          Law::kLiveness,
          "faults are over and the registry does not hold the life of now of " + name_of_node(shape, sender));
    }
  }
  for (std::uint32_t node = shape.senders(); node < shape.nodes(); ++node) {
    for (std::uint32_t s = 0; s < shape.senders(); ++s) {
      if (!knows(node, s)) {
        world_.laws().broken(Law::kLiveness, name_of_node(shape, node) + " never learns where " +
                                                 name_of_node(shape, s) + " is");
      }
    }
  }
}

}  // namespace kvferry::sim
