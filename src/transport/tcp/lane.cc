#include "transport/tcp/lane.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kvferry::transport::tcp {
namespace {

constexpr std::size_t kMaxIovecs = 512;            // of one system call
constexpr std::size_t kBufferBytes = 16 << 10;     // read ahead of small frames
constexpr std::uint64_t kSmallPayload = 16
                                        << 10;  // behind larger ones nothing but the next head is read ahead
constexpr std::uint64_t kQueueBytes =
    512 << 10;  // of frames that a lane takes before the kernel took those before

Error lost(int error, const std::string& call) {
  return {Code::kTransport, Who::kPeer, Next::kNewRoom, error, "tcp stream", call + ": " + errno_text(error)};
}

}  // namespace

void Lane::fail(Error error) {
  if (failed_) return;
  failed_ = true;
  error_ = std::move(error);
}

void Lane::send(std::vector<std::byte> frame) { send(std::move(frame), kNoSequence, Slice{}); }

void Lane::send(std::vector<std::byte> frame, std::uint64_t sequence, Slice&& slice) {
  OutFrame& out = queue_.emplace_back();
  out.bytes = std::move(frame);
  out.sequence = sequence;
  out.slice = std::move(slice);
  out.group[0] = out.slice.group();
  out.source = Cursor(out.group, Merge::kLocal);
  out.payload = out.left = out.slice.bytes;
  queued_bytes_ += out.bytes.size() + out.left;
}

std::size_t Lane::drop_unsent(std::uint64_t sequence) {
  return std::erase_if(queue_, [&](const OutFrame& frame) {
    if (frame.sequence != sequence || frame.sent != 0) return false;
    queued_bytes_ -= frame.bytes.size() + frame.left;
    return true;
  });
}

std::vector<std::uint64_t> Lane::queued_sequences() const {
  std::vector<std::uint64_t> found;
  for (const OutFrame& frame : queue_) {
    if (frame.sequence != kNoSequence) found.push_back(frame.sequence);
  }
  return found;
}

std::optional<std::uint64_t> Lane::stop_placing(LoanId loan) {
  if (!placing_ || payload_left_ == 0 || parser_.write().ticket.loan != loan) return std::nullopt;
  placing_ = false;
  return parser_.write().sequence;
}

// How much is read behind the payload: enough for the next head and meta, and for whole frames when they are
// small. Behind large payloads no byte of the next payload is read ahead, so that none of it needs to be
// copied.
std::size_t Lane::tail_bytes() const noexcept {
  return last_payload_ >= kSmallPayload ? kHeadBytes + parser_.meta_bytes() : kBufferBytes;
}

void Lane::begin_frame(LaneOwner& owner) {
  last_payload_ = payload_left_ = parser_.payload_bytes();
  frames_cost_ += kFrameCost;
  placing_ = false;
  switch (parser_.kind()) {
    case FrameKind::kHello: owner.on_hello(*this, parser_.hello()); break;
    case FrameKind::kWelcome: owner.on_welcome(*this, parser_.welcome()); break;
    case FrameKind::kReject: owner.on_reject(*this, parser_.reject()); break;
    case FrameKind::kWrite:
      placing_ = owner.on_write(*this, parser_.write());
      target_group_[0] = parser_.write().group();
      if (placing_) target_ = Cursor(target_group_, Merge::kLocal);
      break;
  }
}

void Lane::end_frame(LaneOwner& owner) {
  if (parser_.kind() == FrameKind::kWrite) owner.on_write_end(*this, parser_.write(), placing_);
  placing_ = false;
  parser_.next();
}

// `bytes` of payload were read; `copy_from`: they lie there, not yet in their pages.
void Lane::advance_payload(std::uint64_t bytes, const std::byte* copy_from, LaneOwner& owner) {
  payload_left_ -= bytes;
  while (placing_ && bytes != 0) {
    const Segment segment = target_.front();
    const std::uint64_t step = std::min(bytes, segment.bytes);
    if (copy_from != nullptr) {
      std::memcpy(owner.memory(segment.local_region, segment.local), copy_from, step);
      copy_from += step;
    }
    target_.consume(step);
    bytes -= step;
  }
}

void Lane::take_buffered(LaneOwner& owner) {
  while (!failed_ && phase != Phase::kUnclaimed) {
    const std::size_t have = buffer_end_ - buffer_at_;
    if (parser_.state() == FrameParser::State::kFrame) {
      const std::uint64_t step = std::min<std::uint64_t>(have, payload_left_);
      if (step != 0) {
        advance_payload(step, buffer_.data() + buffer_at_, owner);
        buffer_at_ += step;
      }
      if (payload_left_ != 0) return;
      end_frame(owner);
      continue;
    }
    if (have == 0) return;
    buffer_at_ += parser_.feed(std::span<const std::byte>(buffer_).subspan(buffer_at_, have));
    if (parser_.state() == FrameParser::State::kBad) {
      bad_frame_ = true;
      return fail({Code::kBadMessage, Who::kPeer, Next::kNewRoom, 0, "tcp stream", parser_.why_bad()});
    }
    if (parser_.state() == FrameParser::State::kFrame) begin_frame(owner);
  }
}

