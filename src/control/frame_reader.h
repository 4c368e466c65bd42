// Length-prefixed frames over a byte stream, sans-IO: u32 little-endian length, then that many bytes.
// Total on hostile bytes. Memory follows the bytes that have arrived, never the length that was announced.
// Thread rule: one reader belongs to one link of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/error.h"

namespace kvferry::control {

inline constexpr std::size_t kFramePrefix = 4;  // bytes

// Appends prefix and payload to `out`. The caller keeps payload.size() within the limit of the other side.
void append_frame(std::vector<std::byte>& out, std::span<const std::byte> payload);

class FrameReader {
 public:
  enum class Status : std::uint8_t {
    kFrame,    // `frame` is set; it points into the reader and is valid until the next space()
    kMore,     // no whole frame is here yet
    kTooLong,  // the announced length is above the limit; final: the stream cannot be read any further
  };

  explicit FrameReader(std::size_t max_frame);

  // Room for at least `least` bytes of the stream; invalidates frames. Then filled(n) says how many came.
  std::span<std::byte> space(std::size_t least);
  void filled(std::size_t bytes);

  Status next(std::span<const std::byte>& frame);
  bool has_next() const;      // next() would not say kMore
  bool inside_frame() const;  // bytes of an unfinished frame are here: an end of stream now cuts it
  Error error() const;        // for kTooLong: announced length, limit and fix
  std::size_t buffered() const { return tail_ - head_; }
  std::size_t capacity() const { return buffer_.size(); }

 private:
  std::uint32_t announced() const;  // needs 4 buffered bytes

  std::size_t max_frame_;
  std::vector<std::byte> buffer_;
  std::size_t head_ = 0, tail_ = 0;  // unread bytes are [head_, tail_)
};

}  // namespace kvferry::control
