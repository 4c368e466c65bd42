// The in-process mover: the readable reference of the Transport contract. Deterministic; no thread, no
// socket, no clock: everything happens inside progress(). Transports of one LoopbackFabric reach each other
// by address. Thread rule: a fabric and all its transports belong to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "kvferry/transport.h"

namespace kvferry::transport {

// What the mover declares and how it behaves:
enum class LoopbackKind : std::uint8_t {
  kPush,    // writes, placed by the receiver in its own progress(), revoked and fenced at once (as tcp)
  kPull,    // reads, placed by the reader in its own progress(), revoked and fenced at once (as shm)
  kLanded,  // one-sided writes by the writer's progress(); a loan is recalled by draining; bounded fence (as
            // RDMA)
};

class LoopbackTransport;

// Who is alive at which address. Several may exist; a transport keeps its fabric alive.
class LoopbackFabric {
 public:
  std::uint64_t join(LoopbackTransport*);  // a new address; addresses are never used twice
  void leave(std::uint64_t address);
  LoopbackTransport* at(std::uint64_t address) const;  // null: destroyed, or never there
  const std::map<std::uint64_t, LoopbackTransport*>& live() const { return live_; }

 private:
  std::map<std::uint64_t, LoopbackTransport*> live_;
  std::uint64_t next_ = 1;
};

std::unique_ptr<Transport> make_loopback(std::shared_ptr<LoopbackFabric>, LoopbackKind);

}  // namespace kvferry::transport
