#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"

namespace kvferry {
namespace {

TEST(Checksum, EmptyGivesThePublishedValue) {
  EXPECT_EQ(hash64(std::string_view{}), 0x2d06800538d394c2ULL);  // XXH3_64bits of nothing
}

TEST(Checksum, TextAndBytesAgree) {
  EXPECT_EQ(hash64(std::string_view("kvferry")), hash64(bytes_of_text("kvferry")));
  EXPECT_NE(hash64(std::string_view("kvferry")), hash64(std::string_view("kvferrz")));
  EXPECT_NE(hash64(std::string_view("kvferry"), 1), hash64(std::string_view("kvferry"), 2));
}

TEST(Checksum, HasherOverPartsIsTheHashOfTheWhole) {
  const std::string text(5000, 'x');
  Hasher hasher(9);
  hasher.add(std::string_view(text).substr(0, 1));
  hasher.add(std::string_view(text).substr(1, 3000));
  hasher.add(std::string_view(text).substr(3001));
  EXPECT_EQ(hasher.value(), hash64(std::string_view(text), 9));
  hasher.add(std::uint64_t{0x0807060504030201});
  EXPECT_EQ(hasher.value(), hash64(std::string_view(text + "\x01\x02\x03\x04\x05\x06\x07\x08"), 9));
}

}  // namespace
}  // namespace kvferry
