// What must be refused before a byte moves.
#include <algorithm>

#include "conformance/checks.h"

namespace kvferry::conformance {
namespace {

constexpr LoanId kLoan{5, 90};

// Must the poster be told? A receiver-placed write may complete before the receiver has looked at it; there
// the proof is Arrived, which must not come.
bool poster_must_know(const Session& s) {
  return s.capabilities().access == Access::kRead || s.capabilities().visible == Visible::kRemoteLanded;
}

Finding refused(Session& s, const OpSpec& op, const std::string& what) {
  const std::size_t arrivals = Session::count(s.lender(), Event::Kind::kArrived, op.ticket.loan);
  if (auto ok = s.post(op); !ok) return std::nullopt;  // refused at once is fine, too
  if (!s.wait([&] { return s.ended(op.op); })) return what + ": the operation did not end within 10 s";
  s.pass(30);
  if (auto wrong = s.ended_once(op.op); wrong) return what + ": " + *wrong;
  const SeenEvent* completed = s.find(s.poster(), Event::Kind::kCompleted, op.op);
  if (completed->event.error.ok() && poster_must_know(s)) return what + ": it completed without an error";
  if (Session::count(s.lender(), Event::Kind::kArrived, op.ticket.loan) != arrivals)
    return what + ": it arrived";
  return std::nullopt;
}

struct Case {
  const char* what;
  OpSpec op;
};

Verdict strangers_are_refused(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, {{8, 8}, {32, 4}})); !ok) return broken("lend: " + ok.error().line());
  const std::vector<std::byte> untouched = s.expected(kShaped, {});
  std::vector<Case> cases;
  cases.push_back({"wrong token", s.operation(1, kLoan, {{8, 8, 4}})});
  cases.back().op.ticket.token ^= 1;
  cases.push_back({"stale serial", s.operation(2, LoanId{kLoan.slot, kLoan.serial - 1}, {{8, 8, 4}})});
  cases.back().op.ticket.token = kToken + kLoan.serial;
  cases.push_back(
      {"slot that lends nothing", s.operation(3, LoanId{kLoan.slot + 1, kLoan.serial}, {{8, 8, 4}})});
  cases.push_back({"slot beyond max_loans",
                   s.operation(4, LoanId{s.capabilities().max_loans + 7, kLoan.serial}, {{8, 8, 4}})});
  cases.push_back({"a region that is not lent", s.operation(9, kLoan, {{8, 8, 1}})});
  for (PlanePair& pair : cases.back().op.groups[0].planes) pair.remote.region = RegionId{77};
  cases.push_back({"offsets beyond 64 bits", s.operation(10, kLoan, {{8, 8, 1}})});
  cases.back().op.groups[0].planes[0].remote.base = ~0ULL - 4096;
  cases.push_back({"items behind the end of the region", s.operation(11, kLoan, {{8, 4000, 1}})});
  for (const Case& each : cases) {
    if (auto wrong = refused(s, each.op, each.what); wrong) return broken(*wrong);
    if (auto wrong = s.differs(kShaped, untouched); wrong)
      return broken(std::string(each.what) + ": " + *wrong);
  }
  const OpSpec good = s.operation(20, kLoan, {{8, 8, 8}});  // the loan and the peer are none the worse
  if (auto ok = s.post(good); !ok) return broken("post after refusals: " + ok.error().line());
  const auto there = [&] {
    return s.ended(good.op) && s.target().party->hash(kShaped) == Session::hash(s.expected(kShaped, {good}));
  };
  return s.wait(there) ? held() : broken("a good operation after refused ones did not land");
}

// Inside the region, outside the lent items. A reader that maps the lender's memory reads it itself, and no
// lender can stop it: that is shown as a skip, for reads only.
Verdict outsiders_are_refused(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, {{8, 8}, {32, 4}})); !ok) return broken("lend: " + ok.error().line());
  const std::vector<std::byte> untouched = s.expected(kShaped, {});
  std::vector<Case> cases;
  cases.push_back({"items behind the lent ones", s.operation(5, kLoan, {{8, 15, 2}})});
  cases.push_back({"items before the lent ones", s.operation(6, kLoan, {{8, 7, 2}})});
  cases.push_back({"item between two lent runs", s.operation(7, kLoan, {{8, 20, 1}})});
  cases.push_back({"bytes behind an item", s.operation(8, kLoan, {{8, 8, 1}})});
  cases.back().op.groups[0].planes[0].remote.base += 1;
  for (const Case& each : cases) {
    if (auto wrong = refused(s, each.op, each.what); wrong) {
      if (s.capabilities().access == Access::kRead)
        return skipped("reads are not held to the lent items: " + *wrong);
      return broken(*wrong);
    }
    if (auto wrong = s.differs(kShaped, untouched); wrong)
      return broken(std::string(each.what) + ": " + *wrong);
  }
  return held();
}

