// The registry's HTTP interface without HTTP: every wrong thing has its status and one error that names it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "bootstrap/answers.h"
#include "bootstrap/routes.h"

namespace kvferry::bootstrap {
namespace {

using Json = nlohmann::json;

TimePoint at(std::int64_t ms) { return TimePoint{} + std::chrono::milliseconds(ms); }

struct Server {
  Routes routes{core::RegistryLimits{}, Incarnation{1, 2}};
  HttpReply ask(std::string_view method, std::string_view target, std::string_view body = "",
                std::int64_t ms = 0) {
    return routes.handle({method, target, body}, at(ms));
  }
  Json error(std::string_view method, std::string_view target, std::string_view body, unsigned status) {
    const HttpReply reply = ask(method, target, body);
    EXPECT_EQ(reply.status, status) << reply.body;
    return Json::parse(reply.body).at("error");
  }
};

constexpr const char* kRank0 = "/v1/groups/g/ranks/0";

std::string good(std::uint32_t rank = 0) {
  core::Registration r;
  r.endpoint = "10.0.0.1:" + std::to_string(9000 + rank);
  r.incarnation = {5, 6};
  r.shape = {2, 1, 1};
  r.lease = std::chrono::seconds(10);
  r.name = "prefill-0";
  return write_registration(r);
}

TEST(RegistryRoutes, RegisterRenewListRemove) {
  Server s;
  EXPECT_EQ(s.ask("PUT", kRank0, good()).status, 201U);
  const Json renewed = Json::parse(s.ask("PUT", kRank0, good()).body);
  EXPECT_EQ(renewed.at("outcome"), "renewed");
  EXPECT_EQ(renewed.at("lease_ms"), 10000);
  EXPECT_EQ(renewed.at("server"), "1-0000000000000002");
  Json group = Json::parse(s.ask("GET", "/v1/groups/g", "", 4000).body);
  EXPECT_EQ(group.at("ready"), false);
  EXPECT_EQ(group.at("missing"), Json::array({1}));
  EXPECT_EQ(group.at("ranks")[0].at("left_ms"), 6000);
  EXPECT_EQ(s.ask("PUT", "/v1/groups/g/ranks/1", good(1)).status, 201U);
  group = Json::parse(s.ask("GET", "/v1/groups/g").body);
  EXPECT_EQ(group.at("ready"), true);
  EXPECT_EQ(group.at("ranks")[1].at("endpoint"), "10.0.0.1:9001");
  EXPECT_EQ(Json::parse(s.ask("GET", "/v1/groups").body).at("groups")[0].at("registered"), 2);
  EXPECT_EQ(s.ask("DELETE", "/v1/groups/g/ranks/1?incarnation=4-0").status, 409U);
  EXPECT_EQ(s.ask("DELETE", "/v1/groups/g/ranks/1?incarnation=5-6").status, 200U);
  EXPECT_EQ(s.ask("DELETE", "/v1/groups/g/ranks/1?incarnation=5-6").status, 404U);
  EXPECT_EQ(s.ask("GET", "/v1/groups/g", "", 10000).status, 404U);  // the lease ended
  EXPECT_EQ(Json::parse(s.ask("GET", "/v1/health").body).at("status"), "ok");
}

TEST(RegistryRoutes, AnswersReadBack) {
  Server s;
  s.ask("PUT", kRank0, good());
  auto put = s.ask("PUT", kRank0, good());
  EXPECT_EQ(read_put_answer(put.status, put.body).outcome, "renewed");
  auto get = s.ask("GET", "/v1/groups/g");
  EXPECT_FALSE(read_group_answer(get.status, get.body).ready);
  EXPECT_EQ(read_group_answer(get.status, get.body).missing, "1 of 2 ranks are registered, missing 1");
  s.ask("PUT", "/v1/groups/g/ranks/1", good(1));
  get = s.ask("GET", "/v1/groups/g");
  const auto group = read_group_answer(get.status, get.body);
  ASSERT_TRUE(group.ready) << group.missing;
  EXPECT_EQ(group.ranks.at(1).endpoint, "10.0.0.1:9001");
  EXPECT_EQ(group.ranks.at(1).incarnation, (Incarnation{5, 6}));
  Json body = Json::parse(good());
  body["incarnation"] = "4-0";
  put = s.ask("PUT", kRank0, body.dump());
  EXPECT_EQ(put.status, 409U);
  EXPECT_EQ(read_put_answer(put.status, put.body).code, "superseded");
  for (const char* junk : {"", "[]", "{", "null", "{\"ranks\":3}", "{\"ranks\":[1],\"ready\":true}"}) {
    EXPECT_FALSE(read_group_answer(200, junk).ready);
    EXPECT_FALSE(read_group_answer(200, junk).missing.empty());
    EXPECT_TRUE(read_put_answer(200, junk).outcome.empty());
  }
  EXPECT_EQ(percent_encoded("a/b c%"), "a%2Fb%20c%25");
}

TEST(RegistryRoutes, WrongMethodNamesTheRightOnes) {
  Server s;
  const HttpReply reply = s.ask("POST", kRank0, good());
  EXPECT_EQ(reply.status, 405U);
  EXPECT_STREQ(reply.allow, "PUT, DELETE");
  for (const char* target : {"/v1/groups", "/v1/groups/g", "/v1/health", "/metrics"})
    EXPECT_EQ(s.ask("PUT", target).status, 405U) << target;
}

TEST(RegistryRoutes, UnknownIs404AndBadPathsAreNamed) {
  Server s;
  for (const char* target : {"", "/", "/v2/groups", "/v1", "/v1/group", "/v1/groups/g", "/v1/groups/g/rank/0",
                             "/v1/groups/g/ranks/0/x", "/metrics/x"})
    EXPECT_EQ(s.ask("GET", target).status, 404U) << target;
  EXPECT_EQ(s.error("PUT", "/v1/groups/g/ranks/x", good(), 400).at("field"), "rank");
  EXPECT_EQ(s.error("PUT", "/v1/groups/g/ranks/4294967296", good(), 400).at("value"), "4294967296");
  EXPECT_EQ(s.error("PUT", "/v1/groups/%zz/ranks/0", good(), 400).at("field"), "group");
  EXPECT_EQ(s.error("PUT", "/v1/groups/a%2Fb/ranks/0", good(), 400).at("field"), "group");
  EXPECT_EQ(s.error("DELETE", "/v1/groups/g/ranks/0?when=now", "", 400).at("field"), "query");
}

TEST(RegistryRoutes, EveryBadFieldIsNamedWithValueLimitAndFix) {
  Server s;
  const auto with = [](const char* key, Json value) {
    Json body = Json::parse(good());
    body[key] = std::move(value);
    return body.dump();
  };
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"body", ""},
      {"body", "not json"},
      {"body", "[1]"},
      {"body", std::string(100, '[')},
      {"body", "{\"endpoint\": \"\xff\xfe\"}"},
      {"endpoint", "{}"},
      {"endpoint", with("endpoint", 3)},
      {"endpoint", with("endpoint", "nope")},
      {"incarnation", with("incarnation", "yesterday")},
      {"incarnation", with("incarnation", "0-0")},
      {"role", with("role", "both")},
      {"tp", with("tp", 0)},
      {"pp", with("pp", -1)},
      {"dp", with("dp", 1.5)},
      {"tp", with("tp", 4294967296)},
      {"shape", with("tp", 4294967295)},
      {"lease_ms", with("lease_ms", 5)},
      {"lease_ms", with("lease_ms", "30s")},
      {"draining", with("draining", "yes")},
      {"name", with("name", std::string(500, 'n'))},
      {"leas_ms", with("leas_ms", 1)},
  };
  for (const auto& [field, body] : cases) {
    const Json error = s.error("PUT", kRank0, body, 400);
    EXPECT_EQ(error.at("field"), field) << body;
    EXPECT_EQ(error.at("code"), "usage");
    EXPECT_FALSE(error.at("value").get<std::string>().empty()) << error;
    EXPECT_FALSE(error.at("limit").get<std::string>().empty()) << error;
    EXPECT_FALSE(error.value("message", "").empty()) << error;
    EXPECT_TRUE(error.contains("fix") || field == std::string("lease_ms") || field == std::string("name") ||
                field == std::string("endpoint"))
        << error;
  }
  EXPECT_EQ(s.routes.counters().bad_request, cases.size());
  EXPECT_EQ(s.routes.registry().entries(), 0U);
  EXPECT_EQ(s.ask("PUT", kRank0, with("x_own", 1)).status, 201U);
}

