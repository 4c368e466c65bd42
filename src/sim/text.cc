#include "sim/text.h"

#include <array>
#include <type_traits>

namespace kvferry::sim {
namespace {

std::string n(std::uint64_t v) { return std::to_string(v); }
std::string h(Handle x) { return "#" + n(x.slot) + "." + n(x.generation); }
std::string err(const Error& e) { return e.ok() ? "" : " error: " + e.why; }

const char* name_of_outcome(wire::Outcome o) {
  switch (o) {
    case wire::Outcome::kUnknown: return "unknown";
    case wire::Outcome::kLive: return "live";
    case wire::Outcome::kSealed: return "sealed";
    case wire::Outcome::kFailed: return "failed";
  }
  return "?";
}

struct BodyText {
  std::string operator()(const wire::Hello& m) const {
    return " of " + m.name + " session " + n(m.session) + " answers " + n(m.answers);
  }
  std::string operator()(const wire::Who&) const { return ""; }
  std::string operator()(const wire::Grant& m) const {
    return " " + n(m.number) + " room " + n(m.room.value) + "/" + n(m.tag.attempt) + " leg " + n(m.leg) +
           "/" + n(m.legs) + " part " + n(m.part) + "/" + n(m.parts) + " sealed " + n(m.sealed) + " floor " +
           n(m.floor) + " path " + n(m.path);
  }
  std::string operator()(const wire::Revoke& m) const {
    return " " + n(m.grant) + " room " + n(m.room.value) + err(m.cause);
  }
  std::string operator()(const wire::Done& m) const {
    return " " + n(m.grant) + " chunks " + n(m.manifest.chunks.size()) + " tokens " + n(m.manifest.tokens);
  }
  std::string operator()(const wire::Fail& m) const {
    return " " + n(m.grant) + (m.drained ? " drained" : "") + err(m.cause);
  }
  std::string operator()(const wire::Offer& m) const {
    return " " + n(m.grant) + " chunk " + n(m.chunk) + " loan " + n(m.ticket.loan.serial) +
           (m.last ? " last" : "");
  }
  std::string operator()(const wire::Release& m) const {
    return " " + n(m.grant) + " chunk " + n(m.chunk) + " loan " + n(m.loan.serial);
  }
  std::string operator()(const wire::Ack& m) const {
    static constexpr std::array kWhat = {"GRANT", "DONE", "FAIL", "REVOKED", "OFFER", "RELEASE"};
    return std::string(" of ") + kWhat[static_cast<std::size_t>(m.what) % kWhat.size()] + " " + n(m.grant) +
           "." + n(m.chunk) + (m.stale ? " stale" : "") + ", outcome " + name_of_outcome(m.outcome);
  }
  std::string operator()(const wire::Renew& m) const {
    return m.items.empty() ? "" : " room " + n(m.items[0].room.value);
  }
  std::string operator()(const wire::Renewed& m) const {
    return m.items.empty() ? "" : " room " + n(m.items[0].room.value);
  }
  std::string operator()(const wire::Ping& m) const { return " floor " + n(m.floor); }
  std::string operator()(const wire::Regions& m) const { return " generation " + n(m.generation); }
  template <class M>
  std::string operator()(const M& m) const {
    return " " + n(m.grant);
  }
};

struct InputText {
  std::string operator()(const core::in::Open& i) const {
    return std::string("open ") + h(i.handle) + " room " + n(i.room.value) + "/" + n(i.tag.attempt) + " as " +
           kvferry::name_of(i.role);
  }
  std::string operator()(const core::in::GrantPages& i) const {
    return "grant " + h(i.handle) + " tokens " + n(i.spec.tokens);
  }
  std::string operator()(const core::in::Push& i) const {
    return "push " + h(i.handle) + " tokens " + n(i.chunk.tokens) + (i.chunk.last ? " last" : "");
  }
  std::string operator()(const core::in::Abort& i) const { return "abort " + h(i.handle); }
  std::string operator()(const core::in::Renew& i) const { return "renew " + h(i.handle); }
  std::string operator()(const core::in::Close& i) const { return "close " + h(i.handle); }
  std::string operator()(const core::in::EventFired& i) const {
    return "event " + n(i.event.value) + (i.ok ? " fired" : " failed");
  }
  std::string operator()(const core::in::Rekey&) const { return "re-key"; }
  std::string operator()(const core::in::Stop&) const { return "stop"; }
  std::string operator()(const core::in::Endpoint& i) const { return "endpoint " + i.name; }
  std::string operator()(const core::in::LinkUp& i) const { return "link " + n(i.link.value) + " up"; }
  std::string operator()(const core::in::LinkDown& i) const { return "link " + n(i.link.value) + " down"; }
  std::string operator()(const core::in::DialFailed& i) const {
    return "dial of endpoint " + n(i.endpoint.value) + " failed";
  }
  std::string operator()(const core::in::Received& i) const { return text_of(i.message); }
  std::string operator()(const core::in::BadFrame&) const { return "a malformed frame"; }
  std::string operator()(const core::in::Completed& i) const {
    return "Completed op " + n(i.op.value) + err(i.error);
  }
  std::string operator()(const core::in::Quiesced& i) const { return "Quiesced op " + n(i.op.value); }
  std::string operator()(const core::in::Arrived& i) const { return "Arrived on loan " + n(i.loan.serial); }
  std::string operator()(const core::in::Revoked& i) const { return "Revoked loan " + n(i.loan.serial); }
  std::string operator()(const core::in::PeerFenced& i) const {
    return "fenced peer " + n(i.peer.value) + err(i.error);
  }
  std::string operator()(const core::in::PeerReady& i) const {
    return "ready peer " + n(i.peer.value) + err(i.error);
  }
  std::string operator()(const core::in::MoverPeerLost& i) const {
    return "the mover lost peer " + n(i.peer.value);
  }
  std::string operator()(const core::in::RegionsRekeyed& i) const {
    return "regions re-keyed, generation " + n(i.generation);
  }
  std::string operator()(const core::in::PeerDead& i) const { return "peer " + n(i.peer.value) + " is dead"; }
  std::string operator()(const core::in::Tick&) const { return "tick"; }
};

struct OutputText {
  std::string operator()(const core::out::Send& o) const { return "says " + text_of(o.message); }
  std::string operator()(const core::out::Dial& o) const { return "dials endpoint " + n(o.endpoint.value); }
  std::string operator()(const core::out::CloseLink& o) const { return "closes link " + n(o.link.value); }
  std::string operator()(const core::out::AddPeer& o) const { return "adds peer " + n(o.peer.value); }
  std::string operator()(const core::out::WatchPeer&) const { return ""; }
  std::string operator()(const core::out::DropPeer& o) const { return "drops peer " + n(o.peer.value); }
  std::string operator()(const core::out::Fence& o) const { return "fences peer " + n(o.peer.value); }
  std::string operator()(const core::out::Lend& o) const { return "lends loan " + n(o.loan.serial); }
  std::string operator()(const core::out::Revoke& o) const { return "revokes loan " + n(o.loan.serial); }
  std::string operator()(const core::out::Post& o) const {
    return "posts op " + n(o.op.value) + " on loan " + n(o.ticket.loan.serial);
  }
  std::string operator()(const core::out::Cancel& o) const { return "cancels op " + n(o.op.value); }
  std::string operator()(const core::out::Publish& o) const {
    return "shows " + std::string(kvferry::name_of(o.poll)) + " for " + h(o.handle);
  }
  std::string operator()(const core::out::Failing& o) const {
    return "fails " + h(o.handle) + ": " + o.cause.line();
  }
  std::string operator()(const core::out::ChunkReturned& o) const {
    return "returns chunk " + n(o.chunk) + " of " + h(o.handle);
  }
  std::string operator()(const core::out::Terminal& o) const { return "ends " + h(o.handle); }
  std::string operator()(const core::out::Closed& o) const { return "frees " + h(o.handle); }
  std::string operator()(const core::out::RekeyRegions& o) const {
    return "re-keys, generation " + n(o.generation);
  }
  std::string operator()(const core::out::Trace&) const { return ""; }
};

}  // namespace

std::string text_of(const wire::Message& m) { return wire::name_of(m.body) + std::visit(BodyText{}, m.body); }
std::string text_of(const core::Input& i) { return std::visit(InputText{}, i); }
std::string text_of(const core::Output& o) { return std::visit(OutputText{}, o); }

std::string text_of(const SimOp& op, std::uint32_t step) {
  static constexpr std::array kSteps = {"lands in part", "lands",    "is noticed", "completes",
                                        "fails",         "is quiet", "is lost"};
  return "op " + n(op.op.value) + " of life " + n(op.poster) + " on loan " + n(op.ticket.loan.serial) + " " +
         kSteps[step % kSteps.size()];
}

}  // namespace kvferry::sim
