#include <gtest/gtest.h>

#include <array>

#include "kvferry/layout.h"
#include "kvferry/transport.h"

namespace kvferry {
namespace {

Component component(Space space, std::uint32_t item_bytes, std::uint32_t items, std::uint32_t layers) {
  Component c;
  c.space = space;
  c.item_bytes = item_bytes;
  c.items = items;
  c.layers.resize(layers);
  return c;
}

TEST(Layout, ItemsIsTheSmallestOfItsSpace) {
  Layout layout;
  layout.components = {component(Space::kPages, 8, 100, 1), component(Space::kPages, 8, 60, 1),
                       component(Space::kAux, 8, 3, 1)};
  EXPECT_EQ(layout.items(Space::kPages), 60U);
  EXPECT_EQ(layout.items(Space::kAux), 3U);
  EXPECT_EQ(layout.items(Space::kState), 0U);
}

TEST(Layout, BytesPerItemSumsLayersAndComponents) {
  Layout layout;
  layout.components = {component(Space::kPages, 0xffffffff, 100, 3), component(Space::kPages, 16, 60, 2),
                       component(Space::kAux, 64, 3, 1)};
  EXPECT_EQ(layout.bytes_per_item(Space::kPages), 3 * 0xffffffffULL + 32);
  EXPECT_EQ(layout.bytes_per_item(Space::kAux), 64U);
  EXPECT_EQ(layout.bytes_per_item(Space::kState), 0U);
}

TEST(PieceGroup, BytesAndPiecesAreProducts) {
  std::array<PlanePair, 2> planes{};
  planes[0].bytes = 1024;
  planes[1].bytes = 16;
  planes[1].repeat = 4;
  const std::array<RunPair, 2> runs{{{0, 5, 3}, {9, 9, 0xffffffff}}};
  const PieceGroup group{planes, runs};
  const std::uint64_t items = 3 + 0xffffffffULL;
  EXPECT_EQ(bytes_of(group), (1024 + 64) * items);
  EXPECT_EQ(pieces_of(group), 5 * items);
  EXPECT_EQ(bytes_of(PieceGroup{}), 0U);
  EXPECT_EQ(pieces_of(PieceGroup{planes, {}}), 0U);
}

}  // namespace
}  // namespace kvferry
