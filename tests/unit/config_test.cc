// Settings: one table, three layers over the defaults, one clear error.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "config/layers.h"
#include "config/toml.h"

namespace kvferry::config {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Layers file(std::string text) {
  Layers out;
  out.file_name = "kv.toml";
  out.file_text = std::move(text);
  return out;
}

Error error_of(const Layers& layers) {
  const auto r = resolve(layers);
  EXPECT_FALSE(r);
  return r ? Error{} : r.error();
}

std::string origin_of(const Resolved& r, std::string_view name) {
  return r.origins[static_cast<std::size_t>(find_setting(name) - settings().data())];
}

// A field that is added to limits.h stops these lines from compiling: give it a setting, then count it here.
TEST(Config, EveryDeadlineAndLimitHasASetting) {
  const auto& [d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13, d14, d15, d16] = Deadlines{};
  const auto& [l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11, l12, l13, l14, l15, l16, l17, l18, l19, l20] =
      Limits{};
  EXPECT_GT(d1 + d2, d16);  // all of them are read, so to say
  EXPECT_GT(l1, l2);
  std::size_t deadlines = 0, limits = 0;
  for (const Setting& s : settings()) {
    if (s.name.rfind("deadlines.", 0) == 0) ++deadlines;
    if (s.name.rfind("limits.", 0) == 0) ++limits;
  }
  EXPECT_EQ(deadlines, 16U);
  EXPECT_EQ(limits, 20U);
}

// Two settings on one field would change each other.
TEST(Config, EachSettingChangesItselfOnly) {
  for (const Setting& s : settings()) {
    Config c;
    std::string other;
    if (s.kind == Kind::kFlag)
      other = value_of(c, s) == "true" ? "false" : "true";
    else if (s.kind == Kind::kDuration)
      other = "99ms";
    else if (s.kind == Kind::kText)
      other = s.form == "movers" ? "tcp" : s.form == "level" ? "warn" : s.form == "endpoint" ? "a:7" : "a";
    else
      other = std::to_string(s.most);
    ASSERT_TRUE(set_value(c, s, other, "test")) << s.name;
    for (const Setting& t : settings())
      EXPECT_EQ(value_of(c, t) != value_of(Config{}, t), t.name == s.name) << s.name << " changed " << t.name;
  }
}

TEST(Config, NamesAndPlacesAreUniqueAndDefaultsPassTheirOwnBounds) {
  std::set<std::string_view> names;
  Config c;
  for (const Setting& s : settings()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_FALSE(s.help.empty());
    const std::string value = value_of(Config{}, s);
    const auto ok = set_value(c, s, value, "test");
    EXPECT_TRUE(ok) << ok.error().line();
    EXPECT_EQ(value_of(c, s), value) << s.name;
  }
  EXPECT_TRUE(check(Config{}));
}

TEST(Config, FlagsOverEnvironmentOverFileOverDefault) {
  Layers layers = file("[deadlines]\ndrain = \"7s\"\ngrace = \"7s\"\nfence = \"7s\"\n");
  layers.environment = {{"KVFERRY_DEADLINES_GRACE", "8s"}, {"KVFERRY_DEADLINES_FENCE", "8s"}, {"PATH", "x"}};
  layers.flags = {{"deadlines.fence", "9s", "--set deadlines.fence"}};
  const auto r = resolve(layers);
  ASSERT_TRUE(r) << r.error().line();
  EXPECT_EQ(r->config.deadlines.lease, seconds(30));
  EXPECT_EQ(r->config.deadlines.drain, seconds(7));
  EXPECT_EQ(r->config.deadlines.grace, seconds(8));
  EXPECT_EQ(r->config.deadlines.fence, seconds(9));
  EXPECT_EQ(origin_of(*r, "deadlines.lease"), "default");
  EXPECT_EQ(origin_of(*r, "deadlines.drain"), "file kv.toml line 2");
  EXPECT_EQ(origin_of(*r, "deadlines.grace"), "environment KVFERRY_DEADLINES_GRACE");
  EXPECT_EQ(origin_of(*r, "deadlines.fence"), "--set deadlines.fence");
}

TEST(Config, UnknownKeysNameTheNearest) {
  EXPECT_NE(error_of(file("[deadlines]\nhandshak = \"1s\"")).why.find("deadlines.handshake"),
            std::string::npos);
  EXPECT_NE(error_of(file("handshake = \"1s\"")).why.find("deadlines.handshake"), std::string::npos);
  EXPECT_NE(error_of(file("[limit]\nrooms = 3")).why.find("limits.rooms"), std::string::npos);
  EXPECT_NE(error_of(file("[limit]\nrooms = 3")).what.find("line 2"), std::string::npos);
  EXPECT_EQ(error_of(file("zebra_crossing = 3")).why.find("did you mean"), std::string::npos);
  Layers env;
  env.environment = {{"KVFERRY_CONTROL_BNID", "x"}};
  EXPECT_NE(error_of(env).why.find("KVFERRY_CONTROL_BIND"), std::string::npos);
  env.environment = {{"KVFERRY_DEADLINE_DRAIN", "1s"}};
  EXPECT_NE(error_of(env).why.find("KVFERRY_DEADLINES_DRAIN"), std::string::npos);
  env.environment = {{"KVFERRY_JOBS", "2"},
                     {"KVFERRY_SIM_SEEDS", "1..2"},
                     {"KVFERRY_CONFIG", "f"},
                     {"KVFERRY_BINARY", "b"},
                     {"KVFERRY_FUZZ_SECONDS", "1"}};
  EXPECT_TRUE(resolve(env));
  Layers flag;
  flag.flags = {{"tcp.stream", "3", "--set tcp.stream"}};
  EXPECT_NE(error_of(flag).why.find("tcp.streams"), std::string::npos);
}

TEST(Config, BadValuesNameKeyValueAndLimit) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"[deadlines]\ndrain = 5", "deadlines.drain \"5\"", "is no duration"},
      {"[deadlines]\ndrain = \"0s\"", "deadlines.drain \"0s\"", "1ms to 1h"},
      {"[deadlines]\ndrain = \"2h\"", "deadlines.drain \"2h\"", "1ms to 1h"},
      {"[deadlines]\ndrain = \"1.5s\"", "deadlines.drain \"1.5s\"", "whole number"},
      {"[limits]\nrooms = 0", "limits.rooms \"0\"", "1 to 16777216"},
      {"[limits]\nrooms = -3", "limits.rooms \"-3\"", "1 to 16777216"},
      {"[limits]\nrooms = 99999999999999999999", "limits.rooms", "1 to 16777216"},
      {"[limits]\nrooms = \"1KiB\"", "limits.rooms \"1KiB\"", "1 to 16777216"},
      {"[movers]\norder = \"rdma\"", "movers.order \"rdma\"", "shm and tcp"},
      {"[movers]\norder = \"tcp,tcp\"", "movers.order \"tcp,tcp\"", "twice"},
      {"[control]\nbind = \"nowhere\"", "control.bind \"nowhere\"", "HOST:PORT"},
      {"[control]\nbind = \"\"", "control.bind \"\"", "HOST:PORT"},
      {"[shm]\nadopt = 1", "shm.adopt \"1\"", "true or false"},
      {"[log]\nlevel = \"loud\"", "log.level \"loud\"", "trace, debug"},
      {"[deadlines]\nresend_first = \"20s\"", "deadlines.resend_first 20s", "deadlines.resend_most 16s"},
      {"[control]\nqueue_bytes = \"8KiB\"", "control.queue_bytes 8192", "1048580"},
  };
  for (const auto& [text, what, why] : cases) {
    const Error e = error_of(file(text));
    EXPECT_EQ(e.code, Code::kUsage);
    EXPECT_NE(e.what.find(what), std::string::npos) << e.line();
    EXPECT_NE(e.why.find(why), std::string::npos) << e.line();
  }
}

