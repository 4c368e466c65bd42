// One stream: reads frames and puts their payload straight into pages, sends frames straight from pages. It
// knows no peer table and no loan; its owner decides. Thread rule: belongs to the progress thread; nothing
// blocks.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "transport/cursor.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/slicer.h"
#include "transport/tcp/socket.h"

namespace kvferry::transport::tcp {

class Lane;
inline constexpr std::uint64_t kFrameCost =
    2 << 10;  // bytes that could be moved in the time one more frame takes
inline constexpr std::uint64_t kNoSequence = ~0ULL;  // a frame that belongs to no operation

// What a lane asks of its owner. The owner may call fail() on the lane inside any of these, but not destroy
// it.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  virtual void on_hello(Lane&, const HelloFrame&) = 0;
  virtual void on_welcome(Lane&, const WelcomeFrame&) = 0;
  virtual bool on_write(Lane&, const WriteFrame&) = 0;  // true: place the payload; false: read and drop it
  virtual void on_write_end(Lane&, const WriteFrame&, bool placed) = 0;  // all of its payload was read
  virtual void on_reject(Lane&, const RejectFrame&) = 0;
  virtual void on_sent(Lane&, std::uint64_t sequence,
                       std::uint64_t payload) = 0;  // the kernel has the whole frame
  virtual bool fill(Lane&) = 0;  // queue one more frame; false: there is none
  virtual std::byte* memory(RegionId, std::uint64_t offset) = 0;
};

class Lane {
 public:
  enum class Phase : std::uint8_t { kDialling, kGreeting, kUnclaimed, kOpen };

  Lane(std::uint64_t lane_id, Fd fd, bool dialled)
      : id(lane_id),
        fd_(std::move(fd)),
        dialled_(dialled),
        phase(dialled ? Phase::kDialling : Phase::kGreeting) {}

  const std::uint64_t id;  // never used twice in a life of the owner

  int fd() const noexcept { return fd_.get(); }
  const Fd& socket() const noexcept { return fd_; }
  bool dialled() const noexcept { return dialled_; }
  bool failed() const noexcept { return failed_; }
  const Error& error() const noexcept { return error_; }
  bool bad_frame() const noexcept { return bad_frame_; }
  void fail(Error);  // the owner closes it after the call that is running

  // Queue a frame without payload, or one whose payload is `slice`'s local side.
  void send(std::vector<std::byte> frame);
  void send(std::vector<std::byte> frame, std::uint64_t sequence, Slice&& slice);
  std::size_t queued() const noexcept { return queue_.size(); }
  std::uint64_t queued_bytes() const noexcept { return queued_bytes_; }
  // Forgets frames of `sequence` of which nothing was sent; returns how many.
  std::size_t drop_unsent(std::uint64_t sequence);
  // Every sequence that has a frame here, sent in part or not at all.
  std::vector<std::uint64_t> queued_sequences() const;

  // The payload that is being placed belongs to this loan: drop the rest of it. Returns the operation it is
  // part of.
  std::optional<std::uint64_t> stop_placing(LoanId);

  // Spends about `budget`: one for each byte moved and kFrameCost for each frame. Returns what was spent.
  // They clear readable/writable when the kernel has no more to give.
  std::uint64_t read_some(LaneOwner&, std::uint64_t budget);
  std::uint64_t write_some(LaneOwner&, std::uint64_t budget);
  bool may_read() const noexcept {
    return readable && !failed_ && phase != Phase::kDialling && phase != Phase::kUnclaimed;
  }

 private:
  struct OutFrame {  // never moves: `source` looks into `group`
    OutFrame() = default;
    OutFrame(const OutFrame&) = delete;
    OutFrame& operator=(const OutFrame&) = delete;
    std::vector<std::byte> bytes;  // head and meta
    std::size_t sent = 0;  // of `bytes`
    std::uint64_t sequence = kNoSequence;
    Slice slice;
    std::array<PieceGroup, 1> group;
    Cursor source;
    std::uint64_t payload = 0, left = 0;
  };
  void take_buffered(LaneOwner&);
  void begin_frame(LaneOwner&);
  void end_frame(LaneOwner&);
  void advance_payload(std::uint64_t bytes, const std::byte* copy_from, LaneOwner&);
  std::size_t tail_bytes() const noexcept;
  std::size_t gather_targets(LaneOwner&, std::uint64_t most, std::span<iovec> to, std::uint64_t& payload);
  std::size_t gather_sources(LaneOwner&, std::uint64_t most, std::span<iovec> from, std::uint64_t& total);
  void consume_sent(LaneOwner&, std::uint64_t bytes);

  Fd fd_;
  bool dialled_ = false, failed_ = false, bad_frame_ = false;
  Error error_;

  FrameParser parser_;
  std::vector<std::byte> buffer_;  // read, not yet looked at: [buffer_at_, buffer_end_)
  std::size_t buffer_at_ = 0, buffer_end_ = 0;
  bool placing_ = false;  // the payload goes to pages; else it is dropped
  std::uint64_t payload_left_ = 0;
  std::uint64_t last_payload_ = 0;
  std::uint64_t frames_cost_ = 0;  // of the frames begun since it was last charged
  std::array<PieceGroup, 1> target_group_;
  Cursor target_;

  std::list<OutFrame> queue_;
  std::uint64_t queued_bytes_ = 0;

 public:  // owned by the owner; the lane only looks at them
  Phase phase;
  bool readable = false, writable = false;
  bool scheduled = false;  // in the owner's run list
  std::uint32_t index = 0;  // of a dialled lane, 0 to streams - 1
  std::optional<PeerId> peer;
  Cookie cookie{};  // of the other end, from its HELLO
  std::uint64_t since = 0;  // tick of the last change of phase
};

}  // namespace kvferry::transport::tcp
