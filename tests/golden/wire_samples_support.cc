#include "golden/wire_samples.h"

#include <cstddef>

namespace kvferry::golden {

namespace {

using namespace wire;

constexpr Incarnation kDecode{1767225600123, 0x1111222233334444};
constexpr Incarnation kPrefill{1767225600456, 0x5555666677778888};
constexpr Tag kTag{3, 4608, 0x0123456789abcdef};
constexpr RoomId kRoom{7001};

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> out;
  for (const unsigned value : values) {
    out.push_back(static_cast<std::byte>(value));
  }
  return out;
}

Cause rejected() {
  return {Code::kRejected, kvferry::Who::kPeer,
          Next::kNewRoom,  503,
          "room 7001",     "the prompt has 200000 tokens, the limit of this model is 131072"};
}

Layout two_layers() {
  Component kv{ComponentKind::kAttention, Space::kPages, "kv", "bf16", 65536, 1024, {}};
  kv.layers = {{0, RegionId{0}, 0, 65536}, {1, RegionId{0}, 67108864, 65536}};
  Component aux{ComponentKind::kAux, Space::kAux, "first_token", "u8", 512, 64, {{0, RegionId{1}, 0, 512}}};
  Layout layout;
  layout.page_tokens = 16;
  layout.components = {kv, aux};
  layout.tp_rank = 1;
  layout.tp_size = 2;
  layout.pp_rank = 3;
  layout.pp_size = 4;
  layout.dp_rank = 5;
  layout.dp_size = 6;
  layout.cp_rank = 7;
  layout.cp_size = 8;
  return layout;
}

Hello hello(const std::string& name, const std::string& endpoint, std::uint32_t answers) {
  Hello h;
  h.session = 1;
  h.answers = answers;
  h.ask = true;
  h.capabilities = 5;
  h.name = name;
  h.endpoint = endpoint;
  h.host_id = "5b1c1fd2:4026531836";
  h.pid = 4242;
  h.rank = 1;
  h.draining = true;
  h.max_live_grants = 16384;
  h.grant_window = 65536;
  h.layout_hash = 0xfeedfacecafebeef;
  h.layout = two_layers();
  h.movers = {{"shm", 1, Access::kRead, Visible::kReceiverPlaced, RevokeMode::kLenderStops,
               FenceMode::kAtOnce, true, bytes({1, 2, 3, 0xff})},
              {"tcp", 3, Access::kWrite, Visible::kReceiverPlaced, RevokeMode::kLenderStops,
               FenceMode::kBounded, false, bytes({0x7f, 0, 0, 1, 0x23, 0x28})}};
  return h;
}

Grant grant() {
  Grant g;
  g.number = 77;
  g.room = kRoom;
  g.tag = kTag;
  g.leg = 1;
  g.legs = 2;
  g.receiver_rank = 1;
  g.access = Access::kWrite;
  g.path = 2;
  g.region_generation = 4;
  g.ticket = {{12, 901}, 0xabcdef0123456789};
  g.resumes = 70;
  g.sealed = 60;
  g.floor = 59;
  g.prefix_tokens = 512;
  g.tokens = 4096;
  g.pages = {{100, 200}, {7, 1}, {900, 55}};
  g.aux_slot = 9;
  g.state_slots = {3, 1, 2};
  g.priority = 6;
  g.trace_id = 0x1234567812345678;
  g.part = 1;
  g.parts = 2;
  return g;
}

Manifest manifest() { return {{{2048, 134217728}, {2048, 134218240}, {0, 0}}, 4096, 268435968}; }

Offer offer() {
  Offer o;
  o.grant = 77;
  o.chunk = 2;
  o.ticket = {{5, 33}, 0x1020304050607080};
  o.first_token = 2048;
  o.tokens = 2048;
  o.bytes = 134218240;
  o.pages = {{0, 128}};
  o.aux_slot = 11;
  o.state_slots = {8};
  o.last = true;
  o.manifest = manifest();
  o.digest = 0x9999888877776666;
  return o;
}

}  // namespace

std::vector<Sample> samples() {
  const Header down{kDecode, kPrefill, 2};  // as the receiver writes it
  const Header up{kPrefill, kDecode, 2};    // as the sender writes it
  std::vector<Sample> out;
  out.push_back({"HELLO", {{kPrefill, {}, 0}, hello("prefill-0", "10.0.0.5:8998", 1)}});
  out.push_back({"WHO", {up, wire::Who{{1767225500000, 42}}}});
  out.push_back({"GRANT", {down, grant()}});
  out.push_back({"READY", {up, Ready{77}}});
  out.push_back({"REVOKE", {down, Revoke{77, kRoom, kTag, 1, rejected(), 70}}});
  out.push_back({"REVOKED", {up, Revoked{77}}});
  out.push_back({"DONE", {up, Done{77, manifest()}}});
  out.push_back({"FAIL", {up, Fail{77, true, rejected()}}});
  out.push_back({"OFFER", {up, offer()}});
  out.push_back({"RELEASE", {down, Release{77, 2, {5, 33}}}});
  out.push_back({"ACK", {down, Ack{What::kOffer, 77, 2, true, Outcome::kSealed}}});
  out.push_back({"RENEW", {down, Renew{{{kRoom, 3}, {RoomId{7002}, 1}}}}});
  out.push_back({"RENEWED", {up, Renewed{{{kRoom, 3}, {RoomId{7002}, 0}}}}});
  out.push_back({"COMPUTING", {up, Computing{77, 4}}});
  out.push_back({"PING", {down, Ping{19, true, 59}}});
  out.push_back({"STALL", {up, Stall{77, {0, 1, 5}, rejected()}}});
  out.push_back({"REGIONS", {down, Regions{4, bytes({9, 8, 7})}}});
  out.push_back({"RESEND", {down, Resend{77, {1, 2}}}});
  return out;
}

