// Memory in the engine's books: owners of pages, loans, and what is remembered of rooms that ended.
#include <algorithm>

#include "core/state.h"

namespace kvferry::core {

namespace {
// splitmix64: a token that another process cannot guess from the loan's number alone.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

template <class F>
void each_item(const GrantSpec& s, F f) {
  for (const auto& run : s.pages) {
    for (std::uint32_t k = 0; k < run.count; ++k) f(Space::kPages, run.first + k);
  }
  if (s.aux_slot != kNoSlot) f(Space::kAux, s.aux_slot);
  for (const auto slot : s.state_slots) f(Space::kState, slot);
}
}  // namespace

std::uint64_t Engine::State::token_of(LoanId id) const { return mix(cfg.token_seed ^ mix(id.serial)) | 1U; }

LoanId Engine::State::take_loan(LoanRec rec) {
  std::uint32_t slot = 0;
  if (!free_loans.empty()) {
    slot = free_loans.back();
    free_loans.pop_back();
  } else {
    const std::uint32_t most = std::min(cfg.limits.loans, cfg.movers[rec.mover].capabilities.max_loans);
    if (loans.size() >= most) return {};
    slot = static_cast<std::uint32_t>(loans.size());
    loans.emplace_back();
  }
  rec.serial = ++loan_serial;
  loans[slot] = rec;
  return {slot, rec.serial};
}

LoanRec* Engine::State::find_loan(LoanId id) {
  if (id.slot >= loans.size() || id.serial == 0) return nullptr;
  LoanRec& rec = loans[id.slot];
  return rec.serial == id.serial ? &rec : nullptr;
}

void Engine::State::drop_loan(LoanId id) {
  if (find_loan(id) == nullptr) return;
  loans[id.slot] = LoanRec{};
  free_loans.push_back(id.slot);
}

void Engine::State::revoke_loan(LoanId id) {
  LoanRec* rec = find_loan(id);
  if (rec == nullptr || rec->revoking) return;
  rec->revoking = true;
  emit(out::Revoke{rec->mover, id});
  if (mut(Mutant::kReturnBeforeRevoked) && rec->access == Access::kRead && rec->holds) {
    rec->holds = false;
    chunk_done(rec->room, rec->source, true);
  }
}

// Rule 8: one owner record per page; lending a page that is still lent in any way is a typed error naming
// both rooms.
bool Engine::State::lend_pages(Room& r, Cause& cause) {
  std::string why;
  each_item(r.spec, [&](Space s, std::uint32_t index) {
    const auto k = static_cast<std::size_t>(s);
    if (!why.empty() || mut(Mutant::kPageLentTwice)) return;
    if (owner[k][index] != 0) {
      const Room& other = rooms[owner[k][index] - 1];
      why = "item " + std::to_string(index) + " is still lent to room " + std::to_string(other.id.value) +
            (other.failing ? " (failing, not quiet yet)" : "");
    } else if (readers[k][index] != 0) {
      why = "item " + std::to_string(index) + " is lent for reading by " + std::to_string(readers[k][index]) +
            " chunks of this process";
    }
  });
  if (!why.empty()) {
    cause = cause_of(Code::kRefused, Who::kLocal, Next::kAfterFix, r, std::move(why));
    return false;
  }
  each_item(r.spec, [&](Space s, std::uint32_t index) {
    owner[static_cast<std::size_t>(s)][index] = r.handle.slot + 1;
    ++count.pages_lent;
  });
  r.lent = true;
  return true;
}

void Engine::State::return_pages(Room& r) {
  if (!r.lent) return;
  r.lent = false;
  each_item(r.spec, [&](Space s, std::uint32_t index) {
    auto& o = owner[static_cast<std::size_t>(s)][index];
    if (o == r.handle.slot + 1) o = 0;
    ++count.pages_returned;
  });
}

// Loans for reading are counted: two rooms may share a cached prefix.
void Engine::State::hold_source(const ChunkSpec& c, int delta) {
  const auto hold = [&](Space s, std::uint32_t index) {
    auto& list = readers[static_cast<std::size_t>(s)];
    if (index < list.size()) list[index] = static_cast<std::uint16_t>(list[index] + delta);
  };
  for (const auto& run : c.pages) {
    for (std::uint32_t k = 0; k < run.count; ++k) hold(Space::kPages, run.first + k);
  }
  if (c.aux_slot != kNoSlot) hold(Space::kAux, c.aux_slot);
  for (const auto slot : c.state_slots) hold(Space::kState, slot);
}

// Rule 16: a failed sender's room keeps its cause and the legs that never registered.
void Engine::State::bury(Room& r) {
  if (graves.size() >= cfg.limits.recalls) graves.erase(graves.begin());
  Grave g;
  g.cause = r.cause;
  g.until = std::max(now + cfg.deadlines.tombstone, r.created + cfg.deadlines.bootstrap);
  for (const Leg& leg : r.legs) g.registered.push_back(leg.number != 0);
  graves[{r.id.value, r.tag}] = std::move(g);
  arm_memory();
}

void Engine::State::add_recall(RoomId room, Recall c) {
  if (recalls.size() >= cfg.limits.recalls && !recalls.contains(room.value)) recalls.erase(recalls.begin());
  auto& list = recalls[room.value];
  std::erase_if(list, [&](const Recall& o) { return o.peer == c.peer && o.leg == c.leg && o.tag == c.tag; });
  if (list.size() < cfg.limits.legs_per_room) list.push_back(std::move(c));
  arm_memory();
}

std::vector<Recall> Engine::State::take_recalls(RoomId room, const Tag& tag) {
  std::vector<Recall> taken;
  const auto it = recalls.find(room.value);
  if (it == recalls.end()) return taken;
  for (const Recall& c : it->second) {
    if (c.tag == tag) taken.push_back(c);
  }
  std::erase_if(it->second, [&](const Recall& c) { return c.tag == tag; });
  if (it->second.empty()) recalls.erase(it);
  return taken;
}

void Engine::State::forget_old() {
  std::erase_if(graves, [&](const auto& g) { return g.second.until <= now; });
  for (auto& [room, list] : recalls) {
    std::erase_if(list, [&](const Recall& c) { return c.until <= now; });
  }
  std::erase_if(recalls, [](const auto& c) { return c.second.empty(); });
}

// Rule 7: re-key is a background step; live loans end first, Lost ones do not count.
void Engine::State::maybe_rekey() {
  if (!rekey_wanted || rekeying) return;
  bool lost = false;
  for (const Room& r : rooms) {
    if (!r.used || r.role != Role::kReceiver) continue;
    for (const Leg& leg : r.legs) {
      lost = lost || leg.state == LegState::kLost;
      if (leg.state == LegState::kGranted || leg.state == LegState::kActive ||
          leg.state == LegState::kRevoking)
        return;
    }
  }
  if (!lost) {
    rekey_wanted = false;
    return;
  }
  rekeying = true;
  emit(out::RekeyRegions{region_generation + 1});
}

}  // namespace kvferry::core
