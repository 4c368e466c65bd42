#include "transport/shm/exports.h"

#include <algorithm>
#include <utility>

namespace kvferry {

const char* name_of(ShmRegionReport::How how) noexcept {
  switch (how) {
    case ShmRegionReport::How::kPreparing: return "preparing";
    case ShmRegionReport::How::kPool: return "pool";
    case ShmRegionReport::How::kAdopted: return "adopted";
    case ShmRegionReport::How::kForeign: return "foreign";
    case ShmRegionReport::How::kRefused: return "refused";
  }
  return "unknown";
}

namespace shm {

namespace {

std::uintptr_t number_of(const std::byte* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

std::string subject(RegionId id) { return "shm region " + std::to_string(id.value); }

// Length of the common part of [a, a + a_size) and [b, b + b_size).
std::uint64_t common(const std::byte* a, std::uint64_t a_size, const std::byte* b,
                     std::uint64_t b_size) noexcept {
  const std::uint64_t first = std::max(number_of(a), number_of(b));
  const std::uint64_t last = std::min(number_of(a) + a_size, number_of(b) + b_size);
  return last > first ? last - first : 0;
}

}  // namespace

Exports::Exports(const ShmOptions& options, Worker& worker, std::deque<Event>& events)
    : options_(options),
      worker_(worker),
      events_(events),
      table_("shm", static_cast<std::uint8_t>(Memory::kHost)) {}

Result<> Exports::share(std::shared_ptr<const SharedPool> pool) {
  if (pool == nullptr) {
    return fail(Code::kUsage, Who::kLocal, Next::kAfterFix, "shm pool",
                "a null pool was given; use allocate_pool()");
  }
  auto file = read_only(pool->fd());
  if (!file) {
    return tl::unexpected(file.error());
  }
  Backing backing;
  backing.file = std::make_shared<const File>(std::move(*file));
  backing.data = pool->data();
  backing.length = pool->size();
  backing.pool = std::move(pool);
  pools_.push_back(std::make_shared<const Backing>(std::move(backing)));
  return {};
}

Result<> Exports::add(RegionId id, const RegionView& view) {
  if (id.value >= options_.limits.regions) {
    return fail(Code::kExhausted, Who::kConfig, Next::kAfterFix, subject(id),
                "ids run from 0 to " + std::to_string(options_.limits.regions - 1) +
                    " (shm.regions); join neighbouring ranges into one region");
  }
  if (auto added = table_.add(id, view); !added) {
    return added;
  }
  Export item;
  item.data = static_cast<std::byte*>(view.address);
  item.length = view.length;
  item.backing = shared_around(item);
  if (item.backing != nullptr && item.backing->pool != nullptr) {
    item.how = How::kPool;
    item.huge_bytes = item.backing->pool->huge().error == 0 ? item.length : 0;
    item.text = "pool, whose " + item.backing->pool->report();
  } else if (item.backing != nullptr) {
    item.how = How::kAdopted;
    item.text = "adopted with the region around it";
  } else if (const std::string why = why_not_adopted(item); !why.empty()) {
    if (auto settled = settle_foreign(item, id, why); !settled) {
      static_cast<void>(table_.drop(id).has_value());
      return settled;
    }
  }
  Export& kept = exports_[id] = std::move(item);
  if (kept.how == How::kPreparing) {
    start_adoption(id, kept);
  } else {
    ready(id);
  }
  return {};
}

Result<> Exports::drop(RegionId id) {
  const auto found = exports_.find(id);
  if (found != exports_.end() && found->second.how == How::kPreparing) {
    return fail(Code::kRefused, Who::kLocal, Next::kRetry, subject(id),
                "it is still being adopted; drop it after kRegionReady");
  }
  if (auto dropped = table_.drop(id); !dropped) {
    return dropped;
  }
  exports_.erase(found);
  return {};
}

std::shared_ptr<const Exports::Backing> Exports::shared_around(const Export& item) const {
  const auto holds = [&item](const Backing& backing) {
    return common(backing.data, backing.length, item.data, item.length) == item.length;
  };
  for (const auto& pool : pools_) {
    if (holds(*pool)) return pool;
  }
  // Only while the adopted region is registered: its addresses may be given back to the system afterwards.
  for (const auto& [id, other] : exports_) {
    if (other.how == How::kAdopted && holds(*other.backing)) return other.backing;
  }
  return nullptr;
}

std::string Exports::why_not_adopted(const Export& item) const {
  if (!options_.adopt) {
    return "it lies in no shared pool and adopt is off";
  }
  if (number_of(item.data) % kSmall != 0 || item.length % kSmall != 0) {
    return "it cannot be adopted: its address is " + std::to_string(number_of(item.data) % kSmall) +
           " and its length " + std::to_string(item.length % kSmall) + " bytes behind a multiple of " +
           std::to_string(kSmall);
  }
  for (const auto& pool : pools_) {
    if (common(pool->data, pool->length, item.data, item.length) != 0) {
      return "it cannot be adopted: a part of it lies in a shared pool";
    }
  }
  for (const auto& [id, other] : exports_) {
    if (other.how != How::kForeign && common(other.data, other.length, item.data, item.length) != 0) {
      return "it cannot be adopted: it overlaps region " + std::to_string(id.value);
    }
  }
  return {};
}

Result<> Exports::settle_foreign(Export& item, RegionId id, const std::string& why) const {
  if (!options_.allow_foreign) {
    item.how = How::kRefused;
    item.text = "refused: " + why;
    return fail(Code::kUnsupported, Who::kConfig, Next::kAfterFix, subject(id),
                why +
                    ", and foreign memory is not allowed; allocate it by allocate_pool(), or turn adopt or "
                    "allow_foreign on");
  }
  item.how = How::kForeign;
  item.text = "foreign (process_vm_readv): " + why;
  return {};
}

void Exports::start_adoption(RegionId id, Export& item) {
  ++preparing_;
  item.text = "being adopted";
  auto result = std::make_shared<Result<Adopted>>();
  worker_.submit([result, id, data = item.data, length = item.length](
                     const Stop& stop) { *result = adopt(data, length, stop, subject(id)); },
                 [this, result, id] { finish_adoption(id, std::move(*result)); });
}

void Exports::finish_adoption(RegionId id, Result<Adopted> adopted) {
  --preparing_;
  Export& item = exports_.at(id);  // drop() is refused meanwhile
  if (!adopted) {
    auto settled = settle_foreign(item, id, "adopting it failed (" + adopted.error().why + ")");
    return ready(id, settled ? Error{} : settled.error());
  }
  Backing backing;
  backing.file = std::make_shared<const File>(std::move(adopted->file));
  backing.data = item.data;
  backing.length = item.length;
  backing.offset = adopted->offset;
  item.backing = std::make_shared<const Backing>(std::move(backing));
  item.how = How::kAdopted;
  item.huge_bytes = adopted->huge.huge;
  item.text = "adopted, " + adopted->huge.text();
  ready(id);
}

void Exports::ready(RegionId id, Error error) {
  Event event;
  event.kind = Event::Kind::kRegionReady;
  event.region = id;
  event.error = std::move(error);
  events_.push_back(std::move(event));
}

std::vector<Description::Region> Exports::described() const {
  std::vector<Description::Region> list;
  for (const auto& [id, item] : exports_) {
    list.resize(id.value + 1);
    list[id.value].length = item.length;
    list[id.value].kind = item.backing != nullptr     ? RegionKind::kShared
                          : item.how == How::kForeign ? RegionKind::kForeign
                                                      : RegionKind::kUnready;
  }
  return list;
}

std::vector<HandedRegion> Exports::hand_out(std::vector<SharedFile>& files) const {
  std::vector<HandedRegion> list;
  for (const auto& [id, item] : exports_) {
    list.resize(id.value + 1);
    HandedRegion& handed = list[id.value];
    handed.length = item.length;
    handed.address = number_of(item.data);
    if (item.backing != nullptr) {
      handed.kind = RegionKind::kShared;
      handed.offset = item.backing->offset + static_cast<std::uint64_t>(item.data - item.backing->data);
      auto at = std::find(files.begin(), files.end(), item.backing->file);
      if (at == files.end()) at = files.insert(at, item.backing->file);
      handed.file = static_cast<std::uint32_t>(at - files.begin());
    } else if (item.how == How::kForeign) {
      handed.kind = RegionKind::kForeign;
    }
  }
  return list;
}

std::vector<ShmRegionReport> Exports::report() const {
  std::vector<ShmRegionReport> list;
  for (const auto& [id, item] : exports_) {
    list.push_back({item.how, id, item.length, item.huge_bytes, item.text});
  }
  return list;
}

}  // namespace shm

}  // namespace kvferry
