// A pool of our own is shared by shm as it is; the same range without its pool is foreign memory.
#include "kvferry/pool.h"

#include <gtest/gtest.h>

#include "kvferry/manager.h"
#include "kvferry/parts.h"

namespace kvferry {
namespace {

constexpr std::uint32_t kPageBytes = 4096, kPages = 16;

// A manager over shm alone, which refuses what it could only reach by foreign reads.
Result<std::unique_ptr<Manager>> start(const Pool& pool, const PartsOptions& parts_options) {
  auto parts = make_parts(parts_options);
  if (!parts) return tl::unexpected(parts.error());
  ManagerOptions options;
  options.name = "pool-test";
  options.regions = {RegionView{pool.data(), std::uint64_t{kPages} * kPageBytes, Memory::kHost}};
  options.layout.page_tokens = 16;
  options.layout.components = {{ComponentKind::kAttention,
                                Space::kPages,
                                "kv",
                                "u8",
                                kPageBytes,
                                kPages,
                                {{0, RegionId{0}, 0, kPageBytes}}}};
  return Manager::start(std::move(options), std::move(*parts));
}

TEST(Pool, IsZeroedRoundedUpAndDescribesItself) {
  const auto pool = Pool::allocate(5);
  ASSERT_TRUE(pool) << pool.error().line();
  EXPECT_EQ((*pool)->size(), 2U << 20U);
  EXPECT_EQ((*pool)->data()[0], std::byte{0});
  EXPECT_EQ((*pool)->data()[(*pool)->size() - 1], std::byte{0});
  EXPECT_NE((*pool)->report().find("2 MiB"), std::string::npos) << (*pool)->report();
}

TEST(Pool, OfNothingIsAUsageError) {
  const auto pool = Pool::allocate(0);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, Code::kUsage);
}

TEST(Pool, IsSharedOnlyWhenItIsNamedInTheParts) {
  const auto pool = Pool::allocate(std::uint64_t{kPages} * kPageBytes);
  ASSERT_TRUE(pool) << pool.error().line();
  PartsOptions options;
  options.movers = {"shm"};
  options.shm_foreign = false;
  EXPECT_FALSE(start(**pool, options)) << "foreign memory must be refused, or the next line proves nothing";
  options.pools = {*pool};
  const auto manager = start(**pool, options);
  EXPECT_TRUE(manager) << manager.error().line();
}

}  // namespace
}  // namespace kvferry
