#include "transport/shm/description.h"

#include "base/bytes.h"

namespace kvferry::shm {

namespace {

constexpr std::uint32_t kMagic = 0x4d48'534b;  // "KSHM"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kMaxDoor = 107;     // sun_path without its end
constexpr std::size_t kRegionBytes = 9;

}  // namespace

std::vector<std::byte> encode(const Description& description) {
  std::vector<std::byte> bytes(kMaxDescription);
  Writer out(bytes);
  out.u32(kMagic);
  out.u16(kVersion);
  out.u64(description.cookie);
  out.u64(description.pid);
  out.u8(description.abstract ? 1 : 0);
  out.text(description.door);
  out.u32(static_cast<std::uint32_t>(description.regions.size()));
  for (const Description::Region& region : description.regions) {
    out.u64(region.length);
    out.u8(static_cast<std::uint8_t>(region.kind));
  }
  bytes.resize(out.size());
  return bytes;
}

Result<Description> decode_description(std::span<const std::byte> bytes) {
  const std::string what = "shm description of " + std::to_string(bytes.size()) + " bytes";
  Reader in(bytes);
  const std::uint32_t magic = in.u32();
  const std::uint16_t version = in.u16();
  if (!in.ok() || magic != kMagic) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                "it is not the description of a shm transport");
  }
  if (version != kVersion) {
    return fail(Code::kMismatch, Who::kPeer, Next::kAfterFix, what,
                "the peer's has version " + std::to_string(version) + ", this side reads version " +
                    std::to_string(kVersion));
  }
  Description description;
  description.cookie = in.u64();
  description.pid = in.u64();
  description.abstract = in.u8() != 0;
  description.door = in.text(kMaxDoor);
  const std::uint32_t count = in.u32();
  if (!in.ok() || in.left() != std::size_t{count} * kRegionBytes || description.door.empty()) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                "it is cut or has bytes left over (" + std::to_string(count) + " regions announced, " +
                    std::to_string(in.left()) + " bytes left)");
  }
  description.regions.resize(count);
  for (Description::Region& region : description.regions) {
    region.length = in.u64();
    const std::uint8_t kind = in.u8();
    if (kind > static_cast<std::uint8_t>(RegionKind::kForeign)) {
      return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                  "unknown kind of region " + std::to_string(kind));
    }
    region.kind = static_cast<RegionKind>(kind);
  }
  return description;
}

}  // namespace kvferry::shm
