#include "core/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "wire/codec.h"

namespace kvferry::core {
namespace {

// `layers` layers from `first`, one behind the other in region 0.
Component pages(const std::string& name, std::uint32_t first, std::uint32_t layers,
                std::uint32_t items = 10) {
  Component c{ComponentKind::kAttention, Space::kPages, name, "bf16", 1024, items, {}};
  for (std::uint32_t i = 0; i < layers; ++i) {
    c.layers.push_back({first + i, RegionId{0}, std::uint64_t{i} * items * 1024, 1024});
  }
  return c;
}

Component aux() {
  return {ComponentKind::kAux, Space::kAux, "first_token", "u8", 64, 4, {{0, RegionId{1}, 0, 64}}};
}

Layout layout() {
  Layout l;
  l.page_tokens = 16;
  l.components = {pages("kv", 0, 4), aux()};
  return l;
}

const std::vector<std::uint64_t> kRegions{4 * 10 * 1024, 4 * 64};

constexpr auto kPagesIndex = static_cast<std::size_t>(Space::kPages);
constexpr auto kAuxIndex = static_cast<std::size_t>(Space::kAux);
constexpr auto kStateIndex = static_cast<std::size_t>(Space::kState);

TEST(Plan, EqualLayoutsPairEveryLayer) {
  const auto plan = make_plan(layout(), layout());
  ASSERT_TRUE(plan) << plan.error().line();
  ASSERT_EQ(plan->planes[kPagesIndex].size(), 4U);
  EXPECT_EQ(plan->planes[kAuxIndex].size(), 1U);
  EXPECT_TRUE(plan->planes[kStateIndex].empty());
  EXPECT_EQ(plan->item_bytes, (std::array<std::uint64_t, 3>{4096, 64, 0}));
  EXPECT_EQ(plan->local_items, (std::array<std::uint32_t, 3>{10, 4, 0}));
  EXPECT_EQ(plan->remote_items, (std::array<std::uint32_t, 3>{10, 4, 0}));
  const PlanePair& last = plan->planes[kPagesIndex][3];
  EXPECT_EQ(last.local.base, 3U * 10 * 1024);
  EXPECT_EQ(last.local.stride, 1024U);
  EXPECT_EQ(last.bytes, 1024U);
  EXPECT_EQ(last.repeat, 1U);
}

TEST(Plan, LayersArePairedByGlobalIdAndNotByPosition) {
  Layout remote = layout();
  std::reverse(remote.components[0].layers.begin(), remote.components[0].layers.end());
  std::reverse(remote.components.begin(), remote.components.end());
  EXPECT_EQ(*make_plan(layout(), remote), *make_plan(layout(), layout()));
}

TEST(Plan, AStagePairsItsOwnLayersOnly) {
  Layout stage = layout();
  stage.components[0] = pages("kv", 2, 2, 7);
  const auto plan = make_plan(layout(), stage);
  ASSERT_TRUE(plan) << plan.error().line();
  ASSERT_EQ(plan->planes[kPagesIndex].size(), 2U);
  EXPECT_EQ(plan->planes[kPagesIndex][0].local.base, 2U * 10 * 1024);
  EXPECT_EQ(plan->planes[kPagesIndex][0].remote.base, 0U);
  EXPECT_EQ(plan->item_bytes[kPagesIndex], 2048U);
  EXPECT_EQ(plan->local_items[kPagesIndex], 10U);
  EXPECT_EQ(plan->remote_items[kPagesIndex], 7U);
}

TEST(Plan, NoSharedLayerIsAnIdleLeg) {
  Layout stage = layout();
  stage.components[0] = pages("kv", 100, 2);
  const auto plan = make_plan(layout(), stage);
  ASSERT_TRUE(plan) << plan.error().line();
  EXPECT_TRUE(plan->planes[kPagesIndex].empty());
  EXPECT_EQ(plan->item_bytes[kPagesIndex], 0U);
  EXPECT_EQ(plan->planes[kAuxIndex].size(), 1U);
}

struct Difference {
  const char* name;
  std::function<void(Layout&)> change;
  std::string why;
};

std::vector<Difference> differences() {
  return {
      {"page size", [](Layout& l) { l.page_tokens = 64; }, "page_tokens is 16 here and 64 there"},
      {"dtype", [](Layout& l) { l.components[0].dtype = "fp8_e4m3"; },
       "the dtype of attention \"kv\" is bf16 here and fp8_e4m3 there"},
      {"item bytes", [](Layout& l) { l.components[0].item_bytes = 512; },
       "the item_bytes of attention \"kv\" is 1024 here and 512 there"},
      {"space", [](Layout& l) { l.components[1].space = Space::kState; },
       "the space of aux \"first_token\" is aux here and state there"},
      {"missing there", [](Layout& l) { l.components.pop_back(); },
       "the list of components is attention \"kv\", aux \"first_token\" here and attention \"kv\" there"},
      {"missing here", [](Layout& l) { l.components.push_back(pages("draft", 0, 1)); },
       "the list of components is attention \"kv\", aux \"first_token\" here and attention \"draft\", "
       "attention "
       "\"kv\", aux \"first_token\" there"},
      {"kind", [](Layout& l) { l.components[0].kind = ComponentKind::kMla; },
       "the list of components is attention \"kv\", aux \"first_token\" here and mla \"kv\", aux "
       "\"first_token\" "
       "there"},
  };
}

TEST(Plan, DifferencesAreRefusedWithBothValues) {
  for (const Difference& d : differences()) {
    SCOPED_TRACE(d.name);
    Layout remote = layout();
    d.change(remote);
    const auto plan = make_plan(layout(), remote);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kMismatch);
    EXPECT_EQ(plan.error().next, Next::kAfterFix);
    EXPECT_EQ(plan.error().why, d.why);
    EXPECT_NE(layout_hash(layout()), layout_hash(remote)) << "the hash does not see it";
  }
}

TEST(Plan, HashIgnoresOrderLayersMemoryAndRank) {
  Layout other = layout();
  std::reverse(other.components.begin(), other.components.end());
  other.components[1].layers.pop_back();
  other.components[1].items = 99;
  other.components[1].layers[0].base = 4096;
  other.pp_rank = 1;
  other.pp_size = 2;
  EXPECT_EQ(layout_hash(other), layout_hash(layout()));
}

TEST(Plan, HashIsKeptForever) { EXPECT_EQ(layout_hash(layout()), 11730846471943733793ULL); }

TEST(Plan, LayoutOfAPeerThatMakesNoSenseIsRefused) {
  Layout remote = layout();
  remote.components[0].layers[1].stride = 8;
  const auto plan = make_plan(layout(), remote);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kMismatch);
  EXPECT_EQ(plan.error().who, Who::kPeer);
  EXPECT_EQ(plan.error().why,
            "the layout there cannot be used: attention \"kv\" layer 1 has a stride of 8 bytes, its items "
            "have 1024");
}

