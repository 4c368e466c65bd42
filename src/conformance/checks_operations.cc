// Operations: what moves, how often it is reported, when it is visible, and when it is over.
#include <algorithm>

#include "conformance/checks.h"

namespace kvferry::conformance {
namespace {

constexpr LoanId kLoan{3, 70};
// Scattered on both sides, in another order on each: 24 items.
const std::vector<RunPair> kScattered = {{0, 100, 5}, {40, 7, 11}, {90, 60, 1}, {20, 20, 7}};
const std::vector<PageRun> kScatteredLent = {{100, 5}, {7, 11}, {60, 1}, {20, 7}};

Notice notice_of(std::uint8_t tag, std::uint8_t size) {
  Notice notice;
  notice.size = size;
  for (std::size_t i = 0; i < size; ++i) notice.bytes[i] = static_cast<std::byte>(tag + i);
  return notice;
}

Verdict declares_itself(Session& s) {
  const Capabilities c = s.capabilities();
  if (c.name.empty() || c.memory == 0) return broken("name or memory kinds are empty");
  if (c.max_in_flight == 0 || c.max_loans == 0) return broken("max_in_flight or max_loans is 0");
  if (s.far().party->capabilities().name != c.name)
    return broken("two transports of one mover declare different names");
  for (Side* side : {&s.near(), &s.far()}) {
    const std::size_t size = side->party->describe().size();
    if (size > 4096) return broken("describe() is " + std::to_string(size) + " bytes; at most 4096");
    for (const RegionId region : {kShaped}) {
      const auto ready = std::count_if(side->log.begin(), side->log.end(), [&](const SeenEvent& seen) {
        return seen.event.kind == Event::Kind::kRegionReady && seen.event.region == region;
      });
      if (ready != 1)
        return broken("RegionReady came " + std::to_string(ready) + " times for one add_region");
    }
    if (Session::count(*side, Event::Kind::kPeerReady, side->other) != 1)
      return broken("PeerReady did not come once");
  }
  return held();
}

Verdict moves_what_was_asked(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, kScatteredLent)); !ok) return broken("lend: " + ok.error().line());
  const OpSpec op = s.operation(1, kLoan, kScattered);
  if (auto ok = s.post(op); !ok) return broken("post: " + ok.error().line());
  const auto there = [&] {
    return s.ended(op.op) && (!s.notifies() || Session::count(s.lender(), Event::Kind::kArrived, kLoan) > 0);
  };
  if (!s.wait(there)) return broken("the operation did not end and arrive within 10 s");
  if (auto wrong = s.ended_once(op.op); wrong) return broken(*wrong);
  const SeenEvent* completed = s.find(s.poster(), Event::Kind::kCompleted, op.op);
  if (!completed->event.error.ok()) return broken("completed with " + completed->event.error.line());
  return verdict_of(s.differs(kShaped, s.expected(kShaped, {op})));
}

// The hash is taken in the process that sees the event, before anything else runs there.
Verdict visible_as_declared(Session& s) {
  const Capabilities& c = s.capabilities();
  if (c.visible == Visible::kLocalDone)
    return skipped("visible is LocalDone: Completed proves nothing about the target");
  if (auto ok = s.lend(s.loan(kLoan, kScatteredLent)); !ok) return broken("lend: " + ok.error().line());
  const bool at_lender = s.notifies();
  s.target().party->watch(kShaped);
  const OpSpec op = s.operation(1, kLoan, kScattered);
  if (auto ok = s.post(op); !ok) return broken("post: " + ok.error().line());
  const std::uint64_t wanted = Session::hash(s.expected(kShaped, {op}));
  if (c.access == Access::kWrite && !at_lender) {  // landed: the target is asked as soon as the poster knows
    if (!s.wait([&] { return Session::count(s.poster(), Event::Kind::kCompleted, op.op) > 0; }))
      return broken("no Completed");
    return s.target().party->hash(kShaped) == wanted
               ? held()
               : broken("Completed came before the bytes were in place");
  }
  const auto seen_event = [&]() -> const SeenEvent* {
    if (!at_lender) return s.find(s.poster(), Event::Kind::kCompleted, op.op);
    const auto it = std::find_if(s.lender().log.begin(), s.lender().log.end(), [](const SeenEvent& seen) {
      return seen.event.kind == Event::Kind::kArrived;
    });
    return it == s.lender().log.end() ? nullptr : &*it;
  };
  if (!s.wait([&] { return seen_event() != nullptr; }))
    return broken("the event that proves the bytes never came");
  if (seen_event()->watched_hash != wanted) return broken("the event came before its bytes were in place");
  return held();
}

