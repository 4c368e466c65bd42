#include "transport/tcp/frame.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"

namespace kvferry::transport::tcp {
namespace {

constexpr std::size_t kHelloBytes = 2 + 16 + 16 + 2 + 2;
constexpr std::size_t kWelcomeBytes = 2 + 1 + 16;
constexpr std::size_t kPlaneBytes = 32, kRunBytes = 8;
constexpr std::size_t kWriteFixed = 8 + 8 + 4 + 8 + 8 + 1 + 1 + 2 + 2;

std::uint32_t hash_of(std::span<const std::byte> meta) { return static_cast<std::uint32_t>(hash64(meta)); }

// Puts the head in front of the meta bytes that `frame` holds behind kHeadBytes of room.
std::vector<std::byte> finish(std::vector<std::byte> frame, FrameKind kind, std::uint64_t payload) {
  const auto meta = std::span<const std::byte>(frame).subspan(kHeadBytes);
  Writer head(std::span<std::byte>{frame}.first(kHeadBytes));
  head.u16(kFrameMagic);
  head.u8(static_cast<std::uint8_t>(kind));
  head.u8(0);
  head.u16(static_cast<std::uint16_t>(meta.size()));
  head.u16(0);
  head.u32(static_cast<std::uint32_t>(payload));
  head.u32(hash_of(meta));
  return frame;
}
static_assert(kMaxMetaBytes < 65536);

Cookie cookie_from(Reader& reader) {
  Cookie cookie{};
  const auto raw = reader.bytes(cookie.size());
  if (raw.size() == cookie.size()) std::memcpy(cookie.data(), raw.data(), raw.size());
  return cookie;
}

}  // namespace

std::vector<std::byte> encode(const HelloFrame& hello) {
  std::vector<std::byte> frame(kHeadBytes + kHelloBytes);
  Writer writer(std::span<std::byte>{frame}.subspan(kHeadBytes));
  writer.u16(hello.version);
  writer.bytes(hello.from);
  writer.bytes(hello.to);
  writer.u16(hello.lane);
  writer.u16(hello.lanes);
  return finish(std::move(frame), FrameKind::kHello, 0);
}

std::vector<std::byte> encode(const WelcomeFrame& welcome) {
  std::vector<std::byte> frame(kHeadBytes + kWelcomeBytes);
  Writer writer(std::span<std::byte>{frame}.subspan(kHeadBytes));
  writer.u16(welcome.version);
  writer.u8(static_cast<std::uint8_t>(welcome.status));
  writer.bytes(welcome.from);
  return finish(std::move(frame), FrameKind::kWelcome, 0);
}

std::vector<std::byte> encode(const RejectFrame& reject) {
  const std::size_t text = std::min<std::size_t>(reject.text.size(), kMaxRejectText);
  std::vector<std::byte> frame(kHeadBytes + 8 + 1 + 4 + text);
  Writer writer(std::span<std::byte>{frame}.subspan(kHeadBytes));
  writer.u64(reject.sequence);
  writer.u8(static_cast<std::uint8_t>(reject.refusal));
  writer.text(std::string_view(reject.text).substr(0, text));
  return finish(std::move(frame), FrameKind::kReject, 0);
}

std::vector<std::byte> encode(const WriteFrame& write, const PieceGroup& group) {
  std::vector<std::byte> frame(kHeadBytes + kWriteFixed + write.notice.size +
                               group.planes.size() * kPlaneBytes + group.runs.size() * kRunBytes);
  Writer writer(std::span<std::byte>{frame}.subspan(kHeadBytes));
  writer.u64(write.sequence);
  writer.u64(write.op_bytes);
  writer.u32(write.ticket.loan.slot);
  writer.u64(write.ticket.loan.serial);
  writer.u64(write.ticket.token);
  writer.u8(write.priority);
  writer.u8(write.notice.size);
  writer.u16(static_cast<std::uint16_t>(group.planes.size()));
  writer.u16(static_cast<std::uint16_t>(group.runs.size()));
  writer.bytes(std::span(write.notice.bytes).first(write.notice.size));
  for (const PlanePair& plane : group.planes) {
    writer.u32(plane.remote.region.value);
    writer.u64(plane.remote.base);
    writer.u64(plane.remote.stride);
    writer.u32(plane.bytes);
    writer.u32(plane.repeat);
    writer.u32(plane.remote_step);
  }
  for (const RunPair& run : group.runs) {
    writer.u32(run.remote);
    writer.u32(run.count);
  }
  return finish(std::move(frame), FrameKind::kWrite, bytes_of(group));
}

std::size_t FrameParser::feed(std::span<const std::byte> in) {
  std::size_t taken = 0;
  while (state_ == State::kHead || state_ == State::kMeta) {
    const std::size_t want = state_ == State::kHead ? kHeadBytes : head_.meta_bytes;
    const std::size_t step = std::min(want - have_, in.size() - taken);
    if (step != 0) std::memcpy(buffer_.data() + have_, in.data() + taken, step);
    have_ += step;
    taken += step;
    if (have_ < want) break;
    have_ = 0;
    if (state_ == State::kHead) {
      parse_head();
    } else {
      parse_meta();
    }
  }
  return taken;
}

void FrameParser::next() noexcept {
  if (state_ == State::kFrame) state_ = State::kHead;
}

void FrameParser::bad(std::string why) {
  state_ = State::kBad;
  why_bad_ = std::move(why);
}

void FrameParser::parse_head() {
  Reader reader(std::span<const std::byte>(buffer_).first(kHeadBytes));
  const std::uint16_t magic = reader.u16();
  const std::uint8_t kind = reader.u8(), flags = reader.u8();
  head_.meta_bytes = reader.u16();
  const std::uint16_t reserved = reader.u16();
  head_.payload_bytes = reader.u32();
  head_.meta_hash = reader.u32();
  if (magic != kFrameMagic) return bad("no frame begins here (magic " + std::to_string(magic) + ")");
  if (kind < 1 || kind > 4) return bad("unknown frame kind " + std::to_string(kind));
  head_.kind = static_cast<FrameKind>(kind);
  if (flags != 0 || reserved != 0) return bad("reserved bits of a frame head are set");
  if (head_.meta_bytes == 0 || head_.meta_bytes > kMaxMetaBytes) {
    return bad(std::to_string(head_.meta_bytes) + " bytes of meta; 1 to " + std::to_string(kMaxMetaBytes));
  }
  if (head_.payload_bytes > (head_.kind == FrameKind::kWrite ? kMaxFramePayload : 0)) {
    return bad(std::to_string(head_.payload_bytes) + " bytes of payload in a frame of kind " +
               std::to_string(kind) + "; at most " +
               std::to_string(head_.kind == FrameKind::kWrite ? kMaxFramePayload : 0));
  }
  if (buffer_.size() < head_.meta_bytes) buffer_.resize(head_.meta_bytes);
  state_ = State::kMeta;
}

void FrameParser::parse_meta() {
  const auto meta = std::span<const std::byte>(buffer_).first(head_.meta_bytes);
  if (hash_of(meta) != head_.meta_hash) return bad("the hash of a frame's meta does not match");
  bool good = false;
  switch (head_.kind) {
    case FrameKind::kHello: good = parse_hello(meta); break;
    case FrameKind::kWelcome: good = parse_welcome(meta); break;
    case FrameKind::kWrite: good = parse_write(meta); break;
    case FrameKind::kReject: good = parse_reject(meta); break;
  }
  if (!good)
    return bad("malformed meta in a frame of kind " + std::to_string(static_cast<unsigned>(head_.kind)));
  state_ = State::kFrame;
}

bool FrameParser::parse_hello(std::span<const std::byte> meta) {
  Reader reader(meta);
  hello_.version = reader.u16();
  hello_.from = cookie_from(reader);
  hello_.to = cookie_from(reader);
  hello_.lane = reader.u16();
  hello_.lanes = reader.u16();
  return reader.at_end() && hello_.lane < hello_.lanes;
}

bool FrameParser::parse_welcome(std::span<const std::byte> meta) {
  Reader reader(meta);
  welcome_.version = reader.u16();
  const std::uint8_t status = reader.u8();
  welcome_.from = cookie_from(reader);
  welcome_.status = static_cast<WelcomeFrame::Status>(status);
  return reader.at_end() && status <= static_cast<std::uint8_t>(WelcomeFrame::Status::kFull);
}

bool FrameParser::parse_write(std::span<const std::byte> meta) {
  Reader reader(meta);
  write_.sequence = reader.u64();
  write_.op_bytes = reader.u64();
  write_.ticket.loan.slot = reader.u32();
  write_.ticket.loan.serial = reader.u64();
  write_.ticket.token = reader.u64();
  write_.priority = reader.u8();
  write_.notice.size = reader.u8();
  const std::uint16_t planes = reader.u16(), runs = reader.u16();
  if (!reader.ok() || write_.notice.size > kMaxNotice || planes > kMaxFramePlanes || runs > kMaxFrameRuns)
    return false;
  if (reader.left() != write_.notice.size + planes * kPlaneBytes + runs * kRunBytes) return false;
  const auto notice = reader.bytes(write_.notice.size);
  write_.notice.bytes = {};
  if (!notice.empty()) std::memcpy(write_.notice.bytes.data(), notice.data(), notice.size());
  write_.planes.resize(planes);
  write_.runs.resize(runs);
  std::uint64_t pieces = 0, bytes = 0, items = 0;
  for (PlanePair& plane : write_.planes) {
    plane.remote.region.value = reader.u32();
    plane.remote.base = reader.u64();
    plane.remote.stride = reader.u64();
    plane.bytes = reader.u32();
    plane.repeat = reader.u32();
    plane.remote_step = reader.u32();
    plane.local = plane.remote;
    plane.local_step = plane.remote_step;
    // Each is bounded before it is added or multiplied: no sum below can overflow.
    if (plane.bytes == 0 || plane.bytes > kMaxFramePayload || plane.repeat == 0 ||
        plane.repeat > kMaxFramePieces) {
      return false;
    }
    pieces += plane.repeat;
    bytes += std::uint64_t{plane.bytes} * plane.repeat;
  }
  for (RunPair& run : write_.runs) {
    run.remote = run.local = reader.u32();
    run.count = reader.u32();
    if (run.count == 0 || run.count > kMaxFramePieces) return false;
    items += run.count;
  }
  if (planes != 0 && (items > kMaxFramePieces || pieces > kMaxFramePieces)) return false;
  if (pieces * items > kMaxFramePieces || bytes * items != head_.payload_bytes) return false;
  return reader.at_end() && head_.payload_bytes <= write_.op_bytes;
}

bool FrameParser::parse_reject(std::span<const std::byte> meta) {
  Reader reader(meta);
  reject_.sequence = reader.u64();
  const std::uint8_t refusal = reader.u8();
  reject_.text = std::string(reader.text(kMaxRejectText));
  reject_.refusal = static_cast<Refusal>(refusal);
  for (char& c : reject_.text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return reader.at_end() && refusal != 0 && refusal < kRefusals;
}

}  // namespace kvferry::transport::tcp
