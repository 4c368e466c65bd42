#include "runtime/status_json.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

namespace kvferry::runtime {
namespace {

using nlohmann::json;

json counters_of(const Counters& c) {
  return json{{"rooms_opened", c.rooms_opened},
              {"rooms_succeeded", c.rooms_succeeded},
              {"rooms_failed", c.rooms_failed},
              {"rooms_live", c.rooms_live},
              {"bytes_sent", c.bytes_sent},
              {"bytes_received", c.bytes_received},
              {"messages_sent", c.messages_sent},
              {"messages_received", c.messages_received},
              {"frames_bad", c.frames_bad},
              {"refused_from_peer", c.refused_from_peer},
              {"stale_answered", c.stale_answered},
              {"debts_resent", c.debts_resent},
              {"debts", c.debts},
              {"parked", c.parked},
              {"pages_lent", c.pages_lent},
              {"pages_returned", c.pages_returned},
              {"pages_quarantined", c.pages_quarantined},
              {"legs_lost", c.legs_lost},
              {"timeouts", c.timeouts},
              {"gaps", c.gaps},
              {"peers_lost", c.peers_lost},
              {"peers", c.peers},
              {"links", c.links},
              {"ops_posted", c.ops_posted},
              {"ops_in_flight", c.ops_in_flight},
              {"commands_refused", c.commands_refused}};
}

json rooms_by_state(const StatusBoard& board) {
  constexpr std::array kShown = {Poll::kFailed, Poll::kBootstrapping, Poll::kWaitingForInput,
                                 Poll::kTransferring, Poll::kSuccess};
  std::array<std::uint64_t, kShown.size()> counts{};
  for (const auto& word : board.words()) {
    const std::uint64_t poll = word.load(std::memory_order_relaxed) & 0xffU;
    if (poll < counts.size()) ++counts[poll];
  }
  json rooms = json::object();
  for (const Poll poll : kShown) rooms[name_of(poll)] = counts[static_cast<std::size_t>(poll)];
  return rooms;
}

}  // namespace

std::string status_json(const Shared& shared, const Counters& counters, std::string_view name,
                        std::string_view endpoint, Incarnation self) {
  json peers = json::array();
  for (const auto& [peer, mover] : shared.peers) {
    json entry{{"name", shared.engine.peer_name(PeerId{peer})}};
    if (mover < shared.movers.size()) entry["mover"] = shared.movers[mover].name;
    peers.push_back(std::move(entry));
  }
  json movers = json::array();
  for (const MoverFacts& mover : shared.movers) {
    movers.push_back({{"name", mover.name}, {"operations_in_flight", mover.in_flight}});
  }
  json quarantined = json::array();
  for (const Quarantined& held : shared.engine.quarantined()) {
    json runs = json::array();
    for (const PageRun& run : held.pages) runs.push_back({run.first, run.count});
    quarantined.push_back({{"room", held.room.value}, {"peer", held.peer}, {"page_runs", std::move(runs)}});
  }
  const json all{{"name", name},
                 {"endpoint", endpoint},
                 {"incarnation", fmt::format("{}-{:016x}", self.started_ms, self.random)},
                 {"rooms", rooms_by_state(shared.board)},
                 {"peers", std::move(peers)},
                 {"movers", std::move(movers)},
                 {"quarantined", std::move(quarantined)},
                 {"counters", counters_of(counters)},
                 {"runtime",
                  {{"frames_dropped", shared.frames_dropped},
                   {"repeated_completions", shared.repeated_completions},
                   {"input_faults", shared.input_faults},
                   {"events_waiting", shared.events.waiting()},
                   {"events_merged", shared.events.merged()}}}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace kvferry::runtime
