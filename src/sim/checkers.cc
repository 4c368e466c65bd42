#include "sim/checkers.h"

#include <algorithm>

#include "sim/users.h"
#include "sim/world.h"

namespace kvferry::sim {
namespace {
constexpr std::uint64_t kAuxBit = 1ULL << 63;

std::uint64_t mask_of(const std::vector<std::uint32_t>& layers) {
  std::uint64_t mask = 0;
  for (const std::uint32_t l : layers) mask |= 1ULL << l;
  return mask;
}

// "live grants 4 reach what ..." is about live_grants_per_peer; the others begin with their own name.
std::string limit_named_in(const std::string& why) {
  std::string name = why.substr(0, why.find_first_of(" ("));
  return name == "live" ? "live_grants_per_peer" : name;
}

}  // namespace

std::string Checkers::where(const Participant& p) const {
  return "room " + std::to_string(users_.requests()[p.request].room.value) + " of " +
         name_of_node(world_.scenario().shape, p.node);
}

void Checkers::before_publish(std::uint32_t node, Handle h, Poll poll) {
  const Participant* p = users_.find(node, h);
  if (p == nullptr)
    return world_.laws().broken(Law::kStatus, "a status of a handle that was closed or never opened");
  const bool was_terminal = p->terminal || p->shown == Poll::kFailed || p->shown == Poll::kSuccess;
  const bool backwards = poll != Poll::kFailed && poll < p->shown;
  if (was_terminal || backwards) {
    world_.laws().broken(Law::kStatus,
                         where(*p) + " goes from " + name_of(p->shown) + " to " + name_of(poll));
  }
  if (poll == Poll::kFailed && !p->failing)
    world_.laws().broken(Law::kStatus, where(*p) + " is Failed without a cause");
  if (poll == Poll::kSuccess && p->failing)
    world_.laws().broken(Law::kStatus, where(*p) + " was failing and is Success");
  if (poll != Poll::kSuccess) return;
  if (p->role == Role::kReceiver) {
    receiver_success(*p);
  } else {
    sender_success(*p);
  }
}

void Checkers::before_failing(std::uint32_t node, Handle h, const Error& cause) {
  const Participant* p = users_.find(node, h);
  if (p == nullptr) return;
  if (p->failing && !(p->cause == cause)) {
    world_.laws().broken(Law::kCause, where(*p) + ": the first cause \"" + p->cause.line() + "\" became \"" +
                                          cause.line() + "\"");
  }
  if (cause.ok() || cause.why.empty())
    world_.laws().broken(Law::kCause, where(*p) + " fails without saying why");
  const bool bootstrap =
      cause.code == Code::kTimeout && cause.why.find("deadline bootstrap") != std::string::npos;
  if (bootstrap && p->role == Role::kSender && world_.in_tick() && p->shown >= Poll::kWaitingForInput) {
    world_.laws().broken(Law::kTime, where(*p) + " had its last grant and is hit by the bootstrap deadline");
  }
  const auto cut = cause.why.find("deadline ");
  std::string kind = name_of(cause.code);
  const auto end = cause.why.find(')', cut);  // absent: text_bytes cut it off
  if (cause.code == Code::kTimeout && cut != std::string::npos && end != std::string::npos) {
    kind += " " + cause.why.substr(cut + 9, end - cut - 9);
  }
  ++world_.coverage().causes[kind];
  const bool whole = cause.why.size() < world_.scenario().limits.text_bytes;
  if (!whole) ++world_.coverage().limits["text_bytes"];
  if (cause.code == Code::kExhausted && whole) ++world_.coverage().limits[limit_named_in(cause.why)];
}

void Checkers::before_terminal(std::uint32_t node, Handle h) {
  const Participant* p = users_.find(node, h);
  if (p == nullptr || p->terminal) return world_.laws().broken(Law::kStatus, "a terminal is told twice");
  if (p->shown != Poll::kFailed && p->shown != Poll::kSuccess) {
    world_.laws().broken(Law::kStatus, where(*p) + " is terminal while it shows " + name_of(p->shown));
  }
}

void Checkers::receiver_success(const Participant& p) {
  if (!p.granted)
    return world_.laws().broken(Law::kWrongContent, where(p) + " is Success and was never granted a page");
  const std::uint64_t whole = users_.content_complete(p);
  const std::uint64_t need = mask_of(world_.node(p.node).place.layers) | kAuxBit;
  if ((whole & need) != need) {
    world_.laws().broken(
        Law::kWrongContent,
        where(p) + " is Success; layers that are right: " + std::to_string(whole & ~kAuxBit) + " of " +
            std::to_string(need & ~kAuxBit) + ((whole & kAuxBit) != 0 ? "" : ", auxiliary data are wrong"));
  }
}

// A sender's Success: every decode rank holds, or held until it freed them, the layers that this sender has.
void Checkers::sender_success(const Participant& p) {
  const UserRequest& r = users_.requests()[p.request];
  const NodePlace& mine = world_.node(p.node).place;
  for (const std::uint32_t node : r.receivers) {
    std::uint64_t need = mask_of(mine.layers) & mask_of(world_.node(node).place.layers);
    if (mine.holds_aux) need |= kAuxBit;
    bool good = false;
    for (const Participant& other : users_.participants()) {
      const UserRequest& theirs = users_.requests()[other.request];
      if (other.node != node || theirs.room != r.room || theirs.prompt != r.prompt || !other.granted)
        continue;
      const bool live = !other.terminal && !other.dead;
      const std::uint64_t whole = other.complete | (live ? users_.content_complete(other) : 0);
      good = good || (whole & need) == need;
    }
    if (!good) {
      return world_.laws().broken(Law::kWrongContent, where(p) + " is Success, but " +
                                                          name_of_node(world_.scenario().shape, node) +
                                                          " never had all of it");
    }
  }
}

void Checkers::books(std::uint32_t node) {
  SimNode& n = world_.node(node);
  if (!n.up) return;
  const Counters c = n.engine->counters();
  const Limits& l = world_.scenario().limits;
  const auto limit = [&](const char* name, std::uint64_t value, std::uint64_t most) {
    if (value > most) {
      world_.laws().broken(Law::kLimits, name_of_node(world_.scenario().shape, node) + ": " + name + " is " +
                                             std::to_string(value) + ", the limit is " +
                                             std::to_string(most));
    }
    if (value == most) ++world_.coverage().limits[name];
  };
  limit("rooms", c.rooms_live, l.rooms);
  limit("peers", c.peers, l.peers);
  limit("ops_in_flight", c.ops_in_flight, l.ops_in_flight);
  std::vector<std::uint32_t> by_peer(world_.mover().lives(), 0);
  for (const SimOp& op : world_.mover().ops()) {
    if (op.used && op.poster == n.life) ++by_peer[op.poster == op.source ? op.target : op.source];
  }
  if (std::find(by_peer.begin(), by_peer.end(), l.ops_in_flight_per_peer) != by_peer.end()) {
    ++world_.coverage().limits["ops_in_flight_per_peer"];
  }
  // The counters add up over lives; a rank knows each other rank at most twice at a time (one life going, one
  // coming).
  const std::uint64_t peers = 2 * world_.nodes().size();
  limit("parked_grants_per_peer", c.parked, static_cast<std::uint64_t>(l.parked_grants_per_peer) * peers);
  limit("debts_per_peer", c.debts, static_cast<std::uint64_t>(l.debts_per_peer) * peers);
  const std::uint64_t lent = c.pages_lent - c.pages_returned;
  const std::uint64_t known = users_.lent_items(node);
  if (lent > known) {
    world_.laws().broken(Law::kLedger, name_of_node(world_.scenario().shape, node) + ": the engine holds " +
                                           std::to_string(lent) + " items as lent, the user gave " +
                                           std::to_string(known));
  }
  if (c.pages_quarantined > lent) {
    world_.laws().broken(Law::kLedger, "more pages are quarantined than lent");
  }
}

void Checkers::at_rest() {
  for (const SimNode& n : world_.nodes()) {
    if (!n.up) continue;
    const Counters c = n.engine->counters();
    const auto zero = [&](const char* name, std::uint64_t value) {
      if (value == 0) return;
      world_.laws().broken(Law::kLedger, name_of_node(world_.scenario().shape, n.index) +
                                             ": every room is closed and " + name + " is " +
                                             std::to_string(value));
    };
    zero("rooms_live", c.rooms_live);
    zero("pages_lent - pages_returned", c.pages_lent - c.pages_returned);
    zero("pages_quarantined", c.pages_quarantined);
    zero("ops_in_flight", c.ops_in_flight);
    const std::string wrong = users_.node_ledger(n.index);
    if (!wrong.empty())
      world_.laws().broken(Law::kLedger, name_of_node(world_.scenario().shape, n.index) + ": " + wrong);
  }
}

}  // namespace kvferry::sim
