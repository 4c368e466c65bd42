#include "replay/referee.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/prng.h"

namespace kvferry::replay {
namespace {

constexpr std::int64_t kStartNs = 300'000'000'000;  // memory of many GiB is touched once
constexpr std::int64_t kEndNs = 20'000'000'000;
constexpr std::int64_t kLookNs = 250'000'000;
constexpr std::int64_t kHungAfterNs = 1'000'000'000;  // behind the last named deadline

std::int64_t ns_of(Duration d) { return d.count(); }
double ms_between(std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / 1e6; }
constexpr Side other(Side side) { return side == Side::kPrefill ? Side::kDecode : Side::kPrefill; }
constexpr std::size_t at(Side side) { return static_cast<std::size_t>(side); }

}  // namespace

Referee::Referee(Area& area, Fleet& fleet)
    : area_(area),
      fleet_(fleet),
      requests_(area.requests()),
      restart_(area.workers()),
      lost_(area.workers()),
      releases_asked_(area.workers()) {
  tally_.rooms = area.requests();
}

Result<> Referee::start() {
  const std::int64_t begin = monotonic_ns();
  if (Result<> ports = fleet_.choose_ports(); !ports) return ports;
  for (std::uint32_t slot = 0; slot < area_.workers(); ++slot) {
    if (Result<> spawned = fleet_.spawn(slot); !spawned) return spawned;
  }
  const auto ready = [&] {
    for (std::uint32_t slot = 0; slot < area_.workers(); ++slot) {
      if (!running(slot)) return false;
    }
    return true;
  };
  while (!ready()) {
    events_.clear();
    fleet_.pump(100, events_);
    for (const FleetEvent& event : events_) {
      if (event.kind != FleetEvent::Kind::kTrouble && event.kind != FleetEvent::Kind::kDied) continue;
      return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, fleet_.name(event.slot),
                  event.text.empty() ? "ended before it was ready" : event.text);
    }
    if (monotonic_ns() - begin > kStartNs) {
      return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "start-up",
                  fmt::format("the workers were not ready after {} s; give a smaller --pool-mib",
                              kStartNs / 1'000'000'000));
    }
  }
  last_change_ns_ = monotonic_ns();
  tally_.startup_seconds = ms_between(begin, last_change_ns_) / 1000;
  return {};
}

void Referee::submit(std::uint32_t request, const Plan& plan) {
  requests_[request].plan = plan;
  backlog_.push_back(request);
  last_change_ns_ = monotonic_ns();
  begin_backlog();
}

void Referee::begin_backlog() {
  for (std::size_t turns = backlog_.size(); turns > 0; --turns) {
    const std::uint32_t index = backlog_.front();
    backlog_.pop_front();
    Request& request = requests_[index];
    const Choice prefill = choose(Side::kPrefill, index, request.prefill);
    const Choice decode = choose(Side::kDecode, index, request.decode);
    if (prefill == Choice::kNone || decode == Choice::kNone) {
      request.reason = fmt::format("no {} process left",
                                   name_of(prefill == Choice::kNone ? Side::kPrefill : Side::kDecode));
      ++tally_.failures[request.reason];
      request.outcome = Outcome::kFailed;
    } else if (prefill == Choice::kWait || decode == Choice::kWait) {
      backlog_.push_back(index);
    } else {
      begin(index, request);
    }
  }
}

// Prefill: round robin. Decode: by the second block, so that prompts with one beginning meet the blocks held
// there (the first block is often one system prompt for all).
Referee::Choice Referee::choose(Side side, std::uint32_t request, std::uint32_t& slot) {
  const AreaConfig& config = area_.config();
  const std::uint32_t first = side == Side::kPrefill ? 0 : config.prefill;
  const std::uint32_t count = side == Side::kPrefill ? config.prefill : config.decode;
  const std::span<const std::uint64_t> hashes = area_.hashes(request);
  const std::uint64_t wish =
      side == Side::kPrefill ? next_prefill_ : mix64(hashes[hashes.size() > 1 ? 1 : 0]);
  bool hope = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t candidate = first + static_cast<std::uint32_t>((wish + i) % count);
    if (running(candidate)) {
      slot = candidate;
      if (side == Side::kPrefill) next_prefill_ = candidate + 1;
      return Choice::kFound;
    }
    hope = hope || fleet_.state(candidate) == Fleet::State::kStarting || restart_[candidate];
  }
  return hope ? Choice::kWait : Choice::kNone;
}

