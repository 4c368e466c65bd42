// The mover and the channel of one node of a Cluster: both die with the node, and the mover can place bytes
// without asking anybody, as a network card does. Thread rule: the test's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kvferry/channel.h"
#include "kvferry/transport.h"

namespace kvferry::testkit {

using Alive =
    std::shared_ptr<bool>;  // false: from that moment on nothing that the manager does reaches the world

// Which memory each life of each node has registered, and whose writes it has fenced off.
struct MemoryMap {
  struct Life {
    Alive alive;
    std::vector<RegionView> regions;
    std::uint64_t newest_loan = 0;                   // serial of the newest loan made here
    std::map<std::uint64_t, std::uint64_t>
        fenced;  // by writing life: loans up to this serial died with its path
  };
  std::map<std::uint64_t, Life> lives;
  std::uint64_t next = 1;
};

// Implemented by movers whose operations can land although the lender has recalled the loan (one-sided
// movers).
class Lander {
 public:
  virtual ~Lander() = default;
  virtual Result<> land(
      const Operation&) = 0;  // now, all of it; refused only when the target is gone or has fenced us
};

std::unique_ptr<Transport> node_mover(std::unique_ptr<Transport> inner, Alive, std::shared_ptr<MemoryMap>);
std::unique_ptr<Channel> node_channel(std::unique_ptr<Channel> inner, Alive);

}  // namespace kvferry::testkit
