// A whole cluster in one process: managers in manual mode over FaultNet and loopback movers, on one virtual
// clock.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/prng.h"
#include "kvferry/testkit.h"
#include "testkit/node_parts.h"
#include "transport/loopback/loopback.h"

namespace kvferry::testkit {
namespace {

constexpr std::uint32_t kMostTurns = 1'000'000;  // of settle(): a cluster that never rests is a livelock

transport::LoopbackKind kind_of(const std::string& mover) {
  if (mover == "loopback-push") return transport::LoopbackKind::kPush;
  if (mover == "loopback-pull") return transport::LoopbackKind::kPull;
  KVF_CHECK(mover == "loopback-landed",
            "ClusterOptions::mover is loopback-push, loopback-pull or loopback-landed");
  return transport::LoopbackKind::kLanded;
}

struct Stage {  // which layers a node holds
  std::uint32_t first = 0, count = 0, rank = 0, size = 1;
};

Layout layout_of(const ClusterOptions& options, const Stage& stage) {
  Layout layout;
  layout.page_tokens = options.page_tokens;
  layout.pp_rank = stage.rank;
  layout.pp_size = stage.size;
  Component pages{ComponentKind::kAttention, Space::kPages, "kv", "u8",
                  options.item_bytes,        options.pages, {}};
  const std::uint64_t layer_bytes = std::uint64_t{options.pages} * options.item_bytes;
  for (std::uint32_t i = 0; i < stage.count; ++i) {
    pages.layers.push_back({stage.first + i, RegionId{0}, i * layer_bytes, options.item_bytes});
  }
  layout.components.push_back(std::move(pages));
  if (options.aux_slots > 0) {
    Component aux{ComponentKind::kAux, Space::kAux, "aux", "u8", options.aux_bytes, options.aux_slots, {}};
    // The first token is known to the last stage only. The "layer" of aux is the rank of its stage and decode
    // holds the last one's, so that every stage may name a slot and one of them moves bytes.
    const bool decodes = stage.count == options.layers;
    const std::uint32_t layer = options.pp ? (decodes ? options.prefill - 1 : stage.rank) : 0;
    aux.layers.push_back({layer, RegionId{0}, stage.count * layer_bytes, options.aux_bytes});
    layout.components.push_back(std::move(aux));
  }
  return layout;
}

struct Seat {  // a node and what survives its crashes
  Node node;
  Stage stage;
  std::uint32_t rank = 0;
  Alive alive;
};

}  // namespace

struct Cluster::Rep {
  explicit Rep(ClusterOptions given) : options(std::move(given)) {}

  ClusterOptions options;
  std::shared_ptr<VirtualClock> clock = std::make_shared<VirtualClock>(TimePoint{});
  FaultNet net;
  std::shared_ptr<transport::LoopbackFabric> fabric = std::make_shared<transport::LoopbackFabric>();
  std::shared_ptr<MemoryMap> memory = std::make_shared<MemoryMap>();
  std::deque<Seat> seats;  // prefill ranks first; a deque, so that Node& stays good
  std::uint64_t lives = 0;