namespace {

// A room between decode-0, which lends or reads, and prefill-0.
class Room {
 public:
  Room(std::string file, std::string title) : out_{std::move(file), std::move(title), {}} {}

  void decode(std::string about, Body body) {
    say("decode-0", "prefill-0", std::move(about), {{kDecode, kPrefill, 1}, std::move(body)});
  }
  void prefill(std::string about, Body body) {
    say("prefill-0", "decode-0", std::move(about), {{kPrefill, kDecode, 1}, std::move(body)});
  }
  // Both sides speak first; whoever has read the other's session answers it, and asks until its own was
  // answered.
  void greet() {
    say("prefill-0", "decode-0", "first word; the other life is not known yet",
        {{kPrefill, {}, 1}, plain_hello("prefill-0", "10.0.0.5:8998", 0, true)});
    say("decode-0", "prefill-0", "first word; the other life is not known yet",
        {{kDecode, {}, 1}, plain_hello("decode-0", "10.0.0.9:8998", 0, true)});
    decode("answers session 1, asks for an answer", plain_hello("decode-0", "10.0.0.9:8998", 1, true));
    prefill("answers session 1, asks for an answer", plain_hello("prefill-0", "10.0.0.5:8998", 1, true));
    prefill("has its answer: both agree", plain_hello("prefill-0", "10.0.0.5:8998", 1, false));
    decode("has its answer: both agree", plain_hello("decode-0", "10.0.0.9:8998", 1, false));
  }
  Transcript take() { return std::move(out_); }

 private:
  static Hello plain_hello(const std::string& name, const std::string& endpoint, std::uint32_t answers,
                           bool ask) {
    Hello h = hello(name, endpoint, answers);
    h.ask = ask;
    h.draining = false;
    h.capabilities = 0;
    h.rank = 0;
    h.layout.tp_rank = h.layout.pp_rank = h.layout.dp_rank = h.layout.cp_rank = 0;
    h.layout.tp_size = h.layout.pp_size = h.layout.dp_size = h.layout.cp_size = 1;
    return h;
  }
  void say(std::string from, std::string to, std::string about, Message message) {
    out_.lines.push_back({std::move(from), std::move(to), std::move(about), std::move(message)});
  }

  Transcript out_;
};

Grant first_grant(Access access) {
  Grant g;
  g.number = 1;
  g.room = kRoom;
  g.tag = kTag;
  g.access = access;
  g.floor = 1;
  g.prefix_tokens = 512;
  g.tokens = 40;
  g.aux_slot = 4;
  if (access == Access::kWrite) {
    g.ticket = {{0, 1}, 0xabcdef0123456789};
    g.pages = {{64, 2}, {9, 1}};
  }
  return g;
}

Manifest two_chunks() { return {{{32, 262144}, {8, 131584}}, 40, 393728}; }

Transcript push_room() {
  Room room("push_room",
            "One room pushed: decode lends three pages, prefill writes two chunks into them and says DONE.");
  room.greet();
  room.decode("keeps the room from its bootstrap deadline", Renew{{{kRoom, 1}}});
  room.prefill("the hold stands", Renewed{{{kRoom, 1}}});
  room.decode("three pages and an aux slot lent for writing", first_grant(Access::kWrite));
  room.prefill("received", Ready{1});
  room.prefill("still computing", Computing{1, 1});
  room.prefill("all operations completed and quiesced", Done{1, two_chunks()});
  room.decode("sealed", Ack{What::kDone, 1, 0, false, Outcome::kSealed});
  room.decode("an idle link; grants below 2 are closed", Ping{1, false, 2});
  room.prefill("answer", Ping{1, true, 0});
  return room.take();
}

Transcript pull_room() {
  Room room("pull_room",
            "One room pulled: prefill lends two chunks for reading, decode copies them and gives them back.");
  room.greet();
  room.decode("a number under which prefill may offer; nothing is lent", first_grant(Access::kRead));
  room.prefill("received", Ready{1});
  Offer o;
  o.grant = 1;
  o.ticket = {{3, 17}, 0x1020304050607080};
  o.tokens = 32;
  o.bytes = 262144;
  o.pages = {{500, 2}};
  room.prefill("chunk 0: two source pages", o);
  room.decode("chunk 0 was taken; this answers the OFFER too", Release{1, 0, {3, 17}});
  room.prefill("its pages are free", Ack{What::kRelease, 1, 0, false, Outcome::kUnknown});
  o.chunk = 1;
  o.ticket = {{4, 18}, 0x1020304050607081};
  o.first_token = 32;
  o.tokens = 8;
  o.bytes = 131584;
  o.pages = {{12, 1}};
  o.aux_slot = 2;
  o.last = true;
  o.manifest = two_chunks();
  room.prefill("chunk 1, the last: one page, the aux slot and the manifest", o);
  room.decode("chunk 1 was taken; the leg is sealed", Release{1, 1, {4, 18}});
  room.prefill("its pages are free", Ack{What::kRelease, 1, 1, false, Outcome::kUnknown});
  room.prefill("every chunk was taken", Done{1, two_chunks()});
  room.decode("sealed already", Ack{What::kDone, 1, 0, true, Outcome::kSealed});
  return room.take();
}

}  // namespace

std::vector<Transcript> transcripts() { return {push_room(), pull_room()}; }

}  // namespace kvferry::golden
