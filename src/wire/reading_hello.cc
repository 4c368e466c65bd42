// The part of Reading that knows HELLO: versions first, then layout and movers.
#include <utility>

#include "wire/reading.h"

namespace kvferry::wire {

// Of another major version only what every version has is read, so that the refusal can name both versions.
bool Reading::read(const fb::Hello& t, Hello& out) {
  out.major = t.major();
  out.minor = t.minor();
  out.session = t.session();
  out.answers = t.answers();
  out.ask = t.ask();
  return text(t.name(), "name", out.name) && (out.major != kMajor || hello_rest(t, out));
}

bool Reading::hello_rest(const fb::Hello& t, Hello& out) {
  out.capabilities = t.capabilities();
  out.pid = t.pid();
  out.rank = t.rank();
  out.draining = t.draining();
  out.max_live_grants = t.max_live_grants();
  out.grant_window = t.grant_window();
  out.layout_hash = t.layout_hash();
  return text(t.endpoint(), "endpoint", out.endpoint) && text(t.host_id(), "host_id", out.host_id) &&
         layout(t.layout(), out.layout) && movers(t, out.movers);
}

bool Reading::layout(const fb::Layout* t, Layout& out) {
  if (t == nullptr) {
    return bad("layout is missing");
  }
  out.page_tokens = t->page_tokens();
  out.tp_rank = t->tp_rank();
  out.tp_size = t->tp_size();
  out.pp_rank = t->pp_rank();
  out.pp_size = t->pp_size();
  out.dp_rank = t->dp_rank();
  out.dp_size = t->dp_size();
  out.cp_rank = t->cp_rank();
  out.cp_size = t->cp_size();
  const auto* list = t->components();
  if (list == nullptr) {
    return true;
  }
  if (list->size() > limits_.components) {
    return too_many("layout.components", list->size(), "components", limits_.components);
  }
  out.components.resize(list->size());
  for (flatbuffers::uoffset_t i = 0; i < list->size(); ++i) {
    if (!component(*list->Get(i), out.components[i])) {
      return false;
    }
  }
  return true;
}

bool Reading::component(const fb::Component& t, Component& out) {
  out.item_bytes = t.item_bytes();
  out.items = t.items();
  if (!pick("component.kind", t.kind(), ComponentKind::kAttention, ComponentKind::kAux, out.kind) ||
      !pick("component.space", t.space(), Space::kPages, Space::kState, out.space) ||
      !text(t.name(), "component.name", out.name) || !text(t.dtype(), "component.dtype", out.dtype)) {
    return false;
  }
  const auto* list = t.layers();
  if (list == nullptr) {
    return true;
  }
  if (list->size() > limits_.layers) {
    return too_many("component.layers", list->size(), "layers", limits_.layers);
  }
  out.layers.reserve(list->size());
  each(*list, [&](std::span<const std::byte> raw) {
    LayerPlace place;
    place.base = load_le<std::uint64_t>(raw);
    place.stride = load_le<std::uint64_t>(raw.subspan(8));
    place.layer = load_le<std::uint32_t>(raw.subspan(16));
    place.region = RegionId{load_le<std::uint32_t>(raw.subspan(20))};
    out.layers.push_back(place);
  });
  return true;
}

bool Reading::movers(const fb::Hello& t, std::vector<MoverOffer>& out) {
  const auto* list = t.movers();
  if (list == nullptr) {
    return true;
  }
  if (list->size() > limits_.movers) {
    return too_many("movers", list->size(), "movers", limits_.movers);
  }
  const bool newer = t.minor() > kMinor;
  out.reserve(list->size());
  for (flatbuffers::uoffset_t i = 0; i < list->size(); ++i) {
    MoverOffer offer;
    if (!mover_enums(*list->Get(i), offer)) {
      if (!newer) {
        return false;
      }
      why_.clear();  // a way of moving that a newer minor knows: not for us
      continue;
    }
    if (!mover(*list->Get(i), offer)) {
      return false;
    }
    out.push_back(std::move(offer));
  }
  return true;
}

bool Reading::mover_enums(const fb::MoverOffer& t, MoverOffer& out) {
  return pick("mover.access", t.access(), Access::kRead, Access::kWrite, out.access) &&
         pick("mover.visible", t.visible(), Visible::kLocalDone, Visible::kReceiverPlaced, out.visible) &&
         pick("mover.revoke", t.revoke(), RevokeMode::kLenderStops, RevokeMode::kMoverDrains, out.revoke) &&
         pick("mover.fence", t.fence(), FenceMode::kAtOnce, FenceMode::kNone, out.fence);
}

bool Reading::mover(const fb::MoverOffer& t, MoverOffer& out) {
  out.memory = t.memory();
  out.same_host_only = t.same_host_only();
  return text(t.name(), "mover.name", out.name) &&
         octets(t.description(), "mover.description", out.description);
}

}  // namespace kvferry::wire
