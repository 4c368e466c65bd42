// Two connected parties with memory, loans and operations of a known shape, and what they have reported so
// far. The checks are written with this. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/world.h"

namespace kvferry::conformance {

// One finding. Empty: the promise held.
using Finding = std::optional<std::string>;

inline constexpr RegionId kShaped{0};  // planes of three shapes, kShapedItems items each
inline constexpr RegionId kBulk{1};    // one plane of large items, for transfers that take a while
inline constexpr std::uint32_t kShapedItems = 128;
inline constexpr std::uint64_t kShapedBytes = 3ULL << 20;
inline constexpr std::uint32_t kBulkItems = 512, kBulkItemBytes = 64U << 10;
inline constexpr std::uint64_t kBulkBytes = std::uint64_t{kBulkItems} * kBulkItemBytes;
inline constexpr std::uint64_t kToken = 0x5EED0F7A11ULL;
inline constexpr std::uint64_t kSourceSeed = 11, kTargetSeed = 22, kScribbleSeed = 33;

struct Side {
  Party* party = nullptr;
  PeerId other;  // how this side knows the other one
  std::vector<SeenEvent> log;
};

class Session {
 public:
  // `near_posts`: the near party posts and the far one lends; else the other way. `bulk`: with region kBulk.
  static Result<std::unique_ptr<Session>> connect(const HarnessSpec&, bool near_posts, bool bulk = false);

  World& world() { return *world_; }
  Side& near() { return near_; }
  Side& far() { return far_; }
  Side& poster() { return near_posts_ ? near_ : far_; }
  Side& lender() { return near_posts_ ? far_ : near_; }
  Side& source() { return capabilities_.access == Access::kWrite ? poster() : lender(); }
  Side& target() { return capabilities_.access == Access::kWrite ? lender() : poster(); }
  const Capabilities& capabilities() const noexcept { return capabilities_; }
  bool notifies() const noexcept;  // Arrived comes at the lender
  bool near_is(const Side& side) const noexcept { return &side == &near_; }

  void step();  // both run a little; events go to the logs
  bool wait(const std::function<bool()>& until,
            int ms = 10'000);  // steps; ms is multiplied by the time factor
  void pass(int ms);  // steps for that long

  LoanSpec loan(LoanId, std::vector<PageRun> items, RegionId = kShaped) const;
  OpSpec operation(std::uint64_t op, LoanId, std::vector<RunPair> runs, RegionId = kShaped) const;
  Result<> lend(const LoanSpec& spec) { return lender().party->lend(spec); }
  Result<> post(const OpSpec& spec) { return poster().party->post(spec); }
  // Lends all of kBulk and posts one operation over it; the lender is held if it is the one that places. In
  // mid-transfer.
  Finding begin_bulk(LoanId, std::uint64_t op);
  void let_go();  // ends the holding of begin_bulk()

  // Events of one kind about one subject.
  static std::size_t count(const Side&, Event::Kind, OpId);
  static std::size_t count(const Side&, Event::Kind, LoanId);
  static std::size_t count(const Side&, Event::Kind, PeerId);
  const SeenEvent* find(const Side&, Event::Kind, OpId) const;
  bool ended(OpId);  // Completed and Quiesced were seen at the poster
  Finding ended_once(OpId);  // exactly once each, in order

  // Memory of the target as it should be: kTargetSeed, with the pieces of these operations replaced by the
  // source's.
  std::vector<std::byte> expected(RegionId, const std::vector<OpSpec>&) const;
  static std::uint64_t hash(const std::vector<std::byte>&);
  // Where target and expectation differ first; nothing if they agree.
  Finding differs(RegionId, const std::vector<std::byte>& expected);

 private:
  Finding settle_regions(bool bulk);
  Finding settle_peers();

  std::unique_ptr<World> world_;
  bool near_posts_ = true;
  Capabilities capabilities_;
  Side near_, far_;
};

std::string describe(const Event&);

}  // namespace kvferry::conformance
