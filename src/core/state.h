// Engine::State: all the state, and the private verbs. One file per concern: rooms.cc (join, fail, close),
// sender.cc (grants), posting.cc (bytes), receiver.cc, pulling.cc, peers.cc (HELLO, links, death, fence),
// telling.cc (ends before a GRANT), debts.cc (outbox), deadlines.cc (timers), memory.cc (pages, loans,
// graves), canonical.cc (fingerprint). A copyable value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "core/records.h"

namespace kvferry::core {

struct RoomKeyHash {
  std::size_t operator()(const std::pair<std::uint64_t, std::uint8_t>& k) const {
    return std::hash<std::uint64_t>{}(k.first * 2 + k.second);
  }
};

// What one chunk is for one leg.
struct Pieces {
  std::array<std::vector<RunPair>, kSpaces> runs;   // push: our items to theirs
  std::array<PageRuns, kSpaces> items;              // our items
  std::uint32_t tokens = 0;
  std::uint64_t bytes = 0;
};

// A named wait of one subject. `at` is in plain time.
struct Due {
  const char* name;
  TimePoint at;
  std::uint32_t sub = 0;
};

struct Engine::State {
  explicit State(const EngineConfig& config);

  EngineConfig cfg;
  TimePoint now;                 // of the current step
  Duration paused{0};            // time that accusing deadlines do not count (rule 20)
  Outputs* out = nullptr;        // of the current step; null between steps
  bool stopping = false;
  std::uint64_t hash = 0;        // layout_hash(cfg.layout)

  std::vector<Room> rooms;       // by Handle::slot
  std::unordered_map<std::pair<std::uint64_t, std::uint8_t>, Handle, RoomKeyHash> by_id;  // (RoomId, Role)
  std::map<std::uint32_t, Peer> peers;   // by PeerId
  std::map<std::uint32_t, Link> links;
  std::vector<Endpoint> endpoints;
  std::map<std::uint64_t, Op> ops;
  std::vector<LoanRec> loans;
  std::vector<std::uint32_t> free_loans;
  std::uint64_t loan_serial = 0, op_serial = 0;
  std::uint32_t next_peer = 1;
  GrantNumber next_grant_base = 1;     // above every number of a forgotten peer, who may remember us
  std::uint32_t path_base = 0;         // the same for path generations
  std::array<std::vector<std::uint32_t>, kSpaces> owner;    // room slot + 1 that is lent for writing
  std::array<std::vector<std::uint16_t>, kSpaces> readers;  // loans for reading
  std::map<std::uint64_t, std::vector<std::pair<PeerId, GrantNumber>>> parked;  // by RoomId
  std::map<std::pair<std::uint64_t, Tag>, Grave> graves;    // by RoomId and tag
  std::map<std::uint64_t, std::vector<Recall>> recalls;     // by RoomId
  std::vector<PeerId> blocked_peers;   // wait for the manager-wide window of operations
  std::vector<std::pair<EventId, Handle>> event_waits;
  bool rekey_wanted = false, rekeying = false;
  std::uint32_t region_generation = 0;
  std::vector<PeerId> sweep;           // peers to look at when the step ends
  TimerHeap heap;
  TimerSlot memory_timer;
  Counters count;

  // engine.cc
  void handle(const Input&);
  void on(const in::Open&);
  void on(const in::GrantPages&);
  void on(const in::Push&);
  void on(const in::Abort&);
  void on(const in::Renew&);
  void on(const in::Close&);
  void on(const in::EventFired&);
  void on(const in::Rekey&);
  void on(const in::Stop&);
  void on(const in::Endpoint&);
  void on(const in::LinkUp&);
  void on(const in::LinkDown&);
  void on(const in::DialFailed&);
  void on(const in::Received&);
  void on(const in::BadFrame&);
  void on(const in::Completed&);
  void on(const in::Quiesced&);
  void on(const in::Arrived&);
  void on(const in::Revoked&);
  void on(const in::PeerFenced&);
  void on(const in::PeerReady&);
  void on(const in::MoverPeerLost&);
  void on(const in::RegionsRekeyed&);
  void on(const in::PeerDead&);
  void on(const in::Tick&);
  bool mut([[maybe_unused]] Mutant m) const {
#ifdef KVFERRY_MUTANTS
    return cfg.mutant == m;
#else
    return false;
#endif
  }
  template <class T>
  void emit(T output) {
    out->emplace_back(std::move(output));
  }
  void trace(const char* what, RoomId room = {}, std::uint64_t grant = 0, std::uint64_t a = 0,
             std::uint64_t b = 0);
  TimePoint acc() const { return now - paused; }   // accusing time

