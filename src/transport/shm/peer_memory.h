// A peer's memory as this process reads it: its lease words, its mapped files, its foreign regions. Thread
// rule: made on the helper thread, immutable afterwards; shared by the operations that read from it and
// destroyed on the helper thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/shm/handover.h"
#include "transport/shm/lease.h"
#include "transport/shm/mapping.h"

namespace kvferry::shm {

struct Handed {  // all that came over the socket
  Table table;
  std::vector<File> files;
  pid_t pid = 0;  // 0: not visible in this pid namespace
  File pidfd;     // of that pid, opened while its socket was alive; may be none
};

class PeerMemory {
 public:
  struct Region {
    const std::byte* data = nullptr;  // mapped here; null: foreign, or none
    std::uint64_t address = 0;        // in the peer
    std::uint64_t length = 0;
    RegionKind kind = RegionKind::kUnready;
  };

  // Checks sizes and seals, maps read-only, touches and collapses; a peer with foreign regions must be
  // readable.
  static Result<std::shared_ptr<const PeerMemory>> open(Handed, const Stop&, const std::string& what);

  const LeaseView& lease() const noexcept { return lease_; }
  const Region& region(RegionId id) const noexcept {
    return regions_[id.value];
  }  // of one that check_remote passed
  // Every remote item of every plane lies inside a region that can be read.
  Result<> check_remote(std::span<const PieceGroup>, const std::string& what) const;

  pid_t pid() const noexcept { return pid_; }
  bool process_lives() const noexcept;  // the process that pid() named at the hand-over has not ended
  std::uint64_t mapped() const noexcept;  // bytes
  const HugeReport& huge() const noexcept { return huge_; }

 private:
  Result<> map_files(Handed&, const Stop&, const std::string& what);
  Result<> place_regions(const Handed&, const std::string& what);
  Result<> probe_foreign(const Handed&, const std::string& what) const;

  LeaseView lease_;
  std::vector<Mapping> files_;  // by index in the table; 0 (lease words) is empty
  std::vector<Region> regions_;
  HugeReport huge_;
  pid_t pid_ = 0;
  File pidfd_;
};

}  // namespace kvferry::shm
