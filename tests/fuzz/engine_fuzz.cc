// The engine under a hostile peer and an unlucky world. Messages carry whatever numbers the bytes say, in any
// order, on any link, of any life; movers answer late, in any order or not at all; commands are those that
// the edge lets through. Invariants: no step breaks a check of the core, a room's terminal is told once and
// does not change, every page that was lent is either returned or still owned by a room, and tables keep
// their bounds.
#include <fuzzer/FuzzedDataProvider.h>

#include <deque>
#include <map>

#include "base/check.h"
#include "unit/engine_pair.h"
#include "wire/codec.h"

namespace kvferry::core {
namespace {

using Data = FuzzedDataProvider;
constexpr std::uint32_t kPages = 16, kSlots = 6, kMostLinks = 6;

class World {
 public:
  World(Data& data, test::Kind kind) : data_(data) {
    EngineConfig config;
    config.self = kSelf;
    config.name = "self";
    config.endpoint = "self:1";
    config.layout = test::small_layout(kPages);
    config.movers = {test::mover(kind)};
    config.limits.rooms = kSlots;
    config.limits.peers = 3;
    config.limits.recalls = 8;
    config.limits.grant_window = 64;
    config.limits.parked_grants_per_peer = 4;
    config.limits.debts_per_peer = 16;
    config.limits.ops_in_flight = 4;
    config.limits.ops_in_flight_per_peer = 2;
    engine_ = std::make_unique<Engine>(config);
    feed(in::Endpoint{EndpointId{0}, "peer:1"});
    feed(in::Endpoint{EndpointId{1}, "peer:2"});
  }

  void turn() {
    switch (data_.ConsumeIntegralInRange<int>(0, 15)) {
      case 0: return open();
      case 1: return grant();
      case 2: return push();
      case 3: return end_room();
      case 4: return link_up();
      case 5: return link_down();
      case 6: return feed(in::Received{link(), hello()});
      case 7: return decoded();
      case 8: return operation();
      case 9: return feed(in::Arrived{peer(), LoanId{small(), small()}, small() * 64, {}});
      case 10: return mover_answer();
      case 11: return feed(in::MoverPeerLost{peer(), trouble()});
      case 12: return feed(in::PeerDead{peer(), "its pidfd"});
      case 13: return time();
      case 14: return feed(in::Rekey{});
      default: return feed(in::Received{link(), message()});
    }
  }

 private:
  static constexpr Incarnation kSelf{1000, 7};

  struct Room {
    std::uint32_t generation = 0;
    bool used = false, sender = false, terminal = false, granted = false, pushed = false;
    Poll last = Poll::kBootstrapping;
  };

  std::uint32_t small() { return data_.ConsumeIntegralInRange<std::uint32_t>(0, 12); }
  PeerId peer() { return PeerId{data_.ConsumeIntegralInRange<std::uint32_t>(0, 5)}; }
  LinkId link() { return LinkId{data_.ConsumeIntegralInRange<std::uint32_t>(0, kMostLinks)}; }
  std::uint32_t slot() { return data_.ConsumeIntegralInRange<std::uint32_t>(0, kSlots - 1); }
  Incarnation life() { return {data_.ConsumeIntegralInRange<std::uint64_t>(1, 3), 5}; }
  static Error trouble() { return {Code::kTransport, Who::kTransport, Next::kNewRoom, 5, "fuzz", "trouble"}; }
  Handle handle(std::uint32_t at) { return {at, rooms_[at].generation}; }
  PageRuns pages() {
    PageRuns runs;
    for (std::uint32_t n = data_.ConsumeIntegralInRange<std::uint32_t>(0, 3); n > 0; --n)
      runs.push_back({data_.ConsumeIntegral<std::uint16_t>(), data_.ConsumeIntegral<std::uint16_t>()});
    return runs;
  }