  // rooms.cc
  Room* find(Handle);
  const Room* find(Handle) const;
  Room* find_live(RoomId, Role);                   // registered, not failing, not terminal
  Room& make_room(const in::Open&);
  void fail_room(Room&, Cause, const Leg* told_by = nullptr);
  void cut_leg(Room&, Leg&, bool inform);
  void leg_event(Room&, Leg&, LegEvent);
  void join(Room&);
  Poll wanted(const Room&) const;
  void publish(Room&, Poll);
  void finish(Room&, Poll);
  void free_room(Room&);
  std::string describe(const Room&) const;
  std::string describe(const Room&, const Leg&) const;
  Cause cause_of(Code, Who, Next, const Room&, std::string why, const Leg* leg = nullptr) const;
  const Capabilities& mover_of(const Peer&) const;
  void refused(Room&, Leg&, std::uint32_t chunk, bool recalled, Cause);

  // sender.cc
  void open_sender(Room&);
  void on_grant(Peer&, const wire::Grant&);
  void take_grant(Peer&, GrantIn&);
  bool answer_repeated(Peer&, const wire::Grant&);
  bool answer_from_grave(Peer&, GrantIn&);
  bool meet_bound(Peer&, Room&, GrantIn&);         // another grant of that peer holds the leg already
  bool was_sealed(Peer&, GrantNumber bound, GrantIn&);
  bool check_grant(Peer&, Room&, const wire::Grant&, Cause&);
  void bind(Peer&, Room&, GrantIn&);
  void park(Peer&, GrantIn&);
  void unpark(Peer&, GrantIn&);
  void refuse_grant(Peer&, GrantNumber, Cause);    // FAIL(drained)
  void on_revoke(Peer&, const wire::Revoke&);
  void revoke_unbound(Peer&, const wire::Revoke&, bool known);
  bool told_by_revoke(RoomId, const Tag&, std::uint32_t leg);
  void advance(Peer&, GrantIn&);                   // posts or offers what is pushed
  bool post_chunk(Peer&, Room&, GrantIn&);
  bool window_open(Peer&);
  bool chunk_pieces(Peer&, Room&, GrantIn&, Chunk&, bool last, Pieces&);
  bool last_pieces(Peer&, Room&, GrantIn&, Chunk&, Pieces&);
  void post_write(Peer&, const Room&, GrantIn&, Chunk&, Pieces&);
  bool offer_chunk(Peer&, Room&, GrantIn&, Pieces&, bool last);
  void maybe_done(Peer&, Room&, GrantIn&);
  void settle_grant(Peer&, GrantNumber);           // outstanding changed
  void chunk_done(Handle, std::uint32_t source, bool held);
  void return_chunks(Room&);
  void on_release(Peer&, const wire::Release&);
  void on_done_ack(Peer&, const wire::Ack&);
  void on_renew(Peer&, const wire::Renew&);
  void op_ended(OpId, Op&);
  void unblock(Peer&);
  void advance_blocked(Peer&);
  Leg* leg_of(const GrantIn&);
  void advance_all(Room&);

  // receiver.cc
  void open_receiver(Room&, const in::Open&);
  void attach_leg(Room&, Leg&, Peer&);
  bool check_spec(const Room&, const GrantSpec&, Cause&) const;
  void emit_grants(Room&);
  void emit_grant(Peer&, Room&, Leg&);
  void owe_grant(Peer&, Room&, const Leg&);
  bool lend_pages(Room&, Cause&);
  void return_pages(Room&);
  void on_ready(Peer&, const wire::Ready&);
  void on_done(Peer&, const wire::Done&);
  void on_fail(Peer&, const wire::Fail&);
  void on_revoked(Peer&, const wire::Revoked&);
  void on_offer(Peer&, const wire::Offer&);
  bool check_offer(const Room&, const Leg&, const Peer&, const wire::Offer&, Cause&) const;
  void post_read(Peer&, Room&, Leg&, const wire::Offer&);
  void read_ended(OpId, Op&);
  void read_done(OpId, Op&);
  void take_early_offers(Peer&);
  void on_computing(Peer&, const wire::Computing&);
  void on_grant_stale(Peer&, const wire::Ack&);
  void proven(Room&, Leg&, std::uint32_t chunk, std::uint64_t bytes);
  void try_seal(Room&, Leg&);
  bool manifest_fits(Room&, Leg&);
  void maybe_quiet(Room&, Leg&);
  void close_out(Peer&, Leg&);
  void forget_waiter(Room&);
  std::uint64_t expected_bytes(const Room&, const Peer&) const;
  GrantNumber floor_of(const Peer&) const;
  bool window_full(const Peer&) const;
  Room* room_of(Peer&, GrantNumber, Leg*& leg);

