#include "conformance/session.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "base/checksum.h"
#include "kvferry/clock.h"

namespace kvferry::conformance {
namespace {

// The three shapes: items with gaps, items without, and two slices of each item.
struct Shape {
  std::uint64_t base, stride;
  std::uint32_t bytes, repeat, step, item_bytes;
};
constexpr Shape kShapes[] = {
    {0, 8192, 4096, 1, 0, 4096},
    {1 << 20, 6000, 6000, 1, 0, 6000},
    {2 << 20, 5000, 1000, 2, 3000, 4096},
};
constexpr Shape kBulkShape = {0, kBulkItemBytes, kBulkItemBytes, 1, 0, kBulkItemBytes};

std::vector<Shape> shapes_of(RegionId region) {
  if (region == kBulk) return {kBulkShape};
  return {std::begin(kShapes), std::end(kShapes)};
}

Error setup_error(std::string why) {
  return {Code::kEnvironment, Who::kLocal, Next::kAfterFix, 0, "conformance session", std::move(why)};
}

}  // namespace

std::string describe(const Event& event) {
  static constexpr const char* kNames[] = {"Completed",  "Quiesced",    "Arrived",   "Revoked",
                                           "PeerFenced", "RegionReady", "PeerReady", "PeerLost"};
  std::string text = kNames[static_cast<std::size_t>(event.kind)];
  text += " op " + std::to_string(event.op.value) + " loan " + std::to_string(event.loan.slot) + " peer " +
          std::to_string(event.peer.value);
  if (!event.error.ok()) text += " (" + event.error.line() + ")";
  return text;
}

Result<std::unique_ptr<Session>> Session::connect(const HarnessSpec& spec, bool near_posts, bool bulk) {
  std::unique_ptr<Session> session(new Session());
  auto world = World::start(spec);
  if (!world) return tl::unexpected(world.error());
  session->world_ = std::move(*world);
  session->near_posts_ = near_posts;
  session->near_ = {&session->world_->near(), PeerId{101}, {}};
  session->far_ = {&session->world_->far(), PeerId{202}, {}};
  session->capabilities_ = session->near_.party->capabilities();
  if (auto wrong = session->settle_regions(bulk); wrong) return tl::unexpected(setup_error(*wrong));
  if (auto wrong = session->settle_peers(); wrong) return tl::unexpected(setup_error(*wrong));
  return session;
}

Finding Session::settle_regions(bool bulk) {
  for (Side* side : {&near_, &far_}) {
    for (const RegionId region : {kShaped, kBulk}) {
      if (region == kBulk && !bulk) continue;
      if (auto ok = side->party->add_region(region, region == kBulk ? kBulkBytes : kShapedBytes); !ok) {
        return ok.error().line();
      }
      const auto ready = [&] {
        return std::any_of(side->log.begin(), side->log.end(), [&](const SeenEvent& seen) {
          return seen.event.kind == Event::Kind::kRegionReady && seen.event.region == region;
        });
      };
      if (!wait(ready)) return "no RegionReady within 10 s";
      side->party->fill(region, side == &source() ? kSourceSeed : kTargetSeed);
    }
  }
  return std::nullopt;
}

Finding Session::settle_peers() {
  if (auto ok = near_.party->add_peer(near_.other, far_.party->describe()); !ok) return ok.error().line();
  if (auto ok = far_.party->add_peer(far_.other, near_.party->describe()); !ok) return ok.error().line();
  const auto both = [&] {
    return count(near_, Event::Kind::kPeerReady, near_.other) > 0 &&
           count(far_, Event::Kind::kPeerReady, far_.other) > 0;
  };
  if (!wait(both)) return "no PeerReady on both sides within 10 s";
  for (const Side* side : {&near_, &far_}) {
    for (const SeenEvent& seen : side->log) {
      if (!seen.event.error.ok()) return describe(seen.event);
    }
  }
  return std::nullopt;
}

bool Session::notifies() const noexcept {
  return capabilities_.access == Access::kWrite && capabilities_.visible >= Visible::kRemoteNotified;
}

void Session::step() {
  world_->pump();
  for (Side* side : {&near_, &far_}) {
    if (side == &far_ && !world_->far_runs()) continue;
    for (SeenEvent& seen : side->party->take_events()) side->log.push_back(std::move(seen));
  }
}

bool Session::wait(const std::function<bool()>& until, int ms) {
  SystemClock clock;
  const TimePoint end = clock.now() + std::chrono::milliseconds(ms) * world_->spec().time_factor;
  while (!until()) {
    if (clock.now() >= end) return false;
    step();
    near_.party->wait_wake(0);
  }
  return true;
}

void Session::pass(int ms) {
  SystemClock clock;
  const TimePoint end = clock.now() + std::chrono::milliseconds(ms);
  while (clock.now() < end) {
    step();
    poll(nullptr, 0, 1);
  }
}

LoanSpec Session::loan(LoanId id, std::vector<PageRun> items, RegionId region) const {
  LoanSpec spec;
  spec.id = id;
  spec.token = kToken + id.serial;
  spec.peer = near_posts_ ? far_.other : near_.other;
  spec.access = capabilities_.access;
  LoanGroupSpec& group = spec.groups.emplace_back();
  for (const Shape& shape : shapes_of(region)) {
    group.planes.push_back({region, shape.base, shape.stride});
    group.item_bytes.push_back(shape.item_bytes);
  }
  group.runs = std::move(items);
  return spec;
}

OpSpec Session::operation(std::uint64_t op, LoanId loan_id, std::vector<RunPair> runs,
                          RegionId region) const {
  OpSpec spec;
  spec.op = OpId{op};
  spec.access = capabilities_.access;
  spec.peer = near_posts_ ? near_.other : far_.other;
  spec.ticket = {loan_id, kToken + loan_id.serial};
  OpGroup& group = spec.groups.emplace_back();
  for (const Shape& shape : shapes_of(region)) {
    const Plane plane{region, shape.base, shape.stride};
    group.planes.push_back({plane, plane, shape.bytes, shape.repeat, shape.step, shape.step});
  }
  group.runs = std::move(runs);
  return spec;
}

Finding Session::begin_bulk(LoanId id, std::uint64_t op) {
  if (auto ok = lend(loan(id, {{0, kBulkItems}}, kBulk)); !ok) return "lend: " + ok.error().line();
  if (capabilities_.visible == Visible::kReceiverPlaced && capabilities_.access == Access::kWrite) {
    lender().party->hold(true);
  }
  if (auto ok = post(operation(op, id, {{0, 0, kBulkItems}}, kBulk)); !ok)
    return "post: " + ok.error().line();
  for (int i = 0; i < 2; ++i) step();
  return std::nullopt;
}

void Session::let_go() { lender().party->hold(false); }

std::size_t Session::count(const Side& side, Event::Kind kind, OpId op) {
  return static_cast<std::size_t>(std::count_if(side.log.begin(), side.log.end(), [&](const SeenEvent& seen) {
    return seen.event.kind == kind && seen.event.op == op;
  }));
}
std::size_t Session::count(const Side& side, Event::Kind kind, LoanId loan) {
  return static_cast<std::size_t>(std::count_if(side.log.begin(), side.log.end(), [&](const SeenEvent& seen) {
    return seen.event.kind == kind && seen.event.loan == loan;
  }));
}
std::size_t Session::count(const Side& side, Event::Kind kind, PeerId peer) {
  return static_cast<std::size_t>(std::count_if(side.log.begin(), side.log.end(), [&](const SeenEvent& seen) {
    return seen.event.kind == kind && seen.event.peer == peer;
  }));
}

const SeenEvent* Session::find(const Side& side, Event::Kind kind, OpId op) const {
  for (const SeenEvent& seen : side.log) {
    if (seen.event.kind == kind && seen.event.op == op) return &seen;
  }
  return nullptr;
}

bool Session::ended(OpId op) {
  return count(poster(), Event::Kind::kCompleted, op) > 0 && count(poster(), Event::Kind::kQuiesced, op) > 0;
}

Finding Session::ended_once(OpId op) {
  const std::size_t completed = count(poster(), Event::Kind::kCompleted, op);
  const std::size_t quiesced = count(poster(), Event::Kind::kQuiesced, op);
  if (completed != 1 || quiesced != 1) {
    return "operation " + std::to_string(op.value) + " completed " + std::to_string(completed) +
           " and quiesced " + std::to_string(quiesced) + " times; once each is promised";
  }
  if (find(poster(), Event::Kind::kQuiesced, op) < find(poster(), Event::Kind::kCompleted, op)) {
    return "operation " + std::to_string(op.value) + " quiesced before it completed";
  }
  return std::nullopt;
}

std::vector<std::byte> Session::expected(RegionId region, const std::vector<OpSpec>& ops) const {
  std::vector<std::byte> image = pattern(kTargetSeed, region == kBulk ? kBulkBytes : kShapedBytes);
  const bool writes = capabilities_.access == Access::kWrite;
  for (const OpSpec& op : ops) {
    for (const OpGroup& group : op.groups) {
      for (const PlanePair& pair : group.planes) {
        for (const RunPair& run : group.runs) {
          for (std::uint64_t i = 0; i < run.count * std::uint64_t{pair.repeat}; ++i) {
            const std::uint64_t item = i / pair.repeat, k = i % pair.repeat;
            const std::uint64_t own =
                pair.local.base + (run.local + item) * pair.local.stride + k * pair.local_step;
            const std::uint64_t lent =
                pair.remote.base + (run.remote + item) * pair.remote.stride + k * pair.remote_step;
            const std::uint64_t to = writes ? lent : own, from = writes ? own : lent;
            for (std::uint64_t b = 0; b < pair.bytes; ++b)
              image[to + b] = pattern_byte(kSourceSeed, from + b);
          }
        }
      }
    }
  }
  return image;
}

std::uint64_t Session::hash(const std::vector<std::byte>& bytes) { return hash64(bytes); }

Finding Session::differs(RegionId region, const std::vector<std::byte>& wanted) {
  Party& party = *target().party;
  if (party.hash(region) == hash(wanted)) return std::nullopt;
  const std::vector<std::byte> found = party.read(region, 0, wanted.size());
  const auto at = std::mismatch(wanted.begin(), wanted.end(), found.begin(), found.end()).first;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < std::min(wanted.size(), found.size()); ++i)
    wrong += wanted[i] != found[i] ? 1 : 0;
  return std::to_string(wrong) + " bytes of the target are wrong, the first at " +
         std::to_string(at - wanted.begin());
}

}  // namespace kvferry::conformance
