#include "runtime/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvferry::runtime {
namespace {

constexpr std::size_t kMoverEvents = 64;     // of one mover in one quantum
constexpr std::size_t kChannelEvents = 256;  // frames in one quantum

}  // namespace

Shell::Shell(const ManagerOptions& options, Shared& shared, Parts& parts)
    : shared_(shared),
      parts_(parts),
      regions_(options.regions),
      name_(options.name),
      log_(options.log, options.log_lines_per_second),
      try_([this](const core::out::Post& post, Error& why) { return attempt(post, why); }),
      mover_events_(kMoverEvents),
      movers_(parts.transports.size()),
      live_(options.limits.rooms) {
  const std::lock_guard held(shared_.core);
  for (const auto& mover : parts_.transports) shared_.movers.push_back({mover->capabilities().name, 0});
}

void Shell::carry_out(core::Outputs& outputs, TimePoint now) {
  now_ = now;
  for (core::Output& output : outputs) std::visit([this](auto& what) { act(what); }, output);
  outputs.clear();
}

void Shell::say(const std::string& text) {
  if (log_.on()) log_.line(now_, fmt::format("{}: {}", name_, text));
}

void Shell::note_command(const Wish& wish) {
  if (const auto* endpoint = std::get_if<core::in::Endpoint>(&wish)) {
    if (endpoint_names_.size() <= endpoint->id.value)
      endpoint_names_.resize(endpoint->id.value + std::size_t{1});
    endpoint_names_[endpoint->id.value] = endpoint->name;
  } else if (const auto* open = std::get_if<core::in::Open>(&wish)) {
    live_[open->handle.slot] = open->handle.generation;
    ++live_count_;
  }
}

// --- what the engine decided: control
// ---------------------------------------------------------------------------

void Shell::act(core::out::Send& send) {
  if (parts_.channel->send(send.link, encoder_.encode(send.message))) return;
  const std::lock_guard held(shared_.core);
  ++shared_.frames_dropped;
}

void Shell::act(core::out::Dial& dial) {
  const std::size_t index = dial.endpoint.value;
  const std::string name = index < endpoint_names_.size() ? endpoint_names_[index] : std::string();
  const Result<LinkId> link = parts_.channel->dial(name);
  if (link) {
    dialling_.insert_or_assign(link->value, dial.endpoint);
  } else {
    feed_.emplace_back(core::in::DialFailed{dial.endpoint, link.error()});
  }
}

void Shell::act(core::out::CloseLink& close) {
  dialling_.erase(close.link.value);
  parts_.channel->close(close.link);
}

// --- what the engine decided: peers
// -----------------------------------------------------------------------------

void Shell::act(core::out::AddPeer& add) {
  {
    const std::lock_guard held(shared_.core);
    shared_.peers.insert_or_assign(add.peer.value, add.mover);
  }
  const Result<> added = parts_.transports[add.mover]->add_peer(add.peer, add.description);
  if (added) {
    movers_[add.mover].readying.insert(add.peer.value);
  } else {
    feed_.emplace_back(core::in::PeerReady{add.peer, added.error()});
  }
}

void Shell::act(core::out::WatchPeer& watch) { watch_.watch(watch.peer, watch.pid); }

void Shell::act(core::out::DropPeer& drop) {
  watch_.forget(drop.peer);
  operations_.drop_waiting(
      drop.peer, drop.mover,
      Error{Code::kPeerLost, Who::kPeer, Next::kNewRoom, 0, "operation", "the peer is gone"}, feed_);
  if (drop.mover < parts_.transports.size()) {
    parts_.transports[drop.mover]->drop_peer(drop.peer);
    movers_[drop.mover].readying.erase(drop.peer.value);
    movers_[drop.mover].fencing.erase(drop.peer.value);
  }
  const std::lock_guard held(shared_.core);
  shared_.peers.erase(drop.peer.value);
}

void Shell::act(core::out::Fence& fence) {
  operations_.drop_waiting(fence.peer, fence.mover,
                           Error{Code::kPeerLost, Who::kPeer, Next::kNewRoom, 0, "operation",
                                 "the path to the peer was fenced before the mover took it"},
                           feed_);
  const Result<> fenced = parts_.transports[fence.mover]->fence(fence.peer);
  if (fenced) {
    movers_[fence.mover].fencing.insert(fence.peer.value);
  } else {
    say("fence refused: " + fenced.error().line());
    feed_.emplace_back(core::in::PeerFenced{fence.peer, fenced.error()});
  }
}

// --- what the engine decided: memory
// ----------------------------------------------------------------------------

