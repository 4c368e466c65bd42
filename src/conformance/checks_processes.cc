// Peers that die or stop, what calls cost, and what is left behind.
#include "conformance/checks.h"

namespace kvferry::conformance {
namespace {

constexpr LoanId kLoan{2, 40};

const char* const kNoSignals = "the far side is on another host: it cannot be killed or stopped from here";

// The lender dies under an operation of ours.
Verdict killed_lender(Session& s) {
  if (!s.world().may_signal()) return skipped(kNoSignals);
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  if (auto ok = s.post(s.operation(2, kLoan, {{0, 0, 1}}, kBulk)); !ok)
    return broken("post: " + ok.error().line());
  s.world().kill_far();
  const auto ended = [&] { return s.ended(OpId{1}) && s.ended(OpId{2}); };
  const bool alone = s.wait(ended, 2'000);  // by the mover's own evidence; else the fence does it
  if (!alone && s.capabilities().fence == FenceMode::kNone)
    return skipped("fence is None and the mover saw nothing");
  if (auto ok = s.poster().party->fence(s.poster().other); !ok) return broken("fence: " + ok.error().line());
  if (!s.wait(ended, s.capabilities().fence == FenceMode::kAtOnce ? 1'000 : 10'000)) {
    return broken("operations to a killed peer did not end after fence()");
  }
  if (!s.wait([&] { return Session::count(s.poster(), Event::Kind::kPeerFenced, s.poster().other) > 0; })) {
    return broken("a killed peer was never fenced");
  }
  for (const OpId op : {OpId{1}, OpId{2}}) {
    if (auto wrong = s.ended_once(op); wrong) return broken(*wrong);
  }
  return held();
}

// The poster dies over a loan of ours.
Verdict killed_poster(Session& s) {
  if (!s.world().may_signal()) return skipped(kNoSignals);
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  s.let_go();
  s.step();
  s.world().kill_far();
  if (s.capabilities().fence == FenceMode::kNone) return skipped("fence is None");
  if (auto ok = s.lender().party->fence(s.lender().other); !ok) return broken("fence: " + ok.error().line());
  const int limit = s.capabilities().fence == FenceMode::kAtOnce ? 1'000 : 10'000;
  if (!s.wait([&] { return Session::count(s.lender(), Event::Kind::kPeerFenced, s.lender().other) > 0; },
              limit)) {
    return broken("a killed peer was not fenced within " + std::to_string(limit) + " ms");
  }
  if (auto ok = s.lender().party->revoke(kLoan); !ok) return broken("revoke: " + ok.error().line());
  if (!s.wait([&] { return Session::count(s.lender(), Event::Kind::kRevoked, kLoan) > 0; }))
    return broken("no Revoked");
  const std::uint64_t then = s.lender().party->hash(kBulk);
  s.pass(200);
  if (s.lender().party->hash(kBulk) != then) return broken("bytes landed after the peer was fenced");
  s.lender().party->drop_peer(s.lender().other);
  return verdict_of(s.lender().party->drop_region(kBulk)
                        ? Finding{}
                        : Finding{"the region of a dead peer's loan stays in use"});
}

// The poster stops in mid-transfer, its loan is revoked meanwhile, and it goes on.
Verdict stopped_poster(Session& s) {
  if (!s.world().may_signal()) return skipped(kNoSignals);
  if (s.capabilities().revoke == RevokeMode::kMoverDrains) {
    return skipped("revoke is MoverDrains: a stopped mover side cannot be drained, only fenced");
  }
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  s.world().stop_far();
  s.let_go();
  for (int i = 0; i < 3; ++i) s.step();
  if (auto ok = s.lender().party->revoke(kLoan); !ok) return broken("revoke: " + ok.error().line());
  if (!s.wait([&] { return Session::count(s.lender(), Event::Kind::kRevoked, kLoan) > 0; }, 1'000)) {
    return broken("no Revoked within 1 s while the peer is stopped");
  }
  const bool writes = s.capabilities().access == Access::kWrite;
  if (!writes) s.lender().party->fill(kBulk, kScribbleSeed);  // the pages are ours again
  const std::uint64_t then = s.lender().party->hash(kBulk);
  s.pass(100);
  s.world().continue_far();
  if (!s.wait([&] { return s.ended(OpId{1}); }, 30'000))
    return broken("the operation did not end after SIGCONT");
  s.pass(200);
  if (s.lender().party->hash(kBulk) != then)
    return broken("bytes landed after Revoked, when the peer went on");
  if (!writes && s.find(s.poster(), Event::Kind::kCompleted, OpId{1})->event.error.ok()) {
    const OpSpec op = s.operation(1, kLoan, {{0, 0, kBulkItems}}, kBulk);
    if (auto wrong = s.differs(kBulk, s.expected(kBulk, {op})); wrong) {
      return broken("a read of a loan that was revoked meanwhile completed with later bytes: " + *wrong);
    }
  }
  return held();
}

// The lender stops under an operation of ours: nothing blocks, and the fence ends the operation.
Verdict stopped_lender(Session& s) {
  if (!s.world().may_signal()) return skipped(kNoSignals);
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  s.world().stop_far();
  const CallCosts before = s.poster().party->costs();
  s.pass(200);
  const CallCosts after = s.poster().party->costs();
  Verdict verdict = held();
  if (after.slept - before.slept > (after.calls - before.calls) / 50 + 1) {
    verdict = broken(std::to_string(after.slept - before.slept) + " of " +
                     std::to_string(after.calls - before.calls) + " calls slept while the peer was stopped");
  }
  if (s.capabilities().fence != FenceMode::kNone) {
    if (auto ok = s.poster().party->fence(s.poster().other); !ok)
      verdict = broken("fence: " + ok.error().line());
    if (!s.wait([&] { return s.ended(OpId{1}); }, 1'000))
      verdict = broken("no end within 1 s of fence() on a stopped peer");
  }
  s.world().continue_far();
  s.let_go();
  return verdict;
}

Verdict calls_are_short(Session& s) {
  const CallCosts before = s.near().party->costs();
  if (auto ok = s.lend(s.loan(kLoan, {{0, kBulkItems}}, kBulk)); !ok)
    return broken("lend: " + ok.error().line());
  for (std::uint64_t op = 1; op <= 6; ++op) {
    if (auto ok = s.post(s.operation(op, kLoan, {{0, 0, kBulkItems}}, kBulk)); !ok)
      return broken("post: " + ok.error().line());
    if (!s.wait([&] { return s.ended(OpId{op}); }, 30'000))
      return broken("an operation did not end within 30 s");
  }
  const CallCosts after = s.near().party->costs();
  const std::uint64_t calls = after.calls - before.calls, over = after.over_1ms - before.over_1ms;
  const std::uint64_t slept = after.slept - before.slept;
  const std::string of = " of " + std::to_string(calls) + " calls (" + std::to_string(after.worst_ns / 1000) +
                         " us in " + after.worst_call + " at worst)";
  // Single calls are hit by interrupts, page faults, or a hypervisor that charges its own pauses to the
  // thread; a mover that is built to take longer is hit most times.
  const std::uint64_t factor = s.world().spec().time_factor;
  if (factor == 1 && over > calls / 4 + 2)
    return broken("more than 1 ms of CPU in " + std::to_string(over) + of);
  if (after.worst_ns > 20'000'000 * factor) return broken("a call took 20 times what is allowed:" + of);
  if (slept > calls / 20 + 2) return broken("the thread slept inside " + std::to_string(slept) + of);
  return held();
}

Verdict nothing_is_left(const HarnessSpec& spec) {
  Resources first{}, last{};
  for (int i = 0; i < 6; ++i) {
    auto probe = LocalParty::start(spec.maker);
    if (!probe) return broken("no transport: " + probe.error().line());
    probe->reset();
    Verdict verdict = one_way(spec, i % 2 == 0, false, [](Session& s) {
      if (auto ok = s.lend(s.loan(kLoan, {{0, 64}})); !ok) return broken("lend: " + ok.error().line());
      for (std::uint64_t op = 1; op <= 8; ++op) {
        if (auto ok = s.post(s.operation(op, kLoan, {{0, 0, 64}})); !ok)
          return broken("post: " + ok.error().line());
      }
      return s.wait([&] { return s.ended(OpId{8}); }) ? held() : broken("operations did not end");
    });
    if (verdict.kind != Verdict::Kind::kHeld) return verdict;
    const Resources now = resources_of_this_process();
    if (i == 1) first = now;  // the first round warms caches and allocator arenas
    last = now;
  }
  const auto more = [](const char* what, std::uint64_t a, std::uint64_t b) {
    return broken(std::string(what) + " went from " + std::to_string(a) + " to " + std::to_string(b) +
                  " over 4 lives");
  };
  if (last.descriptors > first.descriptors) return more("descriptors", first.descriptors, last.descriptors);
  if (last.threads > first.threads) return more("threads", first.threads, last.threads);
  if (last.mappings > first.mappings + 3) return more("mappings", first.mappings, last.mappings);
  return held();
}

// The far process lives on while near transports come and go: what it keeps of them must not grow.
Verdict restarted_peers_leave_nothing(Session& s) {
  if (s.capabilities().fence == FenceMode::kNone) return skipped("fence is None");
  Resources first{}, last{};
  for (std::uint32_t life = 0; life < 6; ++life) {
    if (auto ok = s.near().party->restart(); !ok) return broken("restart: " + ok.error().line());
    s.far().party->fence(s.far().other);
    const PeerId gone = s.far().other;
    if (!s.wait([&] { return Session::count(s.far(), Event::Kind::kPeerFenced, gone) > 0; }))
      return broken("no PeerFenced");
    s.far().party->drop_peer(gone);
    s.far().other = PeerId{300 + life};
    s.near().log.clear();
    if (auto ok = s.near().party->add_region(kShaped, kShapedBytes); !ok) return broken(ok.error().line());
    s.pass(10);
    if (auto ok = s.near().party->add_peer(s.near().other, s.far().party->describe()); !ok)
      return broken(ok.error().line());
    if (auto ok = s.far().party->add_peer(s.far().other, s.near().party->describe()); !ok)
      return broken(ok.error().line());
    const auto ready = [&] {
      return Session::count(s.near(), Event::Kind::kPeerReady, s.near().other) > 0 &&
             Session::count(s.far(), Event::Kind::kPeerReady, s.far().other) > 0;
    };
    if (!s.wait(ready)) return broken("a new life of the peer was not ready within 10 s");
    s.pass(50);
    last = s.far().party->resources();
    if (life == 1) first = last;
  }
  if (last.descriptors > first.descriptors) {
    return broken("descriptors of the surviving side went from " + std::to_string(first.descriptors) +
                  " to " + std::to_string(last.descriptors) + " over 4 lives of its peer");
  }
  return last.mappings > first.mappings + 3
             ? broken("mappings of the surviving side grow with the lives of its peer")
             : held();
}

Verdict run_killed_lender(const HarnessSpec& spec) { return one_way(spec, true, true, killed_lender); }
Verdict run_killed_poster(const HarnessSpec& spec) { return one_way(spec, false, true, killed_poster); }
Verdict run_stopped_poster(const HarnessSpec& spec) { return one_way(spec, false, true, stopped_poster); }
Verdict run_stopped_lender(const HarnessSpec& spec) { return one_way(spec, true, true, stopped_lender); }
Verdict run_short(const HarnessSpec& spec) { return both_ways(spec, true, calls_are_short); }
Verdict run_restarts(const HarnessSpec& spec) {
  return one_way(spec, true, false, restarted_peers_leave_nothing);
}

}  // namespace

std::vector<Check> process_checks() {
  return {
      {"P01_killed_lender", "a killed peer ends every operation to it, by itself or at fence()",
       run_killed_lender},
      {"P02_killed_poster", "a killed peer can be fenced, its loans revoked and its pages used again",
       run_killed_poster},
      {"P03_stopped_poster", "after Revoked nothing lands when a stopped peer goes on", run_stopped_poster},
      {"P04_stopped_lender", "a stopped peer blocks no call, and fence() ends its operations",
       run_stopped_lender},
      {"P05_calls_are_short", "no call takes 1 ms of CPU or sleeps", run_short},
      {"P06_nothing_is_left", "a destroyed transport leaves no descriptor, thread or mapping",
       nothing_is_left},
      {"P07_restarts_leave_nothing", "a peer that comes back many times leaves the other side as it was",
       run_restarts},
  };
}

}  // namespace kvferry::conformance
