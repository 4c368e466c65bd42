// The flags of `kvferry replay`: what is taken, and the one error that names flag, value, limit and fix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "cli/replay_check.h"
#include "replay/setup.h"

namespace kvferry::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::function<void(ReplayOptions&)>& change) {
  ReplayOptions options;
  options.trace = "some.jsonl";
  change(options);
  const Result<CheckedReplay> checked = check_replay(options);
  if (checked) return "no error";
  EXPECT_EQ(checked.error().code, Code::kUsage);
  return checked.error().line();
}

TEST(ReplayOptions, DefaultsAreGood) {
  ReplayOptions options;
  options.trace = "some.jsonl";
  const Result<CheckedReplay> checked = check_replay(options);
  ASSERT_TRUE(checked) << checked.error().line();
  EXPECT_EQ(checked->page_tokens, 16U);
  EXPECT_EQ(checked->chunk_tokens, 2048U);
  EXPECT_EQ(checked->model.bytes_per_token(), 64U);
  EXPECT_DOUBLE_EQ(checked->plan.speed, 0);
  EXPECT_DOUBLE_EQ(checked->plan.decode_ms, 30);
}

TEST(ReplayOptions, BadValuesAreNamedWithTheirLimit) {
  EXPECT_THAT(error_of([](auto& o) { o.trace = ""; }), HasSubstr("--trace"));
  EXPECT_THAT(error_of([](auto& o) { o.mover = "rdma"; }),
              AllOf(HasSubstr("--mover rdma"), HasSubstr("shm or tcp")));
  EXPECT_THAT(error_of([](auto& o) { o.requests = 0; }),
              AllOf(HasSubstr("--requests 0"), HasSubstr("from 1")));
  EXPECT_THAT(error_of([](auto& o) { o.max_input_tokens = -1; }), HasSubstr("--max-input-tokens -1"));
  EXPECT_THAT(error_of([](auto& o) { o.prefill = 65; }),
              AllOf(HasSubstr("--prefill 65"), HasSubstr("1 to 64")));
  EXPECT_THAT(error_of([](auto& o) { o.decode = 0; }), HasSubstr("--decode 0"));
  EXPECT_THAT(error_of([](auto& o) { o.pool_mib = 0; }), HasSubstr("--pool-mib 0"));
  EXPECT_THAT(error_of([](auto& o) { o.page_tokens = 24; }),
              AllOf(HasSubstr("--page-tokens 24"), HasSubstr("divide 512")));
  EXPECT_THAT(error_of([](auto& o) { o.page_tokens = 0; }), HasSubstr("--page-tokens 0"));
  EXPECT_THAT(error_of([](auto& o) { o.chunk_tokens = 100; }),
              AllOf(HasSubstr("--chunk-tokens 100"), HasSubstr("multiple")));
  EXPECT_THAT(error_of([](auto& o) { o.abort_rate = 1.5; }), HasSubstr("--abort-rate 1.5"));
  EXPECT_THAT(error_of([](auto& o) { o.abort_rate = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("--abort-rate"));
  EXPECT_THAT(error_of([](auto& o) { o.decode_ms = -1; }), HasSubstr("--decode-ms -1"));
  EXPECT_THAT(error_of([](auto& o) { o.speed = "fast"; }),
              AllOf(HasSubstr("--speed fast"), HasSubstr("max")));
  EXPECT_THAT(error_of([](auto& o) { o.speed = "0"; }), HasSubstr("--speed 0"));
  EXPECT_THAT(error_of([](auto& o) { o.speed = ""; }), HasSubstr("--speed"));
  EXPECT_THAT(error_of([](auto& o) { o.model = "gpt"; }),
              AllOf(HasSubstr("\"gpt\""), HasSubstr("DeepSeek-V3")));
  EXPECT_THAT(error_of([](auto& o) { o.bytes_per_token = 0; }), HasSubstr("--bytes-per-token 0"));
  EXPECT_THAT(error_of([](auto& o) {
                o.model = "deepseek-v3";
                o.bytes_per_token = 4;
              }),
              HasSubstr("exclude each other"));
  EXPECT_THAT(error_of([](auto& o) { o.kills = {"prefill.1@3"}; }),
              AllOf(HasSubstr("--kill prefill.1@3"), HasSubstr("only 1")));
}

TEST(ReplayModel, PresetsHaveTheirPublishedSizes) {
  EXPECT_EQ(replay::find_model("LLAMA-3.1-8b")->bytes_per_token(), 131072U);
  EXPECT_EQ(replay::find_model("deepseek-v3")->bytes_per_token(), 70272U);
  EXPECT_EQ(replay::find_model("SmolLM2-135M")->bytes_per_token(), 23040U);
}

TEST(ReplaySetup, APoolBelowOneChunkIsRefusedWithTheLeastThatWouldDo) {
  replay::PoolWish wish;
  wish.model = *replay::find_model("deepseek-v3");
  wish.pool_mib = 16;
  const Result<replay::Shape> shape = replay::make_shape(wish);
  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().line(),
              AllOf(HasSubstr("--pool-mib 16"), HasSubstr("2048"), HasSubstr("--pool-mib 138")));
  wish.pool_mib = 138;
  EXPECT_TRUE(replay::make_shape(wish));
}

TEST(ReplaySetup, WithoutAWishThePoolHoldsFourOfTheLongestPrompt) {
  replay::PoolWish wish;
  wish.model = replay::plain_model(1024);
  wish.longest_prompt = 16384;
  EXPECT_EQ(replay::make_shape(wish)->page_bytes() * replay::make_shape(wish)->pages, 64U << 20);
  wish.longest_prompt = 16;
  EXPECT_EQ(replay::make_shape(wish)->page_bytes() * replay::make_shape(wish)->pages, 16U << 20);
}

TEST(ReplaySetup, MorePoolsThanMemoryIsAnErrorOfTheEnvironment) {
  replay::Shape shape;
  shape.model = replay::plain_model(1 << 20);
  shape.page_tokens = 512;
  shape.pages = 1 << 20;
  const Result<> fits = replay::check_memory(shape, 2);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().code, Code::kEnvironment);
  EXPECT_THAT(fits.error().line(), AllOf(HasSubstr("2 processes"), HasSubstr("--pool-mib")));
}

}  // namespace
}  // namespace kvferry::cli