Verdict own_bounds_are_checked(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, {{0, kShapedItems}})); !ok) return broken("lend: " + ok.error().line());
  OpSpec behind = s.operation(1, kLoan, {{5000, 0, 1}});
  if (s.post(behind)) return broken("a post whose own side ends behind the region was accepted");
  OpSpec region = s.operation(2, kLoan, {{0, 0, 1}});
  for (PlanePair& pair : region.groups[0].planes) pair.local.region = RegionId{55};
  if (s.post(region)) return broken("a post that names an unknown region of its own side was accepted");
  OpSpec peer = s.operation(3, kLoan, {{0, 0, 1}});
  peer.peer = PeerId{999};
  if (s.post(peer)) return broken("a post to an unknown peer was accepted");
  OpSpec access = s.operation(4, kLoan, {{0, 0, 1}});
  access.access = access.access == Access::kRead ? Access::kWrite : Access::kRead;
  if (s.post(access)) return broken("a post of the access that the mover does not have was accepted");
  LoanSpec outside = s.loan({9, 91}, {{4000, 2}});
  if (s.lend(outside)) return broken("a loan behind the end of its region was accepted");
  if (s.lend(s.loan(kLoan, {{0, 1}}))) return broken("a slot that lends already was lent again");
  LoanSpec nobody = s.loan({10, 92}, {{0, 1}});
  nobody.peer = PeerId{999};
  if (s.lend(nobody)) return broken("a loan to an unknown peer was accepted");
  if (s.lend(s.loan({s.capabilities().max_loans, 93}, {{0, 1}})))
    return broken("a slot at max_loans was accepted");
  s.pass(30);
  for (std::uint64_t op = 1; op <= 4; ++op) {
    if (Session::count(s.poster(), Event::Kind::kCompleted, OpId{op}) != 0)
      return broken("a refused post completed");
  }
  return verdict_of(s.differs(kShaped, s.expected(kShaped, {})));
}

Verdict memory_kinds_are_refused(Session& s) {
  for (const Memory memory : {Memory::kCuda, Memory::kRocm}) {
    if ((s.capabilities().memory & static_cast<std::uint8_t>(memory)) != 0) continue;
    auto ok = s.near().party->add_foreign_region(RegionId{40}, memory);
    if (ok) return broken("a region of a memory kind that is not declared was accepted");
    if (ok.error().code != Code::kUnsupported)
      return broken("refused, but not as kUnsupported: " + ok.error().line());
  }
  if (s.near().party->add_region(kShaped, kShapedBytes)) return broken("a region id was registered twice");
  return held();
}

Verdict region_in_use_stays(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, {{0, 16}})); !ok) return broken("lend: " + ok.error().line());
  auto lent = s.lender().party->drop_region(kShaped);
  if (lent) return broken("a region under a loan was dropped");
  if (lent.error().code != Code::kRefused)
    return broken("refused, but not as kRefused: " + lent.error().line());
  s.poster().party->hold(true);
  const OpSpec op = s.operation(1, kLoan, {{0, 0, 16}});
  if (auto ok = s.post(op); !ok) return broken("post: " + ok.error().line());
  if (s.poster().party->drop_region(kShaped)) return broken("a region under an operation was dropped");
  s.poster().party->hold(false);
  if (!s.wait([&] { return s.ended(op.op); })) return broken("the operation did not end within 10 s");
  if (auto ok = s.lender().party->revoke(kLoan); !ok) return broken("revoke: " + ok.error().line());
  if (!s.wait([&] { return Session::count(s.lender(), Event::Kind::kRevoked, kLoan) > 0; }))
    return broken("no Revoked");
  if (auto ok = s.poster().party->drop_region(kShaped); !ok)
    return broken("after the end: " + ok.error().line());
  if (auto ok = s.lender().party->drop_region(kShaped); !ok)
    return broken("after Revoked: " + ok.error().line());
  return held();
}

Verdict run_strangers(const HarnessSpec& spec) { return both_ways(spec, false, strangers_are_refused); }
Verdict run_outsiders(const HarnessSpec& spec) { return both_ways(spec, false, outsiders_are_refused); }
Verdict run_own(const HarnessSpec& spec) { return both_ways(spec, false, own_bounds_are_checked); }
Verdict run_kinds(const HarnessSpec& spec) { return one_way(spec, true, false, memory_kinds_are_refused); }
Verdict run_in_use(const HarnessSpec& spec) { return both_ways(spec, false, region_in_use_stays); }

}  // namespace

std::vector<Check> refusal_checks() {
  return {
      {"R01_strangers_are_refused", "wrong tokens, stale loans and unknown places move no byte",
       run_strangers},
      {"R02_own_bounds_are_checked",
       "posts and loans outside this side's own regions are refused by the call", run_own},
      {"R03_memory_kinds_are_refused", "memory that the mover cannot reach is refused at registration",
       run_kinds},
      {"R04_region_in_use_stays", "a region that a loan or an operation touches cannot be dropped",
       run_in_use},
      {"R05_outsiders_are_refused", "places of a lent region outside the lent items are not touched",
       run_outsiders},
  };
}

}  // namespace kvferry::conformance
