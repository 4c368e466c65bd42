// Random messages within FrameLimits, as rapidcheck generators. Header only; for tests/property.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "wire/message.h"

namespace kvferry::gen {

template <class T>
T any() {
  return *rc::gen::arbitrary<T>();
}

// Uniform in [first, end), whatever the size of the test case.
template <class T>
T between(T first, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(first, end));
}

// Small, zero and all-ones values are as likely as any.
template <class T>
T number() {
  return *rc::gen::oneOf(rc::gen::arbitrary<T>(), rc::gen::just(T{0}), rc::gen::just(static_cast<T>(~T{0})));
}

template <class Enum>
Enum pick(Enum first, Enum last) {
  return static_cast<Enum>(between(static_cast<int>(first), static_cast<int>(last) + 1));
}

// Any bytes, the zero byte included.
inline std::string text() { return *rc::gen::resize(40, rc::gen::arbitrary<std::string>()); }

template <class Make>
auto list(std::size_t most, Make make) {
  std::vector<decltype(make())> out;
  const std::size_t size = between<std::size_t>(0, most + 1);
  for (std::size_t i = 0; i < size; ++i) {
    out.push_back(make());
  }
  return out;
}

inline std::vector<std::byte> bytes() {
  return list(20, [] { return static_cast<std::byte>(any<std::uint8_t>()); });
}
inline std::vector<std::uint32_t> numbers() { return list(6, number<std::uint32_t>); }

inline Incarnation life() { return {number<std::uint64_t>(), number<std::uint64_t>()}; }
inline Tag tag() { return {number<std::uint64_t>(), number<std::uint64_t>(), number<std::uint64_t>()}; }
inline LoanId loan() { return {number<std::uint32_t>(), number<std::uint64_t>()}; }
inline Ticket ticket() { return {loan(), number<std::uint64_t>()}; }

inline PageRuns pages() {
  return list(8, [] {
    const auto first = number<std::uint32_t>();
    const std::uint64_t most = (std::uint64_t{1} << 32) - first;
    return PageRun{
        first, static_cast<std::uint32_t>(std::min<std::uint64_t>(most, between<std::uint64_t>(1, 1000)))};
  });
}

inline wire::Cause cause() {
  return {pick(Code::kOk, Code::kBug),
          pick(kvferry::Who::kLocal, kvferry::Who::kConfig),
          pick(Next::kNever, Next::kRetry),
          any<std::int32_t>(),
          text(),
          text()};
}

inline wire::Manifest manifest() {
  wire::Manifest m;
  m.chunks = list(6, [] { return wire::ChunkEntry{number<std::uint32_t>(), number<std::uint64_t>()}; });
  m.tokens = number<std::uint32_t>();
  m.bytes = number<std::uint64_t>();
  return m;
}

inline Component component() {
  Component c;
  c.kind = pick(ComponentKind::kAttention, ComponentKind::kAux);
  c.space = pick(Space::kPages, Space::kState);
  c.name = text();
  c.dtype = text();
  c.item_bytes = number<std::uint32_t>();
  c.items = number<std::uint32_t>();
  c.layers = list(5, [] {
    return LayerPlace{number<std::uint32_t>(), RegionId{number<std::uint32_t>()}, number<std::uint64_t>(),
                      number<std::uint64_t>()};
  });
  return c;
}

inline Layout layout() {
  Layout l;
  l.page_tokens = number<std::uint32_t>();
  l.components = list(4, component);
  for (std::uint32_t* axis :
       {&l.tp_rank, &l.tp_size, &l.pp_rank, &l.pp_size, &l.dp_rank, &l.dp_size, &l.cp_rank, &l.cp_size}) {
    *axis = number<std::uint32_t>();
  }
  return l;
}

inline wire::MoverOffer mover() {
  wire::MoverOffer m;
  m.name = text();
  m.memory = number<std::uint8_t>();
  m.access = pick(Access::kRead, Access::kWrite);
  m.visible = pick(Visible::kLocalDone, Visible::kReceiverPlaced);
  m.revoke = pick(RevokeMode::kLenderStops, RevokeMode::kMoverDrains);
  m.fence = pick(FenceMode::kAtOnce, FenceMode::kNone);
  m.same_host_only = any<bool>();
  m.description = bytes();
  return m;
}

