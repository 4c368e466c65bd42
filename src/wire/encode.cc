// Messages -> bytes. One FlatBufferBuilder is kept and cleared, so that a frame costs no allocation once it
// is warm. Fields are added from wide to narrow (less padding); lists and texts are made before the table
// that names them. A field that has its default is not written.
#include <string_view>
#include <utility>
#include <variant>

#include "base/bytes.h"
#include "wire/codec.h"
#include "wire/kvferry_generated.h"

namespace kvferry::wire {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using StructsOffset = Offset<flatbuffers::Vector<const T*>>;
template <class T>
using ListOffset = Offset<flatbuffers::Vector<T>>;

constexpr std::size_t kMostText = FrameLimits{}.text_bytes;
constexpr std::size_t kFirstRoom = 1024;  // bytes; the builder grows to the largest frame it has seen

// At most kMostText bytes, and no half UTF-8 character at the cut.
std::string_view cut(std::string_view text) {
  if (text.size() <= kMostText) {
    return text;
  }
  std::size_t size = kMostText;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0U) == 0x80U) {
    --size;
  }
  return text.substr(0, size == 0 ? kMostText : size);
}

// Knows how each value of message.h lies in a frame. An empty text or list gives a null offset: not written.
class Writing {
 public:
  explicit Writing(FlatBufferBuilder& builder) : b_(builder) {}

  Offset<void> operator()(const Hello&);
  Offset<void> operator()(const Who&);
  Offset<void> operator()(const Grant&);
  Offset<void> operator()(const Ready&);
  Offset<void> operator()(const Revoke&);
  Offset<void> operator()(const Revoked&);
  Offset<void> operator()(const Done&);
  Offset<void> operator()(const Fail&);
  Offset<void> operator()(const Offer&);
  Offset<void> operator()(const Release&);
  Offset<void> operator()(const Ack&);
  Offset<void> operator()(const Renew&);
  Offset<void> operator()(const Renewed&);
  Offset<void> operator()(const Computing&);
  Offset<void> operator()(const Ping&);
  Offset<void> operator()(const Stall&);
  Offset<void> operator()(const Regions&);
  Offset<void> operator()(const Resend&);

 private:
  Offset<flatbuffers::String> text(const std::string&);
  ListOffset<std::uint8_t> octets(const std::vector<std::byte>&);
  ListOffset<std::uint32_t> numbers(const std::vector<std::uint32_t>&);
  StructsOffset<fb::PageRun> pages(const PageRuns&);
  StructsOffset<fb::RenewItem> renewals(const std::vector<RenewItem>&);
  Offset<fb::Cause> cause(const Cause&);
  Offset<fb::Manifest> manifest(const Manifest&);
  Offset<fb::Component> component(const Component&);
  Offset<fb::Layout> layout(const Layout&);
  Offset<fb::MoverOffer> mover(const MoverOffer&);

  // A list of structs written in place: make(i) is element i.
  template <class T, class Make>
  StructsOffset<T> structs(std::size_t size, Make make) {
    if (size == 0) {
      return {};
    }
    T* place = nullptr;
    const StructsOffset<T> offset = b_.CreateUninitializedVectorOfStructs(size, &place);
    for (std::size_t i = 0; i < size; ++i) {
      place[i] = make(i);
    }
    return offset;
  }

  // A list of tables: make(item) writes one.
  template <class T, class Item, class Make>
  ListOffset<Offset<T>> tables(const std::vector<Item>& items, Make make) {
    if (items.empty()) {
      return {};
    }
    std::vector<Offset<T>> offsets;
    offsets.reserve(items.size());
    for (const Item& item : items) {
      offsets.push_back(make(item));
    }
    return b_.CreateVector(offsets);
  }

  FlatBufferBuilder& b_;
};

fb::Incarnation life(const Incarnation& i) { return {i.started_ms, i.random}; }
fb::Tag tag_of(const Tag& t) { return {t.attempt, t.tokens, t.last_block_hash}; }
fb::Ticket ticket_of(const Ticket& t) { return {t.loan.serial, t.token, t.loan.slot}; }
fb::LoanId loan_of(const LoanId& l) { return {l.serial, l.slot}; }

template <class To, class From>
To same(From value) {
  return static_cast<To>(value);  // the numbers are equal; decode.cc asserts it
}

Offset<flatbuffers::String> Writing::text(const std::string& value) {
  if (value.empty()) {
    return {};
  }
  const std::string_view part = cut(value);
  return b_.CreateString(part.data(), part.size());
}

ListOffset<std::uint8_t> Writing::octets(const std::vector<std::byte>& value) {
  if (value.empty()) {
    return {};
  }
  return b_.CreateVector(octets_of(value).data(), value.size());
}

ListOffset<std::uint32_t> Writing::numbers(const std::vector<std::uint32_t>& value) {
  if (value.empty()) {
    return {};
  }
  return b_.CreateVector(value);
}

StructsOffset<fb::PageRun> Writing::pages(const PageRuns& runs) {
  return structs<fb::PageRun>(runs.size(),
                              [&](std::size_t i) { return fb::PageRun{runs[i].first, runs[i].count}; });
}

