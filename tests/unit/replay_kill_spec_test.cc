// --kill ROLE[.i]@SECONDS[:restart] | ROLE[.i]@room:N[:restart]
#include "replay/kill_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvferry::replay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ReplayKillSpec, ReadsATime) {
  const Result<KillSpec> spec = parse_kill("prefill@1.5");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->side, Side::kPrefill);
  EXPECT_EQ(spec->index, 0U);
  EXPECT_FALSE(spec->at_room);
  EXPECT_DOUBLE_EQ(spec->seconds, 1.5);
  EXPECT_FALSE(spec->restart);
}

TEST(ReplayKillSpec, ReadsARoomAProcessAndARestart) {
  const Result<KillSpec> spec = parse_kill("decode.3@room:40:restart");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->side, Side::kDecode);
  EXPECT_EQ(spec->index, 3U);
  EXPECT_TRUE(spec->at_room);
  EXPECT_EQ(spec->room, 40U);
  EXPECT_TRUE(spec->restart);
}

TEST(ReplayKillSpec, RefusesWithTheWrongPartAndTheForm) {
  const auto error_of = [](const char* text) {
    const Result<KillSpec> spec = parse_kill(text);
    return spec ? std::string("no error") : spec.error().line();
  };
  const auto form = HasSubstr("ROLE[.i]@SECONDS[:restart]");
  EXPECT_THAT(error_of("prefill"), AllOf(HasSubstr("--kill prefill"), form));
  EXPECT_THAT(error_of("router@1"), AllOf(HasSubstr("\"router\" is no role"), form));
  EXPECT_THAT(error_of("prefill.x@1"), HasSubstr("\"x\" is no process number"));
  EXPECT_THAT(error_of("prefill.@1"), HasSubstr("no process number"));
  EXPECT_THAT(error_of("prefill@-1"), HasSubstr("\"-1\" is no time"));
  EXPECT_THAT(error_of("prefill@nan"), HasSubstr("is no time"));
  EXPECT_THAT(error_of("prefill@inf"), HasSubstr("is no time"));
  EXPECT_THAT(error_of("prefill@1e9"), HasSubstr("is no time"));
  EXPECT_THAT(error_of("prefill@1:again"), HasSubstr("is no time"));
  EXPECT_THAT(error_of("decode@room:0"), HasSubstr("\"0\" is no room count"));
  EXPECT_THAT(error_of("decode@room:"), HasSubstr("no room count"));
  EXPECT_THAT(error_of("decode@"), HasSubstr("is no time"));
}

}  // namespace
}  // namespace kvferry::replay
