#include "core/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/checksum.h"

namespace kvferry::core {

namespace {

const char* name_of(ComponentKind kind) {
  switch (kind) {
    case ComponentKind::kAttention: return "attention";
    case ComponentKind::kMla: return "mla";
    case ComponentKind::kIndexer: return "indexer";
    case ComponentKind::kSlidingWindow: return "sliding window";
    case ComponentKind::kState: return "state";
    case ComponentKind::kBlockScales: return "block scales";
    case ComponentKind::kDraft: return "draft";
    case ComponentKind::kEncoder: return "encoder";
    case ComponentKind::kAux: return "aux";
  }
  return "unknown kind";
}

const char* name_of(Space space) {
  switch (space) {
    case Space::kPages: return "pages";
    case Space::kAux: return "aux";
    case Space::kState: return "state";
  }
  return "unknown space";
}

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string title(const Component& c) { return std::string(name_of(c.kind)) + " \"" + c.name + "\""; }

using Key = std::pair<ComponentKind, std::string_view>;
using Components = std::map<Key, const Component*>;

Key key_of(const Component& c) { return {c.kind, c.name}; }

// By (kind, name): the order in which both sides list their planes.
Components sorted(const Layout& layout) {
  Components out;
  for (const Component& c : layout.components) {
    out.emplace(key_of(c), &c);
  }
  return out;
}

std::string titles(const Components& components) {
  std::string out;
  for (const auto& entry : components) {
    out.append(out.empty() ? "" : ", ").append(title(*entry.second));
  }
  return out.empty() ? "none" : out;
}

// ---- what a layout needs by itself; the text of what it lacks ----

using Problem = std::optional<std::string>;

// The byte behind the last item of a layer; nothing when that does not fit 64 bits.
std::optional<std::uint64_t> end_of(const Component& c, const LayerPlace& place) {
  std::uint64_t reach = 0;
  std::uint64_t end = 0;
  if (__builtin_mul_overflow(std::uint64_t{c.items} - 1, place.stride, &reach) ||
      __builtin_add_overflow(reach, place.base, &end) ||
      __builtin_add_overflow(end, std::uint64_t{c.item_bytes}, &end)) {
    return std::nullopt;
  }
  return end;
}

Problem problem_of_layers(const Component& c) {
  std::set<std::uint32_t> seen;
  for (const LayerPlace& place : c.layers) {
    const std::string layer = title(c) + " layer " + number(place.layer);
    if (!seen.insert(place.layer).second) {
      return layer + " is listed twice";
    }
    if (place.stride < c.item_bytes) {
      return layer + " has a stride of " + number(place.stride) + " bytes, its items have " +
             number(c.item_bytes);
    }
    if (!end_of(c, place)) {
      return layer + " ends behind 2^64 bytes: base " + number(place.base) + ", stride " +
             number(place.stride) + ", " + number(c.items) + " items";
    }
  }
  return std::nullopt;
}

Problem problem_of(const Component& c) {
  if (c.name.empty()) {
    return "a component of kind " + std::string(name_of(c.kind)) + " has no name";
  }
  if (const std::size_t longest = std::max(c.name.size(), c.dtype.size()); longest > kMaxNameBytes) {
    return "a component name or dtype has " + number(longest) + " bytes, the limit is " +
           number(kMaxNameBytes);
  }
  if (c.item_bytes == 0 || c.items == 0) {
    return title(c) + " has item_bytes " + number(c.item_bytes) + " and items " + number(c.items) +
           "; both must be above 0";
  }
  if (c.layers.size() > kMaxLayers) {
    return title(c) + " has " + number(c.layers.size()) + " layers, the limit layers is " +
           number(kMaxLayers);
  }
  return problem_of_layers(c);
}

Problem problem_of(const Layout& layout) {
  if (layout.page_tokens == 0) {
    return "page_tokens is 0; a page holds at least 1 token";
  }
  if (layout.components.empty()) {
    return "there is no component";
  }
  if (layout.components.size() > kMaxComponents) {
    return "there are " + number(layout.components.size()) + " components, the limit components is " +
           number(kMaxComponents);
  }
  std::set<Key> seen;
  std::size_t layers = 0;
  for (const Component& c : layout.components) {
    layers += c.layers.size();
    if (Problem problem = problem_of(c)) {
      return problem;
    }
    if (!seen.insert(key_of(c)).second) {
      return title(c) + " is listed twice";
    }
  }
  if (layers > kMaxLayersInAll) {
    return "there are " + number(layers) + " layers over all components, the limit is " +
           number(kMaxLayersInAll);
  }
  return std::nullopt;
}

Problem problem_of_ranks(const Layout& l) {
  const std::tuple<const char*, std::uint32_t, std::uint32_t> axes[] = {{"tp", l.tp_rank, l.tp_size},
                                                                        {"pp", l.pp_rank, l.pp_size},
                                                                        {"dp", l.dp_rank, l.dp_size},
                                                                        {"cp", l.cp_rank, l.cp_size}};
  for (const auto& [axis, rank, size] : axes) {
    if (rank >= size) {
      return std::string(axis) + "_rank is " + number(rank) + ", it must be below " + axis + "_size " +
             number(size);
    }
  }
  return std::nullopt;
}

Problem problem_of_regions(const Layout& layout, const std::vector<std::uint64_t>& region_bytes) {
  for (const Component& c : layout.components) {
    for (const LayerPlace& place : c.layers) {
      const std::string layer = title(c) + " layer " + number(place.layer);
      if (place.region.value >= region_bytes.size()) {
        return layer + " is in region " + number(place.region.value) + ", there are " +
               number(region_bytes.size()) + " regions";
      }
      const std::uint64_t end = end_of(c, place).value_or(~std::uint64_t{0});
      if (const std::uint64_t have = region_bytes[place.region.value]; end > have) {
        return layer + " ends at byte " + number(end) + " of region " + number(place.region.value) +
               ", which has " + number(have) + " (base " + number(place.base) + ", stride " +
               number(place.stride) + ", " + number(c.items) + " items of " + number(c.item_bytes) +
               " bytes)";
      }
    }
  }
  return std::nullopt;
}

// ---- pairs ----

std::string differ(const std::string& name, const std::string& here, const std::string& there) {
  return name + " is " + here + " here and " + there + " there";
}

// What two components of one (kind, name) must share.
Problem difference(const Component& local, const Component& remote) {
  if (local.space != remote.space) {
    return differ("the space of " + title(local), name_of(local.space), name_of(remote.space));
  }
  if (local.dtype != remote.dtype) {
    return differ("the dtype of " + title(local), local.dtype, remote.dtype);
  }
  if (local.item_bytes != remote.item_bytes) {
    return differ("the item_bytes of " + title(local), number(local.item_bytes), number(remote.item_bytes));
  }
  return std::nullopt;
}

Problem difference(const Layout& local, const Components& ours, const Layout& remote,
                   const Components& theirs) {
  if (local.page_tokens != remote.page_tokens) {
    return differ("page_tokens", number(local.page_tokens), number(remote.page_tokens));
  }
  const auto missing = [](const Components& from, const Components& in) {
    return std::any_of(from.begin(), from.end(),
                       [&](const auto& entry) { return !in.contains(entry.first); });
  };
  if (missing(ours, theirs) || missing(theirs, ours)) {
    return "the list of components is " + titles(ours) + " here and " + titles(theirs) + " there";
  }
  for (const auto& [key, component] : ours) {
    if (Problem problem = difference(*component, *theirs.at(key))) {
      return problem;
    }
  }
  return std::nullopt;
}

Plane plane_of(const LayerPlace& place) { return {place.region, place.base, place.stride}; }

void add_planes(const Component& local, const Component& remote, PairPlan& plan) {
  const auto space = static_cast<std::size_t>(local.space);
  std::map<std::uint32_t, const LayerPlace*> theirs;
  for (const LayerPlace& place : remote.layers) {
    theirs.emplace(place.layer, &place);
  }
  std::map<std::uint32_t, const LayerPlace*> shared;
  for (const LayerPlace& place : local.layers) {
    if (theirs.contains(place.layer)) {
      shared.emplace(place.layer, &place);
    }
  }
  for (const auto& [layer, place] : shared) {
    plan.planes[space].push_back(
        PlanePair{plane_of(*place), plane_of(*theirs.at(layer)), local.item_bytes, 1, 0, 0});
    plan.item_bytes[space] += local.item_bytes;
  }
}

tl::unexpected<Error> mismatch(std::string why, Who who = Who::kConfig) {
  return fail(Code::kMismatch, who, Next::kAfterFix, "layout", std::move(why));
}

auto tied(const PlanePair& p) {
  return std::make_tuple(p.local.region, p.local.base, p.local.stride, p.remote.region, p.remote.base,
                         p.remote.stride, p.bytes, p.repeat, p.local_step, p.remote_step);
}

}  // namespace

bool PairPlan::operator==(const PairPlan& other) const {
  for (std::size_t space = 0; space < kSpaces; ++space) {
    if (!std::equal(planes[space].begin(), planes[space].end(), other.planes[space].begin(),
                    other.planes[space].end(),
                    [](const PlanePair& a, const PlanePair& b) { return tied(a) == tied(b); })) {
      return false;
    }
  }
  return item_bytes == other.item_bytes && local_items == other.local_items &&
         remote_items == other.remote_items;
}

Result<PairPlan> make_plan(const Layout& local, const Layout& remote) {
  if (const Problem problem = problem_of(local)) {
    return mismatch("the layout here cannot be used: " + *problem);
  }
  if (const Problem problem = problem_of(remote)) {
    return mismatch("the layout there cannot be used: " + *problem, Who::kPeer);
  }
  const Components ours = sorted(local);
  const Components theirs = sorted(remote);
  if (Problem problem = difference(local, ours, remote, theirs)) {
    return mismatch(std::move(*problem));
  }
  PairPlan plan;
  for (const auto& [key, component] : ours) {
    add_planes(*component, *theirs.at(key), plan);
  }
  for (std::size_t space = 0; space < kSpaces; ++space) {
    plan.local_items[space] = local.items(static_cast<Space>(space));
    plan.remote_items[space] = remote.items(static_cast<Space>(space));
  }
  return plan;
}

std::uint64_t layout_hash(const Layout& layout) {
  std::string bytes;
  Appender out(bytes);
  out.u32(layout.page_tokens);
  std::vector<const Component*> components;
  for (const Component& c : layout.components) {
    components.push_back(&c);
  }
  std::sort(components.begin(), components.end(),
            [](const Component* a, const Component* b) { return key_of(*a) < key_of(*b); });
  for (const Component* c : components) {
    out.u8(static_cast<std::uint8_t>(c->kind));
    out.u8(static_cast<std::uint8_t>(c->space));
    out.u32(c->item_bytes);
    out.text(c->name);
    out.text(c->dtype);
  }
  return hash64(bytes);
}

Result<> check_layout(const Layout& layout, const std::vector<std::uint64_t>& region_bytes) {
  Problem problem = problem_of(layout);
  if (!problem) {
    problem = problem_of_ranks(layout);
  }
  if (!problem) {
    problem = problem_of_regions(layout, region_bytes);
  }
  if (problem) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "layout", std::move(*problem));
  }
  return {};
}

}  // namespace kvferry::core