  void open() {
    const std::uint32_t at = slot();
    Room& room = rooms_[at];
    if (room.used) return;
    room = Room{++generation_, true, data_.ConsumeBool(), false, false, false, Poll::kBootstrapping};
    in::Open open;
    open.handle = handle(at);
    open.room = RoomId{small()};
    open.role = room.sender ? Role::kSender : Role::kReceiver;
    if (!room.sender) open.senders = {EndpointId{data_.ConsumeIntegralInRange<std::uint32_t>(0, 1)}};
    if (!room.sender) open.legs = 1 + data_.ConsumeIntegralInRange<std::uint32_t>(0, 1);
    feed(open);
  }
  void grant() {
    const std::uint32_t at = slot();
    Room& room = rooms_[at];
    if (!room.used || room.sender || room.granted) return;
    room.granted = true;
    GrantSpec spec;
    spec.pages = {{data_.ConsumeIntegralInRange<std::uint32_t>(0, kPages - 2), 2}};
    spec.tokens = 8;
    feed(in::GrantPages{handle(at), spec});
  }
  void push() {
    const std::uint32_t at = slot();
    Room& room = rooms_[at];
    if (!room.used || !room.sender || room.pushed) return;
    ChunkSpec chunk;
    chunk.pages = {{data_.ConsumeIntegralInRange<std::uint32_t>(0, kPages - 1), 1}};
    chunk.tokens = 4;
    chunk.last = room.pushed = data_.ConsumeBool();
    feed(in::Push{handle(at), chunk});
  }
  void end_room() {
    const std::uint32_t at = slot();
    if (!rooms_[at].used) return;
    switch (data_.ConsumeIntegralInRange<int>(0, 2)) {
      case 0: return feed(in::Abort{handle(at), trouble()});
      case 1: return feed(in::Renew{handle(at)});
      default: return feed(in::Close{handle(at)});
    }
  }
  void link_up() {
    if (links_ >= kMostLinks) return;
    if (!dials_.empty() && data_.ConsumeBool()) {
      const EndpointId endpoint = dials_.front();
      dials_.pop_front();
      if (data_.ConsumeBool()) return feed(in::DialFailed{endpoint, trouble()});
      return feed(in::LinkUp{LinkId{++links_}, endpoint, true});
    }
    feed(in::LinkUp{LinkId{++links_}, {}, false});
  }
  void link_down() {
    const LinkId which = link();
    if (data_.ConsumeBool()) return feed(in::BadFrame{which});
    feed(in::LinkDown{which, trouble()});
  }
  wire::Message hello() {
    wire::Message m;
    m.header = {life(), data_.ConsumeBool() ? kSelf : Incarnation{}, 1};
    wire::Hello h;
    h.session = 1 + data_.ConsumeIntegralInRange<std::uint32_t>(0, 1);
    h.answers = data_.ConsumeIntegralInRange<std::uint32_t>(0, 1);
    h.ask = data_.ConsumeBool();
    h.name = "peer";
    h.endpoint = data_.ConsumeBool() ? "peer:1" : "peer:2";
    h.max_live_grants = h.grant_window = 64;
    h.layout = test::small_layout(kPages);
    const Capabilities c = test::mover(test::Kind::kPush).capabilities;
    h.movers.push_back({c.name, c.memory, c.access, c.visible, c.revoke, c.fence, c.same_host_only, {}});
    for (const auto kind : {test::Kind::kPull, test::Kind::kLanded}) {
      const Capabilities o = test::mover(kind).capabilities;
      h.movers.push_back({o.name, o.memory, o.access, o.visible, o.revoke, o.fence, o.same_host_only, {}});
    }
    m.body = h;
    return m;
  }
  wire::Grant grant_of(std::uint64_t number, RoomId room) {
    wire::Grant g;
    g.number = number;
    g.room = room;
    g.leg = data_.ConsumeIntegralInRange<std::uint32_t>(0, 3);
    g.legs = data_.ConsumeIntegralInRange<std::uint32_t>(0, 3);
    g.access = data_.ConsumeBool() ? Access::kWrite : Access::kRead;
    g.path = data_.ConsumeIntegralInRange<std::uint32_t>(0, 2);
    g.sealed = small(), g.floor = small(), g.prefix_tokens = small();
    g.tokens = data_.ConsumeIntegral<std::uint16_t>();
    g.pages = pages();
    return g;
  }
  wire::Offer offer_of(std::uint64_t number) {
    wire::Offer o;
    o.grant = number, o.chunk = small(), o.ticket.loan = {small(), small()};
    o.first_token = small() * 4, o.tokens = small() * 4, o.bytes = data_.ConsumeIntegral<std::uint32_t>();
    o.pages = pages(), o.last = data_.ConsumeBool();
    return o;
  }
  wire::Message message() {
    wire::Message m;
    m.header = {life(), data_.ConsumeIntegralInRange<int>(0, 9) == 0 ? Incarnation{1, 1} : kSelf, 1};
    const std::uint64_t number = small();
    const RoomId room{small()};
    switch (data_.ConsumeIntegralInRange<int>(0, 12)) {
      case 0: m.body = grant_of(number, room); break;
      case 1: m.body = wire::Ready{number}; break;
      case 2: {
        wire::Revoke r;
        r.grant = number, r.room = room, r.leg = small(), r.cause = trouble(), r.floor = small();
        m.body = r;
        break;
      }
      case 3: m.body = wire::Revoked{number}; break;
      case 4: {
        wire::Done d;
        d.grant = number;
        m.body = d;
        break;
      }
      case 5: {
        wire::Fail f;
        f.grant = number, f.cause = trouble(), f.drained = data_.ConsumeBool();
        m.body = f;
        break;
      }
      case 6: m.body = offer_of(number); break;
      case 7: {
        wire::Release r;
        r.grant = number, r.chunk = small();
        m.body = r;
        break;
      }
      case 8: {
        wire::Ack a;
        a.what = static_cast<wire::What>(data_.ConsumeIntegralInRange<int>(0, 5));
        a.grant = number, a.chunk = small();
        m.body = a;
        break;
      }
      case 9: m.body = wire::Computing{number, small()}; break;
      case 10: m.body = wire::Ping{small(), data_.ConsumeBool(), small()}; break;
      case 11: m.body = wire::Who{life()}; break;
      default: m.body = wire::Renew{}; break;
    }
    return m;
  }
  void decoded() {
    const auto bytes = data_.ConsumeBytes<std::uint8_t>(data_.ConsumeIntegralInRange<std::size_t>(0, 400));
    auto read = wire::decode(std::as_bytes(std::span(bytes)));
    if (!read) return feed(in::BadFrame{link()});
    if (data_.ConsumeBool()) read->header = {life(), kSelf, 1};
    feed(in::Received{link(), std::move(*read)});
  }
  void operation() {
    if (posts_.empty()) return;
    const auto at = data_.ConsumeIntegralInRange<std::size_t>(0, posts_.size() - 1);
    const OpId op = posts_[at];
    if (!completed_.contains(op.value)) {
      completed_[op.value] = true;
      return feed(in::Completed{op, data_.ConsumeBool() ? Error{} : trouble()});
    }
    posts_.erase(posts_.begin() + static_cast<std::ptrdiff_t>(at));
    completed_.erase(op.value);
    feed(in::Quiesced{op});
  }
  void mover_answer() {
    if (answers_.empty()) return;
    const Input input = std::move(answers_.front());
    answers_.pop_front();
    feed(input);
  }
  void time() {
    now_ += std::chrono::milliseconds(data_.ConsumeIntegral<std::uint16_t>());
    feed(in::Tick{});
  }

