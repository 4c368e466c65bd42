// Wrong values are refused at the edge: one error that names the thing, the value, the limit and the fix, and
// nothing moves.
#include <gmock/gmock.h>

#include "runtime/edge.h"
#include "runtime/testkit_support.h"

namespace kvferry::testkit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Edge : public ::testing::Test {
 protected:
  Cluster cluster_;
  Manager& prefill_ = *cluster_.prefill().manager;
  Manager& decode_ = *cluster_.decode().manager;

  void expect_refused(const Result<>& result, Code code, const std::vector<std::string>& words) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, code) << result.error().line();
    for (const std::string& word : words) EXPECT_THAT(result.error().line(), HasSubstr(word));
  }
  Handle receiver() { return open_receiver(cluster_.decode(), 7001, cluster_.senders()); }
  Handle sender() { return open_sender(cluster_.prefill(), 7001); }
};

TEST_F(Edge, APageIndexBehindThePoolNamesBothNumbers) {
  expect_refused(decode_.grant(receiver(), lend_pages({{63, 2}}, 32)), Code::kUsage,
                 {"7001", "64", "0 to 63"});
  expect_refused(prefill_.push(sender(), chunk_of({{~0U, 1}}, 16, true)), Code::kUsage, {"4294967295", "64"});
}

TEST_F(Edge, APageNamedTwiceOrAnEmptyRun) {
  expect_refused(decode_.grant(receiver(), lend_pages({{3, 2}, {4, 1}}, 48)), Code::kUsage,
                 {"page index 4", "twice"});
  expect_refused(prefill_.push(sender(), chunk_of({{3, 0}, {5, 1}}, 16, true)), Code::kUsage, {"empty"});
}

TEST_F(Edge, TokensAndPagesMustAgree) {
  expect_refused(decode_.grant(receiver(), lend_pages({{0, 2}}, 33)), Code::kUsage,
                 {"33 tokens", "3 pages", "2 pages"});
  expect_refused(prefill_.push(sender(), chunk_of({{0, 1}}, 10, false)), Code::kUsage, {"10 tokens", "16"});
}

TEST_F(Edge, APrefixThatEndsInsideAPage) {
  GrantSpec grant = lend_pages({{0, 1}}, 16);
  grant.prefix_tokens = 17;
  expect_refused(decode_.grant(receiver(), grant), Code::kUsage, {"17", "16"});
}

TEST_F(Edge, SlotsOutsideTheLayout) {
  GrantSpec grant = lend_pages({{0, 1}}, 16);
  grant.aux_slot = 8;
  const Handle handle = receiver();
  expect_refused(decode_.grant(handle, grant), Code::kUsage, {"aux slot 8", "8 aux slots"});
  grant.aux_slot = kNoSlot;
  grant.state_slots = {0};
  expect_refused(decode_.grant(handle, grant), Code::kUsage, {"state slot 0", "0 state slots"});
  ChunkSpec chunk = chunk_of({{0, 1}}, 16, false);
  chunk.aux_slot = 1;
  expect_refused(prefill_.push(sender(), chunk), Code::kUsage, {"last chunk"});
}

TEST_F(Edge, TheWrongSideOrTheSecondTime) {
  const Handle to = receiver();
  const Handle from = sender();
  expect_refused(decode_.push(to, chunk_of({}, 0, true)), Code::kRefused, {"push", "sender", "receiver"});
  expect_refused(prefill_.grant(from, lend_pages({}, 0)), Code::kRefused, {"grant", "receiver"});
  expect_refused(decode_.reject(to, 500, "no"), Code::kRefused, {"abort"});
  must(decode_.grant(to, lend_pages({{0, 1}}, 16)));
  expect_refused(decode_.grant(to, lend_pages({{1, 1}}, 16)), Code::kRefused, {"once"});
  must(prefill_.push(from, chunk_of({{0, 1}}, 16, true)));
  expect_refused(prefill_.push(from, chunk_of({}, 0, true)), Code::kRefused, {"last chunk"});
}

TEST_F(Edge, OpenNeedsEndpointsThatCanBeDialled) {
  OpenSpec spec;
  spec.room = RoomId{1};
  spec.role = Role::kReceiver;
  const auto refused = [&](std::vector<std::string> senders, const char* word) {
    spec.senders = std::move(senders);
    const auto result = decode_.open(spec);
    ASSERT_FALSE(result.has_value()) << word;
    EXPECT_THAT(result.error().line(), HasSubstr(word));
  };
  refused({}, "at least one");
  refused({"prefill-0"}, "prefill-0");
  refused({"prefill-0:70000"}, "70000");
  refused({"prefill-0:0"}, "cannot be dialled");
  refused({"prefill-0:1", "prefill-0:1"}, "twice");
  refused(std::vector<std::string>(65, "x:1"), "limits.legs_per_room = 64");
  spec.leg = 2;
  spec.legs = 2;
  refused({"prefill-0:1"}, "leg 2 of 2");
  OpenSpec sender_with_peers;
  sender_with_peers.senders = {"prefill-0:1"};
  EXPECT_FALSE(prefill_.open(sender_with_peers).has_value());
  EXPECT_EQ(decode_.counters().commands_refused, 7U);
  EXPECT_EQ(decode_.counters().rooms_opened, 0U);
}

