// The planner over random pairs of layouts.
#include "core/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "property/wire_gen.h"

namespace kvferry {
namespace {

// A usable component; names and values from few, so that two layouts often agree.
Component usable_component(ComponentKind kind, const std::string& name) {
  Component c{kind, Space::kPages, name, "bf16", 64, 0, {}};
  c.space = kind == ComponentKind::kAux     ? Space::kAux
            : kind == ComponentKind::kState ? Space::kState
                                            : Space::kPages;
  if (gen::between(0, 12) == 0) {
    c.dtype = "u8";
  }
  if (gen::between(0, 12) == 0) {
    c.item_bytes = 128;
  }
  c.items = gen::between<std::uint32_t>(1, 50);
  const auto held = gen::between<std::uint32_t>(0, 1U << 12);  // a bit a layer
  for (std::uint32_t layer = 0; layer < 12; ++layer) {
    if ((held >> layer & 1U) != 0) {
      const auto stride = c.item_bytes + gen::between<std::uint64_t>(0, 64);
      c.layers.push_back({layer, RegionId{gen::between<std::uint32_t>(0, 3)},
                          gen::between<std::uint64_t>(0, 100000), stride});
    }
  }
  if (gen::between(0, 2) == 0) {
    std::reverse(c.layers.begin(), c.layers.end());
  }
  return c;
}

Layout usable_layout() {
  Layout l;
  l.page_tokens = gen::between(0, 8) == 0 ? 32 : 16;
  l.components = {usable_component(ComponentKind::kAttention, "kv")};
  if (gen::between(0, 8) != 0) {
    l.components.push_back(usable_component(ComponentKind::kAux, "first_token"));
  }
  if (gen::between(0, 8) == 0) {
    l.components.push_back(usable_component(ComponentKind::kState, "mamba"));
  }
  std::rotate(l.components.begin(),
              l.components.begin() + gen::between<std::ptrdiff_t>(0, std::ssize(l.components)),
              l.components.end());
  return l;
}

core::PairPlan mirrored(core::PairPlan plan) {
  for (auto& planes : plan.planes) {
    for (PlanePair& plane : planes) {
      std::swap(plane.local, plane.remote);
      std::swap(plane.local_step, plane.remote_step);
    }
  }
  std::swap(plan.local_items, plan.remote_items);
  return plan;
}

RC_GTEST_PROP(PlanProperty, TheOtherSideMakesTheMirroredPlan, ()) {
  const Layout a = usable_layout(), b = usable_layout();
  const auto here = core::make_plan(a, b), there = core::make_plan(b, a);
  RC_ASSERT(here.has_value() == there.has_value());
  RC_CLASSIFY(here.has_value(), "agree");
  if (here) {
    RC_ASSERT(mirrored(*here) == *there);
  } else {
    RC_ASSERT(here.error().code == Code::kMismatch);
    RC_ASSERT(there.error().code == Code::kMismatch);
  }
}

RC_GTEST_PROP(PlanProperty, HashesAreEqualExactlyWhenAPlanExists, ()) {
  const Layout a = usable_layout(), b = usable_layout();
  RC_ASSERT(core::make_plan(a, b).has_value() == (core::layout_hash(a) == core::layout_hash(b)));
}

// The naive reference: every pair of layers by three loops.
RC_GTEST_PROP(PlanProperty, PlanesAreExactlyTheSharedLayers, ()) {
  const Layout a = usable_layout(), b = usable_layout();
  const auto plan = core::make_plan(a, b);
  if (!plan) {
    return;
  }
  using Place = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  const auto place = [](const auto& p) { return Place{p.region.value, p.base, p.stride}; };
  for (std::size_t space = 0; space < kSpaces; ++space) {
    std::multiset<std::pair<Place, Place>> expected, planned;
    std::uint64_t bytes = 0;
    for (const Component& ca : a.components) {
      for (const Component& cb : b.components) {
        for (const LayerPlace& la : ca.layers) {
          for (const LayerPlace& lb : cb.layers) {
            if (static_cast<std::size_t>(ca.space) == space && ca.kind == cb.kind && ca.name == cb.name &&
                la.layer == lb.layer) {
              expected.emplace(place(la), place(lb));
              bytes += ca.item_bytes;
            }
          }
        }
      }
    }
    for (const PlanePair& plane : plan->planes[space]) {
      planned.emplace(place(plane.local), place(plane.remote));
    }
    RC_ASSERT(planned == expected);
    RC_ASSERT(plan->item_bytes[space] == bytes);
    RC_ASSERT(plan->local_items[space] == a.items(static_cast<Space>(space)));
    RC_ASSERT(plan->remote_items[space] == b.items(static_cast<Space>(space)));
  }
}

RC_GTEST_PROP(PlanProperty, AnyLayoutOfAPeerGivesAPlanOrAReason, ()) {
  const auto plan = core::make_plan(usable_layout(), gen::layout());
  if (!plan) {
    RC_ASSERT(plan.error().code == Code::kMismatch);
    RC_ASSERT(!plan.error().why.empty());
  }
}

RC_GTEST_PROP(PlanProperty, ALayoutThatPassesTheCheckStaysInsideItsRegions, ()) {
  const Layout l = *rc::gen::oneOf(rc::gen::exec([] { return usable_layout(); }),
                                   rc::gen::exec([] { return gen::layout(); }));
  std::vector<std::uint64_t> regions;
  for (int i = gen::between(2, 4); i > 0; --i) {
    regions.push_back(gen::between<std::uint64_t>(0, 200000));
  }
  const bool fits = core::check_layout(l, regions).has_value();
  RC_CLASSIFY(fits, "fits");
  if (!fits) {
    return;
  }
  for (const Component& c : l.components) {
    for (const LayerPlace& p : c.layers) {
      RC_ASSERT(p.region.value < regions.size());
      RC_ASSERT(p.base + (c.items - 1) * p.stride + c.item_bytes <= regions[p.region.value]);
    }
  }
}

}  // namespace
}  // namespace kvferry
