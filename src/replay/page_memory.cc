#include "replay/page_memory.h"

namespace kvferry::replay {
namespace {

constexpr std::uint64_t kAlign = 4096;  // the auxiliary slots begin on a page of the machine

Component component(const Shape& shape, std::size_t part, RegionId region, std::uint64_t& base) {
  Component made;
  made.kind = shape.model.mla ? ComponentKind::kMla : ComponentKind::kAttention;
  made.space = Space::kPages;
  made.name = shape.model.parts[part].name;
  made.dtype = shape.model.dtype;
  made.item_bytes = shape.model.parts[part].row_bytes * shape.page_tokens;
  made.items = shape.pages;
  for (std::uint32_t layer = 0; layer < shape.model.layers; ++layer) {
    made.layers.push_back({layer, region, base, made.item_bytes});
    base += std::uint64_t{made.item_bytes} * shape.pages;
  }
  return made;
}

}  // namespace

std::uint64_t Shape::aux_base() const { return (page_bytes() * pages + kAlign - 1) / kAlign * kAlign; }

std::uint64_t Shape::total_bytes() const { return aux_base() + std::uint64_t{aux_slots} * kAuxBytes; }

Layout Shape::layout(RegionId region) const {
  Layout layout;
  layout.page_tokens = page_tokens;
  std::uint64_t base = 0;
  for (std::size_t part = 0; part < model.parts.size(); ++part) {
    layout.components.push_back(component(*this, part, region, base));
  }
  Component aux;
  aux.kind = ComponentKind::kAux;
  aux.space = Space::kAux;
  aux.name = "manifest";
  aux.dtype = "u8";
  aux.item_bytes = kAuxBytes;
  aux.items = aux_slots;
  aux.layers.push_back({0, region, aux_base(), kAuxBytes});
  layout.components.push_back(std::move(aux));
  return layout;
}

PageMemory::PageMemory(const Shape& shape, std::byte* memory)
    : page_tokens_(shape.page_tokens), page_bytes_(shape.page_bytes()), aux_(memory + shape.aux_base()) {
  std::byte* base = memory;
  for (std::uint32_t part = 0; part < shape.model.parts.size(); ++part) {
    const std::uint32_t row = shape.model.parts[part].row_bytes;
    const std::size_t stride = std::size_t{row} * shape.page_tokens;
    for (std::uint32_t layer = 0; layer < shape.model.layers; ++layer) {
      planes_.push_back({base, stride, layer, part, row});
      base += stride * shape.pages;
    }
  }
}

ItemSpec PageMemory::spec(const Plane& plane, const PageTag& tag) const noexcept {
  return {tag.block_hash, plane.layer, plane.part, tag.first_token, page_tokens_, plane.row_bytes};
}

void PageMemory::fill(std::uint32_t page, const PageTag& tag) noexcept {
  for (const Plane& plane : planes_)
    oracle_fill(plane.base + plane.stride * page, tag.write, spec(plane, tag));
}

std::uint64_t PageMemory::wrong(std::uint32_t page, const PageTag& tag) const noexcept {
  std::uint64_t bytes = 0;
  for (const Plane& plane : planes_)
    bytes += oracle_wrong(plane.base + plane.stride * page, tag.write, spec(plane, tag));
  return bytes;
}

void PageMemory::poison(std::uint32_t page) noexcept {
  for (const Plane& plane : planes_) poison_fill({plane.base + plane.stride * page, plane.stride}, page);
}

std::uint64_t PageMemory::stranger(std::uint32_t page) const noexcept {
  std::uint64_t bytes = 0;
  for (const Plane& plane : planes_)
    bytes += poison_wrong({plane.base + plane.stride * page, plane.stride}, page);
  return bytes;
}

std::int64_t PageMemory::poison_of(std::uint32_t page, std::uint32_t pages) const noexcept {
  const Plane& plane = planes_.front();
  const std::span<const std::byte> bytes{plane.base + plane.stride * page, plane.stride};
  for (std::uint32_t place = 0; place < pages; ++place) {
    if (poison_wrong(bytes, place) == 0) return place;
  }
  return -1;
}

std::span<std::byte> PageMemory::aux(std::uint32_t slot) const noexcept {
  return {aux_ + std::size_t{slot} * kAuxBytes, kAuxBytes};
}

}  // namespace kvferry::replay