// Where the next bytes of the stream go: pages first, the buffer behind them.
std::size_t Lane::gather_targets(LaneOwner& owner, std::uint64_t most, std::span<iovec> to,
                                 std::uint64_t& payload) {
  std::size_t count = 0;
  payload = 0;
  buffer_at_ = buffer_end_ = 0;  // all of it was looked at
  const bool inside = parser_.state() == FrameParser::State::kFrame && placing_;
  if (inside) {
    most = std::min(most, payload_left_);
    for (Cursor walk = target_; payload < most && count + 1 < to.size();) {
      const Segment segment = walk.front();
      const std::uint64_t step = std::min(segment.bytes, most - payload);
      to[count++] = {owner.memory(segment.local_region, segment.local), step};
      payload += step;
      walk.consume(step);
    }
    if (payload < payload_left_) return count;
  }
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  to[count++] = {buffer_.data(), inside ? std::min(tail_bytes(), kBufferBytes) : kBufferBytes};
  return count;
}

std::uint64_t Lane::read_some(LaneOwner& owner, std::uint64_t budget) {
  std::array<iovec, kMaxIovecs> to;
  std::uint64_t total = 0;
  while (may_read()) {
    take_buffered(owner);
    total += std::exchange(frames_cost_, 0);
    if (!may_read() || total >= budget) break;
    std::uint64_t payload = 0;
    const std::size_t count = gather_targets(owner, budget - total, to, payload);
    const ssize_t got = readv(fd_.get(), to.data(), static_cast<int>(count));
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        readable = false;
        break;
      }
      fail(lost(errno, "read"));
      break;
    }
    if (got == 0) {
      fail({Code::kTransport, Who::kPeer, Next::kNewRoom, 0, "tcp stream", "closed by the peer"});
      break;
    }
    const auto bytes = static_cast<std::uint64_t>(got);
    const std::uint64_t placed = std::min(bytes, payload);
    if (placed != 0) advance_payload(placed, nullptr, owner);
    buffer_end_ = bytes - placed;
    total += bytes;
  }
  return total;
}

std::size_t Lane::gather_sources(LaneOwner& owner, std::uint64_t most, std::span<iovec> from,
                                 std::uint64_t& total) {
  std::size_t count = 0;
  total = 0;
  for (OutFrame& frame : queue_) {
    if (count + 2 > from.size() || total >= most) break;
    if (frame.sent < frame.bytes.size()) {
      from[count++] = {frame.bytes.data() + frame.sent, frame.bytes.size() - frame.sent};
      total += frame.bytes.size() - frame.sent;
    }
    for (Cursor walk = frame.source; !walk.done() && total < most && count < from.size();) {
      const Segment segment = walk.front();
      const std::uint64_t step = std::min(segment.bytes, most - total);
      from[count++] = {owner.memory(segment.local_region, segment.local), step};
      total += step;
      walk.consume(step);
    }
  }
  return count;
}

void Lane::consume_sent(LaneOwner& owner, std::uint64_t bytes) {
  queued_bytes_ -= bytes;
  while (!queue_.empty()) {
    OutFrame& frame = queue_.front();
    const std::uint64_t head = std::min<std::uint64_t>(bytes, frame.bytes.size() - frame.sent);
    frame.sent += head;
    bytes -= head;
    while (bytes != 0 && frame.left != 0) {
      const std::uint64_t step = std::min(bytes, frame.source.front().bytes);
      frame.source.consume(step);
      frame.left -= step;
      bytes -= step;
    }
    if (frame.sent < frame.bytes.size() || frame.left != 0) return;
    const std::uint64_t sequence = frame.sequence, payload = frame.payload;
    queue_.pop_front();
    owner.on_sent(*this, sequence, payload);
  }
}

std::uint64_t Lane::write_some(LaneOwner& owner, std::uint64_t budget) {
  std::array<iovec, kMaxIovecs> from;
  std::uint64_t total = 0;
  while (writable && !failed_ && phase != Phase::kDialling && total < budget) {
    while (phase == Phase::kOpen && queued_bytes_ < kQueueBytes && owner.fill(*this)) {}
    if (queue_.empty()) break;
    std::uint64_t asked = 0;
    msghdr message{};
    message.msg_iov = from.data();
    message.msg_iovlen = gather_sources(owner, budget - total, from, asked);
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        writable = false;
      } else {
        fail(lost(errno, "write"));
      }
      break;
    }
    const std::size_t frames = queue_.size();
    consume_sent(owner, static_cast<std::uint64_t>(sent));
    total += static_cast<std::uint64_t>(sent) + (frames - queue_.size()) * kFrameCost;
  }
  return total;
}

}  // namespace kvferry::transport::tcp
