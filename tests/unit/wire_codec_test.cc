// What decode refuses and how it says so. Round trips are tests/property/codec_test.cc, kept bytes
// tests/golden/.
#include "wire/codec.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/bytes.h"
#include "wire/kvferry_generated.h"

namespace kvferry::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Bytes = std::vector<std::byte>;

Bytes encoded(const Message& message) {
  Encoder encoder;
  const auto frame = encoder.encode(message);
  return {frame.begin(), frame.end()};
}

// A frame as no Encoder of ours writes it.
Bytes made(std::uint8_t kind, const std::function<Offset<void>(FlatBufferBuilder&)>& body) {
  FlatBufferBuilder b;
  const Offset<void> offset = body(b);
  fb::FrameBuilder t(b);
  t.add_body_type(static_cast<fb::Body>(kind));
  t.add_body(offset);
  fb::FinishFrameBuffer(b, t.Finish());
  const auto bytes = bytes_of_octets({b.GetBufferPointer(), b.GetSize()});
  return {bytes.begin(), bytes.end()};
}
Bytes made(fb::Body kind, const std::function<Offset<void>(FlatBufferBuilder&)>& body) {
  return made(static_cast<std::uint8_t>(kind), body);
}

void expect_bad(const Bytes& frame, const std::string& what, const std::string& why,
                const FrameLimits& limits = {}) {
  const auto result = decode(frame, limits);
  ASSERT_FALSE(result) << "decoded a " << name_of(result->body) << " instead of: " << why;
  EXPECT_EQ(result.error().code, Code::kBadMessage);
  EXPECT_EQ(result.error().who, kvferry::Who::kPeer);
  EXPECT_EQ(result.error().what, what);
  EXPECT_EQ(result.error().why, why);
}

Message with(Body body) { return {Header{{1, 2}, {3, 4}, 5}, std::move(body)}; }

TEST(Codec, HeaderArrivesWithTheBody) {
  const Message message = with(Ready{77});
  const auto result = decode(encoded(message));
  ASSERT_TRUE(result) << result.error().line();
  EXPECT_EQ(*result, message);
}

TEST(Codec, DefaultsOfEveryKindSurvive) {
  const std::vector<Body> bodies = {Hello{},   Who{},       Grant{}, Ready{},   Revoke{},  Revoked{},
                                    Done{},    Fail{},      Offer{}, Release{}, Ack{},     Renew{},
                                    Renewed{}, Computing{}, Ping{},  Stall{},   Regions{}, Resend{}};
  ASSERT_EQ(bodies.size(), kKinds);
  for (const Body& body : bodies) {
    const Message message{{}, body};
    const auto result = decode(encoded(message));
    ASSERT_TRUE(result) << name_of(body) << ": " << result.error().line();
    EXPECT_EQ(*result, message) << name_of(body);
  }
}

TEST(Codec, EncoderIsReusedWithoutATrace) {
  Encoder encoder;
  Grant large;
  large.pages.assign(20000, PageRun{1, 2});
  encoder.encode(with(large));
  const auto frame = encoder.encode(with(Ready{1}));
  EXPECT_EQ(Bytes(frame.begin(), frame.end()), encoded(with(Ready{1})));
}

TEST(Codec, FrameMayLieAtAnyAddress) {
  Grant grant;
  grant.pages.assign(300, PageRun{4, 4});
  for (const Message& message : {with(Ready{9}), with(grant)}) {
    const Bytes frame = encoded(message);
    for (std::size_t shift = 0; shift < 8; ++shift) {
      Bytes moved(shift);
      moved.insert(moved.end(), frame.begin(), frame.end());
      const auto result = decode(std::span<const std::byte>(moved).subspan(shift));
      ASSERT_TRUE(result) << result.error().line();
      EXPECT_EQ(*result, message) << "shifted by " << shift;
    }
  }
}

TEST(Codec, FrameAboveItsLimitNamesBoth) {
  FrameLimits limits;
  limits.frame_bytes = 64;
  expect_bad(Bytes(65), "frame", "it has 65 bytes, the limit frame_bytes is 64", limits);
}

