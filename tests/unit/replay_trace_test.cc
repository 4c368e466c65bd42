// A trace file: what is read, what is cut, and the one error that names line, field, value and limit.
#include "replay/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvferry::replay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTwo[] =
    "{\"timestamp\": 7, \"input_length\": 513, \"output_length\": 5, \"hash_ids\": [3, 4]}\n"
    "\n"
    "{\"timestamp\": 2.5, \"input_length\": 512, \"output_length\": 0, \"hash_ids\": [9], \"other\": "
    "null}\r\n";

std::string error_of(const std::string& text) {
  const Result<Trace> trace = parse_trace(text, "some.jsonl", {});
  return trace ? "no error" : trace.error().line();
}

TEST(ReplayTrace, ReadsRequestsInOrderOfArrival) {
  const Result<Trace> trace = parse_trace(kTwo, "some.jsonl", {});
  ASSERT_TRUE(trace) << trace.error().line();
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->requests[0].line, 3U);
  EXPECT_EQ(trace->requests[0].arrival_us, 2500);
  EXPECT_THAT(trace->hashes_of(trace->requests[0]), ElementsAre(9));
  EXPECT_EQ(trace->requests[1].arrival_us, 7000);
  EXPECT_EQ(trace->requests[1].output_tokens, 5U);
  EXPECT_THAT(trace->hashes_of(trace->requests[1]), ElementsAre(3, 4));
}

TEST(ReplayTrace, CutsPromptsAndTheirHashes) {
  TraceLimits limits;
  limits.max_input_tokens = 512;
  const Result<Trace> trace = parse_trace(kTwo, "some.jsonl", limits);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->cut, 1U);
  EXPECT_EQ(trace->requests[1].input_tokens, 512U);
  EXPECT_THAT(trace->hashes_of(trace->requests[1]), ElementsAre(3));
}

TEST(ReplayTrace, StopsAfterTheWantedNumberOfLines) {
  TraceLimits limits;
  limits.requests = 1;
  const Result<Trace> trace = parse_trace(std::string(kTwo) + "not read at all", "some.jsonl", limits);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->requests.size(), 1U);
}

TEST(ReplayTrace, NamesLineAndFieldOfWhatIsWrong) {
  const std::string good =
      "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}\n";
  EXPECT_THAT(error_of(good + "{"), AllOf(HasSubstr("some.jsonl:2"), HasSubstr("not JSON")));
  EXPECT_THAT(error_of("[1]"), AllOf(HasSubstr("some.jsonl:1"), HasSubstr("one JSON object")));
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"output_length\": 1, \"hash_ids\": [1]}"),
              AllOf(HasSubstr("\"input_length\""), HasSubstr("missing")));
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"input_length\": -4, \"output_length\": 1, \"hash_ids\": [1]}"),
              AllOf(HasSubstr("\"input_length\""), HasSubstr("-4"), HasSubstr("from 1 to 8388608")));
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"input_length\": 1.5, \"output_length\": 1, \"hash_ids\": [1]}"),
              AllOf(HasSubstr("\"input_length\""), HasSubstr("1.5"), HasSubstr("whole number")));
  EXPECT_THAT(
      error_of("{\"timestamp\": \"now\", \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}"),
      AllOf(HasSubstr("\"timestamp\""), HasSubstr("now")));
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1e99, \"hash_ids\": [1]}"),
              HasSubstr("\"output_length\""));
}

TEST(ReplayTrace, HashesMustFitThePrompt) {
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": [1]}"),
              AllOf(HasSubstr("\"hash_ids\""), HasSubstr("has 1 entries"), HasSubstr("513 needs 2")));
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [-1]}"),
              AllOf(HasSubstr("\"hash_ids\""), HasSubstr("entry 0 is -1")));
  EXPECT_THAT(error_of("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": 7}"),
              AllOf(HasSubstr("\"hash_ids\""), HasSubstr("is 7")));
}

TEST(ReplayTrace, AnEmptyOrMissingFileIsNamed) {
  EXPECT_THAT(error_of(" \n\n"), AllOf(HasSubstr("some.jsonl"), HasSubstr("no request")));
  const Result<Trace> trace = load_trace("does/not/exist.jsonl", {});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kUsage);
  EXPECT_THAT(trace.error().line(), AllOf(HasSubstr("does/not/exist.jsonl"), HasSubstr("No such file")));
}

TEST(ReplayTrace, ALongBadValueIsShownShort) {
  const std::string line = error_of("{\"timestamp\": \"" + std::string(10000, 'x') + "\"}");
  EXPECT_LT(line.size(), 400U);
}

}  // namespace
}  // namespace kvferry::replay