inline wire::Hello hello() {  // of our major: of others only a part is read
  wire::Hello h;
  h.minor = number<std::uint16_t>();
  h.session = number<std::uint32_t>();
  h.answers = number<std::uint32_t>();
  h.capabilities = number<std::uint64_t>();
  h.name = text();
  h.endpoint = text();
  h.host_id = text();
  h.pid = number<std::uint64_t>();
  h.rank = number<std::uint32_t>();
  h.ask = any<bool>();
  h.draining = any<bool>();
  h.max_live_grants = number<std::uint32_t>();
  h.grant_window = number<std::uint32_t>();
  h.layout_hash = number<std::uint64_t>();
  h.layout = layout();
  h.movers = list(3, mover);
  return h;
}

inline wire::Grant grant() {
  wire::Grant g;
  g.number = number<std::uint64_t>();
  g.room = RoomId{number<std::uint64_t>()};
  g.tag = tag();
  for (std::uint32_t* field : {&g.leg, &g.legs, &g.receiver_rank, &g.path, &g.region_generation,
                               &g.prefix_tokens, &g.tokens, &g.aux_slot, &g.part, &g.parts}) {
    *field = number<std::uint32_t>();
  }
  for (std::uint64_t* field : {&g.resumes, &g.sealed, &g.floor, &g.trace_id}) {
    *field = number<std::uint64_t>();
  }
  g.access = pick(Access::kRead, Access::kWrite);
  g.ticket = ticket();
  g.pages = pages();
  g.state_slots = numbers();
  g.priority = number<std::uint8_t>();
  return g;
}

inline wire::Offer offer() {
  wire::Offer o;
  o.grant = number<std::uint64_t>();
  o.chunk = number<std::uint32_t>();
  o.ticket = ticket();
  o.first_token = number<std::uint32_t>();
  o.tokens = number<std::uint32_t>();
  o.bytes = number<std::uint64_t>();
  o.pages = pages();
  o.aux_slot = number<std::uint32_t>();
  o.state_slots = numbers();
  o.last = any<bool>();
  o.manifest = manifest();
  o.digest = number<std::uint64_t>();
  return o;
}

inline std::vector<wire::RenewItem> renewals() {
  return list(6, [] { return wire::RenewItem{RoomId{number<std::uint64_t>()}, number<std::uint64_t>()}; });
}

inline wire::Body body(std::size_t kind) {
  using namespace wire;
  const auto grant_number = number<std::uint64_t>();
  switch (kind) {
    case 0: return hello();
    case 1: return wire::Who{life()};
    case 2: return grant();
    case 3: return Ready{grant_number};
    case 4:
      return Revoke{grant_number, RoomId{number<std::uint64_t>()}, tag(), number<std::uint32_t>(),
                    cause(),      number<std::uint64_t>()};
    case 5: return Revoked{grant_number};
    case 6: return Done{grant_number, manifest()};
    case 7: return Fail{grant_number, any<bool>(), cause()};
    case 8: return offer();
    case 9: return Release{grant_number, number<std::uint32_t>(), loan()};
    case 10:
      return Ack{pick(What::kGrant, What::kRelease), grant_number, number<std::uint32_t>(), any<bool>(),
                 pick(Outcome::kUnknown, Outcome::kFailed)};
    case 11: return Renew{renewals()};
    case 12: return Renewed{renewals()};
    case 13: return Computing{grant_number, number<std::uint64_t>()};
    case 14: return Ping{number<std::uint64_t>(), any<bool>(), grant_number};
    case 15: return Stall{grant_number, numbers(), cause()};
    case 16: return Regions{number<std::uint32_t>(), bytes()};
    default: return Resend{grant_number, numbers()};
  }
}

inline wire::Message message(std::size_t kind) {
  return {{life(), life(), number<std::uint32_t>()}, body(kind)};
}
inline wire::Message message() { return message(between<std::size_t>(0, wire::kKinds)); }

}  // namespace kvferry::gen
