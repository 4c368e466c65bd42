// The codec over random messages and random damage.
#include "wire/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "property/wire_gen.h"

namespace kvferry {
namespace {

using Bytes = std::vector<std::byte>;

Bytes encoded(const wire::Message& message) {
  wire::Encoder encoder;
  const auto frame = encoder.encode(message);
  return {frame.begin(), frame.end()};
}

// Whatever decodes is a message like any other; whatever does not is refused with a reason.
void check_total(const Bytes& frame) {
  const auto result = wire::decode(frame);
  if (!result) {
    RC_ASSERT(result.error().code == Code::kBadMessage);
    RC_ASSERT(!result.error().why.empty());
    RC_ASSERT(result.error().what.starts_with("frame"));
    return;
  }
  const auto again = wire::decode(encoded(*result));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == *result);
}

TEST(CodecProperty, EveryKindSurvivesARoundTrip) {
  for (std::size_t kind = 0; kind < wire::kKinds; ++kind) {
    EXPECT_TRUE(rc::check("round trip of kind " + std::to_string(kind), [kind] {
      const wire::Message message = gen::message(kind);
      RC_ASSERT(message.body.index() == kind);
      const auto result = wire::decode(encoded(message));
      RC_ASSERT(result.has_value());
      RC_ASSERT(*result == message);
    }));
  }
}

RC_GTEST_PROP(CodecProperty, EncodingDependsOnTheMessageAlone, ()) {
  const wire::Message one = gen::message(), other = gen::message();
  wire::Encoder used;
  used.encode(other);
  const auto frame = used.encode(one);
  RC_ASSERT(Bytes(frame.begin(), frame.end()) == encoded(one));
}

RC_GTEST_PROP(CodecProperty, ChangedBytesDecodeOrAreRefused, ()) {
  Bytes frame = encoded(gen::message());
  const auto changes = gen::between(1, 6);
  for (int i = 0; i < changes; ++i) {
    const auto at = gen::between<std::size_t>(0, frame.size());
    frame[at] = static_cast<std::byte>(gen::number<std::uint8_t>());
  }
  check_total(frame);
}

RC_GTEST_PROP(CodecProperty, ChangedOffsetsDecodeOrAreRefused, ()) {
  Bytes frame = encoded(gen::message());
  const auto at = 4 * gen::between<std::size_t>(0, frame.size() / 4);
  const auto value =
      *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 512), rc::gen::arbitrary<std::uint32_t>());
  for (std::size_t i = 0; i < 4; ++i) {
    frame[at + i] = static_cast<std::byte>((value >> (8 * i)) & 0xffU);
  }
  check_total(frame);
}

RC_GTEST_PROP(CodecProperty, CutAndSplicedFramesDecodeOrAreRefused, ()) {
  const Bytes one = encoded(gen::message()), other = encoded(gen::message());
  const auto head = gen::between<std::size_t>(0, one.size() + 1);
  const auto tail = gen::between<std::size_t>(0, other.size() + 1);
  Bytes frame(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(head));
  frame.insert(frame.end(), other.end() - static_cast<std::ptrdiff_t>(tail), other.end());
  check_total(frame);
}

RC_GTEST_PROP(CodecProperty, AnyBytesDecodeOrAreRefused, (const std::vector<std::uint8_t>& octets)) {
  Bytes frame;
  for (const std::uint8_t octet : octets) {
    frame.push_back(static_cast<std::byte>(octet));
  }
  check_total(frame);
}

}  // namespace
}  // namespace kvferry