StructsOffset<fb::RenewItem> Writing::renewals(const std::vector<RenewItem>& items) {
  return structs<fb::RenewItem>(
      items.size(), [&](std::size_t i) { return fb::RenewItem{items[i].room.value, items[i].number}; });
}

Offset<fb::Cause> Writing::cause(const Cause& c) {
  const auto what = text(c.what);
  const auto why = text(c.why);
  fb::CauseBuilder t(b_);
  t.add_what(what);
  t.add_why(why);
  t.add_status(c.status);
  t.add_code(same<fb::Code>(c.code));
  t.add_who(same<fb::Blame>(c.who));
  t.add_next(same<fb::Next>(c.next));
  return t.Finish();
}

Offset<fb::Manifest> Writing::manifest(const Manifest& m) {
  const auto chunks = structs<fb::ChunkEntry>(
      m.chunks.size(), [&](std::size_t i) { return fb::ChunkEntry{m.chunks[i].bytes, m.chunks[i].tokens}; });
  fb::ManifestBuilder t(b_);
  t.add_bytes(m.bytes);
  t.add_chunks(chunks);
  t.add_tokens(m.tokens);
  return t.Finish();
}

Offset<fb::Component> Writing::component(const Component& c) {
  const auto layers = structs<fb::LayerPlace>(c.layers.size(), [&](std::size_t i) {
    const LayerPlace& place = c.layers[i];
    return fb::LayerPlace{place.base, place.stride, place.layer, place.region.value};
  });
  const auto name = text(c.name);
  const auto dtype = text(c.dtype);
  fb::ComponentBuilder t(b_);
  t.add_layers(layers);
  t.add_name(name);
  t.add_dtype(dtype);
  t.add_item_bytes(c.item_bytes);
  t.add_items(c.items);
  t.add_kind(same<fb::ComponentKind>(c.kind));
  t.add_space(same<fb::Space>(c.space));
  return t.Finish();
}

Offset<fb::Layout> Writing::layout(const Layout& l) {
  const auto components =
      tables<fb::Component>(l.components, [&](const Component& c) { return component(c); });
  fb::LayoutBuilder t(b_);
  t.add_components(components);
  t.add_page_tokens(l.page_tokens);
  t.add_tp_rank(l.tp_rank);
  t.add_tp_size(l.tp_size);
  t.add_pp_rank(l.pp_rank);
  t.add_pp_size(l.pp_size);
  t.add_dp_rank(l.dp_rank);
  t.add_dp_size(l.dp_size);
  t.add_cp_rank(l.cp_rank);
  t.add_cp_size(l.cp_size);
  return t.Finish();
}

Offset<fb::MoverOffer> Writing::mover(const MoverOffer& m) {
  const auto description = octets(m.description);
  const auto name = text(m.name);
  fb::MoverOfferBuilder t(b_);
  t.add_description(description);
  t.add_name(name);
  t.add_memory(m.memory);
  t.add_access(same<fb::Access>(m.access));
  t.add_visible(same<fb::Visible>(m.visible));
  t.add_revoke(same<fb::RevokeMode>(m.revoke));
  t.add_fence(same<fb::FenceMode>(m.fence));
  t.add_same_host_only(m.same_host_only);
  return t.Finish();
}

Offset<void> Writing::operator()(const Hello& h) {
  const auto movers = tables<fb::MoverOffer>(h.movers, [&](const MoverOffer& m) { return mover(m); });
  const auto place = layout(h.layout);
  const auto name = text(h.name);
  const auto endpoint = text(h.endpoint);
  const auto host = text(h.host_id);
  fb::HelloBuilder t(b_);
  t.add_capabilities(h.capabilities);
  t.add_pid(h.pid);
  t.add_layout_hash(h.layout_hash);
  t.add_movers(movers);
  t.add_layout(place);
  t.add_name(name);
  t.add_endpoint(endpoint);
  t.add_host_id(host);
  t.add_session(h.session);
  t.add_answers(h.answers);
  t.add_rank(h.rank);
  t.add_max_live_grants(h.max_live_grants);
  t.add_grant_window(h.grant_window);
  t.add_major(h.major);
  t.add_minor(h.minor);
  t.add_draining(h.draining);
  t.add_ask(h.ask);
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Who& w) {
  const fb::Incarnation asked = life(w.asked);
  fb::WhoBodyBuilder t(b_);
  if (w.asked.known()) {
    t.add_asked(&asked);
  }
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Grant& g) {
  const auto runs = pages(g.pages);
  const auto states = numbers(g.state_slots);
  const fb::Tag tag = tag_of(g.tag);
  const fb::Ticket ticket = ticket_of(g.ticket);
  fb::GrantBuilder t(b_);
  if (g.tag != Tag{}) {
    t.add_tag(&tag);
  }
  if (g.ticket != Ticket{}) {
    t.add_ticket(&ticket);
  }
  t.add_number(g.number);
  t.add_room(g.room.value);
  t.add_resumes(g.resumes);
  t.add_sealed(g.sealed);
  t.add_floor(g.floor);
  t.add_trace_id(g.trace_id);
  t.add_pages(runs);
  t.add_state_slots(states);
  t.add_leg(g.leg);
  t.add_legs(g.legs);
  t.add_receiver_rank(g.receiver_rank);
  t.add_path(g.path);
  t.add_region_generation(g.region_generation);
  t.add_prefix_tokens(g.prefix_tokens);
  t.add_tokens(g.tokens);
  t.add_aux_slot(g.aux_slot);
  t.add_part(g.part);
  t.add_parts(g.parts);
  t.add_access(same<fb::Access>(g.access));
  t.add_priority(g.priority);
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Ready& r) { return fb::CreateReady(b_, r.grant).Union(); }