TEST(Codec, TooFewBytesAndAStrangeIdentifierAreNamed) {
  expect_bad({}, "frame", "it has 0 bytes, the least are 8");
  expect_bad(Bytes(7), "frame", "it has 7 bytes, the least are 8");
  Bytes http;
  for (const char c : std::string("GET /v1/ HTTP/1.1\r\n\r\n")) {
    http.push_back(static_cast<std::byte>(c));
  }
  expect_bad(http, "frame", "bytes 4 to 7 are 2f76312f and not 4b564659 (\"KVFY\")");
}

TEST(Codec, EveryCutOfAFrameIsRefused) {
  Grant grant;
  grant.pages = {{1, 2}, {3, 4}};
  grant.state_slots = {1};
  const Bytes frame = encoded(with(grant));
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const auto result = decode(std::span<const std::byte>(frame).first(size));
    ASSERT_FALSE(result) << size << " of " << frame.size() << " bytes were enough";
    EXPECT_EQ(result.error().code, Code::kBadMessage);
  }
}

TEST(Codec, UnknownKindIsNamedByItsNumber) {
  const auto empty = [](FlatBufferBuilder& b) { return fb::CreateReady(b, 1).Union(); };
  expect_bad(made(0, empty), "frame", "unknown message kind 0");
  expect_bad(made(19, empty), "frame", "unknown message kind 19");
  expect_bad(made(255, empty), "frame", "unknown message kind 255");
}

TEST(Codec, KindWithoutABodyIsNamed) {
  expect_bad(made(fb::Body::Ack, [](FlatBufferBuilder&) { return Offset<void>(); }), "frame ACK",
             "the message has no body");
}

TEST(Codec, FieldOfANewerMinorIsIgnored) {
  // READY with a second field, as a table of a later version would have it.
  const Bytes frame = made(fb::Body::Ready, [](FlatBufferBuilder& b) {
    const auto start = b.StartTable();
    b.AddElement<std::uint64_t>(fb::Ready::VT_GRANT, 77, 0);
    b.AddElement<std::uint64_t>(fb::Ready::VT_GRANT + 2, 123456, 0);
    b.AddElement<std::uint8_t>(fb::Ready::VT_GRANT + 4, 9, 0);
    return Offset<void>(b.EndTable(start));
  });
  const auto result = decode(frame);
  ASSERT_TRUE(result) << result.error().line();
  EXPECT_EQ(result->body, Body{Ready{77}});
}

TEST(Codec, EnumsOutOfRangeAreNamed) {
  expect_bad(made(fb::Body::Ack,
                  [](FlatBufferBuilder& b) { return fb::CreateAck(b, static_cast<fb::What>(6)).Union(); }),
             "frame ACK", "what is 6, which names nothing in version 1.0");
  expect_bad(
      made(fb::Body::Ack,
           [](FlatBufferBuilder& b) {
             return fb::CreateAck(b, fb::What::kDone, 1, 0, false, static_cast<fb::Outcome>(4)).Union();
           }),
      "frame ACK", "outcome is 4, which names nothing in version 1.0");
  for (const std::uint8_t access : {std::uint8_t{0}, std::uint8_t{3}, std::uint8_t{255}}) {
    expect_bad(made(fb::Body::Grant,
                    [&](FlatBufferBuilder& b) {
                      fb::GrantBuilder t(b);
                      t.add_access(static_cast<fb::Access>(access));
                      return t.Finish().Union();
                    }),
               "frame GRANT", "access is " + std::to_string(access) + ", which names nothing in version 1.0");
  }
}

Bytes failing(std::uint8_t code, std::uint8_t who, std::uint8_t next) {
  return made(fb::Body::Fail, [&](FlatBufferBuilder& b) {
    const auto cause = fb::CreateCause(b, static_cast<fb::Code>(code), static_cast<fb::Blame>(who),
                                       static_cast<fb::Next>(next));
    return fb::CreateFail(b, 1, false, cause).Union();
  });
}

TEST(Codec, CauseIsHeldToItsEnums) {
  EXPECT_TRUE(decode(failing(15, 3, 4)));
  expect_bad(failing(16, 0, 0), "frame FAIL", "cause.code is 16, which names nothing in version 1.0");
  expect_bad(failing(0, 4, 0), "frame FAIL", "cause.who is 4, which names nothing in version 1.0");
  expect_bad(failing(0, 0, 5), "frame FAIL", "cause.next is 5, which names nothing in version 1.0");
}

