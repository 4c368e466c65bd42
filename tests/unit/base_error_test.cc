#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kvferry/error.h"
#include "kvferry/types.h"

namespace kvferry {
namespace {

TEST(Error, LineNamesWhoWhatWhyNextInThisOrder) {
  const Error error{
      Code::kPeerLost,   Who::kPeer, Next::kNewRoom, 104, "room 7001 leg 2/4 (prefill-1@10.0.0.5:8998)",
      "connection reset"};
  EXPECT_EQ(error.line(),
            "peer: room 7001 leg 2/4 (prefill-1@10.0.0.5:8998): connection reset; next: new room");
}

TEST(Error, LineWithoutAReasonNamesTheCode) {
  const Error error{Code::kTimeout, Who::kLocal, Next::kSameRoom, 0, "room 1", ""};
  EXPECT_EQ(error.line(), "local: room 1: timeout; next: same room");
}

TEST(Error, LineWithoutASubjectHasNoGap) {
  const Error error{Code::kUsage, Who::kConfig, Next::kAfterFix, 0, "", "pages is 0"};
  EXPECT_EQ(error.line(), "config: pages is 0; next: after fix");
}

TEST(Error, LineIsOneLineWhateverAPeerWrote) {
  const Error error{Code::kRejected, Who::kPeer, Next::kNever, 400, "room\n1", "a\r\nb\tc"};
  EXPECT_EQ(error.line(), "peer: room 1: a  b c; next: never");
}

TEST(Error, NoErrorIsOk) {
  EXPECT_TRUE(Error{}.ok());
  EXPECT_EQ(Error{}.line(), "ok");
}

TEST(Error, FailCarriesEveryField) {
  const Result<int> result = fail(Code::kExhausted, Who::kLocal, Next::kRetry, "rooms", "16384 of 16384", 7);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(),
            (Error{Code::kExhausted, Who::kLocal, Next::kRetry, 7, "rooms", "16384 of 16384"}));
}

template <class Enum>
std::set<std::string> names(Enum last) {
  std::set<std::string> out;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    out.insert(name_of(static_cast<Enum>(i)));
  }
  return out;
}

TEST(Error, EveryEnumeratorHasItsOwnName) {
  EXPECT_EQ(names(Code::kBug).size(), 16U);
  EXPECT_EQ(names(Who::kConfig).size(), 4U);
  EXPECT_EQ(names(Next::kRetry).size(), 5U);
  EXPECT_FALSE(names(Code::kBug).contains("unknown code"));
  EXPECT_STREQ(name_of(static_cast<Code>(200)), "unknown code");
  EXPECT_STREQ(name_of(static_cast<Who>(200)), "unknown who");
  EXPECT_STREQ(name_of(static_cast<Next>(200)), "unknown next");
}

TEST(Types, PollAndRoleHaveNames) {
  EXPECT_EQ(names(Poll::kSuccess),
            (std::set<std::string>{"Failed", "Bootstrapping", "WaitingForInput", "Transferring", "Success"}));
  EXPECT_STREQ(name_of(Poll::kStale), "Stale");
  EXPECT_STREQ(name_of(static_cast<Poll>(9)), "unknown poll");
  EXPECT_EQ(names(Role::kReceiver), (std::set<std::string>{"sender", "receiver"}));
}

}  // namespace
}  // namespace kvferry
