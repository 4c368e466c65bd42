// Small words for the tests of manager and test kit: patterns in pages, open/grant/push in one line.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kvferry/testkit.h"

namespace kvferry::testkit {

inline std::byte pattern(std::uint64_t seed, std::uint32_t layer, std::uint32_t page, std::uint32_t offset) {
  return static_cast<std::byte>((seed * 131 + layer * 31 + page * 7 + offset) & 0xffU);
}

inline void fill_page(Node& node, std::uint32_t page, std::uint64_t seed, std::uint32_t name) {
  for (std::uint32_t layer = 0; layer < node.layers; ++layer) {
    for (std::uint32_t i = 0; i < node.item_bytes; ++i)
      node.item(layer, page)[i] = pattern(seed, layer, name, i);
  }
}

// The bytes of `page` are those that fill_page(.., seed, name) wrote, over `layers` from `first`.
inline bool page_is(Node& node, std::uint32_t page, std::uint64_t seed, std::uint32_t name) {
  for (std::uint32_t layer = 0; layer < node.layers; ++layer) {
    for (std::uint32_t i = 0; i < node.item_bytes; ++i) {
      if (node.item(layer, page)[i] != pattern(seed, layer, name, i)) return false;
    }
  }
  return true;
}

inline bool page_is_zero(Node& node, std::uint32_t page) {
  for (std::uint32_t layer = 0; layer < node.layers; ++layer) {
    for (std::uint32_t i = 0; i < node.item_bytes; ++i) {
      if (node.item(layer, page)[i] != std::byte{0}) return false;
    }
  }
  return true;
}

inline Handle open_sender(Node& node, std::uint64_t room) {
  OpenSpec spec;
  spec.room = RoomId{room};
  const auto handle = node.manager->open(spec);
  EXPECT_TRUE(handle.has_value()) << (handle ? "" : handle.error().line());
  return handle.value_or(Handle{});
}

inline Handle open_receiver(Node& node, std::uint64_t room, std::vector<std::string> senders,
                            std::uint32_t leg = 0, std::uint32_t legs = 1) {
  OpenSpec spec;
  spec.room = RoomId{room};
  spec.role = Role::kReceiver;
  spec.senders = std::move(senders);
  spec.leg = leg;
  spec.legs = legs;
  const auto handle = node.manager->open(spec);
  EXPECT_TRUE(handle.has_value()) << (handle ? "" : handle.error().line());
  return handle.value_or(Handle{});
}

inline GrantSpec lend_pages(PageRuns pages, std::uint32_t tokens) {
  GrantSpec spec;
  spec.pages = std::move(pages);
  spec.tokens = tokens;
  return spec;
}

inline ChunkSpec chunk_of(PageRuns pages, std::uint32_t tokens, bool last) {
  ChunkSpec spec;
  spec.pages = std::move(pages);
  spec.tokens = tokens;
  spec.last = last;
  return spec;
}

inline void must(const Result<>& result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().line());
}

inline std::vector<ManagerEvent> events_of(Node& node) {
  std::vector<ManagerEvent> events;
  node.manager->take_events(events);
  return events;
}

inline std::size_t count_events(const std::vector<ManagerEvent>& events, ManagerEvent::Kind kind) {
  std::size_t count = 0;
  for (const ManagerEvent& event : events) count += event.kind == kind ? 1 : 0;
  return count;
}

inline Error transport_error(const std::string& why) {
  return Error{Code::kTransport, Who::kTransport, Next::kNewRoom, 5, "test mover", why};
}

// One test body for each loopback kind.
class EveryMover : public ::testing::TestWithParam<const char*> {
 protected:
  static ClusterOptions options() {
    ClusterOptions o;
    o.mover = GetParam();
    return o;
  }
  static bool pull() { return std::string(GetParam()) == "loopback-pull"; }
  static bool landed() { return std::string(GetParam()) == "loopback-landed"; }
  // The side that posts operations, and therefore the one whose mover can be held.
  static Node& poster(Cluster& cluster) { return pull() ? cluster.decode() : cluster.prefill(); }
};

inline std::string mover_name(const ::testing::TestParamInfo<const char*>& info) {
  const std::string name = info.param;
  return name.substr(name.rfind('-') + 1);
}

#define KVFERRY_EVERY_MOVER(suite) \
  INSTANTIATE_TEST_SUITE_P(        \
      Loopback, suite, ::testing::Values("loopback-push", "loopback-pull", "loopback-landed"), mover_name)

}  // namespace kvferry::testkit
