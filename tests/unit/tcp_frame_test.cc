#include "transport/tcp/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/prng.h"
#include "transport/tcp/description.h"

namespace kvferry::transport::tcp {
namespace {

constexpr PlanePair kPlane{{RegionId{1}, 10, 100}, {RegionId{7}, 4096, 512}, 64, 2, 70, 128};
constexpr RunPair kRun{3, 5, 4};

WriteFrame sample() {
  WriteFrame frame;
  frame.sequence = 77;
  frame.op_bytes = 4096;
  frame.ticket = {{9, 12345678901ULL}, 0xFEEDFACECAFEBEEFULL};
  frame.notice.size = 5;
  for (std::size_t i = 0; i < 5; ++i) frame.notice.bytes[i] = static_cast<std::byte>(i + 1);
  frame.priority = 3;
  return frame;
}

std::vector<std::byte> sample_bytes() {
  return encode(sample(), PieceGroup{std::span(&kPlane, 1), std::span(&kRun, 1)});
}

// Puts a right hash back after the meta was changed: what is tested is the check behind the hash.
void rehash(std::vector<std::byte>& frame) {
  const auto meta = std::span<const std::byte>(frame).subspan(kHeadBytes);
  store_le(static_cast<std::uint32_t>(hash64(meta)), std::span<std::byte>(frame).subspan(12));
}

FrameParser::State state_after(const std::vector<std::byte>& bytes, std::string* why = nullptr) {
  FrameParser parser;
  parser.feed(bytes);
  if (why != nullptr) *why = parser.why_bad();
  return parser.state();
}

TEST(TcpFrame, CarriesAWriteWhole) {
  const auto bytes = sample_bytes();
  FrameParser parser;
  EXPECT_EQ(parser.feed(bytes), bytes.size());
  ASSERT_EQ(parser.state(), FrameParser::State::kFrame);
  EXPECT_EQ(parser.payload_bytes(), 64U * 2 * 4);
  const WriteFrame& got = parser.write();
  EXPECT_EQ(got.sequence, 77U);
  EXPECT_EQ(got.op_bytes, 4096U);
  EXPECT_EQ(got.ticket, sample().ticket);
  EXPECT_EQ(got.notice.bytes, sample().notice.bytes);
  EXPECT_EQ(got.priority, 3);
  ASSERT_EQ(got.planes.size(), 1U);
  EXPECT_EQ(got.planes[0].local.region, RegionId{7});  // the destination, so that a Cursor walks it
  EXPECT_EQ(got.planes[0].local.base, 4096U);
  EXPECT_EQ(got.planes[0].local_step, 128U);
  EXPECT_EQ(got.runs[0].local, 5U);
}

TEST(TcpFrame, TakesAnyCuttingAndNoByteOfThePayload) {
  auto bytes = sample_bytes();
  const std::size_t frame = bytes.size();
  bytes.resize(frame + 100, std::byte{0xAA});
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{3}, std::size_t{15}, std::size_t{16}, std::size_t{17}}) {
    FrameParser parser;
    std::size_t taken = 0;
    while (parser.state() != FrameParser::State::kFrame) {
      const std::size_t step = std::min(cut, bytes.size() - taken);
      taken += parser.feed(std::span<const std::byte>(bytes).subspan(taken, step));
      ASSERT_NE(parser.state(), FrameParser::State::kBad);
    }
    EXPECT_EQ(taken, frame);
    EXPECT_EQ(parser.feed(bytes), 0U);
  }
}

TEST(TcpFrame, CarriesTheSmallFrames) {
  HelloFrame hello;
  hello.from.fill(std::byte{1});
  hello.to.fill(std::byte{2});
  hello.lane = 1;
  hello.lanes = 2;
  WelcomeFrame welcome;
  welcome.status = WelcomeFrame::Status::kOtherLife;
  welcome.from.fill(std::byte{3});
  const RejectFrame reject{9, Refusal::kOutside, "item 7"};
  std::vector<std::byte> bytes = encode(hello);
  for (const auto& more : {encode(welcome), encode(reject)})
    bytes.insert(bytes.end(), more.begin(), more.end());
  FrameParser parser;
  std::size_t taken = parser.feed(bytes);
  EXPECT_EQ(parser.hello(), hello);
  parser.next();
  taken += parser.feed(std::span<const std::byte>(bytes).subspan(taken));
  EXPECT_EQ(parser.welcome(), welcome);
  parser.next();
  taken += parser.feed(std::span<const std::byte>(bytes).subspan(taken));
  EXPECT_EQ(parser.reject(), reject);
  EXPECT_EQ(taken, bytes.size());
}

