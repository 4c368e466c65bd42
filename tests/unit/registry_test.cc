// The registry's brain in virtual time: leases, incarnations, readiness by rank, bounds.
#include "core/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kvferry::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint at(std::int64_t ms) { return TimePoint{} + milliseconds(ms); }

Registration rank(std::uint32_t r, std::uint64_t life = 1) {
  Registration out;
  out.group = "llama-a";
  out.rank = r;
  out.endpoint = "10.0.0.5:" + std::to_string(9000 + r);
  out.incarnation = {life, 7 + r};
  out.shape = {2, 1, 2};
  return out;
}

TEST(Registry, ReadyWhenEveryRankIsThereNotAfterThatManyRequests) {
  Registry registry;
  for (int again = 0; again < 4; ++again) {
    ASSERT_TRUE(registry.put(rank(0), at(again)));
    EXPECT_FALSE(registry.group("llama-a", at(again))->ready);
  }
  for (std::uint32_t r : {3U, 1U}) ASSERT_EQ(registry.put(rank(r), at(5)), Registry::Outcome::kCreated);
  EXPECT_EQ(registry.group("llama-a", at(5))->missing, std::vector<std::uint32_t>{2});
  ASSERT_TRUE(registry.put(rank(2), at(6)));
  const auto group = registry.group("llama-a", at(6));
  EXPECT_TRUE(group->ready);
  for (std::uint32_t r = 0; r < 4; ++r) EXPECT_EQ(group->ranks[r].endpoint, rank(r).endpoint);
  EXPECT_TRUE(registry.groups(at(6)).at(0).ready);
}

TEST(Registry, ReRegistrationIsIdempotent) {
  Registry registry;
  EXPECT_EQ(registry.put(rank(0), at(0)), Registry::Outcome::kCreated);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(registry.put(rank(0), at(i)), Registry::Outcome::kRenewed);
  EXPECT_EQ(registry.entries(), 1U);
  EXPECT_EQ(registry.counters().renewed, 100U);
}

TEST(Registry, ALeaseEndsToTheNanosecondAndARenewalMovesIt) {
  Registry registry;
  ASSERT_TRUE(registry.put(rank(0), at(0)));
  EXPECT_EQ(registry.next_expiry(), at(30000));
  EXPECT_TRUE(registry.group("llama-a", at(30000) - Duration{1}));
  Registry other = registry;  // an ordinary value
  EXPECT_FALSE(registry.group("llama-a", at(30000)));
  EXPECT_EQ(registry.counters().expired, 1U);
  ASSERT_TRUE(other.put(rank(0), at(29999)));
  EXPECT_TRUE(other.group("llama-a", at(59998)));
  EXPECT_FALSE(other.group("llama-a", at(59999)));
  EXPECT_EQ(other.entries(), 0U);
  EXPECT_EQ(other.group_count(), 0U);
}