TEST(Plan, EveryFieldCountsInAComparison) {
  const PairPlan plan = *make_plan(layout(), layout());
  const std::vector<std::function<void(PairPlan&)>> changes = {
      [](PairPlan& p) { p.planes[0].pop_back(); },
      [](PairPlan& p) { p.planes[0][0].remote.base = 1; },
      [](PairPlan& p) { p.planes[0][0].local.region = RegionId{9}; },
      [](PairPlan& p) { p.planes[1][0].local_step = 1; },
      [](PairPlan& p) { p.item_bytes[2] = 1; },
      [](PairPlan& p) { p.local_items[0] = 1; },
      [](PairPlan& p) { p.remote_items[0] = 1; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    PairPlan other = plan;
    EXPECT_TRUE(other == plan);
    changes[i](other);
    EXPECT_FALSE(other == plan) << "change " << i << " is not seen";
  }
}

std::vector<Difference> unusable() {
  return {
      {"page_tokens", [](Layout& l) { l.page_tokens = 0; },
       "page_tokens is 0; a page holds at least 1 token"},
      {"empty", [](Layout& l) { l.components.clear(); }, "there is no component"},
      {"components",
       [](Layout& l) {
         for (int i = 0; i < 63; ++i) {
           l.components.push_back(pages("c" + std::to_string(i), 0, 1));
         }
       },
       "there are 65 components, the limit components is 64"},
      {"twice", [](Layout& l) { l.components.push_back(pages("kv", 7, 1)); },
       "attention \"kv\" is listed twice"},
      {"no name", [](Layout& l) { l.components[1].name.clear(); }, "a component of kind aux has no name"},
      {"long dtype", [](Layout& l) { l.components[1].dtype.assign(256, 'x'); },
       "a component name or dtype has 256 bytes, the limit is 255"},
      {"no bytes", [](Layout& l) { l.components[1].item_bytes = 0; },
       "aux \"first_token\" has item_bytes 0 and items 4; both must be above 0"},
      {"no items", [](Layout& l) { l.components[1].items = 0; },
       "aux \"first_token\" has item_bytes 64 and items 0; both must be above 0"},
      {"layers", [](Layout& l) { l.components[0] = pages("kv", 0, 1025); },
       "attention \"kv\" has 1025 layers, the limit layers is 1024"},
      {"layers in all",
       [](Layout& l) {
         for (int i = 0; i < 32; ++i) {
           l.components.push_back(pages("c" + std::to_string(i), 0, 1024, 1));
         }
       },
       "there are 32773 layers over all components, the limit is 32768"},
      {"layer twice", [](Layout& l) { l.components[0].layers[2].layer = 1; },
       "attention \"kv\" layer 1 is listed twice"},
      {"stride", [](Layout& l) { l.components[0].layers[2].stride = 1023; },
       "attention \"kv\" layer 2 has a stride of 1023 bytes, its items have 1024"},
      {"overflow", [](Layout& l) { l.components[0].layers[3].base = ~0ULL - 9 * 1024; },
       "attention \"kv\" layer 3 ends behind 2^64 bytes: base 18446744073709542399, stride 1024, 10 items"},
      {"rank", [](Layout& l) { l.pp_rank = 2, l.pp_size = 2; }, "pp_rank is 2, it must be below pp_size 2"},
      {"region", [](Layout& l) { l.components[1].layers[0].region = RegionId{2}; },
       "aux \"first_token\" layer 0 is in region 2, there are 2 regions"},
      {"behind the region", [](Layout& l) { l.components[0].items = 11; },
       "attention \"kv\" layer 3 ends at byte 41984 of region 0, which has 40960 (base 30720, stride 1024, "
       "11 items "
       "of 1024 bytes)"},
  };
}

TEST(CheckLayout, UnusableLayoutsAreNamed) {
  for (const Difference& d : unusable()) {
    SCOPED_TRACE(d.name);
    Layout l = layout();
    d.change(l);
    const auto result = check_layout(l, kRegions);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUsage);
    EXPECT_EQ(result.error().who, Who::kConfig);
    EXPECT_EQ(result.error().next, Next::kAfterFix);
    EXPECT_EQ(result.error().why, d.why);
  }
}

