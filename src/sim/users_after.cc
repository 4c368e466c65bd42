// After the faults: a new room of each pair must succeed, every handle is closed, and each page has one
// owner.
#include <algorithm>
#include <numeric>

#include "sim/users.h"
#include "sim/world.h"

namespace kvferry::sim {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t at(Space s) { return static_cast<std::size_t>(s); }

}  // namespace

void Users::probe() {
  const ClusterShape& shape = world_.scenario().shape;
  // One pair after the other: together they might wait for each other's pages, past a short deadline.
  Duration after{0};
  for (std::uint32_t p = 0; p < shape.prefill; ++p) {
    for (std::uint32_t d = 0; d < shape.decode; ++d, after += milliseconds(900)) probe_pair(p, d, after);
  }
}

void Users::probe_pair(std::uint32_t prefill, std::uint32_t decode, Duration after) {
  const ClusterShape& shape = world_.scenario().shape;
  UserRequest r;
  r.room = RoomId{next_room_++};
  r.prompt = next_prompt_++;
  r.tokens = shape.page_tokens + 1;
  r.tag = Tag{1, r.tokens, r.prompt};
  for (std::uint32_t k = 0; k < shape.prefill_ranks; ++k)
    r.senders.push_back(prefill * shape.prefill_ranks + k);
  for (std::uint32_t k = 0; k < shape.decode_ranks; ++k) {
    r.receivers.push_back(shape.senders() + decode * shape.decode_ranks + k);
  }
  const auto index = static_cast<std::uint32_t>(requests_.size());
  requests_.push_back(r);
  for (std::uint32_t k = 0; k < r.senders.size(); ++k)
    add_participant(index, r.senders[k], k, Role::kSender, after);
  for (std::uint32_t k = 0; k < r.receivers.size(); ++k)
    add_participant(index, r.receivers[k], k, Role::kReceiver, after);
  for (std::size_t k = 0; k < r.senders.size() + r.receivers.size(); ++k)
    participants_[participants_.size() - 1 - k].probe = true;
}

std::string Users::failed_probe() const {
  for (const Participant& p : participants_) {
    if (!p.probe || (p.terminal && p.shown == Poll::kSuccess)) continue;
    return "a new room after the faults, " + std::to_string(requests_[p.request].room.value) + " of " +
           name_of_node(world_.scenario().shape, p.node) + ", shows " + name_of(p.shown) +
           (p.failing ? ": " + p.cause.line() : "");
  }
  return "";
}

void Users::close_all() {
  closing_ = true;
  for (std::uint32_t i = 0; i < participants_.size(); ++i) {
    if (living(participants_[i]) && !participants_[i].closed) plan(i, UserStep::kClose, Duration{0});
  }
}

std::string Users::first_open() const {
  for (const Participant& p : participants_) {
    if (!living(p) || p.terminal) continue;
    return "room " + std::to_string(requests_[p.request].room.value) + " of " +
           name_of_node(world_.scenario().shape, p.node) + " shows " + name_of(p.shown) +
           (p.failing ? ", failing: " + p.cause.line() : ", no cause known");
  }
  return "";
}

std::uint32_t Users::lent_items(std::uint32_t node) const { return nodes_[node].lent; }

// Every page is free, or in somebody's hands: granted, kept after Success, pushed, or cached.
std::string Users::node_ledger(std::uint32_t node) const {
  const UserNode& u = nodes_[node];
  const Memory& m = world_.mover().memory(u.life);
  for (std::size_t s = 0; s < kSpaces; ++s) {
    std::vector<std::uint32_t> hands(m.geometry().items[s], 0);
    for (const std::uint32_t i : u.free[s]) ++hands[i];
    for (const Participant& p : participants_) {
      if (!p.opened || p.dead || p.node != node || p.role != Role::kReceiver) continue;
      if (s == at(Space::kPages))
        for (const std::uint32_t i : p.pages) ++hands[i];
      if (s == at(Space::kAux) && p.aux != kNoSlot) ++hands[p.aux];
      if (s == at(Space::kState))
        for (const std::uint32_t i : p.states) ++hands[i];
    }
    for (std::uint32_t i = 0; i < hands.size(); ++i) {
      const bool held = m.held(static_cast<Space>(s), i) > 0;
      if (hands[i] + (held ? 1U : 0U) != 1)
        return "item " + std::to_string(i) + " has " + std::to_string(hands[i]) + " owners";
    }
  }
  return "";
}

}  // namespace kvferry::sim
