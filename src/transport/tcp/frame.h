// The frames of the tcp mover, without any input or output: bytes <-> values. The mover, the simulator and
// the fuzzer use this very parser. docs/transports.md has the layout. Values; no thread rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvferry/transport.h"
#include "transport/loans.h"

namespace kvferry::transport::tcp {

inline constexpr std::uint16_t kFrameMagic = 0x564B;  // "KV"
inline constexpr std::uint16_t kFrameVersion = 1;     // lanes of different versions refuse each other
inline constexpr std::size_t kHeadBytes = 16;

// Bounds of one frame. A frame that exceeds one is not a valid frame.
inline constexpr std::uint32_t kMaxFramePayload = 1U
                                                  << 20;  // 1 MiB: other operations get their turn behind it
inline constexpr std::uint32_t kMaxFramePlanes = 1024;  // 32 B each
inline constexpr std::uint32_t kMaxFrameRuns = 2048;  // 8 B each
inline constexpr std::uint32_t kMaxFramePieces = 8192;  // bounds the check against the loan
inline constexpr std::uint32_t kMaxRejectText = 256;
inline constexpr std::uint32_t kMaxMetaBytes = 160 + kMaxFramePlanes * 32 + kMaxFrameRuns * 8;  // 48.2 KiB

enum class FrameKind : std::uint8_t { kHello = 1, kWelcome = 2, kWrite = 3, kReject = 4 };

using Cookie = std::array<std::byte, 16>;  // one life of one tcp transport: random

// Every frame begins with this; `meta` bytes that describe it and `payload` bytes of pages follow.
struct FrameHead {
  FrameKind kind = FrameKind::kHello;
  std::uint32_t meta_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t meta_hash = 0;  // of the meta bytes: a lane that lost its place is found out at once
};

// First frame of the side that dialled.
struct HelloFrame {
  std::uint16_t version = kFrameVersion;
  Cookie from{}, to{};
  std::uint16_t lane = 0, lanes = 0;
  bool operator==(const HelloFrame&) const = default;
};

// First frame of the side that was dialled; nothing else is sent to it before.
struct WelcomeFrame {
  enum class Status : std::uint8_t { kOk = 0, kOtherLife = 1, kFenced = 2, kVersion = 3, kFull = 4 };
  std::uint16_t version = kFrameVersion;
  Status status = Status::kOk;
  Cookie from{};
  bool operator==(const WelcomeFrame&) const = default;
};

// Part of an operation. The payload is the pieces of `planes` x `runs` (remote side), in the order of Cursor.
struct WriteFrame {
  std::uint64_t sequence = 0;  // names the operation in this life of the sender
  std::uint64_t op_bytes = 0;  // of the whole operation: it has arrived when that many bytes were placed
  Ticket ticket;
  Notice notice;  // the same in every frame of the operation
  std::uint8_t priority = 0;
  std::vector<PlanePair> planes;  // decoded: `local` equals `remote`, so that a Cursor walks the destination
  std::vector<RunPair> runs;
  PieceGroup group() const { return {planes, runs}; }
};

// The answer to a frame of an operation that was refused; its bytes were read and dropped.
struct RejectFrame {
  std::uint64_t sequence = 0;
  Refusal refusal = Refusal::kNone;
  std::string text;  // printable, at most kMaxRejectText bytes
  bool operator==(const RejectFrame&) const = default;
};

// Whole head and meta, ready to be sent; the payload is sent behind it.
std::vector<std::byte> encode(const HelloFrame&);
std::vector<std::byte> encode(const WelcomeFrame&);
std::vector<std::byte> encode(const RejectFrame&);
// `group` must be within the bounds above; its remote side is written. Takes the fields of `frame` but for
// the group.
std::vector<std::byte> encode(const WriteFrame& frame, const PieceGroup& group);

// Reads frames from any cutting of the byte stream. Usage: feed() until it takes nothing; state() kFrame:
// look at the frame, read payload_bytes() yourself, then next().
class FrameParser {
 public:
  enum class State : std::uint8_t { kHead, kMeta, kFrame, kBad };

  // Takes bytes of the head and meta only, never of the payload; returns how many. Takes none in kFrame and
  // kBad.
  std::size_t feed(std::span<const std::byte>);
  State state() const noexcept { return state_; }
  const std::string& why_bad() const noexcept { return why_bad_; }
  bool between_frames() const noexcept { return state_ == State::kHead && have_ == 0; }

  FrameKind kind() const noexcept { return head_.kind; }  // valid in kFrame, as are the next
  std::uint32_t meta_bytes() const noexcept { return head_.meta_bytes; }
  std::uint32_t payload_bytes() const noexcept { return head_.payload_bytes; }
  const HelloFrame& hello() const noexcept { return hello_; }
  const WelcomeFrame& welcome() const noexcept { return welcome_; }
  const WriteFrame& write() const noexcept { return write_; }
  const RejectFrame& reject() const noexcept { return reject_; }
  void next() noexcept;  // the payload was read

 private:
  void bad(std::string why);
  void parse_head();
  void parse_meta();
  bool parse_hello(std::span<const std::byte>);
  bool parse_welcome(std::span<const std::byte>);
  bool parse_write(std::span<const std::byte>);
  bool parse_reject(std::span<const std::byte>);

  State state_ = State::kHead;
  std::size_t have_ = 0;  // bytes in buffer_
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kHeadBytes);
  FrameHead head_;
  HelloFrame hello_;
  WelcomeFrame welcome_;
  WriteFrame write_;
  RejectFrame reject_;
  std::string why_bad_;
};

}  // namespace kvferry::transport::tcp
