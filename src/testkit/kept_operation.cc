#include "testkit/kept_operation.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace kvferry::testkit {
namespace {

constexpr std::string_view kHalfMark = "kvferry test kit: half";

std::vector<RunPair> first_half(std::span<const RunPair> runs) {
  std::uint64_t items = 0;
  for (const RunPair& run : runs) items += run.count;
  std::uint64_t left = items / 2;
  std::vector<RunPair> half;
  for (const RunPair& run : runs) {
    if (left == 0) break;
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(run.count, left));
    half.push_back({run.local, run.remote, count});
    left -= count;
  }
  return half;
}

}  // namespace

KeptOperation KeptOperation::copy(const Operation& from) {
  return {from.op,     from.access,  from.peer, from.ticket, transport::OwnedGroups(from.groups),
          from.notice, from.priority};
}

KeptOperation KeptOperation::half(const Operation& from) {
  std::vector<std::vector<RunPair>> runs;
  std::vector<PieceGroup> groups;
  runs.reserve(from.groups.size());
  for (const PieceGroup& group : from.groups) {
    runs.push_back(first_half(group.runs));
    if (!runs.back().empty()) groups.push_back({group.planes, runs.back()});
  }
  Notice mark;
  std::memcpy(mark.bytes.data(), kHalfMark.data(), kHalfMark.size());
  mark.size = static_cast<std::uint8_t>(kHalfMark.size());
  return {from.op, from.access, from.peer, from.ticket, transport::OwnedGroups(groups), mark, from.priority};
}

bool KeptOperation::is_half(const Notice& notice) noexcept {
  return notice.size == kHalfMark.size() &&
         std::memcmp(notice.bytes.data(), kHalfMark.data(), kHalfMark.size()) == 0;
}

}  // namespace kvferry::testkit
