#include "wire/reading.h"

#include <algorithm>
#include <utility>

#include "wire/field_count.h"

namespace kvferry::wire {

namespace {

// The published numbers are the public ones.
template <class Wire, class Public>
constexpr bool agree(Wire last, Public public_last) {
  return Wire::MAX == last && static_cast<int>(last) == static_cast<int>(public_last);
}
static_assert(agree(fb::Code::kBug, Code::kBug) && static_cast<int>(Code::kBadMessage) == 8);
static_assert(agree(fb::Blame::kConfig, kvferry::Who::kConfig));
static_assert(agree(fb::Next::kRetry, Next::kRetry));
static_assert(agree(fb::Space::kState, Space::kState));
static_assert(agree(fb::ComponentKind::kAux, ComponentKind::kAux));
static_assert(agree(fb::Access::kWrite, Access::kWrite) && fb::Access::MIN == fb::Access::kRead);
static_assert(agree(fb::Visible::kReceiverPlaced, Visible::kReceiverPlaced));
static_assert(agree(fb::RevokeMode::kMoverDrains, RevokeMode::kMoverDrains));
static_assert(agree(fb::FenceMode::kNone, FenceMode::kNone));
static_assert(agree(fb::What::kRelease, What::kRelease));
static_assert(agree(fb::Outcome::kFailed, Outcome::kFailed));
static_assert(static_cast<std::size_t>(fb::Body::MAX) == kKinds);

// A number that is wrong here says: a field was added. Give it a place at the end of its table in
// kvferry.fbs, in encode and in decode, in tests/property/wire_gen.h and
// tests/golden/wire_samples_support.cc; then count it.
static_assert(field_count<Header>() == 3 && field_count<Message>() == 2 && field_count<Cause>() == 6);
static_assert(field_count<Hello>() == 17 && field_count<MoverOffer>() == 8 && field_count<Layout>() == 10);
static_assert(field_count<Component>() == 7 && field_count<LayerPlace>() == 4 && field_count<Who>() == 1);
static_assert(field_count<Grant>() == 22 && field_count<Tag>() == 3 && field_count<Ticket>() == 2);
static_assert(field_count<Ready>() == 1 && field_count<Revoke>() == 6 && field_count<Revoked>() == 1);
static_assert(field_count<Done>() == 2 && field_count<Manifest>() == 3 && field_count<ChunkEntry>() == 2);
static_assert(field_count<Fail>() == 3 && field_count<Offer>() == 12 && field_count<Release>() == 3);
static_assert(field_count<Ack>() == 5 && field_count<RenewItem>() == 2 && field_count<Computing>() == 2);
static_assert(field_count<Renew>() == 1 && field_count<Renewed>() == 1 && field_count<Ping>() == 3);
static_assert(field_count<Stall>() == 3 && field_count<Regions>() == 2 && field_count<Resend>() == 2);

Tag tag_of(const fb::Tag* t) {
  return t == nullptr ? Tag{} : Tag{t->attempt(), t->tokens(), t->last_block_hash()};
}
Ticket ticket_of(const fb::Ticket* t) {
  return t == nullptr ? Ticket{} : Ticket{LoanId{t->slot(), t->serial()}, t->token()};
}

}  // namespace

bool Reading::bad(std::string why) {
  if (why_.empty()) {
    why_ = std::move(why);
  }
  return false;
}

bool Reading::too_many(const char* field, std::size_t size, const char* limit_name, std::size_t limit) {
  return bad(std::string(field) + " has " + std::to_string(size) + " entries, the limit " + limit_name +
             " is " + std::to_string(limit));
}

bool Reading::out_of_range(const char* field, unsigned value) {
  return bad(std::string(field) + " is " + std::to_string(value) + ", which names nothing in version " +
             std::to_string(kMajor) + "." + std::to_string(kMinor));
}

bool Reading::body(const fb::Frame& frame, Body& out) {
  const auto one = [&]<class Wire, class Value>(const Wire* table, std::in_place_type_t<Value>) {
    Value& value = out.emplace<Value>();
    return table == nullptr ? bad("the message has no body") : read(*table, value);
  };
  switch (frame.body_type()) {
    case fb::Body::Hello: return one(frame.body_as_Hello(), std::in_place_type<Hello>);
    case fb::Body::WhoBody: return one(frame.body_as_WhoBody(), std::in_place_type<Who>);
    case fb::Body::Grant: return one(frame.body_as_Grant(), std::in_place_type<Grant>);
    case fb::Body::Ready: return one(frame.body_as_Ready(), std::in_place_type<Ready>);
    case fb::Body::Revoke: return one(frame.body_as_Revoke(), std::in_place_type<Revoke>);
    case fb::Body::Revoked: return one(frame.body_as_Revoked(), std::in_place_type<Revoked>);
    case fb::Body::Done: return one(frame.body_as_Done(), std::in_place_type<Done>);
    case fb::Body::Fail: return one(frame.body_as_Fail(), std::in_place_type<Fail>);
    case fb::Body::Offer: return one(frame.body_as_Offer(), std::in_place_type<Offer>);
    case fb::Body::Release: return one(frame.body_as_Release(), std::in_place_type<Release>);
    case fb::Body::Ack: return one(frame.body_as_Ack(), std::in_place_type<Ack>);
    case fb::Body::Renew: return one(frame.body_as_Renew(), std::in_place_type<Renew>);
    case fb::Body::Renewed: return one(frame.body_as_Renewed(), std::in_place_type<Renewed>);
    case fb::Body::Computing: return one(frame.body_as_Computing(), std::in_place_type<Computing>);
    case fb::Body::Ping: return one(frame.body_as_Ping(), std::in_place_type<Ping>);
    case fb::Body::Stall: return one(frame.body_as_Stall(), std::in_place_type<Stall>);
    case fb::Body::Regions: return one(frame.body_as_Regions(), std::in_place_type<Regions>);
    case fb::Body::Resend: return one(frame.body_as_Resend(), std::in_place_type<Resend>);
    case fb::Body::NONE: break;
  }
  return bad("unknown message kind " + std::to_string(static_cast<unsigned>(frame.body_type())));
}

bool Reading::text(const flatbuffers::String* value, const char* field, std::string& out) {
  if (value == nullptr) {
    return true;
  }
  if (value->size() > limits_.text_bytes) {
    return bad(std::string(field) + " has " + std::to_string(value->size()) +
               " bytes, the limit text_bytes is " + std::to_string(limits_.text_bytes));
  }
  out.assign(value->c_str(), value->size());
  return true;
}

bool Reading::octets(const List<std::uint8_t>* value, const char* field, std::vector<std::byte>& out) {
  if (value == nullptr) {
    return true;
  }
  if (value->size() > limits_.description_bytes) {
    return bad(std::string(field) + " has " + std::to_string(value->size()) +
               " bytes, the limit description_bytes is " + std::to_string(limits_.description_bytes));
  }
  const std::span<const std::byte> bytes = bytes_of_octets({value->data(), value->size()});
  out.assign(bytes.begin(), bytes.end());
  return true;
}

bool Reading::numbers(const List<std::uint32_t>* value, const char* field, const char* limit_name,
                      std::size_t limit, std::vector<std::uint32_t>& out) {
  if (value == nullptr) {
    return true;
  }
  if (value->size() > limit) {
    return too_many(field, value->size(), limit_name, limit);
  }
  out.assign(value->begin(), value->end());
  return true;
}

bool Reading::pages(const List<const fb::PageRun*>* runs, PageRuns& out) {
  if (runs == nullptr) {
    return true;
  }
  if (runs->size() > limits_.page_runs) {
    return too_many("pages", runs->size(), "page_runs", limits_.page_runs);
  }
  out.reserve(runs->size());
  std::uint64_t highest = 0;
  bool empty = false;
  each(*runs, [&](std::span<const std::byte> raw) {
    const PageRun run{load_le<std::uint32_t>(raw), load_le<std::uint32_t>(raw.subspan(4))};
    highest = std::max(highest, std::uint64_t{run.first} + run.count);
    empty |= run.count == 0;
    out.push_back(run);
  });
  if (empty) {
    return bad("pages has a run of 0 pages, a run has at least 1");
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  return highest <= kMost || bad("pages has a run that ends at page " + std::to_string(highest) +
                                 ", page indices end at " + std::to_string(kMost));
}

bool Reading::renewals(const List<const fb::RenewItem*>* items, std::vector<RenewItem>& out) {
  if (items == nullptr) {
    return true;
  }
  if (items->size() > limits_.renew_items) {
    return too_many("items", items->size(), "renew_items", limits_.renew_items);
  }
  out.reserve(items->size());
  each(*items, [&](std::span<const std::byte> raw) {
    out.push_back({RoomId{load_le<std::uint64_t>(raw)}, load_le<std::uint64_t>(raw.subspan(8))});
  });
  return true;
}

bool Reading::cause(const fb::Cause* t, Cause& out) {
  if (t == nullptr) {
    return bad("cause is missing");
  }
  out.status = t->status();
  return pick("cause.code", t->code(), Code::kOk, Code::kBug, out.code) &&
         pick("cause.who", t->who(), kvferry::Who::kLocal, kvferry::Who::kConfig, out.who) &&
         pick("cause.next", t->next(), Next::kNever, Next::kRetry, out.next) &&
         text(t->what(), "cause.what", out.what) && text(t->why(), "cause.why", out.why);
}

bool Reading::manifest(const fb::Manifest* t, Manifest& out) {
  if (t == nullptr) {
    return true;
  }
  out.tokens = t->tokens();
  out.bytes = t->bytes();
  const auto* chunks = t->chunks();
  if (chunks == nullptr) {
    return true;
  }
  if (chunks->size() > limits_.chunks) {
    return too_many("manifest.chunks", chunks->size(), "chunks", limits_.chunks);
  }
  out.chunks.reserve(chunks->size());
  each(*chunks, [&](std::span<const std::byte> raw) {
    const auto bytes = load_le<std::uint64_t>(raw);
    out.chunks.push_back({load_le<std::uint32_t>(raw.subspan(8)), bytes});
  });
  return true;
}

bool Reading::read(const fb::WhoBody& t, Who& out) {
  if (const fb::Incarnation* asked = t.asked(); asked != nullptr) {
    out.asked = {asked->started_ms(), asked->random()};
  }
  return true;
}

bool Reading::read(const fb::Grant& t, Grant& out) {
  out.number = t.number();
  out.room = RoomId{t.room()};
  out.tag = tag_of(t.tag());
  out.leg = t.leg();
  out.legs = t.legs();
  out.receiver_rank = t.receiver_rank();
  out.path = t.path();
  out.region_generation = t.region_generation();
  out.ticket = ticket_of(t.ticket());
  out.resumes = t.resumes();
  out.sealed = t.sealed();
  out.floor = t.floor();
  out.prefix_tokens = t.prefix_tokens();
  out.tokens = t.tokens();
  out.aux_slot = t.aux_slot();
  out.priority = t.priority();
  out.trace_id = t.trace_id();
  out.part = t.part();
  out.parts = t.parts();
  return pick("access", t.access(), Access::kRead, Access::kWrite, out.access) &&
         pages(t.pages(), out.pages) &&
         numbers(t.state_slots(), "state_slots", "state_slots", limits_.state_slots, out.state_slots);
}

bool Reading::read(const fb::Ready& t, Ready& out) {
  out.grant = t.grant();
  return true;
}

bool Reading::read(const fb::Revoke& t, Revoke& out) {
  out.grant = t.grant();
  out.room = RoomId{t.room()};
  out.tag = tag_of(t.tag());
  out.leg = t.leg();
  out.floor = t.floor();
  return cause(t.cause(), out.cause);
}

bool Reading::read(const fb::Revoked& t, Revoked& out) {
  out.grant = t.grant();
  return true;
}

bool Reading::read(const fb::Done& t, Done& out) {
  out.grant = t.grant();
  return t.manifest() == nullptr ? bad("manifest is missing") : manifest(t.manifest(), out.manifest);
}

bool Reading::read(const fb::Fail& t, Fail& out) {
  out.grant = t.grant();
  out.drained = t.drained();
  return cause(t.cause(), out.cause);
}

bool Reading::read(const fb::Offer& t, Offer& out) {
  out.grant = t.grant();
  out.chunk = t.chunk();
  out.ticket = ticket_of(t.ticket());
  out.first_token = t.first_token();
  out.tokens = t.tokens();
  out.bytes = t.bytes();
  out.aux_slot = t.aux_slot();
  out.last = t.last();
  out.digest = t.digest();
  return pages(t.pages(), out.pages) &&
         numbers(t.state_slots(), "state_slots", "state_slots", limits_.state_slots, out.state_slots) &&
         manifest(t.manifest(), out.manifest);
}

bool Reading::read(const fb::Release& t, Release& out) {
  out.grant = t.grant();
  out.chunk = t.chunk();
  if (const fb::LoanId* loan = t.loan(); loan != nullptr) {
    out.loan = {loan->slot(), loan->serial()};
  }
  return true;
}

bool Reading::read(const fb::Ack& t, Ack& out) {
  out.grant = t.grant();
  out.chunk = t.chunk();
  out.stale = t.stale();
  return pick("what", t.what(), What::kGrant, What::kRelease, out.what) &&
         pick("outcome", t.outcome(), Outcome::kUnknown, Outcome::kFailed, out.outcome);
}

bool Reading::read(const fb::Renew& t, Renew& out) { return renewals(t.items(), out.items); }

bool Reading::read(const fb::Renewed& t, Renewed& out) { return renewals(t.items(), out.items); }

bool Reading::read(const fb::Computing& t, Computing& out) {
  out.grant = t.grant();
  out.number = t.number();
  return true;
}

bool Reading::read(const fb::Ping& t, Ping& out) {
  out.number = t.number();
  out.answer = t.answer();
  out.floor = t.floor();
  return true;
}

bool Reading::read(const fb::Stall& t, Stall& out) {
  out.grant = t.grant();
  return numbers(t.chunks(), "chunks", "chunks", limits_.chunks, out.chunks) && cause(t.cause(), out.cause);
}

bool Reading::read(const fb::Regions& t, Regions& out) {
  out.generation = t.generation();
  return octets(t.description(), "description", out.description);
}

bool Reading::read(const fb::Resend& t, Resend& out) {
  out.grant = t.grant();
  return numbers(t.chunks(), "chunks", "chunks", limits_.chunks, out.chunks);
}

}  // namespace kvferry::wire