TEST(Config, TheFileIsReadStrictly) {
  const auto good =
      read_toml("# c\n[a.b] # c\nx = 1_000 # c\n y=\"a # \\\" b\" # c\r\nz='\\'\n\n[d]\nx = true\n", "f");
  ASSERT_TRUE(good) << good.error().line();
  ASSERT_EQ(good->size(), 4U);
  EXPECT_EQ((*good)[0].name, "a.b.x");
  EXPECT_EQ((*good)[1].value, "a # \" b");
  EXPECT_EQ((*good)[2].value, "\\");
  EXPECT_EQ((*good)[3].line, 8U);
  for (const char* bad :
       {"[a", "[]", "[[a]]", "[a] x", "x", "= 1", "x =", "x = \"a", "x = \"a\" b", "x = [1]", "x = 1.5",
        "x = { a = 1 }", "x = \"\"\"a", "x = \"\\n\"", "x = yes", "x y = 1", "x = 1\nx = 2"}) {
    const auto r = read_toml(bad, "f.toml");
    ASSERT_FALSE(r) << bad;
    EXPECT_NE(r.error().what.find("f.toml line"), std::string::npos);
  }
  EXPECT_FALSE(read_toml(std::string(kMaxFileBytes + 1, '\n'), "f"));
}

TEST(Config, RandomBytesNeverCrash) {
  std::mt19937 random(5);
  const std::string seed =
      "[deadlines]\ndrain = \"7s\"\n[limits]\nrooms = 7\n# c\n[control]\nbind = \"[::1]:0\"\n";
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed;
    for (auto n = 1 + random() % 6; n > 0; --n) text[random() % text.size()] = static_cast<char>(random());
    const auto r = resolve(file(text));
    if (!r) {
      ASSERT_FALSE(r.error().what.empty());
    }
  }
}