TEST(Registry, ANewerLifeReplacesAnOlderIsToldSo) {
  Registry registry;
  ASSERT_TRUE(registry.put(rank(0, 5), at(0)));
  auto newer = rank(0, 6);
  newer.endpoint = "10.0.0.9:1";
  EXPECT_EQ(registry.put(newer, at(1)), Registry::Outcome::kReplaced);
  const auto refused = registry.put(rank(0, 5), at(2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kSuperseded);
  EXPECT_NE(refused.error().why.find("10.0.0.9:1"), std::string::npos);
  EXPECT_NE(refused.error().why.find("newer process"), std::string::npos);
  EXPECT_EQ(registry.remove("llama-a", 0, rank(0, 5).incarnation, at(2)).error().code, Code::kSuperseded);
  EXPECT_EQ(registry.group("llama-a", at(2))->ranks.at(0).endpoint, "10.0.0.9:1");
  EXPECT_EQ(registry.remove("llama-a", 0, newer.incarnation, at(2)), true);
  EXPECT_EQ(registry.remove("llama-a", 0, newer.incarnation, at(2)), false);
}

TEST(Registry, OneLifeHasOneEndpointAndOneEndpointOneLife) {
  Registry registry;
  ASSERT_TRUE(registry.put(rank(0, 5), at(0)));
  auto moved = rank(0, 5);
  moved.endpoint = "10.0.0.9:1";
  EXPECT_EQ(registry.put(moved, at(1)).error().code, Code::kMismatch);
  auto twin = rank(1, 5);
  twin.endpoint = rank(0).endpoint;
  twin.incarnation = rank(0, 5).incarnation;
  EXPECT_EQ(registry.put(twin, at(1)).error().code, Code::kRefused);
  twin.incarnation = {6, 0};  // a newer process at that address: rank 0 cannot live any more
  ASSERT_TRUE(registry.put(twin, at(2)));
  EXPECT_EQ(registry.group("llama-a", at(2))->missing, (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_EQ(registry.entries(), 1U);
}

TEST(Registry, DisagreeingSizesNameBoth) {
  Registry registry;
  ASSERT_TRUE(registry.put(rank(0), at(0)));
  auto other = rank(1);
  other.shape = {4, 1, 1};
  const auto refused = registry.put(other, at(0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kMismatch);
  EXPECT_NE(refused.error().why.find("tp 4 x pp 1 x dp 1"), std::string::npos);
  EXPECT_NE(refused.error().why.find("tp 2 x pp 1 x dp 2"), std::string::npos);
  auto decode = rank(1);
  decode.role = Role::kReceiver;
  EXPECT_EQ(registry.put(decode, at(0)).error().code, Code::kMismatch);
  auto alone = rank(0, 2);  // the only member starts afresh with other sizes
  alone.shape = {1, 1, 1};
  EXPECT_TRUE(registry.put(alone, at(1)));
  EXPECT_TRUE(registry.group("llama-a", at(1))->ready);
}

TEST(Registry, DrainingIsShownAndTakenBack) {
  Registry registry;
  auto r = rank(0);
  r.draining = true;
  ASSERT_TRUE(registry.put(r, at(0)));
  EXPECT_TRUE(registry.group("llama-a", at(0))->draining);
  r.draining = false;
  ASSERT_TRUE(registry.put(r, at(1)));
  EXPECT_FALSE(registry.group("llama-a", at(1))->draining);
  r.draining = true;
  ASSERT_TRUE(registry.put(r, at(2)));
  EXPECT_EQ(registry.remove("llama-a", 0, {}, at(2)), true);
  ASSERT_TRUE(registry.put(rank(1), at(3)));
  EXPECT_FALSE(registry.group("llama-a", at(3))->draining);
}

TEST(Registry, GroupsDoNotKnowEachOther) {
  Registry registry;
  auto a = rank(0);
  auto b = rank(0);
  b.group = "llama-b";
  b.role = Role::kReceiver;
  b.shape = {1, 1, 1};
  ASSERT_TRUE(registry.put(a, at(0)));
  ASSERT_TRUE(registry.put(b, at(0)));
  EXPECT_FALSE(registry.group("llama-a", at(0))->ready);
  EXPECT_TRUE(registry.group("llama-b", at(0))->ready);
}

TEST(Registry, BadValuesNameFieldValueAndLimit) {
  Registry registry;
  const auto refused = [&](auto change) {
    auto r = rank(0);
    change(r);
    const auto got = registry.put(r, at(0));
    EXPECT_FALSE(got);
    return got ? Error{} : got.error();
  };
  EXPECT_EQ(refused([](auto& r) { r.rank = 4; }).what, "rank 4");
  EXPECT_NE(refused([](auto& r) { r.rank = 4; }).why.find("below 4"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.shape.tp = 0; }).why.find("1 to 4096"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.shape = {~0U, ~0U, ~0U}; }).why.find("1 to 4096"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.lease = milliseconds(10); }).why.find("1000 ms to 3600000 ms"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.group = "a/b"; }).what.find("group \"a/b\""), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.group = ""; }).why.find("1 to 128"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.endpoint = "nope"; }).what.find("nope"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.endpoint = "0.0.0.0:1"; }).why.find("cannot be dialled"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.incarnation = {}; }).what.find("incarnation"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.name = std::string(200, 'x'); }).why.find("128"), std::string::npos);
  EXPECT_EQ(registry.counters().refused, 11U);
  EXPECT_EQ(registry.entries(), 0U);
}

