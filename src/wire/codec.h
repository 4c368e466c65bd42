// Bytes <-> messages. Pure; total on hostile bytes; the fuzz target. Thread rule: one Encoder per thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kvferry/error.h"
#include "wire/message.h"

namespace kvferry::wire {

// Bounds of one frame. A frame beyond them is kBadMessage and names the limit.
struct FrameLimits {
  std::size_t frame_bytes = 1U << 20;       // one control frame
  std::uint32_t page_runs = 65536;          // in one part of a GRANT or OFFER
  std::uint32_t chunks = 65536;             // in a manifest
  std::uint32_t state_slots = 4096;
  std::uint32_t renew_items = 4096;
  std::uint32_t text_bytes = 4096;          // each string
  std::uint32_t movers = 16;
  std::uint32_t components = 64;
  std::uint32_t layers = 1024;              // per component
  std::uint32_t description_bytes = 4096;   // per mover
};

class Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;
  // The frame's bytes (no length prefix); valid until the next call. Never fails on a message within
  // FrameLimits; strings longer than text_bytes are cut.
  std::span<const std::byte> encode(const Message&);

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// Verifies first, reads afterwards. kBadMessage names what is wrong; nothing is kept of the bytes.
Result<Message> decode(std::span<const std::byte> frame, const FrameLimits& = {});

}  // namespace kvferry::wire