Verdict notices_arrive(Session& s) {
  if (!s.notifies()) return skipped("no notices: visible is below RemoteNotified, or the mover reads");
  if (auto ok = s.lend(s.loan(kLoan, {{0, kShapedItems}})); !ok) return broken("lend: " + ok.error().line());
  std::vector<OpSpec> ops;
  for (std::uint8_t i = 0; i < 16; ++i) {
    OpSpec op = s.operation(i + 1U, kLoan, {{i * 8U, i * 8U, 8}});
    op.notice = notice_of(static_cast<std::uint8_t>(i * 10), static_cast<std::uint8_t>(i * 4 + 4));
    if (i % 5 == 4) op.groups.clear();  // nothing but the notice
    if (auto ok = s.post(op); !ok) return broken("post: " + ok.error().line());
    ops.push_back(std::move(op));
  }
  if (!s.wait([&] { return Session::count(s.lender(), Event::Kind::kArrived, kLoan) >= ops.size(); })) {
    return broken(std::to_string(Session::count(s.lender(), Event::Kind::kArrived, kLoan)) +
                  " of 16 notices arrived");
  }
  s.pass(50);
  for (const OpSpec& op : ops) {
    std::uint64_t bytes = 0;
    for (const OpGroup& group : op.groups) bytes += bytes_of({group.planes, group.runs});
    const auto same = std::count_if(s.lender().log.begin(), s.lender().log.end(), [&](const SeenEvent& seen) {
      const Event& e = seen.event;
      return e.kind == Event::Kind::kArrived && e.notice.size == op.notice.size &&
             e.notice.bytes == op.notice.bytes && e.bytes == bytes && e.peer == s.lender().other &&
             e.loan == kLoan;
    });
    if (same != 1) {
      return broken("the notice of operation " + std::to_string(op.op.value) + " came " +
                    std::to_string(same) + " times with its bytes, peer and loan; once is promised");
    }
  }
  return verdict_of(s.differs(kShaped, s.expected(kShaped, ops)));
}

Verdict posts_all_or_nothing(Session& s) {
  if (auto ok = s.lend(s.loan(kLoan, {{0, kShapedItems}})); !ok) return broken("lend: " + ok.error().line());
  const std::uint32_t most = s.capabilities().max_in_flight;
  s.near().party->hold(true);
  s.far().party->hold(true);
  std::vector<OpSpec> accepted;
  std::vector<OpId> refused;
  for (std::uint64_t i = 1; i <= most + 8ULL && i < 20'000; ++i) {
    const auto item = static_cast<std::uint32_t>(i % kShapedItems);
    const OpSpec op = s.operation(i, kLoan, {{item, item, 1}});
    auto ok = s.post(op);
    if (ok) accepted.push_back(op);
    if (!ok && ok.error().code != Code::kWouldBlock)
      return broken("post over the limit: " + ok.error().line());
    if (!ok) refused.push_back(op.op);
  }
  if (accepted.size() > most)
    return broken(std::to_string(accepted.size()) + " posts were accepted; max_in_flight is less");
  s.near().party->hold(false);
  s.far().party->hold(false);
  const auto all = [&] {
    return std::all_of(accepted.begin(), accepted.end(), [&](const OpSpec& op) { return s.ended(op.op); });
  };
  if (!s.wait(all)) return broken("accepted operations did not all end within 10 s");
  s.pass(50);
  for (const OpSpec& op : accepted) {
    if (auto wrong = s.ended_once(op.op); wrong) return broken(*wrong);
  }
  for (const OpId op : refused) {
    if (Session::count(s.poster(), Event::Kind::kCompleted, op) +
            Session::count(s.poster(), Event::Kind::kQuiesced, op) !=
        0) {
      return broken("operation " + std::to_string(op.value) + " was refused and completed all the same");
    }
  }
  if (s.notifies() &&
      !s.wait([&] { return Session::count(s.lender(), Event::Kind::kArrived, kLoan) >= accepted.size(); })) {
    return broken("not every accepted operation arrived");
  }
  return verdict_of(s.differs(kShaped, s.expected(kShaped, accepted)));
}