TEST(TcpFrame, TextOfARejectIsCutAndMadePrintable) {
  const RejectFrame reject{1, Refusal::kNoLoan, std::string("\x1b[2J") + std::string(1000, 'x')};
  FrameParser parser;
  parser.feed(encode(reject));
  EXPECT_EQ(parser.reject().text.size(), kMaxRejectText);
  EXPECT_EQ(parser.reject().text.substr(0, 5), "?[2Jx");
}

TEST(TcpFrame, EveryChangedBitIsFound) {
  const auto good = sample_bytes();
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(state_after(bytes), FrameParser::State::kFrame) << "bit " << bit;
  }
}

struct Wrong {
  const char* what;
  std::size_t at;     // in the meta
  std::uint64_t value;
  std::size_t bytes;
};
class WrongMeta : public testing::TestWithParam<Wrong> {};
TEST_P(WrongMeta, IsNoFrame) {
  auto bytes = sample_bytes();
  for (std::size_t i = 0; i < GetParam().bytes; ++i) {
    bytes[kHeadBytes + GetParam().at + i] = static_cast<std::byte>(GetParam().value >> (8 * i) & 0xff);
  }
  rehash(bytes);
  std::string why;
  EXPECT_EQ(state_after(bytes, &why), FrameParser::State::kBad) << GetParam().what;
  EXPECT_FALSE(why.empty());
}
// Meta: 36 sequence to token, priority, notice size (37), planes (38), runs (40), notice (42), plane (47),
// run (79).
INSTANTIATE_TEST_SUITE_P(
    Fields, WrongMeta,
    testing::Values(Wrong{"notice of 65 bytes", 37, 65, 1}, Wrong{"too many planes", 38, 1025, 2},
                    Wrong{"planes that are not there", 38, 2, 2}, Wrong{"no run", 40, 0, 2},
                    Wrong{"piece of zero bytes", 67, 0, 4}, Wrong{"repeat zero", 71, 0, 4},
                    Wrong{"repeat that overflows", 71, 0xFFFFFFFF, 4},
                    Wrong{"piece larger than a frame", 67, (1U << 20) + 1, 4},
                    Wrong{"run of nothing", 83, 0, 4}, Wrong{"run that overflows", 83, 0xFFFFFFFF, 4},
                    Wrong{"one item more than payload", 83, 5, 4},
                    Wrong{"payload above the operation", 8, 100, 8}));

TEST(TcpFrame, HeadsThatAreNoneAreNamed) {
  std::string why;
  std::vector<std::byte> noise(64, std::byte{'G'});
  EXPECT_EQ(state_after(noise, &why), FrameParser::State::kBad);
  EXPECT_NE(why.find("no frame begins here"), std::string::npos);
  auto bytes = sample_bytes();
  bytes[2] = std::byte{9};
  EXPECT_EQ(state_after(bytes, &why), FrameParser::State::kBad);
  EXPECT_NE(why.find("unknown frame kind 9"), std::string::npos);
  bytes = sample_bytes();
  store_le<std::uint32_t>(kMaxFramePayload + 1, std::span<std::byte>(bytes).subspan(8));
  EXPECT_EQ(state_after(bytes, &why), FrameParser::State::kBad);
  EXPECT_NE(why.find("1048577 bytes of payload"), std::string::npos) << why;
}

TEST(TcpFrame, NoiseNeverGivesAFrame) {
  Prng random(7);
  for (int i = 0; i < 10'000; ++i) {
    std::vector<std::byte> bytes(1 + random.below(200));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(256));
    if (i % 2 == 0 && bytes.size() > 4) store_le<std::uint32_t>(0x0003564B, bytes);  // a plausible beginning
    EXPECT_NE(state_after(bytes), FrameParser::State::kFrame);
  }
}

TEST(TcpDescription, RoundTripAndRefusals) {
  Description description;
  description.cookie.fill(std::byte{5});
  Address v4, v6;
  v4.ip[0] = std::byte{10};
  v4.ip[3] = std::byte{5};
  v4.port = 8998;
  v6.v6 = true;
  v6.ip[15] = std::byte{1};
  v6.port = 1;
  description.addresses = {v4, v6};
  const auto bytes = encode(description);
  EXPECT_EQ(decode_description(bytes, "peer").value(), description);
  EXPECT_EQ(v4.text(), "10.0.0.5:8998");
  EXPECT_EQ(v6.text(), "[::1]:1");
  EXPECT_TRUE(v6.loopback());
  EXPECT_FALSE(v4.loopback());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_description(std::span(bytes).first(cut), "peer")) << cut;
  }
  auto other = bytes;
  other[4] = std::byte{2};
  const auto refused = decode_description(other, "peer");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kMismatch);
  EXPECT_NE(refused.error().why.find("version 2"), std::string::npos);
  EXPECT_NE(refused.error().why.find("version 1"), std::string::npos);
}

}  // namespace
}  // namespace kvferry::transport::tcp