void Shell::act(core::out::Lend& lend) {
  const core::PairPlan* plan = shared_.engine.plan(lend.peer);
  Result<> lent = plan == nullptr
                      ? fail(Code::kBug, Who::kLocal, Next::kNewRoom, "loan", "the peer has no plan any more")
                      : parts_.transports[lend.mover]->lend(expand_.loan(lend, *plan));
  if (lent) {
    ++movers_[lend.mover].loans;
    return;
  }
  // Safe without more: nothing was lent, so nothing can land. The peer's operation is refused by its own
  // mover; it hears the reason from our room, which is aborted behind the GRANT or OFFER of this step.
  say("lending failed, its room is aborted: " + lent.error().line());
  unlent_.insert(lend.loan.serial);
  feed_.emplace_back(
      core::in::Abort{lend.room, Error{Code::kTransport, Who::kTransport, Next::kNewRoom, lent.error().status,
                                       "loan", "the mover would not lend its pages: " + lent.error().why}});
}

void Shell::act(core::out::Revoke& revoke) {
  if (unlent_.erase(revoke.loan.serial) != 0) {
    feed_.emplace_back(core::in::Revoked{revoke.loan});
    return;
  }
  const Result<> revoked = parts_.transports[revoke.mover]->revoke(revoke.loan);
  if (!revoked) say("revoke refused, the loan stays lent: " + revoked.error().line());
}

Operations::Tried Shell::attempt(const core::out::Post& post, Error& why) {
  const core::PairPlan* plan = shared_.engine.plan(post.peer);
  if (plan == nullptr) {
    why = Error{Code::kPeerLost, Who::kPeer, Next::kNewRoom, 0, "operation", "the peer has no plan any more"};
    return Operations::Tried::kRefused;
  }
  const Result<> posted = parts_.transports[post.mover]->post(expand_.operation(post, *plan));
  if (posted) return Operations::Tried::kTaken;
  if (posted.error().code == Code::kWouldBlock) return Operations::Tried::kBlocked;
  why = posted.error();
  return Operations::Tried::kRefused;
}

void Shell::act(core::out::Post& post) { operations_.post(std::move(post), try_, feed_); }

void Shell::act(core::out::Cancel& cancel) {
  if (!operations_.cancel_waiting(cancel.op, feed_)) parts_.transports[cancel.mover]->cancel(cancel.op);
}

bool Shell::retry_posts() { return operations_.waiting() > 0 && operations_.retry(try_, feed_); }

void Shell::act(core::out::RekeyRegions& request) {
  rekey_ = Rekey{request.generation, 0, {}};
  for (const auto& mover : parts_.transports) {
    for (std::uint32_t region = 0; region < regions_.size(); ++region) {
      // A region whose add was refused last time is not there to be dropped.
      const std::pair key(mover.get(), region);
      Result<> done = unregistered_.contains(key) ? Result<>() : mover->drop_region(RegionId{region});
      if (done) {
        unregistered_.insert(key);
        done = mover->add_region(RegionId{region}, regions_[region]);
      }
      if (done) {
        unregistered_.erase(key);
        ++rekey_.pending;
      } else {
        rekey_.failure = done.error();
        say("re-key refused, the quarantine stays: " + done.error().line());
      }
    }
  }
  if (rekey_.pending == 0) end_rekey();
}

void Shell::end_rekey() {
  feed_.emplace_back(core::in::RegionsRekeyed{rekey_.generation, std::move(rekey_.failure)});
}

// --- what the engine decided: rooms
// -----------------------------------------------------------------------------

void Shell::act(core::out::Publish& publish) {
  // Whoever sees the last value must be able to trust quiet() at the same moment.
  if (publish.poll == Poll::kFailed || publish.poll == Poll::kSuccess) {
    if (shared_.engine.info(publish.handle).quiet) shared_.board.set_quiet(publish.handle);
  }
  shared_.board.publish(publish.handle, publish.poll);
}

void Shell::act(core::out::Failing& failing) {
  if (log_.on()) say("room is failing: " + failing.cause.line());
  shared_.events.put({ManagerEvent::Kind::kFailing, failing.handle, 0});
}

void Shell::act(core::out::ChunkReturned& returned) {
  shared_.events.put({ManagerEvent::Kind::kChunkReturned, returned.handle, returned.chunk});
}

void Shell::ended(Handle handle) {
  if (handle.slot >= live_.size() || live_[handle.slot] != handle.generation) return;
  live_[handle.slot] = 0;
  --live_count_;
}

