// The test kit: drive whole clusters of managers in one process, in virtual time, with faults at will.
// Thread rule: everything here belongs to one thread (managers run in manual mode).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/manager.h"

namespace kvferry::testkit {

// Time that moves only when told to. Cluster::advance moves it and runs every loop until idle.
class KVFERRY_API VirtualClock final : public Clock {
 public:
  explicit VirtualClock(TimePoint start = TimePoint{});
  TimePoint now() noexcept override;
  void set(TimePoint) noexcept;

 private:
  TimePoint now_;
};

// In-process links between managers of one Cluster. Frames can be dropped, delayed, doubled, reordered or
// cut, each rule by message name ("GRANT", "DONE", "*") and by direction.
struct FrameRule {
  std::string message = "*";        // wire name, or "*"
  std::string from, to;             // manager names; empty = any
  enum class Act : std::uint8_t { kDrop, kDelay, kDuplicate, kReorder, kTruncate } act = Act::kDrop;
  Duration delay{0};                // kDelay
  std::uint32_t times = ~0U;        // applies to this many frames, then is spent
};
class KVFERRY_API FaultNet {
 public:
  FaultNet();
  ~FaultNet();
  std::unique_ptr<Channel> channel(const std::string& manager,
                                   std::shared_ptr<Clock>);  // endpoint() == "manager:1"
  std::size_t add(FrameRule);       // returns an id for remove()
  void remove(std::size_t);
  void cut(const std::string& a, const std::string& b);     // partition; both see their links go down
  void mend(const std::string& a, const std::string& b);
  std::uint64_t dropped() const, delayed() const, duplicated() const, truncated() const;
  std::optional<TimePoint> next_delivery() const;
  struct Rep;

 private:
  std::unique_ptr<Rep> rep_;
};

// A decorator around a real mover (loopback by default).
class KVFERRY_API FaultMover final : public Transport {
 public:
  explicit FaultMover(std::unique_ptr<Transport> inner);
  ~FaultMover() override;
  void hold();                        // posts are accepted and kept
  std::size_t release();              // kept posts go on to the inner mover; returns how many
  std::size_t held() const;
  void fail_next_submit(Error);       // the next post returns it
  void fail_next_halfway(Error);  // the next post moves half of its runs, then completes with the error
  void land_late();  // the next post completes with an error; its bytes land at release_late()
  std::size_t release_late();  // late bytes land now and the operations quiesce
  void lose_next_completion();  // Completed of the next post is lost until fence or release_late
  void double_next_completion();
  std::uint64_t posts() const;
  // Transport
  const Capabilities& capabilities() const noexcept override;
  Result<> add_region(RegionId, const RegionView&) override;
  Result<> drop_region(RegionId) override;
  std::vector<std::byte> describe() const override;
  Result<> add_peer(PeerId, std::span<const std::byte>) override;
  void drop_peer(PeerId) override;
  Result<> fence(PeerId) override;
  Result<> lend(const Loan&) override;
  Result<> revoke(LoanId) override;
  Result<> post(const Operation&) override;
  void cancel(OpId) noexcept override;
  std::size_t progress(std::span<Event> out) override;
  bool busy() const noexcept override;
  int wake_fd() const noexcept override;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

struct ClusterOptions {
  std::uint32_t prefill = 1, decode = 1;
  std::uint32_t pages = 64, page_tokens = 16, layers = 2, item_bytes = 1024;
  std::uint32_t aux_slots = 8, aux_bytes = 64;
  std::string mover =
      "loopback-push";  // "loopback-push", "loopback-pull", "loopback-landed" (one-sided, sender says DONE)
  Deadlines deadlines;
  Limits limits;
  bool pp = false;  // prefill ranks are pipeline stages: each holds its share of the layers
};

// One process of the cluster: a manager in manual mode, its pool, its mover.
struct Node {
  std::string name;
  std::unique_ptr<Manager> manager;  // null while crashed
  FaultMover* mover = nullptr;  // owned by the manager
  std::vector<std::byte> pool;  // every layer behind the other; aux behind them
  KVFERRY_API std::byte* item(std::uint32_t layer, std::uint32_t page);
  KVFERRY_API std::byte* aux(std::uint32_t slot);
  std::uint32_t layers = 0, pages = 0, item_bytes = 0, aux_bytes = 0;
};

class KVFERRY_API Cluster {
 public:
  explicit Cluster(ClusterOptions = {});
  ~Cluster();
  Node& prefill(std::uint32_t i = 0);
  Node& decode(std::uint32_t i = 0);
  VirtualClock& clock();
  FaultNet& net();
  void settle();  // run every loop until nothing moves, at the present time
  void advance(Duration);  // time passes; timers, deliveries and loops run in order; settles
  void crash(Node&);  // the process is gone; nothing is said
  void restart(Node&);  // same name and endpoint, a new life
  std::vector<std::string> senders() const;  // endpoints of all prefill nodes

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace kvferry::testkit
