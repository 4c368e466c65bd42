// Length-prefixed frames: any cut of the stream gives the same frames; hostile lengths cost nothing.
#include "control/frame_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

namespace kvferry::control {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text) {
  Bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

void feed(FrameReader& reader, std::span<const std::byte> stream) {
  if (stream.empty()) return;
  const auto room = reader.space(stream.size());
  std::memcpy(room.data(), stream.data(), stream.size());
  reader.filled(stream.size());
}

TEST(ChannelFrame, PrefixIsLittleEndian) {
  Bytes out;
  append_frame(out, Bytes(0x0102));
  ASSERT_EQ(out.size(), 4U + 0x0102U);
  EXPECT_EQ(out[0], std::byte{0x02});
  EXPECT_EQ(out[1], std::byte{0x01});
  EXPECT_EQ(out[2], std::byte{0});
  EXPECT_EQ(out[3], std::byte{0});
}

TEST(ChannelFrame, EveryCutGivesTheSameFrames) {
  const std::vector<std::string> texts = {"", "a", "hello", std::string(300, 'x'), "", "end"};
  Bytes stream;
  for (const auto& text : texts) append_frame(stream, bytes(text));
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    FrameReader reader(300);
    std::vector<Bytes> got;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 40, stream.size() - at);
      feed(reader, std::span(stream).subspan(at, n));
      at += n;
      std::span<const std::byte> frame;
      while (reader.has_next()) {
        ASSERT_EQ(reader.next(frame), FrameReader::Status::kFrame);
        got.emplace_back(frame.begin(), frame.end());
      }
      ASSERT_EQ(reader.next(frame), FrameReader::Status::kMore);
    }
    ASSERT_EQ(got.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(got[i], bytes(texts[i]));
    EXPECT_FALSE(reader.inside_frame());
  }
}

TEST(ChannelFrame, TooLongNamesBothNumbersAndStays) {
  FrameReader reader(100);
  Bytes stream;
  append_frame(stream, Bytes(100));
  append_frame(stream, Bytes(101));
  feed(reader, stream);
  std::span<const std::byte> frame;
  ASSERT_EQ(reader.next(frame), FrameReader::Status::kFrame);
  EXPECT_TRUE(reader.has_next());
  ASSERT_EQ(reader.next(frame), FrameReader::Status::kTooLong);
  ASSERT_EQ(reader.next(frame), FrameReader::Status::kTooLong);
  const Error error = reader.error();
  EXPECT_EQ(error.code, Code::kBadMessage);
  EXPECT_NE(error.why.find("101"), std::string::npos);
  EXPECT_NE(error.why.find("100"), std::string::npos);
}

TEST(ChannelFrame, AnnouncedLengthAllocatesNothing) {
  FrameReader reader(1U << 26);
  const Bytes prefix = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{3}};  // 48 MiB, nothing behind it
  feed(reader, prefix);
  std::span<const std::byte> frame;
  EXPECT_EQ(reader.next(frame), FrameReader::Status::kMore);
  EXPECT_TRUE(reader.inside_frame());
  EXPECT_LE(reader.space(1024).size(), 64U * 1024U);
}

TEST(ChannelFrame, AnIdleReaderGivesItsMemoryBack) {
  FrameReader reader(1U << 20);
  Bytes stream;
  append_frame(stream, Bytes(1U << 20));
  feed(reader, stream);
  std::span<const std::byte> frame;
  ASSERT_EQ(reader.next(frame), FrameReader::Status::kFrame);
  EXPECT_EQ(frame.size(), 1U << 20);
  reader.space(16);
  EXPECT_LE(reader.capacity(), 64U * 1024U);
}

}  // namespace
}  // namespace kvferry::control
