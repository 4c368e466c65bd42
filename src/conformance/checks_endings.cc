// Recalling a loan and fencing a peer.
#include "conformance/checks.h"

namespace kvferry::conformance {
namespace {

constexpr LoanId kLoan{2, 40};

Verdict await_revoked(Session& s, int ms) {
  if (!s.wait([&] { return Session::count(s.lender(), Event::Kind::kRevoked, kLoan) > 0; }, ms)) {
    return broken("no Revoked within " + std::to_string(ms) + " ms");
  }
  return held();
}

// Writes: the target stops changing. Reads: what completes without error was read before the lender took it
// back.
Verdict revoke_in_mid_transfer(Session& s) {
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  if (auto ok = s.lender().party->revoke(kLoan); !ok) return broken("revoke: " + ok.error().line());
  s.let_go();
  const bool drains = s.capabilities().revoke == RevokeMode::kMoverDrains;
  if (Verdict v = await_revoked(s, drains ? 30'000 : 1'000); v.kind != Verdict::Kind::kHeld) return v;
  if (drains && !s.wait([&] { return s.ended(OpId{1}); }, 1'000)) {
    return broken("Revoked came while an operation on the loan was not quiesced");
  }
  if (s.capabilities().access == Access::kWrite) {
    const std::uint64_t then = s.target().party->hash(kBulk);
    s.pass(250);
    if (s.target().party->hash(kBulk) != then) return broken("bytes landed after Revoked");
  } else {
    s.source().party->fill(kBulk, kScribbleSeed);
    if (!s.wait([&] { return s.ended(OpId{1}); }, 30'000)) return broken("the read did not end within 30 s");
    if (s.find(s.poster(), Event::Kind::kCompleted, OpId{1})->event.error.ok()) {
      const OpSpec op = s.operation(1, kLoan, {{0, 0, kBulkItems}}, kBulk);
      if (auto wrong = s.differs(kBulk, s.expected(kBulk, {op})); wrong) {
        return broken("a read completed with bytes written after Revoked: " + *wrong);
      }
    }
  }
  s.pass(50);
  if (Session::count(s.lender(), Event::Kind::kRevoked, kLoan) != 1)
    return broken("Revoked came more than once");
  return held();
}

Verdict revoked_stays_revoked(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, {{0, 64}})); !ok) return broken("lend: " + ok.error().line());
  const OpSpec first = s.operation(1, kLoan, {{0, 0, 8}});
  if (auto ok = s.post(first); !ok) return broken("post: " + ok.error().line());
  const std::vector<std::byte> wanted = s.expected(kShaped, {first});
  if (!s.wait(
          [&] { return s.ended(first.op) && s.target().party->hash(kShaped) == Session::hash(wanted); })) {
    return broken("the first operation did not land within 10 s");
  }
  if (auto ok = s.lender().party->revoke(kLoan); !ok) return broken("revoke: " + ok.error().line());
  if (s.lender().party->revoke(kLoan)) return broken("a loan was revoked twice");
  if (Verdict v = await_revoked(s, 1'000); v.kind != Verdict::Kind::kHeld) return v;
  if (s.post(s.operation(2, kLoan, {{20, 20, 8}})) && !s.wait([&] { return s.ended(OpId{2}); })) {
    return broken("an operation on a revoked loan did not end within 10 s");
  }
  s.pass(50);
  if (auto wrong = s.differs(kShaped, wanted); wrong)
    return broken("an operation on a revoked loan moved: " + *wrong);
  const LoanId next{kLoan.slot, kLoan.serial + 1};  // the slot lends again; the old ticket stays void
  if (auto ok = s.lend(s.loan(next, {{0, 64}})); !ok)
    return broken("lending the slot again: " + ok.error().line());
  OpSpec old = s.operation(3, kLoan, {{20, 20, 8}});
  if (s.post(old) && !s.wait([&] { return s.ended(OpId{3}); }))
    return broken("an operation on an old ticket did not end");
  s.pass(50);
  if (auto wrong = s.differs(kShaped, wanted); wrong)
    return broken("an old ticket opened a new loan: " + *wrong);
  const OpSpec good = s.operation(4, next, {{20, 20, 8}});
  if (auto ok = s.post(good); !ok) return broken("post on the new loan: " + ok.error().line());
  const auto there = [&] {
    return s.ended(good.op) &&
           s.target().party->hash(kShaped) == Session::hash(s.expected(kShaped, {first, good}));
  };
  return s.wait(there) ? held() : broken("an operation on the new loan did not land");
}

Verdict fenced_by_the_lender(Session& s) {
  if (s.capabilities().fence == FenceMode::kNone) return skipped("fence is None");
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  if (auto ok = s.lender().party->fence(s.lender().other); !ok) return broken("fence: " + ok.error().line());
  s.let_go();
  const auto fenced = [&] {
    return Session::count(s.lender(), Event::Kind::kPeerFenced, s.lender().other) > 0;
  };
  const int limit = s.capabilities().fence == FenceMode::kAtOnce ? 1'000 : 10'000;
  if (!s.wait(fenced, limit)) return broken("no PeerFenced within " + std::to_string(limit) + " ms");
  if (s.capabilities().access == Access::kWrite) {
    const std::uint64_t then = s.target().party->hash(kBulk);
    s.pass(250);
    if (s.target().party->hash(kBulk) != then) return broken("bytes landed after PeerFenced");
  }
  if (!s.wait([&] { return s.ended(OpId{1}); }))
    return broken("the poster's operation did not end within 10 s");
  if (auto wrong = s.ended_once(OpId{1}); wrong) return broken(*wrong);
  return Session::count(s.lender(), Event::Kind::kPeerFenced, s.lender().other) == 1
             ? held()
             : broken("PeerFenced came twice");
}

Verdict fenced_by_the_poster(Session& s) {
  if (s.capabilities().fence == FenceMode::kNone) return skipped("fence is None");
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  if (auto ok = s.poster().party->fence(s.poster().other); !ok) return broken("fence: " + ok.error().line());
  if (!s.wait([&] { return s.ended(OpId{1}); }, 1'000))
    return broken("the operation did not end within 1 s of fence()");
  if (!s.wait([&] { return Session::count(s.poster(), Event::Kind::kPeerFenced, s.poster().other) > 0; })) {
    return broken("no PeerFenced");
  }
  if (auto wrong = s.ended_once(OpId{1}); wrong) return broken(*wrong);
  if (s.post(s.operation(2, kLoan, {{0, 0, 1}}, kBulk)))
    return broken("a post to a fenced peer was accepted");
  s.source().party->fill(kBulk, kScribbleSeed);
  s.let_go();
  s.pass(100);
  const std::vector<std::byte> found = s.target().party->read(kBulk, 0, kBulkBytes);
  const std::vector<std::byte> old = pattern(kTargetSeed, kBulkBytes),
                               fresh = pattern(kSourceSeed, kBulkBytes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != old[i] && found[i] != fresh[i])
      return broken("byte " + std::to_string(i) + " was read after Quiesced");
  }
  return held();
}

// A live peer that was fenced comes back under a new id; nothing of the old path lands.
Verdict fenced_peers_come_back(Session& s) {
  if (s.capabilities().fence == FenceMode::kNone) return skipped("fence is None");
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  for (Side* side : {&s.lender(), &s.poster()}) {
    if (auto ok = side->party->fence(side->other); !ok) return broken("fence: " + ok.error().line());
  }
  s.let_go();
  const auto fenced = [&] {
    return Session::count(s.near(), Event::Kind::kPeerFenced, s.near().other) > 0 &&
           Session::count(s.far(), Event::Kind::kPeerFenced, s.far().other) > 0 && s.ended(OpId{1});
  };
  if (!s.wait(fenced)) return broken("no PeerFenced on both sides within 10 s");
  if (auto ok = s.lender().party->revoke(kLoan); !ok)
    return broken("revoke after fence: " + ok.error().line());
  for (Side* side : {&s.near(), &s.far()}) side->party->drop_peer(side->other);
  s.near().other = PeerId{103};
  s.far().other = PeerId{204};
  if (auto ok = s.near().party->add_peer(s.near().other, s.far().party->describe()); !ok)
    return broken(ok.error().line());
  if (auto ok = s.far().party->add_peer(s.far().other, s.near().party->describe()); !ok)
    return broken(ok.error().line());
  const auto ready = [&] {
    return Session::count(s.near(), Event::Kind::kPeerReady, s.near().other) > 0 &&
           Session::count(s.far(), Event::Kind::kPeerReady, s.far().other) > 0;
  };
  if (!s.wait(ready)) return broken("no PeerReady for the returned peer within 10 s");
  const std::uint64_t then = s.target().party->hash(kBulk);
  s.target().party->fill(kShaped, kTargetSeed);
  const LoanId next{kLoan.slot, kLoan.serial + 1};
  if (auto ok = s.lend(s.loan(next, {{0, 16}})); !ok) return broken("lend: " + ok.error().line());
  const OpSpec op = s.operation(9, next, {{3, 3, 9}});
  if (auto ok = s.post(op); !ok) return broken("post: " + ok.error().line());
  const auto there = [&] {
    return s.ended(op.op) && s.target().party->hash(kShaped) == Session::hash(s.expected(kShaped, {op}));
  };
  if (!s.wait(there)) return broken("an operation to the returned peer did not land");
  return s.target().party->hash(kBulk) == then ? held() : broken("bytes of the fenced path landed later");
}

// How a manager answers what a mover says of its path: lost paths are fenced, fenced ones dropped and made
// anew under the same id.
class PathKeeper {
 public:
  PathKeeper(Side& side, Side& other) : side_(side), other_(other), seen_(side.log.size()) {}
  Result<> fence() {
    fencing_ = true;
    ++fences_;
    return side_.party->fence(side_.other);
  }
  // Handles what came since the last call; the first call that a mover refuses is the finding.
  Finding react() {
    for (; seen_ < side_.log.size(); ++seen_) {
      const Event event = side_.log[seen_].event;
      if (event.peer != side_.other) continue;
      if (event.kind == Event::Kind::kPeerLost && !fencing_) {
        if (auto ok = fence(); !ok) return "fence of a lost path: " + ok.error().line();
      }
      if (event.kind == Event::Kind::kPeerReady) {
        if (renewed_ && !event.error.ok()) return "the next path failed: " + event.error.line();
        ready_ = renewed_;
      }
      if (event.kind == Event::Kind::kPeerFenced) {
        fencing_ = ready_ = false;
        renewed_ = true;
        side_.party->drop_peer(side_.other);
        if (auto ok = side_.party->add_peer(side_.other, other_.party->describe()); !ok)
          return "adding a dropped peer under the same id: " + ok.error().line();
      }
    }
    return std::nullopt;
  }
  bool ready() const noexcept { return renewed_ ? ready_ : !fencing_; }
  int fences() const noexcept { return fences_; }

 private:
  Side& side_;
  Side& other_;
  std::size_t seen_;
  bool fencing_ = false, renewed_ = false, ready_ = false;
  int fences_ = 0;
};

// Both paths are up, on both sides, and stay so.
Finding settle_paths(Session& s, PathKeeper& a, PathKeeper& b) {
  Finding wrong;
  const auto both = [&] {
    if (!wrong) wrong = a.react();
    if (!wrong) wrong = b.react();
    return wrong || (a.ready() && b.ready());
  };
  for (int calm = 0; calm < 3 && !wrong; ++calm) {
    if (!s.wait(both)) return "the path was not made anew within 10 s";
    s.pass(30);
  }
  return wrong;
}

Verdict same_id_comes_back(Session& s) {
  if (s.capabilities().fence == FenceMode::kNone) return skipped("fence is None");
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  PathKeeper poster(s.poster(), s.lender()), lender(s.lender(), s.poster());
  if (auto ok = lender.fence(); !ok) return broken("fence: " + ok.error().line());
  s.let_go();
  if (auto wrong = settle_paths(s, poster, lender); wrong) return broken(*wrong);
  if (!s.wait([&] { return s.ended(OpId{1}); }))
    return broken("the operation of the fenced path did not end");
  const std::uint64_t then = s.target().party->hash(kBulk);
  for (std::uint64_t round = 0; round < 3; ++round) {
    s.target().party->fill(kShaped, kTargetSeed);
    const LoanId next{kLoan.slot, kLoan.serial + 1 + round};
    if (auto ok = s.lend(s.loan(next, {{0, 16}})); !ok) return broken("lend: " + ok.error().line());
    const OpSpec op = s.operation(9 + round, next, {{3, 3, 9}});
    if (auto ok = s.post(op); !ok) return broken("post on the next path: " + ok.error().line());
    const auto there = [&] {
      return s.ended(op.op) && s.target().party->hash(kShaped) == Session::hash(s.expected(kShaped, {op}));
    };
    if (!s.wait(there)) return broken("an operation on the next path did not land");
    if (auto ok = s.lender().party->revoke(next); !ok) return broken("revoke: " + ok.error().line());
    PathKeeper& first = round % 2 == 0 ? poster : lender;  // each side has its turn
    if (auto ok = first.fence(); !ok) return broken("fence: " + ok.error().line());
    if (auto wrong = settle_paths(s, poster, lender); wrong) return broken(*wrong);
  }
  if (poster.fences() + lender.fences() > 16) {
    return broken(std::to_string(poster.fences() + lender.fences()) +
                  " fences for 4 paths: a new path is taken for the end of the other side's");
  }
  const bool reads = s.capabilities().access == Access::kRead;
  return reads || s.target().party->hash(kBulk) == then ? held()
                                                        : broken("bytes of a fenced path landed later");
}

Verdict run_mid(const HarnessSpec& spec) { return both_ways(spec, true, revoke_in_mid_transfer); }
Verdict run_stays(const HarnessSpec& spec) { return both_ways(spec, false, revoked_stays_revoked); }
Verdict run_lender(const HarnessSpec& spec) { return both_ways(spec, true, fenced_by_the_lender); }
Verdict run_poster(const HarnessSpec& spec) { return both_ways(spec, true, fenced_by_the_poster); }
Verdict run_return(const HarnessSpec& spec) { return both_ways(spec, true, fenced_peers_come_back); }
Verdict run_same_id(const HarnessSpec& spec) { return both_ways(spec, true, same_id_comes_back); }

}  // namespace

std::vector<Check> ending_checks() {
  return {
      {"E01_revoke_in_mid_transfer",
       "after Revoked nothing lands in the loan and nothing read from it is accepted", run_mid},
      {"E02_revoked_stays_revoked", "an old ticket never opens the slot again, a new loan of it works",
       run_stays},
      {"E03_fenced_by_the_lender", "after PeerFenced nothing of that peer lands", run_lender},
      {"E04_fenced_by_the_poster", "fence() ends the operations to that peer, quiesced, with an error",
       run_poster},
      {"E05_fenced_peers_come_back",
       "a live peer can be added again under a new id, and the old path stays dead", run_return},
      {"E06_the_same_id_comes_back",
       "a dropped PeerId names the next path at once, whichever side fenced, and both sides settle on it",
       run_same_id},
  };
}

}  // namespace kvferry::conformance
