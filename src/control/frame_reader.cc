#include "control/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace kvferry::control {
namespace {
constexpr std::size_t kKeep = 64 * 1024;  // an idle reader keeps no more than this
}

void append_frame(std::vector<std::byte>& out, std::span<const std::byte> payload) {
  const auto length = static_cast<std::uint32_t>(payload.size());
  const std::byte prefix[kFramePrefix] = {std::byte(length & 0xFFU), std::byte(length >> 8U & 0xFFU),
                                          std::byte(length >> 16U & 0xFFU), std::byte(length >> 24U)};
  out.insert(out.end(), prefix, prefix + kFramePrefix);
  out.insert(out.end(), payload.begin(), payload.end());
}

FrameReader::FrameReader(std::size_t max_frame) : max_frame_(max_frame) {}

std::span<std::byte> FrameReader::space(std::size_t least) {
  if (head_ == tail_) {
    head_ = tail_ = 0;
    if (buffer_.size() > std::max(kKeep, least)) {
      buffer_.resize(std::max(kKeep, least));
      buffer_.shrink_to_fit();
    }
  }
  if (buffer_.size() - tail_ < least && head_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + head_, tail_ - head_);
    tail_ -= head_;
    head_ = 0;
  }
  if (buffer_.size() - tail_ < least) buffer_.resize(std::max(tail_ + least, buffer_.size() * 2));
  return {buffer_.data() + tail_, buffer_.size() - tail_};
}

void FrameReader::filled(std::size_t bytes) { tail_ = std::min(tail_ + bytes, buffer_.size()); }

std::uint32_t FrameReader::announced() const {
  const std::byte* p = buffer_.data() + head_;
  return std::to_integer<std::uint32_t>(p[0]) | std::to_integer<std::uint32_t>(p[1]) << 8U |
         std::to_integer<std::uint32_t>(p[2]) << 16U | std::to_integer<std::uint32_t>(p[3]) << 24U;
}

FrameReader::Status FrameReader::next(std::span<const std::byte>& frame) {
  if (buffered() < kFramePrefix) return Status::kMore;
  const std::size_t length = announced();
  if (length > max_frame_) return Status::kTooLong;
  if (buffered() - kFramePrefix < length) return Status::kMore;
  frame = {buffer_.data() + head_ + kFramePrefix, length};
  head_ += kFramePrefix + length;
  return Status::kFrame;
}

bool FrameReader::has_next() const {
  if (buffered() < kFramePrefix) return false;
  const std::size_t length = announced();
  return length > max_frame_ || buffered() - kFramePrefix >= length;
}

bool FrameReader::inside_frame() const { return buffered() > 0 && !has_next(); }

Error FrameReader::error() const {
  if (buffered() < kFramePrefix || announced() <= max_frame_) return {};
  return Error{Code::kBadMessage,
               Who::kPeer,
               Next::kAfterFix,
               0,
               "control frame",
               "announces " + std::to_string(announced()) + " bytes, the limit frame_bytes is " +
                   std::to_string(max_frame_) + "; is the other end a kvferry control port?"};
}

}  // namespace kvferry::control
