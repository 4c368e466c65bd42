#include "sim/cluster.h"

namespace kvferry::sim {
namespace {

constexpr std::uint32_t kItemBytes = 64;

Component component(const char* name, ComponentKind kind, Space space, std::uint32_t items) {
  Component c;
  c.kind = kind;
  c.space = space;
  c.name = name;
  c.dtype = "u8";
  c.item_bytes = kItemBytes;
  c.items = items;
  return c;
}

void add_layers(Component& c, const std::vector<std::uint32_t>& layers) {
  for (std::uint32_t slot = 0; slot < layers.size(); ++slot) {
    c.layers.push_back({layers[slot], RegionId{0}, plane_base(c.space, slot), kItemBytes});
  }
}

}  // namespace

NodePlace place_of(const ClusterShape& shape, std::uint32_t node) {
  NodePlace p;
  p.role = node < shape.senders() ? Role::kSender : Role::kReceiver;
  const bool sender = p.role == Role::kSender;
  const std::uint32_t index = sender ? node : node - shape.senders();
  const std::uint32_t ranks = sender ? shape.prefill_ranks : shape.decode_ranks;
  const bool split = sender || shape.decode_split;
  p.instance = index / ranks;
  p.rank = index % ranks;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    if (!split || layer % ranks == p.rank) p.layers.push_back(layer);
  }
  p.holds_aux = shape.aux > 0 && (!sender || p.rank + 1 == ranks);
  return p;
}

std::string name_of_node(const ClusterShape& shape, std::uint32_t node) {
  const NodePlace p = place_of(shape, node);
  return std::string(p.role == Role::kSender ? "prefill-" : "decode-") + std::to_string(p.instance) + "." +
         std::to_string(p.rank);
}

Geometry geometry_of(const ClusterShape& shape, const NodePlace& p) {
  Geometry g;
  g.slots = {static_cast<std::uint32_t>(p.layers.size()), p.holds_aux ? 1U : 0U,
             p.holds_aux && shape.states > 0 ? 1U : 0U};
  g.items = {shape.pages, shape.aux, shape.states};
  return g;
}

Layout layout_of(const ClusterShape& shape, const NodePlace& p) {
  Layout l;
  l.page_tokens = shape.page_tokens;
  Component kv = component("kv", ComponentKind::kAttention, Space::kPages, shape.pages);
  add_layers(kv, p.layers);
  l.components.push_back(std::move(kv));
  const std::vector<std::uint32_t> one =
      p.holds_aux ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{};
  if (shape.aux > 0) {
    Component aux = component("aux", ComponentKind::kAux, Space::kAux, shape.aux);
    add_layers(aux, one);
    l.components.push_back(std::move(aux));
  }
  if (shape.states > 0) {
    Component state = component("ssm", ComponentKind::kState, Space::kState, shape.states);
    add_layers(state, one);
    l.components.push_back(std::move(state));
  }
  const bool sender = p.role == Role::kSender;
  l.pp_size = sender ? shape.prefill_ranks : (shape.decode_split ? shape.decode_ranks : 1);
  l.pp_rank = sender || shape.decode_split ? p.rank : 0;
  l.tp_size = !sender && !shape.decode_split ? shape.decode_ranks : 1;
  l.tp_rank = !sender && !shape.decode_split ? p.rank : 0;
  return l;
}

core::EngineConfig config_of(const ClusterShape& shape, const LifeSpec& life) {
  const NodePlace p = place_of(shape, life.node);
  core::EngineConfig c;
  c.self = life.self;
  c.name = name_of_node(shape, life.node);
  c.endpoint = c.name + ":1";
  c.host_id = "sim";
  c.pid = 1000 + life.life;
  c.rank = p.rank;
  c.layout = layout_of(shape, p);
  c.movers.push_back({capabilities_of(shape.mover, shape.fence), SimTransport::describe(life.life)});
  c.token_seed = life.token_seed;
  return c;
}

}  // namespace kvferry::sim