TEST(CheckLayout, RegionsThatFitToTheByteAreFine) {
  EXPECT_TRUE(check_layout(layout(), kRegions));
  EXPECT_FALSE(check_layout(layout(), {4 * 10 * 1024 - 1, 4 * 64}));
}

TEST(CheckLayout, ComponentWithoutALayerIsLegal) {
  Layout l = layout();
  l.components.push_back(pages("draft", 0, 0));
  EXPECT_TRUE(check_layout(l, kRegions));
}

TEST(CheckLayout, TheLargestLayoutFitsOneHello) {
  wire::Hello hello;
  for (std::size_t i = 0; i < kMaxComponents; ++i) {
    std::string name = std::to_string(i);
    name.resize(kMaxNameBytes, 'x');
    hello.layout.components.push_back(pages(name, 0, kMaxLayersInAll / kMaxComponents, 1));
    hello.layout.components.back().dtype.assign(kMaxNameBytes, 'x');
  }
  const wire::FrameLimits limits;
  hello.movers.resize(limits.movers);
  for (wire::MoverOffer& mover : hello.movers) {
    mover.description.resize(limits.description_bytes);
  }
  EXPECT_TRUE(check_layout(hello.layout, {1ULL << 40}));
  wire::Encoder encoder;
  const auto frame = encoder.encode({{}, hello});
  EXPECT_LE(frame.size(), limits.frame_bytes);
  const auto message = wire::decode(frame);
  ASSERT_TRUE(message) << message.error().line();
  EXPECT_EQ(std::get<wire::Hello>(message->body), hello);
  EXPECT_EQ(kMaxComponents, limits.components);
  EXPECT_EQ(kMaxLayers, limits.layers);
}

}  // namespace
}  // namespace kvferry::core