TEST_F(Edge, AStaleHandleIsToldSoByEveryCall) {
  const Handle handle = receiver();
  must(decode_.close(handle));
  for (const Result<>& result :
       {decode_.close(handle), decode_.abort(handle, "x"), decode_.renew(handle),
        decode_.grant(handle, lend_pages({}, 0)), decode_.push(Handle{}, chunk_of({}, 0, true))}) {
    expect_refused(result, Code::kUsage, {"closed or never opened"});
  }
  EXPECT_EQ(decode_.poll(handle), Poll::kStale);
  EXPECT_EQ(decode_.info(handle).poll, Poll::kStale);
  EXPECT_EQ(decode_.error(handle).code, Code::kUsage);
  EXPECT_EQ(decode_.error(Handle{}).code, Code::kUsage);
  expect_refused(decode_.fired(EventId{0}, true), Code::kUsage, {"event 0"});
}

TEST_F(Edge, AFullCommandQueueIsBackPressureAndHasNoEffect) {
  ClusterOptions options;
  options.limits.commands = 3;
  Cluster cluster(options);
  Manager& manager = *cluster.prefill().manager;
  std::vector<Handle> handles;
  for (std::uint64_t room = 0; room < 3; ++room) handles.push_back(open_sender(cluster.prefill(), room));
  OpenSpec spec;
  spec.room = RoomId{9};
  const auto blocked = manager.open(spec);
  ASSERT_FALSE(blocked.has_value());
  EXPECT_EQ(blocked.error().code, Code::kWouldBlock);
  EXPECT_EQ(blocked.error().next, Next::kRetry);
  EXPECT_THAT(blocked.error().line(), HasSubstr("limits.commands = 3"));
  expect_refused(manager.push(handles[0], chunk_of({}, 0, true)), Code::kWouldBlock, {"3 commands"});
  cluster.settle();
  must(manager.push(handles[0], chunk_of({}, 0, true)));
}

TEST_F(Edge, MoreChunksThanTheLimit) {
  ClusterOptions options;
  options.limits.chunks_per_room = 2;
  Cluster cluster(options);
  const Handle from = open_sender(cluster.prefill(), 1);
  must(cluster.prefill().manager->push(from, chunk_of({}, 0, false)));
  must(cluster.prefill().manager->push(from, chunk_of({}, 0, false)));
  expect_refused(cluster.prefill().manager->push(from, chunk_of({}, 0, true)), Code::kExhausted,
                 {"limits.chunks_per_room = 2"});
}

TEST_F(Edge, MoreEndpointsThanTheLimit) {
  ClusterOptions options;
  options.limits.endpoints = 2;
  Cluster cluster(options);
  open_receiver(cluster.decode(), 1, {"a:1", "b:1"});
  OpenSpec spec;
  spec.room = RoomId{2};
  spec.role = Role::kReceiver;
  spec.senders = {"c:1"};
  const auto refused = cluster.decode().manager->open(spec);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().line(), HasSubstr("limits.endpoints = 2"));
  open_receiver(cluster.decode(), 3, {"b:1"});
}

TEST_F(Edge, StartNamesWhatIsMissingInTheParts) {
  ManagerOptions options;
  options.name = "prefill-0";
  const auto none = Manager::start(options, Parts{});
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().line(), AllOf(HasSubstr("prefill-0"), HasSubstr("Parts::clock")));
}

TEST_F(Edge, ALongReasonIsCutAtACharacter) {
  const std::string text = std::string(1023, 'a') + "\xc3\xa9";  // an e with an accent over the 1024th byte
  EXPECT_EQ(runtime::cut_text(text, 1024).size(), 1023U);
  EXPECT_EQ(runtime::cut_text("short", 1024), "short");
  const Handle handle = sender();
  must(prefill_.abort(handle, std::string(100'000, 'x')));
  cluster_.settle();
  EXPECT_LE(prefill_.error(handle).why.size(), 1024U);
}

TEST_F(Edge, TheStatusIsOneJsonObject) {
  const Handle handle = sender();
  cluster_.settle();
  const std::string json = prefill_.status_json();
  EXPECT_THAT(json, AllOf(HasSubstr("\"name\":\"prefill-0\""), HasSubstr("\"Bootstrapping\":1"),
                          HasSubstr("\"loopback-push\""), HasSubstr("\"rooms_opened\":1")));
  EXPECT_EQ(prefill_.poll(handle), Poll::kBootstrapping);
}

}  // namespace
}  // namespace kvferry::testkit
