// The shape of a simulated cluster: instances, ranks, layers, mover; and what each process is configured
// with. Values; no thread rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine.h"
#include "sim/memory.h"
#include "sim/mover_kind.h"
#include "sim/sim_transport.h"

namespace kvferry::sim {

// `prefill` x `prefill_ranks` sender processes (the ranks of an instance are pipeline stages: each holds its
// layers), `decode` x `decode_ranks` receiver processes (split: pipeline stages; else every rank holds every
// layer).
struct ClusterShape {
  std::string name = "1x1";
  std::uint32_t prefill = 1, decode = 1;
  std::uint32_t prefill_ranks = 1, decode_ranks = 1;
  bool decode_split = false;
  std::uint32_t layers = 1;
  std::uint32_t pages = 16, aux = 4, states = 0;  // of each process
  std::uint32_t page_tokens = 16;
  MoverKind mover = MoverKind::kPlaced;
  FenceMode fence = FenceMode::kBounded;          // one-sided movers

  std::uint32_t senders() const { return prefill * prefill_ranks; }
  std::uint32_t receivers() const { return decode * decode_ranks; }
  std::uint32_t nodes() const { return senders() + receivers(); }
};

// A process: nodes 0..senders-1 are prefill ranks, the rest decode ranks.
struct NodePlace {
  Role role = Role::kSender;
  std::uint32_t instance = 0, rank = 0;
  std::vector<std::uint32_t> layers;  // global layers that it holds; LayerPlace i is memory slot i
  bool holds_aux = false;
};

NodePlace place_of(const ClusterShape&, std::uint32_t node);
std::string name_of_node(const ClusterShape&, std::uint32_t node);  // "prefill-0.1"
Geometry geometry_of(const ClusterShape&, const NodePlace&);
Layout layout_of(const ClusterShape&, const NodePlace&);

struct LifeSpec {
  std::uint32_t node = 0;
  LifeIndex life = 0;
  Incarnation self;
  std::uint64_t token_seed = 0;
};
core::EngineConfig config_of(const ClusterShape&, const LifeSpec&);

}  // namespace kvferry::sim