  void feed(const Input& input) {
    Outputs outputs;
    engine_->step(input, now_, outputs);
    KVF_CHECK(outputs.size() < 4096, "one input made thousands of outputs");
    for (Output& output : outputs) std::visit([this](auto& what) { act(what); }, output);
    const Counters c = engine_->counters();
    KVF_CHECK(c.peers <= 3, "more peers than limits.peers");
    KVF_CHECK(c.pages_returned <= c.pages_lent, "a page came back twice");
  }

  template <class Other>
  void act(const Other&) {}
  void act(const out::Dial& dial) { dials_.push_back(dial.endpoint); }
  void act(const out::AddPeer& add) {
    answers_.push_back(in::PeerReady{add.peer, data_.ConsumeBool() ? Error{} : trouble()});
  }
  void act(const out::Fence& fence) {
    answers_.push_back(in::PeerFenced{fence.peer, data_.ConsumeBool() ? Error{} : trouble()});
  }
  void act(const out::Revoke& revoke) { answers_.push_back(in::Revoked{revoke.loan}); }
  void act(const out::RekeyRegions& rekey) {
    answers_.push_back(in::RegionsRekeyed{rekey.generation, data_.ConsumeBool() ? Error{} : trouble()});
  }
  void act(const out::Post& post) { posts_.push_back(post.op); }
  void act(const out::Publish& publish) {
    Room& room = rooms_[publish.handle.slot];
    if (!room.used || room.generation != publish.handle.generation) return;
    const bool ended = room.last == Poll::kSuccess || room.last == Poll::kFailed;
    KVF_CHECK(!ended || publish.poll == room.last, "a terminal value changed");
    room.last = publish.poll;
  }
  void act(const out::Terminal& terminal) {
    Room& room = rooms_[terminal.handle.slot];
    KVF_CHECK(room.generation == terminal.handle.generation && !room.terminal, "a terminal was told twice");
    room.terminal = true;
  }
  void act(const out::Closed& closed) {
    Room& room = rooms_[closed.handle.slot];
    KVF_CHECK(room.used && room.generation == closed.handle.generation, "a slot was given back twice");
    room.used = false;
  }

  Data& data_;
  std::unique_ptr<Engine> engine_;
  TimePoint now_{std::chrono::seconds(10)};
  std::array<Room, kSlots> rooms_;
  std::uint32_t generation_ = 0, links_ = 0;
  std::deque<EndpointId> dials_;
  std::deque<Input> answers_;
  std::vector<OpId> posts_;
  std::map<std::uint64_t, bool> completed_;
};

}  // namespace
}  // namespace kvferry::core

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace kvferry::core;
  FuzzedDataProvider data(bytes, size);
  World world(data, static_cast<test::Kind>(data.ConsumeIntegralInRange<int>(0, 2)));
  for (int turns = 0; turns < 512 && data.remaining_bytes() > 0; ++turns) world.turn();
  return 0;
}
