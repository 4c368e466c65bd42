// The users of the exhaustive search: programs of rooms, step by step, and the laws about what they are told.
#include <algorithm>

#include "sim/explore_step.h"

namespace kvferry::sim {
namespace {
using Kind = ExploreMove::Kind;

Handle handle_of(std::uint32_t user) { return Handle{user, 1}; }
EventId event_of(std::uint32_t user) { return EventId{user + 1ULL}; }
}  // namespace

std::string ExploreStep::where(std::uint32_t node, std::uint32_t user) const {
  const ExploreRoom& r = m_.room_of(node, user);
  return "room " + std::to_string(r.room) + "/" + std::to_string(r.attempt) + " of " +
         name_of_node(m_.shape_.cluster, node);
}

ExploreUser* ExploreStep::user_of(std::uint32_t node, Handle h) {
  auto& users = s_.nodes[node].users;
  return h.slot < users.size() && !users[h.slot].gone ? &users[h.slot] : nullptr;
}

void ExploreStep::user_move(const ExploreMove& m) {
  switch (m.kind) {
    case Kind::kOpen: return open(m.a, m.b);
    case Kind::kGrant: return grant(m.a, m.b);
    case Kind::kPush: return push(m.a, m.b);
    case Kind::kFired: return fired(m.a, m.b);
    case Kind::kAbort: {
      ++s_.aborts;
      const Error cause{Code::kAborted,
                        Who::kLocal,
                        Next::kNewRoom,
                        0,
                        "",
                        "client went away from " + name_of_node(m_.shape_.cluster, m.a)};
      return feed(m.a, core::in::Abort{handle_of(m.b), cause});
    }
    case Kind::kClose: return feed(m.a, core::in::Close{handle_of(m.b)});
    default: return;
  }
}

void ExploreStep::open(std::uint32_t node, std::uint32_t user) {
  const ExploreRoom& r = m_.room_of(node, user);
  s_.nodes[node].users[user].opened = true;
  core::in::Open in;
  in.handle = handle_of(user);
  in.room = RoomId{r.room};
  in.role = m_.places_[node].role;
  if (r.tagged) in.tag = Tag{r.attempt, 16ULL * r.pages.size(), ExploreModel::prompt_of(r)};
  if (in.role == Role::kReceiver) {
    const ClusterShape& c = m_.shape_.cluster;
    for (std::uint32_t e = 0; e < c.senders(); ++e) in.senders.push_back(EndpointId{e});
    in.leg = node - c.senders();
    in.legs = c.receivers();
  }
  feed(node, in);
}

void ExploreStep::grant(std::uint32_t node, std::uint32_t user) {
  const ExploreRoom& r = m_.room_of(node, user);
  ExploreNode& n = s_.nodes[node];
  n.users[user].granted = true;
  core::in::GrantPages in;
  in.handle = handle_of(user);
  in.spec.tokens = static_cast<std::uint32_t>(16 * r.pages.size());
  for (const std::uint32_t page : r.pages) in.spec.pages.push_back({page, 1});
  if (r.event) in.spec.event = event_of(user);
  bool stolen = false;
  Memory& memory = mover().memory(n.life);
  for (const std::uint32_t page : r.pages) {
    stolen = stolen || memory.lending(Space::kPages, page) != 0;
    if (!r.event && !stolen) memory.lend(Space::kPages, page, user + 1);
  }
  feed(node, in);
  if (stolen && !s_.nodes[node].users[user].failing) {
    laws_.broken(Law::kLedger, where(node, user) + ": a page that is still lent is taken for another room");
  }
}

void ExploreStep::push(std::uint32_t node, std::uint32_t user) {
  const ExploreRoom& r = m_.room_of(node, user);
  ExploreUser& u = s_.nodes[node].users[user];
  const std::uint32_t chunk = u.pushed++;
  core::in::Push in;
  in.handle = handle_of(user);
  in.chunk.tokens = r.pages.empty() ? 0 : 16;
  in.chunk.last = u.pushed >= r.pages.size();
  if (!r.pages.empty()) {
    in.chunk.pages.push_back({r.pages[chunk], 1});
    mover().memory(s_.nodes[node].life).hold(Space::kPages, r.pages[chunk]);
  }
  const bool waits = r.event && chunk == 0;
  if (waits) in.chunk.event = event_of(user);
  if (!waits) write(node, user, chunk);
  feed(node, in);
}

void ExploreStep::write(std::uint32_t node, std::uint32_t user, std::uint32_t chunk) {
  const ExploreRoom& r = m_.room_of(node, user);
  if (r.pages.empty()) return;
  Memory& memory = mover().memory(s_.nodes[node].life);
  const std::uint32_t writer = (s_.nodes[node].life + 1) * 64 + user + 1;
  for (std::uint32_t slot = 0; slot < m_.places_[node].layers.size(); ++slot) {
    memory.cell(Space::kPages, slot, r.pages[chunk]) = {
        content_of(ExploreModel::prompt_of(r), Space::kPages, m_.places_[node].layers[slot], chunk), writer};
  }
}

void ExploreStep::fired(std::uint32_t node, std::uint32_t user) {
  const ExploreRoom& r = m_.room_of(node, user);
  ExploreNode& n = s_.nodes[node];
  n.users[user].fired = true;
  if (m_.places_[node].role == Role::kReceiver) {
    for (const std::uint32_t page : r.pages) mover().memory(n.life).lend(Space::kPages, page, user + 1);
  } else if ((n.users[user].returned & 1U) == 0) {
    write(node, user, 0);
  }
  feed(node, core::in::EventFired{event_of(user), true});
}

void ExploreStep::returned(std::uint32_t node, Handle h, std::uint32_t chunk) {
  ExploreUser* u = user_of(node, h);
  if (u == nullptr) return;
  const std::uint32_t bit = 1U << chunk;
  if ((u->returned & bit) != 0 || chunk >= u->pushed) {
    return laws_.broken(Law::kLedger,
                        where(node, h.slot) + ": a chunk is returned twice or was never pushed");
  }
  u->returned = static_cast<std::uint8_t>(u->returned | bit);
  const ExploreRoom& r = m_.room_of(node, h.slot);
  if (r.pages.empty()) return;
  const bool drained =
      s_.timeouts == 0;  // else the drain deadline may have returned it: decode can no longer seal that leg
  if (drained && mover().may_read(s_.nodes[node].life, Space::kPages, r.pages[chunk])) {
    laws_.broken(Law::kLedger,
                 where(node, h.slot) + ": a source chunk is returned while an operation may still read it");
  }
  Memory& memory = mover().memory(s_.nodes[node].life);
  memory.release(Space::kPages, r.pages[chunk]);
  if (memory.held(Space::kPages, r.pages[chunk]) == 0) memory.poison(Space::kPages, r.pages[chunk]);
}

void ExploreStep::take_back(std::uint32_t node, std::uint32_t user) {
  const ExploreRoom& r = m_.room_of(node, user);
  Memory& memory = mover().memory(s_.nodes[node].life);
  for (const std::uint32_t page : r.pages) {
    if (memory.lending(Space::kPages, page) != user + 1) continue;
    memory.lend(Space::kPages, page, 0);
    memory.poison(Space::kPages, page);
  }
}

void ExploreStep::publish(std::uint32_t node, Handle h, Poll poll) {
  ExploreUser* u = user_of(node, h);
  if (u == nullptr) return laws_.broken(Law::kStatus, "a status of a handle that nobody has");
  const bool ended = u->terminal || u->shown == Poll::kFailed || u->shown == Poll::kSuccess;
  if (ended || (poll != Poll::kFailed && poll < u->shown)) {
    laws_.broken(Law::kStatus,
                 where(node, h.slot) + " goes from " + name_of(u->shown) + " to " + name_of(poll));
  }
  if (poll == Poll::kFailed && !u->failing)
    laws_.broken(Law::kStatus, where(node, h.slot) + " is Failed without a cause");
  if (poll == Poll::kSuccess && u->failing)
    laws_.broken(Law::kStatus, where(node, h.slot) + " was failing and is Success");
  u->shown = poll;
  if (poll != Poll::kSuccess && poll != Poll::kFailed) return;
  const bool receiver = m_.places_[node].role == Role::kReceiver;
  if (receiver && u->granted) {
    u->complete = m_.complete_parts(mover(), node, s_.nodes[node].life, h.slot);
  }
  if (poll == Poll::kSuccess) {
    if (receiver) {
      receiver_success(node, h.slot);
    } else {
      sender_success(node, h.slot);
    }
  }
  if (receiver) return take_back(node, h.slot);
  for (std::uint32_t k = 0; k < u->pushed; ++k) {
    if ((u->returned & (1U << k)) == 0)
      laws_.broken(Law::kLedger, where(node, h.slot) + " ended and keeps a source chunk");
  }
}

void ExploreStep::receiver_success(std::uint32_t node, std::uint32_t user) {
  const ExploreUser& u = s_.nodes[node].users[user];
  if (!u.granted || u.complete + 1U != 1U << m_.shape_.cluster.senders()) {
    laws_.broken(Law::kWrongContent,
                 where(node, user) + " is Success and its pages do not hold what was sent");
  }
  // A room without pages is only Success when its senders have said their last chunk.
  const ClusterShape& c = m_.shape_.cluster;
  for (std::uint32_t s = 0; s < c.senders(); ++s) {
    bool said = false;
    for (std::uint32_t k = 0; k < s_.nodes[s].users.size(); ++k) {
      const ExploreRoom& theirs = m_.room_of(s, k);
      const bool same = theirs.room == m_.room_of(node, user).room &&
                        ExploreModel::prompt_of(theirs) == ExploreModel::prompt_of(m_.room_of(node, user));
      said = said || (same && s_.nodes[s].users[k].pushed >= std::max<std::size_t>(1, theirs.pages.size()));
    }
    if (!said)
      laws_.broken(Law::kWrongContent,
                   where(node, user) + " is Success before " + name_of_node(c, s) + " said its last chunk");
  }
}

void ExploreStep::sender_success(std::uint32_t node, std::uint32_t user) {
  const ExploreRoom& mine = m_.room_of(node, user);
  const ClusterShape& c = m_.shape_.cluster;
  for (std::uint32_t r = c.senders(); r < c.nodes(); ++r) {
    bool good = false;
    for (std::uint32_t k = 0; k < s_.nodes[r].users.size(); ++k) {
      const ExploreRoom& theirs = m_.room_of(r, k);
      const ExploreUser& u = s_.nodes[r].users[k];
      if (theirs.room != mine.room || ExploreModel::prompt_of(theirs) != ExploreModel::prompt_of(mine) ||
          !u.granted)
        continue;
      const bool live = !u.terminal && !u.gone;
      good = good || (u.complete & (1U << node)) != 0 ||
             (live && m_.content_complete(mover(), r, s_.nodes[r].life, k, m_.places_[node].layers));
    }
    if (!good)
      laws_.broken(Law::kWrongContent,
                   where(node, user) + " is Success, but " + name_of_node(c, r) + " never had all of it");
  }
}

void ExploreStep::failing(std::uint32_t node, Handle h, const Error& cause) {
  ExploreUser* u = user_of(node, h);
  if (u == nullptr) return;
  const std::uint32_t number = m_.cause_number(cause);
  if (u->failing && u->cause != number)
    laws_.broken(Law::kCause, where(node, h.slot) + ": its first cause was replaced");
  u->failing = true;
  u->cause = number;
  if (cause.ok() || cause.why.empty())
    laws_.broken(Law::kCause, where(node, h.slot) + " fails without saying why");
  if (m_.clean(s_) && m_.shape_.succeeds && !m_.room_of(node, h.slot).steals) {
    laws_.broken(Law::kLiveness, where(node, h.slot) + " fails although nothing went wrong: " + cause.line());
  }
  const bool one =
      m_.shape_.one_cause && s_.aborts == 1 && s_.crashes + s_.failures + s_.cuts + s_.timeouts == 0;
  if (one && cause.why.find("client went away") == std::string::npos) {
    laws_.broken(Law::kCause,
                 where(node, h.slot) + " does not name the abort that was the only fault: " + cause.line());
  }
}

void ExploreStep::terminal(std::uint32_t node, Handle h) {
  ExploreUser* u = user_of(node, h);
  if (u == nullptr || u->terminal) return laws_.broken(Law::kStatus, "a terminal is told twice");
  if (u->shown != Poll::kFailed && u->shown != Poll::kSuccess) {
    laws_.broken(Law::kStatus, where(node, h.slot) + " is terminal while it shows " + name_of(u->shown));
  }
  u->terminal = true;
}

}  // namespace kvferry::sim
