// `kvferry replay` over real processes: bytes, back-pressure, aborts, kills, refusals, and what its exit
// status says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "e2e/replay_program.h"

namespace kvferry::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

Arguments with(const TextFile& trace, const Arguments& more) {
  Arguments all{"replay", "--trace", trace.path(), "--json"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expect_kept(const Outcome& outcome) {
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const nlohmann::json json = outcome.json();
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_TRUE(json["promises_kept"].get<bool>());
  EXPECT_EQ(json["rooms"].get<int>(), json["succeeded"].get<int>() + json["failed"].get<int>());
  EXPECT_EQ(json["bytes_wrong"], 0);
  EXPECT_EQ(json["stranger_writes"], 0);
  EXPECT_EQ(json["hung"], 0);
}

class Replay : public testing::TestWithParam<const char*> {};

TEST_P(Replay, EveryRoomOfASmallPoolArrivesWhole) {
  const TextFile trace(mixed_trace(150));
  const Outcome outcome =
      run(with(trace, {"--mover", GetParam(), "--pool-mib", "1", "--bytes-per-token", "64"}));
  expect_kept(outcome);
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["succeeded"], 150);
  EXPECT_EQ(json["attempts"], 150);
  EXPECT_GT(json["page_waits"].get<int>(), 0);
  EXPECT_GT(json["rooms_live_max"].get<int>(), 4);
  EXPECT_EQ(json["bytes_moved"], json["bytes_verified"]);
  EXPECT_EQ(json["pages_lent"], json["pages_returned"]);
}

TEST_P(Replay, AbortsAndKillsEndEveryRoomWithAReason) {
  const TextFile trace(mixed_trace(200));
  const Outcome outcome =
      run(with(trace, {"--mover", GetParam(), "--pool-mib", "1", "--prefill", "2", "--decode", "2",
                       "--abort-rate", "0.2", "--kill", "prefill.1@room:40:restart", "--kill",
                       "decode.0@room:90:restart", "--seed", "5"}));
  expect_kept(outcome);
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["kills"], 2);
  EXPECT_EQ(json["restarts"], 2);
  EXPECT_GT(json["retries"].get<int>(), 0);
  EXPECT_GT(
      json["failures"]["aborted by prefill"].get<int>() + json["failures"]["aborted by decode"].get<int>(),
      0);
  EXPECT_EQ(json["unexplained"], 0);
}

TEST_P(Replay, LayersAndComponentsOfAModelArriveWhole) {
  const TextFile trace(trace_line(0, 3000, 5, 1) + trace_line(0, 700, 5, 100));
  const Outcome outcome =
      run(with(trace, {"--mover", GetParam(), "--model", "smollm2-135m", "--pool-mib", "128"}));
  expect_kept(outcome);
  // 188 and 44 pages of 16 tokens, 23,040 bytes a token, and one auxiliary slot each.
  EXPECT_EQ(outcome.json()["bytes_moved"], (188 + 44) * 16 * 23040 + 2 * 256);
}

INSTANTIATE_TEST_SUITE_P(Movers, Replay, testing::Values("shm", "tcp"),
                         [](const auto& p) { return std::string(p.param); });

TEST(ReplayClockRun, ANumericSpeedKeepsTraceTimeAndFindsHeldBlocks) {
  const TextFile trace(trace_line(0, 2048, 1000, 1) + trace_line(3000, 2060, 1, 1));
  const Outcome outcome = run(with(trace, {"--speed", "1"}));
  expect_kept(outcome);
  EXPECT_GE(outcome.json()["seconds"].get<double>(), 3.0);
  EXPECT_EQ(outcome.json()["prefix_hit_bytes"], 2048 * 64);
}

TEST(ReplayRefusal, APromptLargerThanThePoolFailsByName) {
  const TextFile trace(trace_line(0, 20000, 1, 1) + trace_line(0, 100, 1, 500));
  const Outcome outcome = run(with(trace, {"--pool-mib", "1"}));
  expect_kept(outcome);
  EXPECT_EQ(outcome.json()["failures"]["prompt larger than the pool"], 1);
  EXPECT_EQ(outcome.json()["succeeded"], 1);
}