void Referee::begin(std::uint32_t index, Request& request) {
  request.live = true;
  request.proven = request.kill_hit = request.contact = request.given_up = request.bereaved = false;
  request.half[0] = request.half[1] = {};
  request.prefill_life = fleet_.life(request.prefill);
  request.decode_life = fleet_.life(request.decode);
  Message message;
  message.kind = Message::Kind::kOpen;
  message.request = index;
  message.attempt = request.attempt;
  const Plan plan = request.attempt == 0 ? request.plan : Plan{};
  message.pause_percent = plan.pause_percent;
  message.abort_percent = plan.abort_side == Side::kPrefill ? plan.abort_percent : Message::kNever;
  fleet_.send(request.prefill, message);
  message.pause_percent = Message::kNever;
  message.abort_percent = plan.abort_side == Side::kDecode ? plan.abort_percent : Message::kNever;
  message.peer = request.prefill;
  fleet_.send(request.decode, message);
  ++tally_.attempts;
  ++live_;
  live_list_.push_back(index);
  live_max_ = std::max<std::uint64_t>(live_max_, live_);
}

void Referee::release(std::uint32_t index) {
  Request& request = requests_[index];
  if (!std::exchange(request.held, false) || request.decode_life != fleet_.life(request.decode)) return;
  Message message;
  message.kind = Message::Kind::kRelease;
  message.request = index;
  fleet_.send(request.decode, message);
  ++releases_asked_[request.decode];
}

void Referee::resume(std::uint32_t index) {
  Message message;
  message.kind = Message::Kind::kResume;
  message.request = index;
  if (requests_[index].live) fleet_.send(requests_[index].prefill, message);
}

bool Referee::settled() const {
  for (std::uint32_t slot = area_.config().prefill; slot < area_.workers(); ++slot) {
    if (!running(slot)) continue;
    if (area_.worker(slot).releases_done.load(std::memory_order_acquire) < releases_asked_[slot])
      return false;
  }
  return true;
}