TEST(Registry, EveryTableHasItsBound) {
  RegistryLimits limits;
  limits.groups = 2;
  limits.entries = 3;
  Registry registry(limits);
  auto r = rank(0);
  ASSERT_TRUE(registry.put(r, at(0)));
  r.group = "b";
  ASSERT_TRUE(registry.put(r, at(0)));
  r.group = "c";
  const auto groups = registry.put(r, at(0));
  EXPECT_EQ(groups.error().code, Code::kExhausted);
  EXPECT_NE(groups.error().why.find("groups of 2"), std::string::npos);
  ASSERT_TRUE(registry.put(rank(1), at(0)));
  const auto entries = registry.put(rank(2), at(0));
  EXPECT_EQ(entries.error().code, Code::kExhausted);
  EXPECT_NE(entries.error().why.find("entries of 3"), std::string::npos);
  EXPECT_EQ(registry.put(rank(1), at(1)), Registry::Outcome::kRenewed);  // a full table still renews
}

TEST(Registry, IncarnationsAsText) {
  const Incarnation i{1754000000000ULL, 0x00f3a9c1d2e4b567ULL};
  EXPECT_EQ(print_incarnation(i), "1754000000000-00f3a9c1d2e4b567");
  EXPECT_EQ(parse_incarnation(print_incarnation(i)), i);
  EXPECT_EQ(parse_incarnation(print_incarnation({~0ULL, ~0ULL})), (Incarnation{~0ULL, ~0ULL}));
  for (const char* bad :
       {"", "-", "1", "1-", "-1", "x-1", "1-g", "1-00000000000000001", "18446744073709551616-1"})
    EXPECT_FALSE(parse_incarnation(bad)) << bad;
}

// Random calls against a model that keeps every entry with its expiry and works everything out anew.
TEST(Registry, AgreesWithAModelOverRandomCalls) {
  std::mt19937 random(11);
  Registry registry;
  std::map<std::pair<std::string, std::uint32_t>, std::pair<std::uint64_t, TimePoint>> model;
  std::int64_t now = 0;
  for (int step = 0; step < 20000; ++step) {
    now += static_cast<std::int64_t>(random() % 3000);
    std::erase_if(model, [&](const auto& e) { return e.second.second <= at(now); });
    auto r = rank(static_cast<std::uint32_t>(random() % 4), 1 + random() % 4);
    r.group = random() % 2 == 0 ? "a" : "b";
    r.lease = seconds(1 + random() % 40);
    const auto key = std::make_pair(r.group, r.rank);
    const auto known = model.find(key);
    const bool older = known != model.end() && known->second.first > r.incarnation.started_ms;
    if (random() % 8 == 0) {
      const auto removed = registry.remove(r.group, r.rank, r.incarnation, at(now));
      ASSERT_EQ(removed.has_value(), !older);
      if (!older) {
        ASSERT_EQ(*removed, known != model.end());
        model.erase(key);
      }
    } else {
      const auto put = registry.put(r, at(now));
      ASSERT_EQ(put.has_value(), !older);
      if (!older) model[key] = {r.incarnation.started_ms, at(now) + r.lease};
    }
    ASSERT_EQ(registry.entries(), model.size());
    for (const char* name : {"a", "b"}) {
      const auto group = registry.group(name, at(now));
      const auto live = static_cast<std::size_t>(
          std::count_if(model.begin(), model.end(), [&](const auto& e) { return e.first.first == name; }));
      ASSERT_EQ(group ? group->ranks.size() : 0U, live);
      ASSERT_EQ(group && group->ready, live == 4);
    }
  }
}

}  // namespace
}  // namespace kvferry::core
