#include "transport/regions.h"

#include <algorithm>

namespace kvferry::transport {
namespace {

__extension__ typedef unsigned __int128 Wide;  // sums of hostile 64-bit numbers

std::string memory_name(Memory memory) {
  switch (memory) {
    case Memory::kHost: return "host";
    case Memory::kPinned: return "pinned host";
    case Memory::kCuda: return "CUDA";
    case Memory::kRocm: return "ROCm";
  }
  return "unknown (" + std::to_string(static_cast<unsigned>(memory)) + ")";
}

std::string subject(const std::string& mover, RegionId id) {
  return mover + " region " + std::to_string(id.value);
}

}  // namespace

Result<> RegionTable::add(RegionId id, const RegionView& view) {
  if (id.value >= kMaxRegions) {
    return fail(Code::kExhausted, Who::kConfig, Next::kAfterFix, subject(mover_, id),
                "region ids run from 0 to " + std::to_string(kMaxRegions - 1) + "; join neighbouring ranges");
  }
  if (has(id)) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, subject(mover_, id),
                "this id is registered already");
  }
  if ((memory_ & static_cast<std::uint8_t>(view.memory)) == 0) {
    return fail(Code::kUnsupported, Who::kConfig, Next::kAfterFix, subject(mover_, id),
                "the mover cannot reach " + memory_name(view.memory) + " memory; it moves host memory only");
  }
  if (view.address == nullptr || view.length == 0) {
    return fail(
        Code::kUsage, Who::kLocal, Next::kAfterFix, subject(mover_, id),
        "the range is empty (" + std::to_string(view.length) + " bytes); give its address and length");
  }
  if (slots_.size() <= id.value) slots_.resize(id.value + 1);
  slots_[id.value] = Slot{view, 0};
  return {};
}

Result<> RegionTable::drop(RegionId id) {
  if (!has(id)) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, subject(mover_, id), "no such region is registered");
  }
  const std::uint64_t users = slots_[id.value]->users;
  if (users != 0) {
    return fail(Code::kRefused, Who::kLocal, Next::kRetry, subject(mover_, id),
                std::to_string(users) + " operations or loans still touch it; drop it when they ended");
  }
  slots_[id.value].reset();
  return {};
}

Result<> RegionTable::inside(const Plane& plane, std::uint64_t last_item, std::uint64_t span_bytes) const {
  if (!has(plane.region)) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, subject(mover_, plane.region),
                "no such region is registered");
  }
  const std::uint64_t length = slots_[plane.region.value]->view.length;
  const Wide end = Wide{plane.base} + Wide{last_item} * plane.stride + span_bytes;
  if (end <= length) return {};
  return fail(Code::kRefused, Who::kLocal, Next::kNever, subject(mover_, plane.region),
              "item " + std::to_string(last_item) + " (base " + std::to_string(plane.base) + ", stride " +
                  std::to_string(plane.stride) + ", " + std::to_string(span_bytes) +
                  " bytes) ends behind the region's " + std::to_string(length) + " bytes");
}

Result<> RegionTable::check_local(std::span<const PieceGroup> groups) const {
  for (const PieceGroup& group : groups) {
    std::uint64_t last = 0, items = 0;
    for (const RunPair& run : group.runs) {
      items += run.count;
      if (run.count != 0) last = std::max(last, std::uint64_t{run.local} + run.count - 1);
    }
    for (const PlanePair& plane : group.planes) {
      if (items == 0 || plane.bytes == 0 || plane.repeat == 0) continue;
      const std::uint64_t span = std::uint64_t{plane.repeat - 1} * plane.local_step + plane.bytes;
      if (auto ok = inside(plane.local, last, span); !ok) return ok;
    }
  }
  return {};
}

Result<> RegionTable::check_loan(std::span<const LoanGroup> groups) const {
  for (const LoanGroup& group : groups) {
    if (group.item_bytes.size() != group.planes.size()) {
      return fail(Code::kUsage, Who::kLocal, Next::kNever, mover_ + " loan",
                  std::to_string(group.planes.size()) + " planes with " +
                      std::to_string(group.item_bytes.size()) + " item sizes; give one size for each plane");
    }
    std::uint64_t last = 0, items = 0;
    for (const PageRun& run : group.runs) {
      items += run.count;
      if (run.count != 0) last = std::max(last, std::uint64_t{run.first} + run.count - 1);
    }
    for (std::size_t i = 0; i < group.planes.size() && items != 0; ++i) {
      if (auto ok = inside(group.planes[i], last, group.item_bytes[i]); !ok) return ok;
    }
  }
  return {};
}

void RegionTable::hold_one(RegionHold& hold, RegionId id) {
  if (!hold.empty() && hold.back() == id) return;  // the usual case: one region, many planes
  if (!has(id) || std::find(hold.begin(), hold.end(), id) != hold.end()) return;
  ++slots_[id.value]->users;
  hold.push_back(id);
}

RegionHold RegionTable::hold_local(std::span<const PieceGroup> groups) {
  RegionHold hold;
  for (const PieceGroup& group : groups) {
    for (const PlanePair& plane : group.planes) hold_one(hold, plane.local.region);
  }
  return hold;
}

RegionHold RegionTable::hold_loan(std::span<const LoanGroup> groups) {
  RegionHold hold;
  for (const LoanGroup& group : groups) {
    for (const Plane& plane : group.planes) hold_one(hold, plane.region);
  }
  return hold;
}

void RegionTable::retain(const RegionHold& hold) noexcept {
  for (const RegionId id : hold) {
    if (has(id)) ++slots_[id.value]->users;
  }
}

void RegionTable::release(const RegionHold& hold) noexcept {
  for (const RegionId id : hold) {
    if (has(id) && slots_[id.value]->users != 0) --slots_[id.value]->users;
  }
}

}  // namespace kvferry::transport