bool Referee::short_of_pages() const {
  for (std::uint32_t slot = area_.config().prefill; slot < area_.workers(); ++slot) {
    if (running(slot) && area_.worker(slot).pages_short.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

// A survivor that has met the dead process must find out by itself: that is measured. One that has not cannot
// know, so the router tells it, as a router would.
void Referee::kill(std::uint32_t slot, bool restart) {
  restart_[slot] = restart;
  const Side dead = slot < area_.config().prefill ? Side::kPrefill : Side::kDecode;
  const Side survivor = other(dead);
  std::vector<std::uint32_t> without_contact;
  for (const std::uint32_t index : live_list_) {
    Request& request = requests_[index];
    const bool hit = dead == Side::kPrefill ? request.prefill == slot : request.decode == slot;
    if (!hit) continue;
    request.bereaved = true;
    // What has ended there may not have been told to the other side yet.
    if (!request.half[at(dead)].over()) request.kill_hit = true;
    const SideRecord& survived = record(index, survivor);
    if (request.half[at(survivor)].over()) continue;
    const bool begun = survived.attempt == request.attempt && survived.granted_ns != 0;
    request.contact = begun && survived.failing_ns == 0 && survived.terminal_ns == 0;
    if (!begun) without_contact.push_back(index);
  }
  const std::int64_t now = monotonic_ns();
  fleet_.kill(slot);
  ++tally_.kills;
  last_change_ns_ = now;
  for (const std::uint32_t index : live_list_) {
    if (requests_[index].contact && requests_[index].kill_ns == 0) requests_[index].kill_ns = now;
  }
  for (const std::uint32_t index : without_contact) {
    Request& request = requests_[index];
    request.given_up = true;
    Message message;
    message.kind = Message::Kind::kAbort;
    message.request = index;
    message.attempt = request.attempt;
    fleet_.send(survivor == Side::kPrefill ? request.prefill : request.decode, message);
  }
}

void Referee::pump(int timeout_ms, std::vector<Finished>& finished) {
  events_.clear();
  fleet_.pump(timeout_ms, events_);
  for (const FleetEvent& event : events_) {
    switch (event.kind) {
      case FleetEvent::Kind::kMessage: on_message(event); break;
      case FleetEvent::Kind::kDied: on_died(event); break;
      case FleetEvent::Kind::kTrouble:
        fatal_ = fmt::format("{}: {}", fleet_.name(event.slot), event.text);
        break;
      default: break;
    }
  }
  if (!events_.empty()) last_change_ns_ = monotonic_ns();
  for (std::size_t i = 0; i < live_list_.size();) {
    const std::uint32_t index = live_list_[i];
    end_if_over(index, finished);
    if (requests_[index].live) ++i;
  }
  const std::size_t before = backlog_.size();
  std::vector<std::uint32_t> asked(backlog_.begin(), backlog_.end());
  begin_backlog();
  if (backlog_.size() != before) {
    for (const std::uint32_t index : asked) {
      if (requests_[index].outcome == Outcome::kFailed) finished.push_back({index, false});
    }
  }
  look_for_hung();
}

void Referee::on_message(const FleetEvent& event) {
  const std::uint32_t index = event.message.request;
  if (index >= requests_.size()) return;
  Request& request = requests_[index];
  const Side side = event.slot < area_.config().prefill ? Side::kPrefill : Side::kDecode;
  const std::uint32_t life = side == Side::kPrefill ? request.prefill_life : request.decode_life;
  const std::uint32_t slot = side == Side::kPrefill ? request.prefill : request.decode;
  if (!request.live || event.message.attempt != request.attempt || event.life != life || event.slot != slot)
    return;
  Half& half = request.half[at(side)];
  switch (event.message.kind) {
    case Message::Kind::kOpened:
      half.opened = true;
      if (request.half[0].opened && request.half[1].opened) ++opens_;
      break;
    case Message::Kind::kTerminal:
      // A success at decode ends when every byte was checked.
      half.ended = side == Side::kPrefill || record(index, side).state != SideState::kSuccess;
      break;
    case Message::Kind::kProven: half.ended = request.proven = true; break;
    default: break;
  }
}

void Referee::on_died(const FleetEvent& event) {
  const std::uint32_t slot = event.slot;
  const Side dead = slot < area_.config().prefill ? Side::kPrefill : Side::kDecode;
  const WorkerSlot& counts = area_.worker(slot);
  const std::uint64_t out = counts.get(Count::kPagesLent) - counts.get(Count::kPagesReturned) - lost_[slot];
  lost_[slot] += out;
  tally_.pages_lost += out;
  releases_asked_[slot] = 0;
  area_.worker(slot).releases_done = 0;
  area_.worker(slot).pages_short = 0;
  if (!event.expected) {
    ++tally_.crashes;
    tally_.note = fmt::format("{} ended by {}", fleet_.name(slot), event.text);
  }
  for (const std::uint32_t index : live_list_) {
    Request& request = requests_[index];
    const bool hit = dead == Side::kPrefill ? request.prefill == slot && request.prefill_life == event.life
                                            : request.decode == slot && request.decode_life == event.life;
    if (!hit) continue;
    request.bereaved = true;  // an answer that it owed to the other side may be lost
    if (request.half[at(dead)].over()) continue;
    request.half[at(dead)].gone = true;
    request.kill_hit = true;
  }
  if (!restart_[slot]) return;
  restart_[slot] = false;
  ++tally_.restarts;
  if (Result<> spawned = fleet_.spawn(slot); !spawned) fatal_ = spawned.error().line();
}

void Referee::end_if_over(std::uint32_t index, std::vector<Finished>& finished) {
  Request& request = requests_[index];
  if (!request.half[0].over() || !request.half[1].over()) return;
  request.live = false;
  --live_;
  std::erase(live_list_, index);
  measure_kill(index, request);
  conclude(index, request, finished);
  request.kill_ns = 0;
}

void Referee::conclude(std::uint32_t index, Request& request, std::vector<Finished>& finished) {
  if (request.proven) {
    succeed(index, request);
    finished.push_back({index, true});
    return;
  }
  if (request.kill_hit && !cancelled(index, request) && request.attempt == 0) {
    ++request.attempt;
    ++tally_.retries;
    backlog_.push_back(index);
    return;
  }
  request.outcome = Outcome::kFailed;
  ++tally_.failures[cause_of(index, request)];
  if (request.reason.empty()) ++tally_.unreasoned;
  finished.push_back({index, false});
}

void Referee::succeed(std::uint32_t index, Request& request) {
  request.outcome = Outcome::kSucceeded;
  request.held = !request.half[at(Side::kDecode)].gone;
  const SideRecord& prefill = record(index, Side::kPrefill);
  const SideRecord& decode = record(index, Side::kDecode);
  const bool same = prefill.state == SideState::kSuccess || request.half[at(Side::kPrefill)].gone;
  if (!same && !request.bereaved && !cancelled(index, request)) {
    ++tally_.disagreements;
    tally_.note = fmt::format("room {}: decode succeeded, prefill says {}", index + 1, prefill.why);
  }
  if (prefill.pushed_ns != 0) tally_.t0_ms.push_back(ms_between(prefill.pushed_ns, decode.terminal_ns));
  tally_.transfer_ms.push_back(ms_between(decode.granted_ns, decode.terminal_ns));
}

bool Referee::cancelled(std::uint32_t index, const Request& request) const {
  if (request.attempt != 0 || request.plan.abort_percent == Message::kNever) return false;
  const SideRecord& side = record(index, request.plan.abort_side);
  return side.attempt == request.attempt && side.abort_said != 0;
}

// Sets the room's reason (the cause as the protocol told it) and returns the class that the report counts.
std::string Referee::cause_of(std::uint32_t index, Request& request) {
  const SideRecord& decode = record(index, Side::kDecode);
  const SideRecord& prefill = record(index, Side::kPrefill);
  request.reason = decode.attempt == request.attempt && decode.why[0] != '\0' ? decode.why : prefill.why;
  if (request.reason.empty() && request.kill_hit)
    request.reason = "its processes were killed before they could say why";
  if (cancelled(index, request)) return fmt::format("aborted by {}", name_of(request.plan.abort_side));
  if (decode.attempt == request.attempt && decode.refused != 0) return "prompt larger than the pool";
  if (request.kill_hit) return "killed on the retry too";
  ++tally_.unexplained;
  const SideRecord& source = decode.code != 0 ? decode : prefill;
  if (tally_.note.empty()) tally_.note = "unexplained: " + describe(index);
  return name_of(static_cast<Code>(source.code));
}

void Referee::measure_kill(std::uint32_t index, const Request& request) {
  if (!request.contact || request.kill_ns == 0) return;
  const Side survivor = request.half[at(Side::kPrefill)].gone ? Side::kDecode : Side::kPrefill;
  const SideRecord& side = record(index, survivor);
  if (request.half[at(survivor)].gone || side.state != SideState::kFailed ||
      side.terminal_ns < request.kill_ns)
    return;
  const std::int64_t failing = side.failing_ns != 0 ? side.failing_ns.load() : side.terminal_ns.load();
  if (failing >= request.kill_ns) tally_.kill_to_reason_ms.push_back(ms_between(request.kill_ns, failing));
  tally_.kill_to_failed_ms.push_back(ms_between(request.kill_ns, side.terminal_ns));
}

// A room that knows its cause, or whose other side is gone, has named deadlines left and no others.
void Referee::look_for_hung() {
  const std::int64_t now = monotonic_ns();
  if (now - looked_ns_ < kLookNs) return;
  looked_ns_ = now;
  std::uint64_t activity = 0;
  for (std::size_t c = 0; c < kCounts; ++c) activity += area_.total(static_cast<Count>(c));
  if (std::exchange(last_activity_, activity) != activity) last_change_ns_ = now;
  const std::int64_t end = ns_of(deadlines_.drain + deadlines_.grace + deadlines_.fence) + kHungAfterNs;
  const std::int64_t find_out = ns_of(deadlines_.heartbeat * deadlines_.heartbeats_missed);
  for (const std::uint32_t index : live_list_) {
    Request& request = requests_[index];
    for (const Side side : {Side::kPrefill, Side::kDecode}) {
      const SideRecord& r = record(index, side);
      if (request.hung || request.half[at(side)].over() || r.attempt != request.attempt || r.terminal_ns != 0)
        continue;
      const bool failing_too_long = r.failing_ns != 0 && now > r.failing_ns + end;
      const bool alone_too_long =
          request.kill_ns != 0 && request.contact && now > request.kill_ns + find_out + end;
      if (!failing_too_long && !alone_too_long) continue;
      request.hung = true;
      if (tally_.note.empty()) {
        tally_.note = fmt::format("room {} at {} did not end: {}", index + 1, name_of(side),
                                  r.why[0] != '\0' ? r.why : "it does not know that its peer was killed");
      }
    }
  }
}

const char* Referee::state_of(std::uint32_t index, Side side) const {
  const Half& half = requests_[index].half[at(side)];
  const SideRecord& r = record(index, side);
  if (half.gone) return "dead";
  if (half.ended) return r.state == SideState::kSuccess ? "succeeded" : "failed";
  if (r.attempt != requests_[index].attempt || r.opened_ns == 0) return "not opened";
  if (r.terminal_ns != 0) return "terminal";
  if (r.failing_ns != 0) return "failing";
  if (r.pushed_ns != 0) return "pushed all";
  return r.granted_ns != 0 ? "granted" : "opened";
}

std::string Referee::describe(std::uint32_t index) const {
  const Request& request = requests_[index];
  const std::int64_t now = monotonic_ns();
  std::string text = fmt::format("room {} attempt {}", index + 1, request.attempt + 1);
  if (request.kill_hit) text += request.given_up ? ", given up after a kill" : ", hit by a kill";
  for (const Side side : {Side::kPrefill, Side::kDecode}) {
    const SideRecord& r = record(index, side);
    const std::int64_t since =
        std::max(r.terminal_ns.load(), std::max(r.granted_ns.load(), r.opened_ns.load()));
    text += fmt::format("; {} life {} is {} for {:.3f} s",
                        fleet_.name(side == Side::kPrefill ? request.prefill : request.decode),
                        side == Side::kPrefill ? request.prefill_life : request.decode_life,
                        state_of(index, side), ms_between(since, now) / 1000);
    if (r.why[0] != '\0') text += fmt::format(" ({})", r.why);
  }
  return text;
}

std::string Referee::describe_live() const {
  constexpr std::size_t kShown = 4;
  std::map<std::string, std::uint64_t> states;
  std::string some;
  for (std::size_t i = 0; i < live_list_.size(); ++i) {
    const std::uint32_t index = live_list_[i];
    ++states[fmt::format("prefill {}, decode {}", state_of(index, Side::kPrefill),
                         state_of(index, Side::kDecode))];
    if (i < kShown) some += "; " + describe(index);
  }
  std::string all;
  for (const auto& [text, count] : states) {
    all += fmt::format("{}{} rooms: {}", all.empty() ? "" : "; ", count, text);
  }
  return all + some;
}

void Referee::finish() {
  for (std::uint32_t slot = 0; slot < area_.workers(); ++slot) {
    restart_[slot] = false;
    if (fleet_.state(slot) != Fleet::State::kNone) fleet_.quit(slot);
  }
  const std::int64_t begin = monotonic_ns();
  const auto left = [&] {
    for (std::uint32_t slot = 0; slot < area_.workers(); ++slot) {
      if (fleet_.state(slot) != Fleet::State::kNone) return true;
    }
    return false;
  };
  while (left() && monotonic_ns() - begin < kEndNs) {
    events_.clear();
    fleet_.pump(50, events_);
    for (const FleetEvent& event : events_) {
      if (event.kind == FleetEvent::Kind::kDied && event.text != "exit status 0") {
        ++tally_.crashes;
        tally_.note = fmt::format("{} ended by {} when told to quit", fleet_.name(event.slot), event.text);
      }
    }
  }
  for (std::uint32_t slot = 0; slot < area_.workers(); ++slot) {
    if (fleet_.state(slot) == Fleet::State::kNone) continue;
    tally_.note =
        fmt::format("{} did not end within {} s of being told to", fleet_.name(slot), kEndNs / 1'000'000'000);
    fleet_.kill(slot);
  }
}

Tally Referee::tally() const {
  Tally t = tally_;
  t.rooms_live_max = live_max_;
  for (const Request& request : requests_) {
    if (request.outcome == Outcome::kSucceeded) ++t.succeeded;
    if (request.outcome == Outcome::kFailed) ++t.failed;
    if (request.hung || request.live) ++t.hung;
  }
  t.page_waits = area_.total(Count::kPageWaits);
  t.bytes_moved = area_.total(Count::kBytesMoved);
  t.prefix_hit_bytes = area_.total(Count::kPrefixHitBytes);
  t.bytes_verified = area_.total(Count::kBytesVerified);
  t.bytes_wrong = area_.total(Count::kBytesWrong);
  t.manifests_wrong = area_.total(Count::kManifestsWrong);
  t.bytes_unaccounted = area_.total(Count::kBytesUnaccounted);
  t.stranger_writes = area_.total(Count::kStrangerWrites);
  t.pages_lent = area_.total(Count::kPagesLent);
  t.pages_returned = area_.total(Count::kPagesReturned);
  t.pages_quarantined = area_.total(Count::kPagesQuarantined);
  t.chunks = area_.total(Count::kChunksPushed);
  t.calls_refused = area_.total(Count::kRefused);
  return t;
}

}  // namespace kvferry::replay