void Shell::act(core::out::Terminal& terminal) {
  shared_.board.set_quiet(terminal.handle);
  shared_.events.put({ManagerEvent::Kind::kTerminal, terminal.handle, 0});
  ended(terminal.handle);
}

void Shell::act(core::out::Closed& closed) {
  shared_.board.close(closed.handle);
  shared_.board.set_quiet(closed.handle);
  ended(closed.handle);
  const auto lock = shared_.queue.lock();
  shared_.slots.give_back(closed.handle);
}

void Shell::act(core::out::Trace& event) {
  if (!shared_.recorder) return;
  const std::lock_guard held(shared_.trace);
  shared_.recorder->add({event.at, event.what, event.room, event.grant, event.a, event.b});
}

// --- what movers and channel report
// -----------------------------------------------------------------------------

bool Shell::poll_mover(std::uint32_t mover) {
  const std::size_t count = parts_.transports[mover]->progress(mover_events_);
  for (std::size_t i = 0; i < count; ++i) {
    take(mover_events_[i], mover);
    mover_events_[i] = Event{};
  }
  return count == mover_events_.size();
}

void Shell::take(Event& event, std::uint32_t mover) {
  MoverState& state = movers_[mover];
  switch (event.kind) {
    case Event::Kind::kCompleted: operations_.completed(event.op, std::move(event.error), feed_); return;
    case Event::Kind::kQuiesced: operations_.quiesced(event.op, feed_); return;
    case Event::Kind::kArrived:
      feed_.emplace_back(core::in::Arrived{event.peer, event.loan, event.bytes, event.notice});
      return;
    case Event::Kind::kRevoked:
      if (state.loans > 0) --state.loans;
      feed_.emplace_back(core::in::Revoked{event.loan});
      return;
    case Event::Kind::kPeerFenced:
      state.fencing.erase(event.peer.value);
      feed_.emplace_back(core::in::PeerFenced{event.peer, std::move(event.error)});
      return;
    case Event::Kind::kPeerReady:
      state.readying.erase(event.peer.value);
      feed_.emplace_back(core::in::PeerReady{event.peer, std::move(event.error)});
      return;
    case Event::Kind::kPeerLost:
      feed_.emplace_back(core::in::MoverPeerLost{event.peer, std::move(event.error)});
      return;
    case Event::Kind::kRegionReady: region_ready(event); return;
  }
}

void Shell::region_ready(const Event& event) {
  if (rekey_.pending == 0) return;
  --rekey_.pending;
  if (!event.error.ok()) {
    rekey_.failure = event.error;
    say("re-key failed, the quarantine stays: " + event.error.line());
  }
  if (rekey_.pending == 0) end_rekey();
}

bool Shell::poll_channel() {
  channel_events_.clear();
  const std::size_t count = parts_.channel->poll(channel_events_, kChannelEvents);
  for (ChannelEvent& event : channel_events_) take(event);
  return count >= kChannelEvents;
}

void Shell::take(ChannelEvent& event) {
  const auto dialled = dialling_.find(event.link.value);
  switch (event.kind) {
    case ChannelEvent::Kind::kUp:
      if (dialled != dialling_.end()) {
        feed_.emplace_back(core::in::LinkUp{event.link, dialled->second, true});
        dialling_.erase(dialled);
      } else {
        feed_.emplace_back(core::in::LinkUp{event.link, EndpointId{}, false});
      }
      return;
    case ChannelEvent::Kind::kDown:
      if (dialled != dialling_.end()) {
        feed_.emplace_back(core::in::DialFailed{dialled->second, std::move(event.error)});
        dialling_.erase(dialled);
      } else {
        feed_.emplace_back(core::in::LinkDown{event.link, std::move(event.error)});
      }
      return;
    case ChannelEvent::Kind::kFrame: break;
  }
  Result<wire::Message> message = wire::decode(event.frame);
  if (message) {
    feed_.emplace_back(core::in::Received{event.link, std::move(*message)});
    return;
  }
  say("bad frame: " + message.error().line());
  feed_.emplace_back(core::in::BadFrame{event.link});
}

bool Shell::unquiet(std::uint32_t mover) const noexcept {
  const MoverState& state = movers_[mover];
  return state.loans > 0 || !state.readying.empty() || !state.fencing.empty() ||
         operations_.in_flight(mover) > 0;
}

void Shell::report() {
  const std::lock_guard held(shared_.core);
  for (std::uint32_t i = 0; i < shared_.movers.size(); ++i)
    shared_.movers[i].in_flight = operations_.in_flight(i);
  shared_.repeated_completions = operations_.repeated();
}

}  // namespace kvferry::runtime
