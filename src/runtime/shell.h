// Carries out what the engine decides, in order, and turns what channel and movers report into inputs for it.
// Thread rule: progress thread only. Nothing blocks.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kvferry/manager.h"
#include "runtime/expand.h"
#include "runtime/log_gate.h"
#include "runtime/operations.h"
#include "runtime/peer_watch.h"
#include "runtime/shared.h"
#include "wire/codec.h"

namespace kvferry::runtime {

class Shell {
 public:
  Shell(const ManagerOptions&, Shared&, Parts&);

  void carry_out(core::Outputs&, TimePoint now);  // leaves it empty
  std::vector<core::Input>& feed() noexcept { return feed_; }  // inputs that wait to be stepped, in order

  // One quantum each; they append to feed(). True: there may be more right now.
  bool poll_mover(std::uint32_t mover);
  bool poll_channel();
  bool retry_posts();
  void poll_deaths(std::vector<Death>& out) { watch_.take(out); }

  void note_command(const Wish&);  // before it is stepped: names of endpoints, live rooms
  std::size_t live() const noexcept { return live_count_; }  // opened, and not Terminal or Closed
  bool unquiet(std::uint32_t mover) const noexcept;  // operations, loans or requests are under way there
  int deaths_fd() const noexcept { return watch_.fd(); }
  void report();  // copies figures for status_json into Shared
  LogGate& log() noexcept { return log_; }
  const std::string& name() const noexcept { return name_; }

 private:
  struct MoverState {
    std::size_t loans = 0;  // lent and not revoked
    // add_peer and fence calls whose event has not come; a dropped peer's never does
    std::unordered_set<std::uint32_t> readying, fencing;
  };
  struct Rekey {
    std::uint32_t generation = 0;
    std::size_t pending = 0;
    Error failure;  // the last one; ok: none
  };

  void act(core::out::Send&);
  void act(core::out::Dial&);
  void act(core::out::CloseLink&);
  void act(core::out::AddPeer&);
  void act(core::out::WatchPeer&);
  void act(core::out::DropPeer&);
  void act(core::out::Fence&);
  void act(core::out::Lend&);
  void act(core::out::Revoke&);
  void act(core::out::Post&);
  void act(core::out::Cancel&);
  void act(core::out::Publish&);
  void act(core::out::Failing&);
  void act(core::out::ChunkReturned&);
  void act(core::out::Terminal&);
  void act(core::out::Closed&);
  void act(core::out::RekeyRegions&);
  void act(core::out::Trace&);

  void take(Event&, std::uint32_t mover);
  void take(ChannelEvent&);
  void region_ready(const Event&);
  void end_rekey();
  void ended(Handle);  // not live any more
  Operations::Tried attempt(const core::out::Post&, Error& why);
  void say(const std::string& text);

  Shared& shared_;
  Parts& parts_;
  const std::vector<RegionView> regions_;
  const std::string name_;
  TimePoint now_;
  LogGate log_;
  wire::Encoder encoder_;
  Expand expand_;
  Operations operations_;
  Operations::Try try_;
  PeerWatch watch_;
  std::vector<core::Input> feed_;
  std::vector<Event> mover_events_;
  std::vector<ChannelEvent> channel_events_;
  std::vector<std::string> endpoint_names_;  // by EndpointId
  std::unordered_map<std::uint32_t, EndpointId> dialling_;  // by LinkId
  std::set<std::pair<const Transport*, std::uint32_t>>
      unregistered_;  // regions that a re-key left without keys
  std::unordered_set<std::uint64_t> unlent_;  // serials of loans that the mover refused
  std::vector<MoverState> movers_;
  std::vector<std::uint32_t> live_;  // by slot: the generation that lives, 0 = none
  std::size_t live_count_ = 0;
  Rekey rekey_;
};

}  // namespace kvferry::runtime