TEST(RegistryRoutes, TenThousandBrokenBodiesAreCountedExactly) {
  Server s;
  ASSERT_EQ(s.ask("PUT", kRank0, good()).status, 201U);
  std::mt19937 random(3);
  std::uint64_t bad = 0, ok = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string body = good();
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      body[random() % body.size()] = static_cast<char>(random());
    const HttpReply reply = s.ask("PUT", kRank0, body);
    ASSERT_TRUE(Json::accept(reply.body)) << reply.body;
    ++(reply.status < 300 ? ok : bad);
  }
  const auto& c = s.routes.counters();
  EXPECT_EQ(c.requests, 10001U);
  EXPECT_EQ(c.ok, ok + 1);
  EXPECT_EQ(c.bad_request + c.conflict, bad);
  EXPECT_GT(bad, 9000U);
  EXPECT_LE(s.routes.registry().entries(), 1U);
  EXPECT_EQ(s.ask("GET", "/v1/groups/g").status, 200U);
}

TEST(RegistryRoutes, MetricsAreText) {
  Server s;
  s.ask("PUT", kRank0, good());
  s.ask("PUT", kRank0, "{}");
  const std::string text = s.ask("GET", "/metrics").body;
  EXPECT_NE(text.find("kvferry_registry_entries 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("kvferry_bootstrap_bad_request_total 1\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE kvferry_bootstrap_ok_total counter\n"), std::string::npos);
}

}  // namespace
}  // namespace kvferry::bootstrap