TEST(Codec, WhatAMessageCannotDoWithoutIsNamed) {
  expect_bad(made(fb::Body::Fail, [](FlatBufferBuilder& b) { return fb::CreateFail(b, 1).Union(); }),
             "frame FAIL", "cause is missing");
  expect_bad(made(fb::Body::Revoke, [](FlatBufferBuilder& b) { return fb::CreateRevoke(b, 1).Union(); }),
             "frame REVOKE", "cause is missing");
  expect_bad(made(fb::Body::Done, [](FlatBufferBuilder& b) { return fb::CreateDone(b, 1).Union(); }),
             "frame DONE", "manifest is missing");
  expect_bad(made(fb::Body::Hello, [](FlatBufferBuilder& b) { return fb::CreateHello(b, kMajor).Union(); }),
             "frame HELLO", "layout is missing");
}

TEST(Codec, PageRunsAreHeldToTheirMeaning) {
  Grant grant;
  grant.pages = {{0xffffffff, 1}};
  EXPECT_TRUE(decode(encoded(with(grant))));
  grant.pages = {{5, 1}, {0xffffffff, 2}};
  expect_bad(encoded(with(grant)), "frame GRANT",
             "pages has a run that ends at page 4294967297, page indices end at 4294967296");
  Offer offer;
  offer.pages = {{5, 0}};
  expect_bad(encoded(with(offer)), "frame OFFER", "pages has a run of 0 pages, a run has at least 1");
}

// A message with a list of two, and the limit that allows one.
struct OverLimit {
  const char* name;
  Body body;
  FrameLimits limits;
  std::string why;
};

FrameLimits one(std::uint32_t FrameLimits::* limit) {
  FrameLimits limits;
  limits.*limit = 1;
  return limits;
}

std::vector<OverLimit> over_limits() {
  Grant pages, states;
  pages.pages = {{1, 1}, {3, 1}};
  states.state_slots = {1, 2};
  Offer offer;
  offer.manifest.chunks.resize(2);
  Hello components, layers, movers, description;
  components.layout.components.resize(2);
  layers.layout.components.resize(1);
  layers.layout.components[0].layers.resize(2);
  movers.movers.resize(2);
  description.movers.resize(1);
  description.movers[0].description.resize(2);
  return {
      {"GRANT pages", pages, one(&FrameLimits::page_runs), "pages has 2 entries, the limit page_runs is 1"},
      {"GRANT states", states, one(&FrameLimits::state_slots),
       "state_slots has 2 entries, the limit state_slots is 1"},
      {"OFFER manifest", offer, one(&FrameLimits::chunks),
       "manifest.chunks has 2 entries, the limit chunks is 1"},
      {"STALL chunks", Stall{1, {1, 2}, {}}, one(&FrameLimits::chunks),
       "chunks has 2 entries, the limit chunks is 1"},
      {"RESEND chunks", Resend{1, {1, 2}}, one(&FrameLimits::chunks),
       "chunks has 2 entries, the limit chunks is 1"},
      {"RENEW items", Renew{{{}, {}}}, one(&FrameLimits::renew_items),
       "items has 2 entries, the limit renew_items is 1"},
      {"RENEWED items", Renewed{{{}, {}}}, one(&FrameLimits::renew_items),
       "items has 2 entries, the limit renew_items is 1"},
      {"HELLO components", components, one(&FrameLimits::components),
       "layout.components has 2 entries, the limit components is 1"},
      {"HELLO layers", layers, one(&FrameLimits::layers),
       "component.layers has 2 entries, the limit layers is 1"},
      {"HELLO movers", movers, one(&FrameLimits::movers), "movers has 2 entries, the limit movers is 1"},
      {"HELLO description", description, one(&FrameLimits::description_bytes),
       "mover.description has 2 bytes, the limit description_bytes is 1"},
      {"REGIONS description", Regions{1, Bytes(2)}, one(&FrameLimits::description_bytes),
       "description has 2 bytes, the limit description_bytes is 1"},
      {"FAIL text", Fail{1, true, Error{Code::kBug, {}, {}, 0, "x", "ab"}}, one(&FrameLimits::text_bytes),
       "cause.why has 2 bytes, the limit text_bytes is 1"},
  };
}

