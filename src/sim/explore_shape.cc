#include "sim/explore_shape.h"

namespace kvferry::sim {
namespace {

using Rooms = std::vector<ExploreRoom>;

ExploreRoom room(std::uint64_t number, std::uint64_t attempt, std::vector<std::uint32_t> pages) {
  ExploreRoom r;
  r.room = number;
  r.attempt = attempt;
  r.pages = std::move(pages);
  return r;
}
ExploreRoom aborting(ExploreRoom r) {
  r.may_abort = true;
  return r;
}
ExploreRoom later(ExploreRoom r) {
  r.after_last = true;
  return r;
}

ClusterShape cluster(std::uint32_t prefill_ranks, std::uint32_t decode_ranks, MoverKind mover) {
  ClusterShape c;
  c.prefill_ranks = prefill_ranks;
  c.decode_ranks = decode_ranks;
  c.layers = prefill_ranks;
  c.pages = 2;
  c.aux = 0;
  c.mover = mover;
  return c;
}

ExploreShape shape(std::string name, std::string about, ClusterShape c) {
  ExploreShape s;
  s.name = std::move(name);
  s.about = std::move(about);
  s.cluster = std::move(c);
  s.limits.grant_window = 64;
  s.programs.resize(s.cluster.nodes());
  return s;
}

std::string with(std::string base, MoverKind k) { return base + "-" + name_of(k); }

// One room, two chunks, one abort on either side, an operation that fails.
ExploreShape one_room(MoverKind k) {
  ExploreShape s =
      shape(with("1x1", k), "one room of two chunks, one abort of either side, one failed operation",
            cluster(1, 1, k));
  s.programs = {Rooms{aborting(room(1, 1, {0, 1}))}, Rooms{aborting(room(1, 1, {0, 1}))}};
  s.aborts = 1;
  s.failures = 1;
  s.quick = true;
  return s;
}

// Two rooms at once under two grants; the second uses the page of the first as soon as it is back.
ExploreShape two_rooms(MoverKind k) {
  ExploreShape s = shape(with("1x1-two-rooms", k),
                         "two rooms under two grants, the receiver lends the same page to both, one abort",
                         cluster(1, 1, k));
  s.programs = {Rooms{aborting(room(1, 1, {0})), room(2, 1, {1})},
                Rooms{aborting(room(1, 1, {0})), room(2, 1, {0})}};
  s.aborts = 1;
  return s;
}

ExploreShape crash(MoverKind k, std::uint32_t who) {
  ExploreShape s =
      shape(with(who == 0 ? "1x1-sender-crash" : "1x1-receiver-crash", k),
            "one room, a crash and a restart at the same address, then a second room", cluster(1, 1, k));
  s.programs = {Rooms{room(1, 1, {0}), later(room(2, 1, {0}))},
                Rooms{room(1, 1, {0}), later(room(2, 1, {0}))}};
  s.crashes = 1;
  s.crashing = {who};
  s.duplicates = false;
  s.fair_timers = {"grace"};
  s.rest_timers = {"handshake", "waiting", "bootstrap", "mute", "refused"};
  s.succeeds = true;
  return s;
}

ExploreShape two_senders(MoverKind k) {
  ExploreShape s = shape(with("2x1", k), "one room of two senders and a receiver, one abort of any rank",
                         cluster(2, 1, k));
  s.programs = {Rooms{aborting(room(1, 1, {0}))}, Rooms{aborting(room(1, 1, {0}))},
                Rooms{aborting(room(1, 1, {0}))}};
  s.aborts = 1;
  s.one_cause = true;
  return s;
}

ExploreShape two_receivers(MoverKind k) {
  ExploreShape s = shape(with("1x2", k), "one room of a sender and two receivers, one abort of any rank",
                         cluster(1, 2, k));
  s.programs = {Rooms{aborting(room(1, 1, {0}))}, Rooms{aborting(room(1, 1, {0}))},
                Rooms{aborting(room(1, 1, {0}))}};
  s.aborts = 1;
  s.one_cause = true;
  return s;
}

ExploreShape empty_legs(std::uint32_t p, std::uint32_t d) {
  const MoverKind k = MoverKind::kLanded;
  ExploreShape s = shape(p == 2 ? "2x1-empty" : "1x2-empty",
                         "a room without a page: legs that have nothing to send still say so, one abort",
                         cluster(p, d, k));
  for (Rooms& r : s.programs) r = Rooms{aborting(room(1, 1, {}))};
  s.aborts = 1;
  s.one_cause = true;
  s.quick = true;
  return s;
}

// The same number again, with tags: each side has two attempts; the second may be opened before the first is
// over elsewhere.
ExploreShape reuse(MoverKind k, bool tagged) {
  ExploreShape s = shape(with(tagged ? "1x1-reuse" : "1x1-reuse-untagged", k),
                         "a room number used twice by both sides, one abort", cluster(1, 1, k));
  s.programs = {Rooms{aborting(room(1, 1, {0})), later(room(1, 2, {0}))},
                Rooms{aborting(room(1, 1, {0})), later(room(1, 2, {0}))}};
  for (Rooms& program : s.programs) {
    for (ExploreRoom& r : program) r.tagged = tagged;
  }
  s.aborts = 1;
  // Without tags an aborted opening of one side leaves one of the other without a partner: only a deadline
  // can end it.
  if (!tagged) s.rest_timers = {"bootstrap", "waiting"};
  return s;
}

// Numbers run through the smallest window: floors must slide it.
ExploreShape window(MoverKind k) {
  ExploreShape s = shape(with("1x1-window", k), "more grants than the receiver's window", cluster(1, 1, k));
  s.limits.grant_window = 1;
  s.programs = {Rooms{room(1, 1, {0}), room(2, 1, {1})}, Rooms{room(1, 1, {0}), room(2, 1, {1})}};
  s.pings = true;
  return s;
}

ExploreShape cut(MoverKind k) {
  ExploreShape s = shape(with("1x1-link-cut", k),
                         "one room, the control link is cut once; the same lives come back within the grace",
                         cluster(1, 1, k));
  s.programs = {Rooms{aborting(room(1, 1, {0}))}, Rooms{aborting(room(1, 1, {0}))}};
  s.aborts = 1;
  s.cuts = 1;
  return s;
}

ExploreShape late_deadline(MoverKind k) {
  ExploreShape s = shape(with("1x1-deadlines", k),
                         "one room, one accusing deadline fires although the peer lives", cluster(1, 1, k));
  s.programs = {Rooms{room(1, 1, {0})}, Rooms{room(1, 1, {0})}};
  s.timeouts = 1;
  s.timers = {"bootstrap", "waiting", "progress", "silence", "drain"};
  s.fair_timers = {"grace"};
  s.rest_timers = {"bootstrap", "waiting"};
  return s;
}

// The path to a peer that lives is made anew, and the next room goes over it.
ExploreShape silence(MoverKind k) {
  ExploreShape s =
      shape(with("1x1-silence", k),
            "one room, the peer counts as silent although it lives, then another room", cluster(1, 1, k));
  s.programs = {Rooms{room(1, 1, {0}), later(room(2, 1, {0}))},
                Rooms{room(1, 1, {0}), later(room(2, 1, {0}))}};
  s.timeouts = 1;
  s.timers = {"silence"};
  s.fair_timers = {"grace"};
  s.rest_timers = {"bootstrap", "waiting"};
  return s;
}

ExploreShape events(MoverKind k) {
  ExploreShape s = shape(with("1x1-events", k), "grant and first chunk wait for device events, one abort",
                         cluster(1, 1, k));
  s.programs = {Rooms{aborting(room(1, 1, {0}))}, Rooms{aborting(room(1, 1, {0}))}};
  s.programs[0][0].event = s.programs[1][0].event = true;
  s.aborts = 1;
  s.quick = true;
  return s;
}

ExploreShape handshake() {
  const MoverKind k = MoverKind::kPlaced;
  ExploreShape s =
      shape("1x1-handshake", "HELLOs are lost, late and repeated too; one room", cluster(1, 1, k));
  s.programs = {Rooms{room(1, 1, {0})}, Rooms{room(1, 1, {0})}};
  s.handshake = true;
  s.quick = true;
  return s;
}

ExploreShape handshake_cut() {
  ExploreShape s = handshake();
  s.name = "1x1-handshake-cut";
  s.about = "HELLOs are lost, late and repeated too, and the link is cut once; one room";
  s.cuts = 1;
  s.quick = false;
  return s;
}

ExploreShape double_lend() {
  ExploreShape s = shape("1x1-double-lend", "a user grants a page that is still lent: it is refused by name",
                         cluster(1, 1, MoverKind::kLanded));
  s.programs = {Rooms{room(1, 1, {0}), room(2, 1, {1})}, Rooms{aborting(room(1, 1, {0})), room(2, 1, {0})}};
  s.programs[1][1].steals = true;
  s.aborts = 1;
  s.succeeds = false;
  return s;
}

}  // namespace

std::vector<ExploreShape> explore_shapes() {
  std::vector<ExploreShape> all;
  for (const MoverKind k : kMoverKinds) all.push_back(one_room(k));
  for (const MoverKind k : kMoverKinds) all.push_back(events(k));
  all.push_back(handshake());
  all.push_back(handshake_cut());
  all.push_back(empty_legs(2, 1));
  all.push_back(empty_legs(1, 2));
  all.push_back(double_lend());
  for (const MoverKind k : kMoverKinds) all.push_back(two_rooms(k));
  for (const MoverKind k : kMoverKinds) all.push_back(two_senders(k));
  for (const MoverKind k : kMoverKinds) all.push_back(two_receivers(k));
  for (const MoverKind k : kMoverKinds) all.push_back(crash(k, 0));
  for (const MoverKind k : kMoverKinds) all.push_back(crash(k, 1));
  for (const MoverKind k : kMoverKinds) all.push_back(reuse(k, true));
  for (const MoverKind k : kMoverKinds) all.push_back(reuse(k, false));
  for (const MoverKind k : kMoverKinds) all.push_back(window(k));
  for (const MoverKind k : kMoverKinds) all.push_back(cut(k));
  for (const MoverKind k : kMoverKinds) all.push_back(late_deadline(k));
  for (const MoverKind k : kMoverKinds) all.push_back(silence(k));
  return all;
}

std::optional<ExploreShape> find_explore_shape(std::string_view name) {
  for (const ExploreShape& s : explore_shapes()) {
    if (s.name == name) return s;
  }
  return std::nullopt;
}

std::string budget_of(const ExploreShape& s) {
  std::string b = s.duplicates ? "loss, delay, reordering and repetition without bound"
                               : "loss, delay and reordering without bound";
  const auto add = [&](std::uint32_t n, const std::string& what) {
    if (n > 0) b += ", " + std::to_string(n) + " " + what;
  };
  add(s.aborts, "abort");
  if (s.crashes > 0) {
    std::string who;
    for (const std::uint32_t n : s.crashing) who += (who.empty() ? "" : " or ") + name_of_node(s.cluster, n);
    add(s.crashes,
        "crash of " + who + (s.restarts ? " with restart" : "") + ", one stray frame of the dead life");
  }
  add(s.failures, "failed operation");
  add(s.cuts, "cut link");
  add(s.timeouts, "early deadline");
  return b;
}

}  // namespace kvferry::sim