  // peers.cc
  Peer* find_peer(PeerId);
  const Peer* find_peer(PeerId) const;
  Peer* peer_of_life(const Incarnation&);
  bool agreed(const Peer& p) const { return p.answered && !p.refused && p.life == Peer::Life::kLive; }
  void dial(Endpoint&, std::uint32_t index);
  void say_hello(LinkId, Peer*, bool ask);
  void on_hello(LinkId, const wire::Header&, const wire::Hello&);
  Peer* welcome(LinkId, const wire::Header&, const wire::Hello&);
  void agree(Peer&, const wire::Hello&);
  void choose_mover(Peer&, const wire::Hello&);
  void now_agreed(Peer&);
  void on_who(LinkId, const wire::Header&, const wire::Who&);
  void answer_who(LinkId, const wire::Header&);
  void on_ping(Peer&, const wire::Ping&);
  void send(Peer&, wire::Body);
  void peer_down(Peer&, const Error&);
  void peer_dead(Peer&, const std::string& evidence, bool ended);
  void revive(Peer&);
  void fail_rooms_of(Peer&, const Cause&);
  void fence_peer(Peer&);
  void fenced(Peer&);
  void refuse_from(Peer&, const char* what);
  void new_path(Peer&);
  void tell_later(const Room&, const Leg&, const Cause&);
  void tell_now(Peer&, Endpoint&);
  void back_off(Endpoint&) const;
  void tell(Peer&, Peer::Tell);
  void say_over(Peer&, Peer::Tell);
  void window_moved(Peer&);
  void drop_if_gone(PeerId);
  Cause lost_cause(const Peer&, const std::string& evidence) const;

  // debts.cc
  void owe(Peer&, DebtKey, wire::Body);
  void pay(Peer&, std::uint8_t kind, GrantNumber, std::uint32_t sub);
  void pay_all(Peer&, std::uint8_t kind, GrantNumber);
  void resend(Peer&, bool all);
  void ack(Peer&, wire::What, GrantNumber, std::uint32_t chunk = 0, bool stale = false,
           wire::Outcome = wire::Outcome::kUnknown);

  // memory.cc
  LoanId take_loan(LoanRec);
  void drop_loan(LoanId);
  LoanRec* find_loan(LoanId);
  std::uint64_t token_of(LoanId) const;
  void revoke_loan(LoanId);
  void hold_source(const ChunkSpec&, int delta);
  void bury(Room&);
  void add_recall(RoomId, Recall);
  std::vector<Recall> take_recalls(RoomId, const Tag&);
  void forget_old();
  void maybe_rekey();

  // deadlines.cc
  void arm(Room&);
  void arm(Peer&);
  void arm_endpoint(std::uint32_t index);
  void arm_memory();
  void dues(const Room&, std::vector<Due>&) const;
  void dues(const Peer&, std::vector<Due>&) const;
  void dues(const Endpoint&, std::vector<Due>&) const;
  void room_due(Room&, const Due&);
  void leg_due(Room&, std::uint32_t leg);
  void peer_due(Peer&, const Due&);
  void endpoint_due(std::uint32_t index, const Due&);
  void tick();
  void compact_timers();
  void fire_subject(const TimerEntry&);
  std::string who_is_missing(const Room&) const;

  // canonical.cc
  void canonical(std::string& bytes) const;

 private:
  std::vector<Due> scratch_;
};

template <class M>
std::uint8_t kind_of() {
  static const auto kIndex = static_cast<std::uint8_t>(wire::Body(M{}).index());
  return kIndex;
}

}  // namespace kvferry::core