  void seat(const std::string& name, std::uint32_t rank, Stage);
  void start(Seat&);
  Seat& seat_of(Node& node);
  std::optional<TimePoint> next_event() const;
};

void Cluster::Rep::seat(const std::string& name, std::uint32_t rank, Stage stage) {
  Seat& seat = seats.emplace_back();
  seat.stage = stage;
  seat.rank = rank;
  Node& node = seat.node;
  node.name = name;
  node.layers = stage.count;
  node.pages = options.pages;
  node.item_bytes = options.item_bytes;
  node.aux_bytes = options.aux_bytes;
  node.pool.resize(std::size_t{stage.count} * options.pages * options.item_bytes +
                   std::size_t{options.aux_slots} * options.aux_bytes);
  start(seat);
}

void Cluster::Rep::start(Seat& seat) {
  ++lives;
  seat.alive = std::make_shared<bool>(true);
  ManagerOptions manager;
  manager.name = seat.node.name;
  manager.rank = seat.rank;
  manager.self = Incarnation{lives, mix64(lives)};
  manager.host_id = "test-kit";
  manager.layout = layout_of(options, seat.stage);
  manager.regions = {RegionView{seat.node.pool.data(), seat.node.pool.size(), Memory::kHost}};
  manager.limits = options.limits;
  manager.deadlines = options.deadlines;
  manager.manual = true;
  auto faults = std::make_unique<FaultMover>(
      node_mover(transport::make_loopback(fabric, kind_of(options.mover)), seat.alive, memory));
  seat.node.mover = faults.get();
  Parts parts;
  parts.clock = clock;
  parts.channel = node_channel(net.channel(seat.node.name, clock), seat.alive);
  parts.transports.push_back(std::move(faults));
  auto started = Manager::start(std::move(manager), std::move(parts));
  KVF_CHECK(started.has_value(), started ? "" : started.error().line().c_str());
  seat.node.manager = std::move(*started);
}

Seat& Cluster::Rep::seat_of(Node& node) {
  const auto found =
      std::find_if(seats.begin(), seats.end(), [&](const Seat& seat) { return &seat.node == &node; });
  KVF_CHECK(found != seats.end(), "the node belongs to another cluster");
  return *found;
}

std::optional<TimePoint> Cluster::Rep::next_event() const {
  TimePoint next = TimePoint::max();
  if (const auto delivery = net.next_delivery()) next = *delivery;
  for (const Seat& seat : seats) {
    if (seat.node.manager) next = std::min(next, seat.node.manager->next_deadline());
  }
  return next == TimePoint::max() ? std::nullopt : std::optional(next);
}

Cluster::Cluster(ClusterOptions options) : rep_(std::make_unique<Rep>(std::move(options))) {
  const ClusterOptions& o = rep_->options;
  KVF_CHECK(o.prefill > 0 && o.decode > 0, "a cluster has at least one prefill and one decode node");
  KVF_CHECK(!o.pp || o.layers >= o.prefill, "with pp each prefill rank needs a layer");
  for (std::uint32_t i = 0; i < o.prefill; ++i) {
    Stage stage{0, o.layers, 0, 1};
    if (o.pp) {
      stage.first = i * o.layers / o.prefill;
      stage.count = (i + 1) * o.layers / o.prefill - stage.first;
      stage.rank = i;
      stage.size = o.prefill;
    }
    rep_->seat("prefill-" + std::to_string(i), i, stage);
  }
  for (std::uint32_t i = 0; i < o.decode; ++i)
    rep_->seat("decode-" + std::to_string(i), i, {0, o.layers, 0, 1});
}

Cluster::~Cluster() {
  for (Seat& seat : rep_->seats) *seat.alive = false;  // the end of a test is not a goodbye either
}

Node& Cluster::prefill(std::uint32_t i) {
  KVF_CHECK(i < rep_->options.prefill, "no such prefill node");
  return rep_->seats[i].node;
}

Node& Cluster::decode(std::uint32_t i) {
  KVF_CHECK(i < rep_->options.decode, "no such decode node");
  return rep_->seats[rep_->options.prefill + i].node;
}

VirtualClock& Cluster::clock() { return *rep_->clock; }
FaultNet& Cluster::net() { return rep_->net; }

void Cluster::settle() {
  // Two idle rounds: a node may have moved another's operation, whose owner turned before it in that round.
  for (std::uint32_t turns = 0, idle = 0; turns < kMostTurns; ++turns) {
    bool any = false;
    for (Seat& seat : rep_->seats) any |= seat.node.manager && seat.node.manager->turn();
    idle = any ? 0 : idle + 1;
    if (idle == 2) return;
  }
  KVF_CHECK(false, "the cluster does not come to rest: a livelock");
}

void Cluster::advance(Duration by) {
  const TimePoint target = rep_->clock->now() + by;
  // Live managers turn at least this often, as the progress thread does; a longer silence would look like a
  // pause.
  const Duration stride = std::max<Duration>(rep_->options.deadlines.gap / 2, std::chrono::milliseconds(1));
  settle();
  while (rep_->clock->now() < target) {
    const TimePoint now = rep_->clock->now();
    TimePoint next = std::min(target, now + stride);
    if (const auto event = rep_->next_event()) next = std::min(next, *event);
    // A deadline that stays due after a settled turn is not about time: do not wait on the spot for it.
    if (next <= now) next = std::min(target, now + std::chrono::milliseconds(1));
    rep_->clock->set(next);
    settle();
  }
}

void Cluster::crash(Node& node) {
  Seat& seat = rep_->seat_of(node);
  *seat.alive = false;
  node.mover = nullptr;
  node.manager.reset();
}

void Cluster::restart(Node& node) {
  Seat& seat = rep_->seat_of(node);
  if (node.manager) crash(node);
  rep_->start(seat);
}

std::vector<std::string> Cluster::senders() const {
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i < rep_->options.prefill; ++i) all.push_back(rep_->seats[i].node.name + ":1");
  return all;
}

std::byte* Node::item(std::uint32_t layer, std::uint32_t page) {
  return pool.data() + (std::size_t{layer} * pages + page) * item_bytes;
}

std::byte* Node::aux(std::uint32_t slot) {
  return pool.data() + std::size_t{layers} * pages * item_bytes + std::size_t{slot} * aux_bytes;
}

}  // namespace kvferry::testkit
