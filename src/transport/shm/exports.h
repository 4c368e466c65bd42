// This side's regions and how readers in other processes reach them: through a pool's memfd, through a memfd
// put under the engine's own memory, or by process_vm_readv. Thread rule: belongs to the progress thread;
// adoption runs on the Worker.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "transport/regions.h"
#include "transport/shm/adopt.h"
#include "transport/shm/handover.h"
#include "transport/shm/shm_transport.h"
#include "transport/shm/worker.h"

namespace kvferry::shm {

using SharedFile = std::shared_ptr<const File>;

class Exports {
 public:
  // `events` receives kRegionReady; options, worker and events must outlive this.
  Exports(const ShmOptions& options, Worker& worker, std::deque<Event>& events);

  Result<> share(std::shared_ptr<const SharedPool>);
  Result<> add(RegionId, const RegionView&);
  Result<> drop(RegionId);
  transport::RegionTable& table() noexcept { return table_; }

  bool settled() const noexcept { return preparing_ == 0; }  // no adoption is under way
  std::vector<Description::Region> described() const;
  // The table for a reader and the files it names, behind `files`' first entry (the lease words). Only when
  // settled().
  std::vector<HandedRegion> hand_out(std::vector<SharedFile>& files) const;
  std::vector<ShmRegionReport> report() const;

 private:
  using How = ShmRegionReport::How;
  struct Backing {  // a memfd and the addresses under which it lies here
    SharedFile file;
    std::byte* data = nullptr;
    std::uint64_t length = 0, offset = 0;  // offset: of data in the file
    std::shared_ptr<const SharedPool> pool;  // keeps the addresses; null: adopted
  };
  struct Export {
    std::byte* data = nullptr;
    std::uint64_t length = 0;
    How how = How::kPreparing;
    std::shared_ptr<const Backing> backing;  // kPool, kAdopted
    std::uint64_t huge_bytes = 0;
    std::string text;
  };

  std::shared_ptr<const Backing> shared_around(
      const Export&) const;  // a pool or an adopted range that holds it all
  std::string why_not_adopted(const Export&) const;  // empty: it can be
  Result<> settle_foreign(Export&, RegionId, const std::string& why) const;
  void start_adoption(RegionId, Export&);
  void finish_adoption(RegionId, Result<Adopted>);
  void ready(RegionId, Error error = {});

  const ShmOptions& options_;
  Worker& worker_;
  std::deque<Event>& events_;
  transport::RegionTable table_;
  std::map<RegionId, Export> exports_;
  std::vector<std::shared_ptr<const Backing>> pools_;
  std::uint32_t preparing_ = 0;
};

}  // namespace kvferry::shm