Verdict cancel_is_a_hint(Session& s) {
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  const std::size_t before = Session::count(s.poster(), Event::Kind::kCompleted, OpId{1});
  s.poster().party->hold(true);
  for (SeenEvent& seen : s.poster().party->take_events()) s.poster().log.push_back(std::move(seen));
  const std::size_t known = s.poster().log.size();
  s.poster().party->cancel(OpId{1});
  s.poster().party->cancel(OpId{1});
  s.poster().party->cancel(OpId{4711});  // no such operation
  if (!s.poster().party->take_events().empty())
    return broken("cancel completed the operation inside the call");
  if (before == 0 && s.poster().log.size() != known) return broken("events appeared without progress()");
  s.poster().party->hold(false);
  s.let_go();
  if (!s.wait([&] { return s.ended(OpId{1}); }))
    return broken("a cancelled operation did not end within 10 s");
  s.pass(50);
  if (auto wrong = s.ended_once(OpId{1}); wrong) return broken(*wrong);
  if (Session::count(s.poster(), Event::Kind::kCompleted, OpId{4711}) != 0)
    return broken("an unknown operation completed");
  // A cancelled operation moved all, some or none of its pieces: nothing but old or new bytes may be there.
  return held();
}

// After Quiesced nothing of the operation moves: the source may be scribbled and the scribble never travels;
// the target stays as it is once it is proven.
Verdict quiesced_is_silent(Session& s) {
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  s.let_go();
  if (!s.wait([&] { return s.ended(OpId{1}); }, 30'000))
    return broken("the operation did not end within 30 s");
  const SeenEvent* completed = s.find(s.poster(), Event::Kind::kCompleted, OpId{1});
  if (!completed->event.error.ok()) return broken("completed with " + completed->event.error.line());
  s.source().party->fill(kBulk,
                         kScribbleSeed);  // at once: what the poster gave away it must not look at again
  if (s.notifies() &&
      !s.wait([&] { return Session::count(s.lender(), Event::Kind::kArrived, kLoan) > 0; }, 30'000)) {
    return broken("the operation did not arrive within 30 s");
  }
  const std::vector<std::byte> wanted =
      s.expected(kBulk, {s.operation(1, kLoan, {{0, 0, kBulkItems}}, kBulk)});
  if (auto wrong = s.differs(kBulk, wanted); wrong)
    return broken("after Quiesced the source was still read: " + *wrong);
  s.target().party->fill(kBulk, kScribbleSeed + 1);
  s.pass(200);
  return verdict_of(s.differs(kBulk, pattern(kScribbleSeed + 1, kBulkBytes)));
}

// The same when the operation was cut short.
Verdict cancelled_is_silent(Session& s) {
  if (auto wrong = s.begin_bulk(kLoan, 1); wrong) return broken(*wrong);
  s.poster().party->cancel(OpId{1});
  s.let_go();
  if (!s.wait([&] { return s.ended(OpId{1}); }, 30'000))
    return broken("the operation did not end within 30 s");
  s.source().party->fill(kBulk, kScribbleSeed);
  s.pass(200);
  const std::vector<std::byte> old = pattern(kTargetSeed, kBulkBytes),
                               fresh = pattern(kSourceSeed, kBulkBytes);
  const std::vector<std::byte> found = s.target().party->read(kBulk, 0, kBulkBytes);
  if (found.size() != kBulkBytes) return broken("the target could not be read");
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != old[i] && found[i] != fresh[i]) {
      return broken("byte " + std::to_string(i) +
                    " of the target is neither old nor of the source before Quiesced");
    }
  }
  if (s.target().party == s.poster().party || !s.notifies()) {
    s.target().party->fill(kBulk, kScribbleSeed + 1);
    s.pass(200);
    return verdict_of(s.differs(kBulk, pattern(kScribbleSeed + 1, kBulkBytes)));
  }
  return held();
}

Verdict wakes_up(Session& s) {
  if (!s.lender().party->wakes() && !s.poster().party->wakes()) return skipped("wake_fd() is -1: poll me");
  if (auto ok = s.lend(s.loan(kLoan, kScatteredLent)); !ok) return broken("lend: " + ok.error().line());
  s.pass(20);
  const OpSpec op = s.operation(1, kLoan, kScattered);
  if (auto ok = s.post(op); !ok) return broken("post: " + ok.error().line());
  // Nothing but wake_fd() and busy() says when the near side, which lends, makes progress from here on.
  for (int turn = 0; turn < 1000; ++turn) {
    if (s.ended(op.op) && (!s.notifies() || Session::count(s.lender(), Event::Kind::kArrived, kLoan) > 0))
      return held();
    if (!s.world().two_processes()) s.far().party->pump();
    const bool woke = s.near().party->wait_wake(s.notifies() ? 1000 : 5);
    if (woke || !s.notifies()) {
      s.step();
    } else {
      return broken("neither wake_fd() nor busy() told of work within 1 s");
    }
  }
  return broken("the operation did not end in 1000 turns");
}

Verdict run_declares(const HarnessSpec& spec) { return both_ways(spec, false, declares_itself); }
Verdict run_moves(const HarnessSpec& spec) { return both_ways(spec, false, moves_what_was_asked); }
Verdict run_visible(const HarnessSpec& spec) { return both_ways(spec, false, visible_as_declared); }
Verdict run_notices(const HarnessSpec& spec) { return both_ways(spec, false, notices_arrive); }
Verdict run_posts(const HarnessSpec& spec) { return both_ways(spec, false, posts_all_or_nothing); }
Verdict run_cancel(const HarnessSpec& spec) { return both_ways(spec, true, cancel_is_a_hint); }
Verdict run_silent(const HarnessSpec& spec) { return both_ways(spec, true, quiesced_is_silent); }
Verdict run_cut_silent(const HarnessSpec& spec) { return both_ways(spec, true, cancelled_is_silent); }
Verdict run_wakes(const HarnessSpec& spec) { return one_way(spec, false, false, wakes_up); }

}  // namespace

std::vector<Check> operation_checks() {
  return {
      {"C01_declares_itself",
       "names itself, describes itself in 4 KiB, answers add_region and add_peer once each", run_declares},
      {"C02_moves_what_was_asked", "every piece lands at its place and no other byte of the region changes",
       run_moves},
      {"C03_posts_all_or_nothing",
       "over max_in_flight post() says kWouldBlock and has no effect; every accepted post "
       "completes once and quiesces once",
       run_posts},
      {"C04_cancel_is_a_hint", "cancel() never completes inside the call, and the operation still ends once",
       run_cancel},
      {"C05_quiesced_is_silent", "after Quiesced neither buffer is touched any more", run_silent},
      {"C06_cancelled_is_silent", "the same for an operation that was cut short", run_cut_silent},
      {"C07_visible_as_declared", "the bytes are in place at the very event that proves them", run_visible},
      {"C08_notices_arrive", "each notice comes once, with its bytes, peer and loan", run_notices},
      {"C09_wakes_up", "wake_fd() or busy() tells of every piece of work", run_wakes},
  };
}

}  // namespace kvferry::conformance
