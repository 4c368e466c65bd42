#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace kvferry {
namespace {

TEST(Bytes, WriterThenReaderGivesTheValues) {
  std::array<std::byte, 64> room{};
  Writer out(room);
  out.u8(0x12);
  out.u16(0x3456);
  out.u32(0x789abcde);
  out.u64(0x0123456789abcdef);
  out.text("pages");
  ASSERT_TRUE(out.ok());
  Reader in(out.written());
  EXPECT_EQ(in.u8(), 0x12);
  EXPECT_EQ(in.u16(), 0x3456);
  EXPECT_EQ(in.u32(), 0x789abcdeU);
  EXPECT_EQ(in.u64(), 0x0123456789abcdefULL);
  EXPECT_EQ(in.text(5), "pages");
  EXPECT_TRUE(in.at_end());
}

TEST(Bytes, NumbersAreLittleEndian) {
  std::array<std::byte, 4> room{};
  Writer out(room);
  out.u32(0x01020304);
  EXPECT_EQ(room, (std::array{std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}}));
  EXPECT_EQ(load_le<std::uint16_t>(room), 0x0304);
}

TEST(Bytes, ReaderBehindTheEndTurnsBadAndStaysBad) {
  const std::array<std::byte, 3> three{std::byte{1}, std::byte{2}, std::byte{3}};
  Reader in(three);
  EXPECT_EQ(in.u32(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.u8(), 0U) << "a bad reader gives nothing more, although a byte is left";
  EXPECT_FALSE(in.at_end());
}

TEST(Bytes, ReaderRefusesATextAboveTheBound) {
  std::array<std::byte, 16> room{};
  Writer out(room);
  out.text("eight by");
  Reader in(out.written());
  EXPECT_EQ(in.text(7), "");
  EXPECT_FALSE(in.ok());
}

TEST(Bytes, ReaderRefusesATextLongerThanTheRest) {
  std::array<std::byte, 8> room{};
  Writer out(room);
  out.u32(0xffffffff);
  out.u32(0);
  Reader in(out.written());
  EXPECT_EQ(in.text(~std::size_t{0}), "");
  EXPECT_FALSE(in.ok());
}

TEST(Bytes, WriterNeverPassesItsRoom) {
  std::array<std::byte, 8> room{};
  Writer out(std::span<std::byte>(room).first(6));
  out.u32(1);
  out.u32(0xffffffff);
  EXPECT_FALSE(out.ok());
  EXPECT_EQ(out.size(), 4U);
  EXPECT_EQ(room[4], std::byte{0}) << "half a number was written";
  out.u8(1);
  EXPECT_EQ(out.size(), 4U) << "a bad writer went on";
}

TEST(Bytes, AppenderKeepsTextsApart) {
  std::string one, other;
  Appender a(one);
  a.text("ab");
  a.text("c");
  Appender b(other);
  b.text("a");
  b.text("bc");
  EXPECT_NE(one, other);
  std::string number;
  Appender(number).u16(0x0102);
  EXPECT_EQ(number, "\x02\x01");
}

TEST(Bytes, AlignmentOfAnAddress) {
  alignas(8) const std::array<std::byte, 16> room{};
  EXPECT_TRUE(is_aligned(room.data(), 8));
  EXPECT_FALSE(is_aligned(room.data() + 4, 8));
  EXPECT_TRUE(is_aligned(room.data() + 4, 4));
}

}  // namespace
}  // namespace kvferry