TEST(Codec, EveryListAndTextIsHeldToItsLimit) {
  for (const OverLimit& c : over_limits()) {
    SCOPED_TRACE(c.name);
    const Message message = with(c.body);
    EXPECT_TRUE(decode(encoded(message)));
    expect_bad(encoded(message), std::string("frame ") + name_of(c.body), c.why, c.limits);
  }
}

TEST(Codec, LongTextIsCutBetweenCharacters) {
  const std::size_t most = FrameLimits{}.text_bytes;
  Fail fail;
  fail.cause.why = std::string(most - 1, 'a') + "\xc3\xa9 and more";
  const auto result = decode(encoded(with(fail)));
  ASSERT_TRUE(result) << result.error().line();
  EXPECT_EQ(std::get<Fail>(result->body).cause.why, std::string(most - 1, 'a'));
  fail.cause.why = std::string(most, 'b');
  EXPECT_EQ(std::get<Fail>(decode(encoded(with(fail)))->body).cause.why, fail.cause.why);
  fail.cause.why = std::string(most + 10, '\x80');
  EXPECT_EQ(std::get<Fail>(decode(encoded(with(fail)))->body).cause.why.size(), most);
}

Hello strange_hello(std::uint16_t major, std::uint16_t minor) {
  Hello hello;
  hello.major = major;
  hello.minor = minor;
  hello.name = "prefill-9";
  hello.answers = 3;
  hello.movers.resize(2);
  hello.movers[0].name = "teleport";
  hello.movers[0].access = static_cast<Access>(7);
  hello.movers[1].name = "tcp";
  return hello;
}

TEST(Codec, HelloOfAnotherMajorStillTellsItsVersion) {
  Hello hello = strange_hello(2, 4);
  hello.layout.components.resize(1);
  hello.layout.components[0].kind = static_cast<ComponentKind>(99);
  const auto result = decode(encoded(with(hello)));
  ASSERT_TRUE(result) << result.error().line();
  const Hello& read = std::get<Hello>(result->body);
  EXPECT_EQ(read.major, 2);
  EXPECT_EQ(read.minor, 4);
  EXPECT_EQ(read.name, "prefill-9");
  EXPECT_EQ(read.answers, 3U);
  EXPECT_TRUE(read.movers.empty() && read.layout.components.empty());
}

TEST(Codec, MoverThatOnlyANewerMinorKnowsIsLeftOut) {
  const auto newer = decode(encoded(with(strange_hello(kMajor, kMinor + 1))));
  ASSERT_TRUE(newer) << newer.error().line();
  const Hello& read = std::get<Hello>(newer->body);
  ASSERT_EQ(read.movers.size(), 1U);
  EXPECT_EQ(read.movers[0].name, "tcp");
  expect_bad(encoded(with(strange_hello(kMajor, kMinor))), "frame HELLO",
             "mover.access is 7, which names nothing in version 1.0");
}

TEST(Codec, ListOfManyOffsetsToOneTableIsRefusedEarly) {
  const Bytes frame = made(fb::Body::Hello, [](FlatBufferBuilder& b) {
    const auto component = fb::CreateComponent(b);
    const std::vector<Offset<fb::Component>> many(200000, component);
    const auto list = b.CreateVector(many);
    fb::LayoutBuilder layout(b);
    layout.add_components(list);
    const auto place = layout.Finish();
    fb::HelloBuilder t(b);
    t.add_layout(place);
    t.add_major(kMajor);
    return t.Finish().Union();
  });
  expect_bad(frame, "frame",
             "an offset, length or alignment inside the " + std::to_string(frame.size()) +
                 " bytes is wrong: verification failed");
}

TEST(Messages, EveryKindHasItsWireName) {
  EXPECT_STREQ(name_of(Body{Hello{}}), "HELLO");
  EXPECT_STREQ(name_of(Body{Who{}}), "WHO");
  EXPECT_STREQ(name_of(Body{Revoked{}}), "REVOKED");
  EXPECT_STREQ(name_of(Body{Release{}}), "RELEASE");
  EXPECT_STREQ(name_of(Body{Computing{}}), "COMPUTING");
  EXPECT_STREQ(name_of(Body{Resend{}}), "RESEND");
}

}  // namespace
}  // namespace kvferry::wire
