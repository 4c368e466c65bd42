// The suite is worth what it catches: a loopback mover with one fault at a time, and the check that must find
// it.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance/checks.h"

namespace kvferry::conformance {
namespace {

enum class Fault {
  kLongDescription,
  kLosesPieces,
  kForgetsTheLimit,
  kBlockedPostActs,
  kCompletesTwice,
  kNeverQuiesces,
  kCancelEndsAgain,
  kEndsEarly,
  kEndsCancelledEarly,
  kArrivesEarly,
  kSwallowsNotices,
  kNeverWakes,
  kIgnoresTokens,
  kLendsMore,
  kIgnoresBounds,
  kTakesAnyMemory,
  kDropsRegionsInUse,
  kIgnoresRevoke,
  kRevokesTwice,
  kIgnoresFence,
  kFenceNeverDone,
  kFenceEndsNothing,
  kNeverReturns,
  kNeverSeesDeath,
  kBurns,
  kSleeps,
  kLeaks,
};

void burn_cpu(long ns) {
  timespec start{}, now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((now.tv_sec - start.tv_sec) * 1'000'000'000L + now.tv_nsec - start.tv_nsec < ns);
}

class Saboteur final : public Transport {
 public:
  Saboteur(std::unique_ptr<Transport> inner, Fault fault) : inner_(std::move(inner)), fault_(fault) {
    if (fault_ == Fault::kLeaks) static_cast<void>(dup(0));
    if (fault_ == Fault::kNeverWakes) wake_ = eventfd(0, EFD_CLOEXEC);
  }
  ~Saboteur() override {
    if (wake_ >= 0) close(wake_);
  }

  const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  Result<> add_region(RegionId id, const RegionView& view) override {
    if (fault_ == Fault::kTakesAnyMemory && view.memory != Memory::kHost) return {};
    regions_[id] = view;
    return inner_->add_region(id, view);
  }
  Result<> drop_region(RegionId id) override {
    auto dropped = inner_->drop_region(id);
    return fault_ == Fault::kDropsRegionsInUse ? Result<>{} : dropped;
  }
  std::vector<std::byte> describe() const override {
    auto text = inner_->describe();
    if (fault_ == Fault::kLongDescription) text.resize(5000);
    return text;
  }
  Result<> add_peer(PeerId id, std::span<const std::byte> text) override {
    if (fault_ == Fault::kLongDescription) text = text.first(13);
    if (fault_ == Fault::kNeverReturns && fenced_)
      return fail(Code::kRefused, Who::kLocal, Next::kNever, "peer", "fenced");
    return inner_->add_peer(id, text);
  }
  void drop_peer(PeerId id) override { inner_->drop_peer(id); }
  Result<> fence(PeerId id) override {
    fenced_ = true;
    if (fault_ != Fault::kIgnoresFence) return inner_->fence(id);
    Event event;
    event.kind = Event::Kind::kPeerFenced;
    event.peer = id;
    extra_.push_back(event);
    return {};
  }
  Result<> lend(const Loan& loan) override {
    if (fault_ == Fault::kLendsMore && loan.groups.size() == 1) {
      const PageRun all{0, kShapedItems};
      LoanGroup group = loan.groups[0];
      group.runs = std::span(&all, 1);
      Loan more = loan;
      more.groups = std::span(&group, 1);
      return inner_->lend(more);
    }
    auto lent = inner_->lend(loan);
    return fault_ == Fault::kIgnoresBounds ? Result<>{} : lent;
  }
  Result<> revoke(LoanId id) override {
    Event event;
    event.kind = Event::Kind::kRevoked;
    event.loan = id;
    if (fault_ == Fault::kRevokesTwice) extra_.push_back(event);
    if (fault_ != Fault::kIgnoresRevoke) return inner_->revoke(id);
    extra_.push_back(event);
    return {};
  }
  Result<> post(const Operation& given) override;
  void cancel(OpId id) noexcept override {
    if (fault_ != Fault::kEndsCancelledEarly) inner_->cancel(id);
    if (fault_ == Fault::kCancelEndsAgain) end(id);
    if (fault_ == Fault::kEndsCancelledEarly) end(id);
  }
  std::size_t progress(std::span<Event> out) override;
  bool busy() const noexcept override {
    return fault_ != Fault::kNeverWakes && (inner_->busy() || !extra_.empty());
  }
  int wake_fd() const noexcept override { return wake_; }

 private:
  void end(OpId id) {
    for (const Event::Kind kind : {Event::Kind::kCompleted, Event::Kind::kQuiesced}) {
      Event event;
      event.kind = kind;
      event.op = id;
      extra_.push_back(event);
    }
    if (fault_ != Fault::kCancelEndsAgain && fault_ != Fault::kBlockedPostActs) swallowed_.insert(id);
  }
  bool swallows(const Event& event) const;

  std::unique_ptr<Transport> inner_;
  Fault fault_;
  std::map<RegionId, RegionView> regions_;
  std::deque<Event> extra_;
  std::set<OpId> swallowed_;
  std::byte* flipped_ = nullptr;
  bool fenced_ = false;
  int wake_ = -1;
};

Result<> Saboteur::post(const Operation& given) {
  Operation operation = given;
  std::vector<PieceGroup> fewer;
  if (fault_ == Fault::kIgnoresTokens) operation.ticket.token = kToken + given.ticket.loan.serial;
  if (fault_ == Fault::kLosesPieces) {
    for (PieceGroup group : given.groups) {
      group.planes = group.planes.first(group.planes.size() - 1);
      fewer.push_back(group);
    }
    operation.groups = fewer;
  }
  auto posted = inner_->post(operation);
  if (!posted && posted.error().code == Code::kWouldBlock) {
    if (fault_ == Fault::kForgetsTheLimit) return {};
    if (fault_ == Fault::kBlockedPostActs) end(given.op);
  }
  if (posted && fault_ == Fault::kEndsEarly) end(given.op);
  return posted;
}

bool Saboteur::swallows(const Event& event) const {
  if (fault_ == Fault::kFenceNeverDone) return event.kind == Event::Kind::kPeerFenced;
  const bool ends = event.kind == Event::Kind::kCompleted || event.kind == Event::Kind::kQuiesced;
  if (ends && swallowed_.contains(event.op)) return true;
  if (fault_ == Fault::kNeverQuiesces) return event.kind == Event::Kind::kQuiesced;
  if (fault_ == Fault::kFenceEndsNothing) return ends && fenced_;
  if (fault_ == Fault::kNeverSeesDeath) return ends && !event.error.ok();
  if (ends && !event.error.ok()) return false;
  return fault_ == Fault::kSwallowsNotices && event.kind == Event::Kind::kArrived && event.notice.size == 8;
}

std::size_t Saboteur::progress(std::span<Event> out) {
  if (fault_ == Fault::kBurns) burn_cpu(2'000'000);
  if (fault_ == Fault::kSleeps) usleep(1000);
  if (flipped_ != nullptr) *flipped_ ^= std::byte{0xFF};  // "now" the bytes are there
  flipped_ = nullptr;
  std::size_t count = 0;
  while (count < out.size()) {
    Event event;
    if (!extra_.empty()) {
      event = extra_.front();
      extra_.pop_front();
    } else {
      if (inner_->progress(std::span(&event, 1)) == 0) break;
      if (swallows(event)) continue;
    }
    if (fault_ == Fault::kCompletesTwice && event.kind == Event::Kind::kCompleted) {
      extra_.push_back(event);
      fault_ = Fault::kLeaks;  // once is enough
    }
    if (fault_ == Fault::kArrivesEarly && event.kind == Event::Kind::kArrived) {
      flipped_ = static_cast<std::byte*>(regions_[kShaped].address) + 7 * 8192;
      *flipped_ ^= std::byte{0xFF};
    }
    out[count++] = std::move(event);
  }
  return count;
}

struct Case {
  const char* check;
  Fault fault;
};
class Sabotage : public testing::TestWithParam<Case> {};

TEST_P(Sabotage, IsFound) {
  HarnessSpec spec;
  spec.label = "sabotaged";
  spec.maker.mover = "loopback-push";
  spec.maker.wrap = [](std::unique_ptr<Transport> inner) {
    return std::make_unique<Saboteur>(std::move(inner), GetParam().fault);
  };
  for (const Check& check : checks()) {
    if (std::string(check.name).find(GetParam().check) != 0) continue;
    const Verdict verdict = check.run(spec);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kBroken) << check.name << " did not notice";
    RecordProperty("verdict", verdict.text);
    return;
  }
  FAIL() << "no check " << GetParam().check;
}
void PrintTo(const Case& c, std::ostream* out) { *out << c.check << " fault " << static_cast<int>(c.fault); }

INSTANTIATE_TEST_SUITE_P(
    Faults, Sabotage,
    testing::Values(Case{"C01", Fault::kLongDescription}, Case{"C02", Fault::kLosesPieces},
                    Case{"C02", Fault::kCompletesTwice}, Case{"C02", Fault::kNeverQuiesces},
                    Case{"C03", Fault::kForgetsTheLimit}, Case{"C03", Fault::kBlockedPostActs},
                    Case{"C04", Fault::kCancelEndsAgain}, Case{"C05", Fault::kEndsEarly},
                    Case{"C06", Fault::kEndsCancelledEarly}, Case{"C07", Fault::kArrivesEarly},
                    Case{"C08", Fault::kSwallowsNotices}, Case{"C09", Fault::kNeverWakes},
                    Case{"R01", Fault::kIgnoresTokens}, Case{"R02", Fault::kIgnoresBounds},
                    Case{"R03", Fault::kTakesAnyMemory}, Case{"R04", Fault::kDropsRegionsInUse},
                    Case{"R05", Fault::kLendsMore}, Case{"E01", Fault::kIgnoresRevoke},
                    Case{"E01", Fault::kRevokesTwice}, Case{"E02", Fault::kIgnoresRevoke},
                    Case{"E03", Fault::kIgnoresFence}, Case{"E04", Fault::kFenceEndsNothing},
                    Case{"E05", Fault::kNeverReturns}, Case{"E06", Fault::kNeverReturns},
                    Case{"P01", Fault::kNeverSeesDeath}, Case{"P02", Fault::kFenceNeverDone},
                    Case{"P03", Fault::kIgnoresRevoke}, Case{"P04", Fault::kSleeps},
                    Case{"P05", Fault::kBurns}, Case{"P05", Fault::kSleeps}, Case{"P06", Fault::kLeaks},
                    Case{"P07", Fault::kLeaks}),
    [](const testing::TestParamInfo<Case>& param) {
      return std::string(param.param.check) + "_" + std::to_string(static_cast<int>(param.param.fault));
    });

}  // namespace
}  // namespace kvferry::conformance