TEST(ReplayRefusal, MaxInputTokensCutsIt) {
  const TextFile trace(trace_line(0, 20000, 1, 1));
  const Outcome outcome = run(with(trace, {"--pool-mib", "1", "--max-input-tokens", "4096"}));
  expect_kept(outcome);
  EXPECT_EQ(outcome.json()["bytes_moved"], 4096 * 64 + 256);
  EXPECT_EQ(outcome.json()["prompts_cut"], 1);
}

TEST(ReplayKill, WithoutAnyProcessLeftRoomsFailByName) {
  const TextFile trace(mixed_trace(60));
  const Outcome outcome = run(with(trace, {"--pool-mib", "1", "--kill", "decode@room:10"}));
  expect_kept(outcome);
  EXPECT_GT(outcome.json()["failures"]["no decode process left"].get<int>(), 0);
}

TEST(ReplayKill, OneThatNeverFiredIsAUsageError) {
  const TextFile trace(mixed_trace(5));
  const Outcome outcome = run(with(trace, {"--kill", "prefill@room:99"}));
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--kill prefill@room:99"), HasSubstr("never fired")));
}

TEST(ReplayKill, AProcessThatNobodyToldToEndBreaksThePromises) {
  const TextFile trace(trace_line(0, 100, 1, 1) + trace_line(4000, 100, 1, 1));
  Running program(with(trace, {"--speed", "1"}));
  while (program.children().size() < 2 && !program.said("error")) ::poll(nullptr, 0, 20);
  ::poll(nullptr, 0, 1000);  // its rooms run by now
  const std::vector<pid_t> workers = program.children();
  ASSERT_EQ(workers.size(), 2U);
  ::kill(workers[1], SIGKILL);
  const Outcome outcome = program.wait(std::chrono::seconds(40));
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.json()["crashes"], 1);
  EXPECT_FALSE(outcome.json()["promises_kept"].get<bool>());
}

TEST(ReplayKill, WorkersDieWithTheirParent) {
  const TextFile trace(trace_line(0, 100, 1, 1) + trace_line(60000, 100, 1, 1));
  std::vector<pid_t> workers;
  {
    Running program(with(trace, {"--speed", "1"}));
    for (int i = 0; i < 500 && program.children().size() < 2; ++i) ::poll(nullptr, 0, 20);
    workers = program.children();
  }  // SIGKILL to the parent alone
  ASSERT_EQ(workers.size(), 2U);
  const auto alive = [](pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return !text.empty() && text.find(") Z ") == std::string::npos;
  };
  for (int i = 0; i < 500 && std::ranges::any_of(workers, alive); ++i) ::poll(nullptr, 0, 20);
  EXPECT_FALSE(std::ranges::any_of(workers, alive));
}

TEST(ReplayUsage, WhatIsWrongIsNamedOnceAndEndsWithTwo) {
  const TextFile trace(trace_line(0, 100, 1, 1) + "{\"timestamp\": 0, \"input_length\": 0}\n");
  const Outcome line = run(with(trace, {}));
  EXPECT_EQ(line.status, 2);
  EXPECT_THAT(line.err, AllOf(HasSubstr(".jsonl:2"), HasSubstr("input_length"), HasSubstr("from 1")));
  const Outcome flag = run(with(trace, {"--page-tokens", "48"}));
  EXPECT_EQ(flag.status, 2);
  EXPECT_THAT(flag.err, HasSubstr("--page-tokens 48"));
  const Outcome file = run({"replay", "--trace", "no/such/file.jsonl"});
  EXPECT_EQ(file.status, 2);
  EXPECT_THAT(file.err, HasSubstr("no/such/file.jsonl"));
}

TEST(ReplayUsage, TooLittleMemoryIsTheEnvironment) {
  const TextFile trace(trace_line(0, 100, 1, 1));
  const Outcome outcome = run(with(trace, {"--pool-mib", "900000", "--bytes-per-token", "65536"}));
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("memory"), HasSubstr("--pool-mib")));
}

}  // namespace
}  // namespace kvferry::e2e