TEST(Config, Durations) {
  const std::vector<std::pair<const char*, Duration>> cases = {{"30s", seconds(30)},
                                                               {"300s", seconds(300)},
                                                               {"15m", std::chrono::minutes(15)},
                                                               {"1h", std::chrono::hours(1)},
                                                               {"20ms", milliseconds(20)},
                                                               {"50us", std::chrono::microseconds(50)},
                                                               {"7ns", std::chrono::nanoseconds(7)}};
  for (const auto& [text, value] : cases) {
    EXPECT_EQ(parse_duration(text), value) << text;
    EXPECT_EQ(print_duration(value), text);
  }
  for (const char* bad : {"", "s", "1", "1.5s", "-1s", "1 s", "1d", "99999999999999h"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
  EXPECT_EQ(parse_number("2GiB", true), 2ULL << 30U);
  EXPECT_FALSE(parse_number("2GiB", false));
}

TEST(Config, JsonHoldsEverySettingOnOneLine) {
  Layers layers = file("[manager]\nname = \"prefill-0\"\n");
  const auto r = resolve(layers);
  ASSERT_TRUE(r);
  const std::string text = table_json(*r, "a \"file\"");
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("settings").size(), settings().size());
  EXPECT_EQ(json.at("settings")[0].at("value"), "prefill-0");
  EXPECT_EQ(json.at("settings")[0].at("origin"), "file kv.toml line 2");
  for (const Setting& s : settings()) EXPECT_NE(table_text(*r).find(s.name), std::string::npos);
}

// A parent hands its result to a child as text; the child ends up with the same values.
TEST(Config, WhatDiffersFromTheDefaultsTravelsAsText) {
  EXPECT_TRUE(differing(Config{}).empty());
  Config c;
  c.deadlines.grace = milliseconds(1500);
  c.limits.rooms = 7;
  c.control_queue_bytes = 8U << 20;
  c.shm_adopt = true;
  c.recorder_folder = "/tmp/flight records";
  const auto pairs = differing(c);
  EXPECT_EQ(pairs.size(), 5U);
  const auto back = from_differing(pairs);
  ASSERT_TRUE(back) << back.error().line();
  for (const Setting& s : settings()) EXPECT_EQ(value_of(*back, s), value_of(c, s)) << s.name;
  EXPECT_FALSE(from_differing({"limits.rooms"}));
  EXPECT_FALSE(from_differing({"limits.romms=7"}));
}

}  // namespace
}  // namespace kvferry::config
