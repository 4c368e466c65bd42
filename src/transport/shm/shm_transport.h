// The same-host mover: the receiver pulls from the sender's mapped memfd, one copy (protocol rule 26).
// Thread rule: every call comes from the one progress thread, except ShmOptions' pools, which are read-only
// here. No call blocks: mapping, touching, adopting and unmapping of big ranges run on one helper thread of
// the transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvferry/clock.h"
#include "kvferry/error.h"
#include "kvferry/transport.h"
#include "kvferry/types.h"
#include "transport/shm/pool.h"

namespace kvferry {

// Bounds of one transport; the names are those that errors use ("shm.peers").
struct ShmLimits {
  std::uint32_t regions = 384;          // 9 B each in describe(): 3.4 KiB of its 4 KiB
  std::uint32_t peers = 1024;           // 2 descriptors each (connection, pidfd)
  std::uint32_t door_connections = 1024;  // inbound; 1 descriptor each
  std::uint32_t ops_in_flight = 256;    // posted and not yet told as quiesced
  std::uint32_t loans = 65536;          // 16 B each in the control memfd: 1 MiB
  std::uint32_t planes_per_op = 16384;  // 40 B each, copied at post
  std::uint32_t runs_per_op = 262144;   // 12 B each, copied at post: 3 MiB, about 1 ms
};

struct ShmOptions {
  std::vector<std::shared_ptr<const SharedPool>> pools;  // regions inside one of these need no adoption
  bool adopt = false;  // re-map page-aligned engine memory in place onto a memfd, contents kept; nothing may
                       // write to it between add_region and kRegionReady; it is then shared over fork()
  bool allow_foreign = true;  // otherwise let receivers use process_vm_readv; false: refuse such a region
  std::string socket_directory;  // empty: an abstract unix socket (one network namespace); a directory: a
                                 // socket file in it, for containers that share only that directory
  Duration handover = std::chrono::seconds(20);  // add_peer until kPeerReady, success or not
  std::shared_ptr<Clock> clock;  // judges `handover`; null: the system's
  ShmLimits limits;
};

// How readers reach a region, and why not in a better way.
struct ShmRegionReport {
  enum class How : std::uint8_t { kPreparing = 0, kPool, kAdopted, kForeign, kRefused } how = How::kPreparing;
  RegionId region;
  std::uint64_t length = 0;
  std::uint64_t huge_bytes = 0;  // mapped by 2 MiB pages here
  std::string text;  // "pool, 64 of 64 MiB in huge pages", "foreign (process_vm_readv): adopt is off", ...
};

const char* name_of(ShmRegionReport::How) noexcept;

class ShmTransport : public Transport {
 public:
  // Makes memory allocated by allocate_pool() known; regions inside it are then handed over as its memfd.
  virtual Result<> share(std::shared_ptr<const SharedPool>) = 0;
  virtual std::vector<ShmRegionReport> report() const = 0;  // by region, for status and logs
  virtual std::string peers_report() const = 0;  // one line for each peer: state, bytes mapped, huge pages
};

// Opens the door socket and the control memfd. Errors: kEnvironment naming the call that failed, kUsage for
// options.
Result<std::unique_ptr<ShmTransport>> open_shm(const ShmOptions&);
Result<std::unique_ptr<Transport>> make_shm(const ShmOptions&);

}  // namespace kvferry
