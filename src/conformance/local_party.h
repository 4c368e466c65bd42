// A Party in this process: calls the transport, measures each call and keeps the events. Thread rule: one
// thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "conformance/maker.h"
#include "conformance/party.h"

namespace kvferry::conformance {

class LocalParty final : public Party {
 public:
  static Result<std::unique_ptr<LocalParty>> start(MakerSpec);
  ~LocalParty() override;

  Capabilities capabilities() override;
  std::vector<std::byte> describe() override;
  Result<> add_region(RegionId, std::uint64_t bytes) override;
  Result<> add_foreign_region(RegionId, Memory) override;
  Result<> drop_region(RegionId) override;
  Result<> add_peer(PeerId, const std::vector<std::byte>&) override;
  void drop_peer(PeerId) override;
  Result<> fence(PeerId) override;
  Result<> lend(const LoanSpec&) override;
  Result<> revoke(LoanId) override;
  Result<> post(const OpSpec&) override;
  void cancel(OpId) override;
  void pump() override;
  std::vector<SeenEvent> take_events() override;
  void hold(bool held) override { held_ = held; }
  void fill(RegionId, std::uint64_t seed) override;
  std::uint64_t hash(RegionId) override;
  std::vector<std::byte> read(RegionId, std::uint64_t offset, std::uint64_t length) override;
  void watch(RegionId) override;
  CallCosts costs() override { return costs_; }
  Resources resources() override;
  bool wakes() override;
  bool wait_wake(int ms) override;
  Result<> restart() override;

  void destroy() { transport_.reset(); }  // the one-process form of death; later calls answer kEnvironment
  bool alive() const noexcept { return transport_ != nullptr; }
  bool held() const noexcept { return held_; }
  Transport* transport() noexcept { return transport_.get(); }

 private:
  struct Block {
    PartyMemory memory;
    std::uint64_t bytes = 0;
  };
  explicit LocalParty(MakerSpec spec) : spec_(std::move(spec)) {}
  template <class Call>
  auto timed(const char* name, Call&& call);
  std::span<std::byte> bytes_of_region(RegionId);
  Result<> dead() const;

  MakerSpec spec_;
  std::function<Result<PartyMemory>(std::uint64_t)> allocate_;
  std::map<RegionId, Block> blocks_;        // outlives the transport that moves it
  std::unique_ptr<Transport> transport_;
  std::vector<SeenEvent> seen_;
  RegionId watched_{~0U};
  bool held_ = false;
  CallCosts costs_;
};

Resources resources_of_this_process();

}  // namespace kvferry::conformance
