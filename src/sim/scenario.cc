#include "sim/scenario.h"

#include <cmath>

#include "base/prng.h"

namespace kvferry::sim {
namespace {

ClusterShape shaped(const char* name, std::uint32_t p, std::uint32_t d, std::uint32_t pr, std::uint32_t dr,
                    bool split) {
  ClusterShape s;
  s.name = name;
  s.prefill = p;
  s.decode = d;
  s.prefill_ranks = pr;
  s.decode_ranks = dr;
  s.decode_split = split;
  s.layers = std::max(pr, dr) > 2 ? 3 : 2;
  return s;
}

std::vector<ClusterShape> all_shapes() {
  return {shaped("1x1", 1, 1, 1, 1, false),      shaped("2x1", 1, 1, 2, 1, false),
          shaped("1x2", 1, 1, 1, 2, false),      shaped("1x2pp", 1, 1, 1, 2, true),
          shaped("2x2", 1, 1, 2, 2, false),      shaped("2x2pp", 1, 1, 2, 2, true),
          shaped("3x3pp", 1, 1, 3, 3, true),     shaped("2p2d", 2, 2, 1, 1, false),
          shaped("3p3d", 3, 3, 1, 1, false),     shaped("2p2d-2x2", 2, 2, 2, 2, true),
          shaped("3p1d-2x1", 3, 1, 2, 1, false), shaped("1p3d-1x2", 1, 3, 1, 2, false)};
}

Error usage(std::string_view value) {
  std::string known;
  for (const std::string& n : shape_names()) known += (known.empty() ? "" : ", ") + n;
  std::string movers;
  for (const MoverKind k : kMoverKinds) movers += std::string(movers.empty() ? "" : ", ") + name_of(k);
  return Error{
      Code::kUsage,
      Who::kConfig,
      Next::kAfterFix,
      0,
      "--shape \"" + std::string(value) + "\"",
      "not a shape; say SHAPE, SHAPE:MOVER or :MOVER with a shape of " + known + " and a mover of " + movers};
}

// Limits small enough that back-pressure is the rule. Each is drawn by itself.
void shrink_limits(Prng& rng, double rate, Limits& l) {
  const auto maybe = [&](std::uint32_t& value, std::uint64_t low, std::uint64_t high) {
    if (rng.chance(rate)) value = static_cast<std::uint32_t>(rng.between(low, high));
  };
  maybe(l.live_grants_per_peer, 2, 6);
  maybe(l.grant_window, 64, 64);
  maybe(l.parked_grants_per_peer, 2, 8);
  maybe(l.page_runs_per_part, 1, 3);
  maybe(l.ops_in_flight, 1, 4);
  maybe(l.ops_in_flight_per_peer, 1, 3);
  maybe(l.loans, 4, 16);
  maybe(l.text_bytes, 16, 64);
  maybe(l.recalls, 2, 16);
  maybe(l.rooms, 4, 24);
  maybe(l.chunks_per_room, 2, 8);
  maybe(l.debts_per_peer, 8, 64);
  std::uint64_t bytes = l.bytes_in_flight_per_peer;
  if (rng.chance(rate)) bytes = rng.between(64, 1024);
  l.bytes_in_flight_per_peer = bytes;
}

// Half of the faults of a seed are zero. `last`: those that are drawn after all else.
void draw_rates(Prng& rng, Scenario& s, bool last) {
  for (const FaultInfo& f : kFaults) {
    if ((f.id >= kDrawnLast) != last) continue;
    const double u = rng.unit();
    if (rng.chance(0.5)) continue;
    s.rates[static_cast<std::size_t>(f.id)] = f.low * std::pow(f.high / f.low, u);
  }
}

Deadlines deadlines_of(Prng& rng, bool fast) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  Deadlines d;
  d.bootstrap = seconds(20);
  d.waiting = seconds(20);
  d.progress = seconds(12);
  d.handshake = seconds(10);
  d.lease = seconds(6);
  d.tombstone = seconds(20);
  d.resend_first = milliseconds(300);
  d.resend_most = seconds(3);
  if (!fast) return d;
  const auto ms = [&](std::uint64_t low, std::uint64_t high) {
    return milliseconds(static_cast<std::int64_t>(rng.between(low, high)));
  };
  d.bootstrap = ms(500, 4000);
  d.waiting = ms(300, 3000);
  d.progress = ms(300, 3000);
  d.handshake = ms(500, 3000);
  d.drain = ms(50, 1000);
  d.grace = ms(50, 1000);
  d.fence = ms(100, 1000);
  d.tombstone = ms(200, 4000);
  return d;
}

}  // namespace

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const ClusterShape& s : all_shapes()) names.push_back(s.name);
  return names;
}

std::string Scenario::line() const {
  std::string s = "seed " + std::to_string(seed) + ": " + shape.name + ":" + name_of(shape.mover) + ", " +
                  std::to_string(requests) + " requests, " + (tags ? "tags" : "no tags");
  for (const FaultInfo& f : kFaults) {
    if (rate(f.id) > 0) s += ", " + std::string(f.name);
  }
  return s;
}

Result<Scenario> draw_scenario(std::uint64_t seed, std::string_view wanted) {
  Prng rng(seed * 2 + 1);
  Scenario s;
  s.seed = seed;
  const auto shapes = all_shapes();
  s.shape = shapes[rng.below(shapes.size())];
  MoverKind mover = kMoverKinds[rng.below(kMoverKinds.size())];
  const auto colon = wanted.find(':');
  const std::string_view name = wanted.substr(0, colon);
  bool known = name.empty();
  for (const ClusterShape& c : shapes) {
    if (c.name != name) continue;
    s.shape = c;
    known = true;
  }
  if (colon != std::string_view::npos) {
    bool mover_known = false;
    for (const MoverKind k : kMoverKinds) {
      if (wanted.substr(colon + 1) != name_of(k)) continue;
      mover = k;
      mover_known = true;
    }
    known = known && mover_known;
  }
  if (!known) return tl::unexpected(usage(wanted));
  s.shape.mover = mover;
  s.shape.fence = rng.chance(0.15) ? FenceMode::kNone : FenceMode::kBounded;
  s.shape.pages = static_cast<std::uint32_t>(rng.between(8, 32));
  s.shape.aux = static_cast<std::uint32_t>(rng.between(2, 6));
  s.shape.states = rng.chance(0.3) ? 4 : 0;
  draw_rates(rng, s, false);
  s.requests = static_cast<std::uint32_t>(rng.between(21, 49));
  s.latency = std::chrono::microseconds(rng.between(20, 2000));
  s.tags = rng.chance(0.7);
  s.deadlines = deadlines_of(rng, s.rate(Fault::kFastDeadlines) > 0);
  if (s.rate(Fault::kShrink) > 0) shrink_limits(rng, s.rate(Fault::kShrink) * 0.4, s.limits);
  draw_rates(rng, s, true);
  s.registry_lease = std::chrono::seconds(rng.between(3, 24));
  return s;
}

}  // namespace kvferry::sim
