// The oracle must notice every wrong byte, and tell pages apart by everything that rule 29 names.
#include "replay/oracle.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "replay/manifest.h"
#include "replay/page_memory.h"

namespace kvferry::replay {
namespace {

const WriteTag kTag{{11, 22}, 33};

TEST(ReplayOracle, AcceptsWhatItWroteForEveryRowSize) {
  for (std::uint32_t row = 1; row < 200; ++row) {
    const ItemSpec spec{5, 1, 0, 16, 3, row};
    std::vector<std::byte> item(std::size_t{3} * row + 8, std::byte{0x5a});
    oracle_fill(item.data(), kTag, spec);
    EXPECT_EQ(oracle_wrong(item.data(), kTag, spec), 0U) << row;
    for (std::size_t i = std::size_t{3} * row; i < item.size(); ++i)
      EXPECT_EQ(item[i], std::byte{0x5a}) << row;
  }
}

TEST(ReplayOracle, FindsEachSingleWrongByte) {
  const ItemSpec spec{5, 1, 0, 16, 2, 77};
  std::vector<std::byte> item(2 * 77);
  oracle_fill(item.data(), kTag, spec);
  for (std::byte& byte : item) {
    byte ^= std::byte{0x40};
    EXPECT_EQ(oracle_wrong(item.data(), kTag, spec), 1U);
    byte ^= std::byte{0x40};
  }
}

// A page that came from another place differs in nearly every byte: one in 256 is right by chance.
TEST(ReplayOracle, DependsOnEverythingThatRule29Names) {
  const ItemSpec spec{5, 1, 0, 16, 16, 64};
  std::vector<std::byte> item(16 * 64);
  oracle_fill(item.data(), kTag, spec);
  const auto all_differ = [&](const WriteTag& tag, const ItemSpec& other) {
    return oracle_wrong(item.data(), tag, other) > item.size() * 95 / 100;
  };
  EXPECT_TRUE(all_differ({{12, 22}, 33}, spec)) << "writer's start";
  EXPECT_TRUE(all_differ({{11, 23}, 33}, spec)) << "writer's random part";
  EXPECT_TRUE(all_differ({{11, 22}, 34}, spec)) << "serial";
  EXPECT_TRUE(all_differ(kTag, {6, 1, 0, 16, 16, 64})) << "block hash";
  EXPECT_TRUE(all_differ(kTag, {5, 2, 0, 16, 16, 64})) << "layer";
  EXPECT_TRUE(all_differ(kTag, {5, 1, 1, 16, 16, 64})) << "K or V";
  EXPECT_TRUE(all_differ(kTag, {5, 1, 0, 17, 16, 64})) << "token";
}

TEST(ReplayOracle, DependsOnTheHead) {
  const ItemSpec spec{5, 1, 0, 0, 1, 2048};  // 8 heads of 256 bytes
  std::vector<std::byte> item(2048);
  oracle_fill(item.data(), kTag, spec);
  for (std::size_t head = 1; head < 8; ++head) {
    std::size_t equal = 0;
    for (std::size_t i = 0; i < 256; ++i) equal += item[i] == item[head * 256 + i] ? 1U : 0U;
    EXPECT_LT(equal, 26U) << head;
  }
}

TEST(ReplayOracle, PoisonFindsEachStrangerAndDependsOnThePlace) {
  std::vector<std::byte> memory(101);
  poison_fill(memory, 4);
  EXPECT_EQ(poison_wrong(memory, 4), 0U);
  EXPECT_GT(poison_wrong(memory, 5), 80U);
  for (std::byte& byte : memory) {
    byte ^= std::byte{1};
    EXPECT_EQ(poison_wrong(memory, 4), 1U);
    byte ^= std::byte{1};
  }
}

Shape small_shape() {
  Shape shape;
  shape.model = *find_model("smollm2-135m");
  shape.page_tokens = 4;
  shape.pages = 3;
  shape.aux_slots = 2;
  return shape;
}

TEST(ReplayPageMemory, FillsEveryByteOfAPageAndNoOther) {
  const Shape shape = small_shape();
  std::vector<std::byte> bytes(shape.total_bytes());
  PageMemory memory(shape, bytes.data());
  for (std::uint32_t page = 0; page < 3; ++page) memory.poison(page);
  const PageTag tag{kTag, 9, 0};
  memory.fill(1, tag);
  EXPECT_EQ(memory.wrong(1, tag), 0U);
  EXPECT_EQ(memory.stranger(0) + memory.stranger(2), 0U);
  EXPECT_GT(memory.stranger(1), memory.page_bytes() * 95 / 100);
  memory.fill(2, {kTag, 9, 4});
  EXPECT_GT(memory.wrong(2, tag), memory.page_bytes() * 95 / 100) << "another token of the block";
}

TEST(ReplayPageMemory, LayoutPlacesEveryPageInsideAndOnce) {
  const Shape shape = small_shape();
  const Layout layout = shape.layout(RegionId{0});
  EXPECT_EQ(layout.bytes_per_item(Space::kPages), shape.page_bytes());
  EXPECT_EQ(layout.items(Space::kPages), 3U);
  EXPECT_EQ(layout.items(Space::kAux), 2U);
  std::vector<int> owners(shape.total_bytes());
  for (const Component& component : layout.components) {
    for (const LayerPlace& place : component.layers) {
      for (std::uint64_t item = 0; item < component.items; ++item) {
        for (std::uint64_t i = 0; i < component.item_bytes; ++i)
          ++owners.at(place.base + item * place.stride + i);
      }
    }
  }
  for (const int count : owners) EXPECT_LE(count, 1);
}

TEST(ReplayManifest, EveryFieldAndEveryByteCounts) {
  const Manifest manifest{kTag, 7, 1, 1000, 512, 77};
  std::vector<std::byte> slot(kAuxBytes);
  write_manifest(slot, manifest);
  EXPECT_EQ(manifest_wrong(slot, manifest), 0U);
  for (const Manifest& other :
       {Manifest{{{11, 22}, 34}, 7, 1, 1000, 512, 77}, Manifest{kTag, 8, 1, 1000, 512, 77},
        Manifest{kTag, 7, 2, 1000, 512, 77}, Manifest{kTag, 7, 1, 1001, 512, 77},
        Manifest{kTag, 7, 1, 1000, 0, 77}, Manifest{kTag, 7, 1, 1000, 512, 78}}) {
    EXPECT_GT(manifest_wrong(slot, other), 0U);
  }
  for (std::byte& byte : slot) {
    byte ^= std::byte{0x80};
    EXPECT_EQ(manifest_wrong(slot, manifest), 1U);
    byte ^= std::byte{0x80};
  }
}

}  // namespace
}  // namespace kvferry::replay
