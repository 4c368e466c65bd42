// Log, flight recorder and metrics text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "observe/flight_recorder.h"
#include "observe/log.h"
#include "observe/metrics.h"

namespace kvferry::observe {
namespace {

class TestClock final : public Clock {
 public:
  TimePoint now() noexcept override { return at; }
  TimePoint at = TimePoint{} + std::chrono::hours(1);
};

struct Fixture {
  explicit Fixture(std::uint32_t rate, std::size_t topics = 8) {
    LogOptions o;
    o.lines_per_second = rate;
    o.topics = topics;
    o.clock = clock;
    o.sink = [this](Level, std::string_view line) { lines.emplace_back(line); };
    log = std::make_unique<Log>(o);
  }
  std::shared_ptr<TestClock> clock = std::make_shared<TestClock>();
  std::vector<std::string> lines;
  std::unique_ptr<Log> log;
};

TEST(Log, AStormIsHeldBackCountedAndSaid) {
  Fixture f(2);
  for (int i = 0; i < 10; ++i) f.log->line(Level::kWarn, "peer", "lost");
  f.log->line(Level::kWarn, "room", "failed");  // another topic is not hurt
  ASSERT_EQ(f.lines, (std::vector<std::string>{"peer: lost", "peer: lost", "room: failed"}));
  EXPECT_EQ(f.log->held_back(), 8U);
  f.clock->at += std::chrono::seconds(1);
  f.log->line(Level::kWarn, "peer", "lost");
  EXPECT_EQ(f.lines.back(), "peer: lost (8 lines about this were held back)");
  f.log->line(Level::kWarn, "peer", "lost");
  EXPECT_EQ(f.lines.back(), "peer: lost");
}

TEST(Log, TopicsAreBoundedAndLevelsAreKept) {
  Fixture f(1, 2);
  for (const char* topic : {"a", "b", "c", "d", "e"}) f.log->line(Level::kInfo, topic, "x");
  EXPECT_EQ(f.lines.size(), 3U);  // c, d and e share one budget
  f.log->line(Level::kDebug, "a", "y");
  EXPECT_EQ(f.log->held_back(), 2U);
  EXPECT_EQ(*parse_level("warn"), Level::kWarn);
  EXPECT_FALSE(parse_level("loud"));
  EXPECT_EQ(name_of(Level::kError), "error");
}

TEST(FlightRecorder, KeepsTheLastEventsInOrder) {
  FlightRecorder recorder(4);
  for (std::uint64_t i = 0; i < 10; ++i)
    recorder.add({TimePoint{} + std::chrono::microseconds(i), "GRANT", RoomId{7}, i, 0, 0});
  EXPECT_EQ(recorder.forgotten(), 6U);
  const auto events = recorder.events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events.front().grant, 6U);
  EXPECT_EQ(events.back().grant, 9U);
  const auto json = nlohmann::json::parse(recorder.json("prefill-0", 42));
  EXPECT_EQ(json.at("traceEvents").size(), 5U);
  EXPECT_EQ(json.at("traceEvents")[1].at("ts"), 6.0);
  EXPECT_EQ(json.at("traceEvents")[1].at("args").at("room"), 7);
  EXPECT_EQ(json.at("otherData").at("forgotten"), 6);
}

TEST(Metrics, EveryCounterIsThereOnce) {
  Counters c;
  c.rooms_live = 3;
  c.bytes_sent = 12345678901234;
  const std::string text = metrics_text(c, "a\"b");
  EXPECT_NE(text.find("kvferry_rooms_live{manager=\"a\\\"b\"} 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("kvferry_bytes_sent_total{manager=\"a\\\"b\"} 12345678901234\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE kvferry_rooms_live gauge\n"), std::string::npos);
}

}  // namespace
}  // namespace kvferry::observe