Offset<void> Writing::operator()(const Revoke& r) {
  const auto why = cause(r.cause);
  const fb::Tag tag = tag_of(r.tag);
  fb::RevokeBuilder t(b_);
  if (r.tag != Tag{}) {
    t.add_tag(&tag);
  }
  t.add_grant(r.grant);
  t.add_room(r.room.value);
  t.add_cause(why);
  t.add_leg(r.leg);
  t.add_floor(r.floor);
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Revoked& r) { return fb::CreateRevoked(b_, r.grant).Union(); }

Offset<void> Writing::operator()(const Done& d) {
  const auto sum = manifest(d.manifest);
  return fb::CreateDone(b_, d.grant, sum).Union();
}

Offset<void> Writing::operator()(const Fail& f) {
  const auto why = cause(f.cause);
  return fb::CreateFail(b_, f.grant, f.drained, why).Union();
}

Offset<void> Writing::operator()(const Offer& o) {
  const auto runs = pages(o.pages);
  const auto states = numbers(o.state_slots);
  const bool whole = o.manifest != Manifest{};
  const auto sum = whole ? manifest(o.manifest) : Offset<fb::Manifest>{};
  const fb::Ticket ticket = ticket_of(o.ticket);
  fb::OfferBuilder t(b_);
  if (o.ticket != Ticket{}) {
    t.add_ticket(&ticket);
  }
  t.add_grant(o.grant);
  t.add_bytes(o.bytes);
  t.add_digest(o.digest);
  t.add_pages(runs);
  t.add_state_slots(states);
  t.add_manifest(sum);
  t.add_chunk(o.chunk);
  t.add_first_token(o.first_token);
  t.add_tokens(o.tokens);
  t.add_aux_slot(o.aux_slot);
  t.add_last(o.last);
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Release& r) {
  const fb::LoanId loan = loan_of(r.loan);
  fb::ReleaseBuilder t(b_);
  if (r.loan != LoanId{}) {
    t.add_loan(&loan);
  }
  t.add_grant(r.grant);
  t.add_chunk(r.chunk);
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Ack& a) {
  fb::AckBuilder t(b_);
  t.add_grant(a.grant);
  t.add_chunk(a.chunk);
  t.add_what(same<fb::What>(a.what));
  t.add_stale(a.stale);
  t.add_outcome(same<fb::Outcome>(a.outcome));
  return t.Finish().Union();
}

Offset<void> Writing::operator()(const Renew& r) {
  const auto items = renewals(r.items);
  return fb::CreateRenew(b_, items).Union();
}

Offset<void> Writing::operator()(const Renewed& r) {
  const auto items = renewals(r.items);
  return fb::CreateRenewed(b_, items).Union();
}

Offset<void> Writing::operator()(const Computing& c) {
  return fb::CreateComputing(b_, c.grant, c.number).Union();
}

Offset<void> Writing::operator()(const Ping& p) {
  return fb::CreatePing(b_, p.number, p.answer, p.floor).Union();
}

Offset<void> Writing::operator()(const Stall& s) {
  const auto chunks = numbers(s.chunks);
  const auto why = cause(s.cause);
  return fb::CreateStall(b_, s.grant, chunks, why).Union();
}

Offset<void> Writing::operator()(const Regions& r) {
  const auto description = octets(r.description);
  return fb::CreateRegions(b_, r.generation, description).Union();
}

Offset<void> Writing::operator()(const Resend& r) {
  const auto chunks = numbers(r.chunks);
  return fb::CreateResend(b_, r.grant, chunks).Union();
}

}  // namespace

struct Encoder::Rep {
  FlatBufferBuilder builder{kFirstRoom};
};

Encoder::Encoder() : rep_(std::make_unique<Rep>()) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

std::span<const std::byte> Encoder::encode(const Message& message) {
  FlatBufferBuilder& b = rep_->builder;
  b.Clear();
  const Offset<void> body = std::visit(Writing{b}, message.body);
  const fb::Incarnation from = life(message.header.from);
  const fb::Incarnation to = life(message.header.to);
  fb::FrameBuilder t(b);
  if (message.header.from.known()) {
    t.add_from(&from);
  }
  if (message.header.to.known()) {
    t.add_to(&to);
  }
  t.add_body(body);
  t.add_session(message.header.session);
  t.add_body_type(static_cast<fb::Body>(message.body.index() + 1));
  fb::FinishFrameBuffer(b, t.Finish());
  return bytes_of_octets({b.GetBufferPointer(), b.GetSize()});
}

}  // namespace kvferry::wire
