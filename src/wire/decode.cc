// Bytes -> messages: size, identifier, the whole buffer verified, then reading.h.
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "wire/codec.h"
#include "wire/kvferry_generated.h"
#include "wire/reading.h"

namespace kvferry::wire {

namespace {

constexpr std::size_t kAlignment = alignof(std::uint64_t);  // the widest scalar of the schema
constexpr std::size_t kLeastBytes = 8;                      // root offset and identifier
constexpr std::size_t kLocalBytes = 512;                    // small frames are aligned on the stack
constexpr flatbuffers::uoffset_t kDepth = 8;                // Frame, Hello, Layout, Component: 4
// More tables than any message within the default limits (64 components, 16 movers) has, and few enough that
// a list of a million offsets to one table costs nothing. A list above its own limit but below this gets its
// own error.
constexpr flatbuffers::uoffset_t kTables = 4096;

tl::unexpected<Error> bad(std::string what, std::string why) {
  return fail(Code::kBadMessage, kvferry::Who::kPeer, Next::kNever, std::move(what), std::move(why));
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<std::size_t>(b >> 4)]);
    out.push_back(kDigits[std::to_integer<std::size_t>(b & std::byte{15})]);
  }
  return out;
}

// `frame` lies at an aligned address.
Result<Message> decode_aligned(std::span<const std::byte> frame, const FrameLimits& limits) {
  const std::span<const std::uint8_t> octets = octets_of(frame);
  flatbuffers::Verifier verifier(octets.data(), octets.size(), kDepth, kTables);
  if (!fb::VerifyFrameBuffer(verifier)) {
    return bad("frame", "an offset, length or alignment inside the " + std::to_string(frame.size()) +
                            " bytes is wrong: verification failed");
  }
  const fb::Frame& root = *fb::GetFrame(octets.data());
  Message message;
  if (const fb::Incarnation* from = root.from(); from != nullptr) {
    message.header.from = {from->started_ms(), from->random()};
  }
  if (const fb::Incarnation* to = root.to(); to != nullptr) {
    message.header.to = {to->started_ms(), to->random()};
  }
  message.header.session = root.session();
  Reading reading(limits);
  if (!reading.body(root, message.body)) {
    const bool known = root.body_type() != fb::Body::NONE && root.body_type() <= fb::Body::MAX;
    return bad(known ? std::string("frame ") + name_of(message.body) : "frame", reading.why());
  }
  return message;
}

}  // namespace

Result<Message> decode(std::span<const std::byte> frame, const FrameLimits& limits) {
  if (frame.size() > limits.frame_bytes || frame.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    return bad("frame", "it has " + std::to_string(frame.size()) + " bytes, the limit frame_bytes is " +
                            std::to_string(limits.frame_bytes));
  }
  if (frame.size() < kLeastBytes) {
    return bad("frame", "it has " + std::to_string(frame.size()) + " bytes, the least are " +
                            std::to_string(kLeastBytes));
  }
  const std::span<const std::byte> identifier = frame.subspan(4, flatbuffers::kFileIdentifierLength);
  if (text_of_bytes(identifier) != fb::FrameIdentifier()) {
    return bad("frame", "bytes 4 to 7 are " + hex(identifier) + " and not " +
                            hex(bytes_of_text(fb::FrameIdentifier())) + " (\"KVFY\")");
  }
  if (is_aligned(frame.data(), kAlignment)) {
    return decode_aligned(frame, limits);
  }
  if (frame.size() <= kLocalBytes) {
    alignas(kAlignment) std::array<std::byte, kLocalBytes> copy;
    std::memcpy(copy.data(), frame.data(), frame.size());
    return decode_aligned(std::span<const std::byte>{copy}.first(frame.size()), limits);
  }
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(frame.size());  // new[] aligns it
  std::memcpy(copy.get(), frame.data(), frame.size());
  return decode_aligned({copy.get(), frame.size()}, limits);
}

}  // namespace kvferry::wire
