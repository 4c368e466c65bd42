// The bytes of a tcp stream, cut anywhere: the parser never goes wrong, what it accepts is within the bounds,
// is encoded to the same bytes again, and is only placed where a loan lends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/checksum.h"
#include "transport/cursor.h"
#include "transport/footprint.h"
#include "transport/tcp/description.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/inbox.h"

namespace {

using namespace kvferry;
using namespace kvferry::transport;
using namespace kvferry::transport::tcp;

const Footprint& lent() {
  static const Footprint footprint = [] {
    static const Plane planes[] = {{RegionId{0}, 0, 4096}, {RegionId{1}, 512, 128}};
    static const std::uint32_t item_bytes[] = {4096, 100};
    static const PageRun runs[] = {{0, 16}, {32, 4}};
    const LoanGroup group{planes, item_bytes, runs};
    return Footprint(std::span(&group, 1));
  }();
  return footprint;
}

void check_write(const FrameParser& parser, Inbox& inbox) {
  const WriteFrame& frame = parser.write();
  const PieceGroup group = frame.group();
  KVF_CHECK(group.planes.size() <= kMaxFramePlanes && group.runs.size() <= kMaxFrameRuns,
            "planes and runs are bounded");
  KVF_CHECK(pieces_of(group) <= kMaxFramePieces, "pieces are bounded");
  KVF_CHECK(bytes_of(group) == parser.payload_bytes() && parser.payload_bytes() <= kMaxFramePayload,
            "payload is what it says");
  KVF_CHECK(frame.notice.size <= kMaxNotice, "the notice is bounded");
  const std::vector<std::byte> again = encode(frame, group);
  FrameParser other;
  KVF_CHECK(other.feed(again) == again.size() && other.state() == FrameParser::State::kFrame,
            "it is a frame again");
  KVF_CHECK(encode(other.write(), other.write().group()) == again, "and the same one");
  if (lent().covers(std::span(&group, 1))) {
    for (Cursor cursor(std::span(&group, 1), Merge::kLocal); !cursor.done();
         cursor.consume(cursor.front().bytes)) {
      const Segment& s = cursor.front();
      KVF_CHECK(lent().contains(s.local_region, s.local, s.bytes), "a covered piece lies in the loan");
    }
    if (inbox.begin(frame, parser.payload_bytes()) == Refusal::kNone) {
      inbox.placed(frame, parser.payload_bytes());
    }
  }
  KVF_CHECK(inbox.size() <= 8, "the inbox is bounded");
}

void check_stream(std::span<const std::byte> bytes, std::size_t cut) {
  FrameParser parser;
  Inbox inbox(8);
  while (!bytes.empty() && parser.state() != FrameParser::State::kBad) {
    if (parser.state() == FrameParser::State::kFrame) {
      if (parser.kind() == FrameKind::kWrite) check_write(parser, inbox);
      if (parser.kind() == FrameKind::kReject)
        KVF_CHECK(parser.reject().text.size() <= kMaxRejectText, "texts are bounded");
      bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), parser.payload_bytes()));
      parser.next();
      continue;
    }
    const std::size_t taken = parser.feed(bytes.first(std::min(cut, bytes.size())));
    KVF_CHECK(taken != 0, "a parser that waits takes bytes");
    bytes = bytes.subspan(taken);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t cut = data[0] == 0 ? size : data[0];
  const bool rehash =
      (data[1] & 1) != 0;  // a fuzzer does not guess hashes: the first frame gets the right one
  std::vector<std::byte> bytes(size - 2);
  std::transform(data + 2, data + size, bytes.begin(),
                 [](std::uint8_t b) { return static_cast<std::byte>(b); });
  if (rehash && bytes.size() > kHeadBytes) {
    const std::size_t meta = load_le<std::uint16_t>(std::span<const std::byte>(bytes).subspan(4));
    const auto rest = std::span<const std::byte>(bytes).subspan(kHeadBytes);
    store_le(static_cast<std::uint32_t>(hash64(rest.first(std::min(meta, rest.size())))),
             std::span<std::byte>(bytes).subspan(12));
  }
  check_stream(bytes, cut);
  if (auto description = decode_description(bytes, "peer"); description) {
    KVF_CHECK(encode(*description) == bytes, "a description is encoded to the same bytes");
  }
  return 0;
}
