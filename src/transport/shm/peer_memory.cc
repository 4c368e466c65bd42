#include "transport/shm/peer_memory.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace kvferry::shm {

namespace {

__extension__ typedef unsigned __int128 Wide;  // sums of hostile 64-bit numbers

}  // namespace

Result<std::shared_ptr<const PeerMemory>> PeerMemory::open(Handed handed, const Stop& stop,
                                                           const std::string& what) {
  auto memory = std::make_shared<PeerMemory>();
  auto lease = LeaseView::open(handed.files[0].fd(), handed.table.cookie, what);
  if (!lease) {
    return tl::unexpected(lease.error());
  }
  memory->lease_ = std::move(*lease);
  memory->pid_ = handed.pid;
  memory->pidfd_ = std::move(handed.pidfd);
  if (auto mapped = memory->map_files(handed, stop, what); !mapped) {
    return tl::unexpected(mapped.error());
  }
  if (auto placed = memory->place_regions(handed, what); !placed) {
    return tl::unexpected(placed.error());
  }
  if (auto readable = memory->probe_foreign(handed, what); !readable) {
    return tl::unexpected(readable.error());
  }
  return std::shared_ptr<const PeerMemory>(std::move(memory));
}

Result<> PeerMemory::map_files(Handed& handed, const Stop& stop, const std::string& what) {
  files_.resize(handed.files.size());
  for (std::size_t i = 1; i < handed.files.size(); ++i) {
    auto size = sealed_size(handed.files[i].fd(), what);
    if (!size) {
      return tl::unexpected(size.error());
    }
    // Only what regions use is touched: a file may begin with a hole, so that offset and address are
    // congruent.
    std::uint64_t first = *size, last = 0;
    for (const HandedRegion& region : handed.table.regions) {
      if (region.kind != RegionKind::kShared || region.file != i || region.length == 0) continue;
      if (region.offset > *size || region.length > *size - region.offset) {
        return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                    "a region at " + std::to_string(region.offset) + " of " + std::to_string(region.length) +
                        " bytes does not fit its file of " + std::to_string(*size) + " bytes");
      }
      first = std::min(first, region.offset);
      last = std::max(last, region.offset + region.length);
    }
    if (last <= first) continue;
    auto mapping = map_file(handed.files[i].fd(), *size, Protection::kRead, what);
    if (!mapping) {
      return tl::unexpected(mapping.error());
    }
    std::byte* used = mapping->data() + first;
    if (auto touched = touch(used, last - first, Protection::kRead, &stop, what); !touched) {
      return touched;
    }
    const HugeReport huge = collapse(used, last - first, &stop);
    huge_.bytes += huge.bytes;
    huge_.huge += huge.huge;
    huge_.error = huge.error != 0 ? huge.error : huge_.error;
    files_[i] = std::move(*mapping);
    handed.files[i].reset();  // the mapping keeps the memory
  }
  return {};
}

Result<> PeerMemory::place_regions(const Handed& handed, const std::string& what) {
  for (const HandedRegion& from : handed.table.regions) {
    Region region{nullptr, from.address, from.length, from.kind};
    if (from.kind == RegionKind::kShared && from.length != 0) {
      if (!files_[from.file]) {
        return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                    "a region lies in the file of the lease words");
      }
      region.data = files_[from.file].data() + from.offset;
    }
    regions_.push_back(region);
  }
  return {};
}

// Reads the head of the peer's lease words the way its foreign regions will be read: proves permission and
// identity.
Result<> PeerMemory::probe_foreign(const Handed& handed, const std::string& what) const {
  const bool foreign = std::any_of(regions_.begin(), regions_.end(), [](const Region& region) {
    return region.kind == RegionKind::kForeign && region.length != 0;
  });
  if (!foreign) {
    return {};
  }
  const std::string advice = "; let the peer allocate its pool by allocate_pool(), or turn adopt on there";
  if (pid_ == 0 || !pidfd_) {
    return fail(
        Code::kEnvironment, Who::kPeer, Next::kAfterFix, what,
        "its foreign memory cannot be read: its process is not visible in this pid namespace" + advice);
  }
  LeaseHeader header;
  iovec to{&header, sizeof header};
  iovec from{reinterpret_cast<void*>(handed.table.lease_address), sizeof header};
  if (::process_vm_readv(pid_, &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof header)) {
    auto error = system_error(what, "its foreign memory cannot be read by process_vm_readv", errno);
    error.value().why.append(advice);
    return error;
  }
  if (header.cookie != handed.table.cookie || !process_lives()) {
    return fail(Code::kPeerLost, Who::kPeer, Next::kNewRoom, what,
                "process " + std::to_string(pid_) + " is not the one that handed its memory over");
  }
  return {};
}

Result<> PeerMemory::check_remote(std::span<const PieceGroup> groups, const std::string& what) const {
  for (const PieceGroup& group : groups) {
    std::uint64_t last = 0, items = 0;
    for (const RunPair& run : group.runs) {
      items += run.count;
      if (run.count != 0) last = std::max(last, std::uint64_t{run.remote} + run.count - 1);
    }
    for (const PlanePair& plane : group.planes) {
      if (items == 0 || plane.bytes == 0 || plane.repeat == 0) continue;
      const std::uint32_t id = plane.remote.region.value;
      const bool readable = id < regions_.size() && regions_[id].kind != RegionKind::kUnready;
      const std::uint64_t length = readable ? regions_[id].length : 0;
      const std::uint64_t span = std::uint64_t{plane.repeat - 1} * plane.remote_step + plane.bytes;
      const Wide end = Wide{plane.remote.base} + Wide{last} * plane.remote.stride + span;
      if (end <= length) continue;
      return fail(Code::kRefused, Who::kLocal, Next::kNever, what,
                  readable ? "item " + std::to_string(last) + " (base " + std::to_string(plane.remote.base) +
                                 ", stride " + std::to_string(plane.remote.stride) + ", " +
                                 std::to_string(span) + " bytes) ends behind the " + std::to_string(length) +
                                 " bytes of the peer's region " + std::to_string(id)
                           : "the peer handed over no region " + std::to_string(id) + " that can be read");
    }
  }
  return {};
}

bool PeerMemory::process_lives() const noexcept {
  if (!pidfd_) {
    return false;
  }
  pollfd ask{pidfd_.fd(), POLLIN, 0};
  return ::poll(&ask, 1, 0) == 0;
}

std::uint64_t PeerMemory::mapped() const noexcept {
  std::uint64_t sum = 0;
  for (const Mapping& file : files_) sum += file.size();
  return sum;
}

}  // namespace kvferry::shm
