// The bootstrap server of the simulated cluster: the shipped registry behind its shipped routes and bodies.
// Prefill ranks register and renew, decode ranks ask where a group is before they can open a room; requests
// get lost, garbage comes between them, the server goes away and comes back empty. Thread rule: the world's
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "bootstrap/routes.h"
#include "kvferry/types.h"
#include "sim/event_queue.h"
#include "sim/sim_transport.h"

namespace kvferry::sim {

class World;

class Directory {
 public:
  explicit Directory(World& world);

  void birth(std::uint32_t node, Incarnation self);  // a new life registers, or knows no endpoint yet
  bool knows(std::uint32_t node, std::uint32_t sender) const;  // this life was told where that rank is
  void on_turn(const SimEvent&);  // kRegistry: a node asks
  void on_ask(std::uint32_t slot);  // kRegistryAsk: the request reaches the server
  void restart();  // a fault: away for a while, then empty
  void at_rest();  // faults are over: every group is complete, with the lives of now

 private:
  struct Node {
    Incarnation self;
    std::vector<Incarnation> lives;  // all that were ever born here
    std::vector<bool> known;         // by sender
  };
  struct Ask {
    std::uint32_t node = 0;
    LifeIndex life = kNoLife;
    std::uint32_t question = 0;  // 0: registers; 1 + I: where is instance I?
    std::string target, body;
  };

  void turn(std::uint32_t node, std::uint32_t question, Duration after);
  bool answer_put(const bootstrap::HttpReply&);
  bool answer_resolve(std::uint32_t node, std::uint32_t instance, const bootstrap::HttpReply&);
  void throw_garbage(const Ask&);
  bool true_rank(std::uint32_t sender, const std::string& endpoint, Incarnation);
  std::string group_of(std::uint32_t instance) const;

  World& world_;
  std::unique_ptr<bootstrap::Routes> routes_;
  std::vector<Node> nodes_;
  std::vector<Incarnation> newest_;  // by sender, as this life of the server answered
  std::vector<Ask> asks_;
  std::vector<std::uint32_t> free_asks_;
  std::uint64_t lives_ = 0;
  TimePoint away_until_{};
};

}  // namespace kvferry::sim
