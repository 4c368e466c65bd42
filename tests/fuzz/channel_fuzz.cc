// The control channel's framing under hostile bytes. The first two bytes choose the limit and the cuts; the
// frames must be those of a plain reading of the whole stream, however it is cut, and memory follows what
// arrived.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "control/frame_reader.h"

namespace {

using kvferry::control::FrameReader;
using Frames = std::vector<std::vector<std::byte>>;

void demand(bool ok) {
  if (!ok) std::abort();
}

// False: a frame above the limit ended the stream.
bool plain(std::span<const std::byte> stream, std::size_t limit, Frames& out) {
  while (stream.size() >= 4) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= std::to_integer<std::size_t>(stream[i]) << (8 * i);
    if (length > limit) return false;
    if (stream.size() - 4 < length) return true;
    const auto frame = stream.subspan(4, length);
    out.emplace_back(frame.begin(), frame.end());
    stream = stream.subspan(4 + length);
  }
  return true;
}

bool cut_up(std::span<const std::byte> stream, std::size_t limit, std::size_t step, Frames& out) {
  FrameReader reader(limit);
  while (!stream.empty()) {
    const std::size_t n = std::min(step, stream.size());
    std::memcpy(reader.space(n).data(), stream.data(), n);
    reader.filled(n);
    stream = stream.subspan(n);
    demand(reader.capacity() <= 256 * 1024 + 4 * limit);
    for (std::span<const std::byte> frame;;) {
      const bool told = reader.has_next();
      const auto status = reader.next(frame);
      demand(told == (status != FrameReader::Status::kMore));
      if (status == FrameReader::Status::kMore) break;
      demand(reader.error().ok() == (status == FrameReader::Status::kFrame) || reader.has_next());
      if (status == FrameReader::Status::kTooLong) return false;
      demand(frame.size() <= limit);
      out.emplace_back(frame.begin(), frame.end());
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t limit = data[0] * 8U;
  const auto stream = std::as_bytes(std::span(data + 2, size - 2));
  Frames expected, got;
  const bool whole = plain(stream, limit, expected);
  demand(cut_up(stream, limit, 1U + data[1], got) == whole);
  demand(got == expected);
  return 0;
}
