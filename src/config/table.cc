// The table of settings. One line each; bounds are what the code can stand, not what is wise.
#include <array>

#include "config/settings.h"

namespace kvferry::config {
namespace {

constexpr std::uint64_t kUs = 1000, kMs = 1000 * kUs, kS = 1000 * kMs, kH = 3600 * kS;
constexpr std::uint64_t kMany = 1U << 24;

constexpr Setting d(std::string_view name, Setting::Place place, std::uint64_t least, std::uint64_t most,
                    std::string_view help) {
  return {name, place, Kind::kDuration, least, most, "", help};
}
constexpr Setting n(std::string_view name, Setting::Place place, std::uint64_t least, std::uint64_t most,
                    std::string_view help) {
  return {name, place, Kind::kCount, least, most, "", help};
}
constexpr Setting b(std::string_view name, Setting::Place place, std::uint64_t least, std::uint64_t most,
                    std::string_view help) {
  return {name, place, Kind::kBytes, least, most, "", help};
}
constexpr Setting t(std::string_view name, Setting::Place place, std::uint64_t most, std::string_view form,
                    std::string_view help) {
  return {name, place, Kind::kText, 0, most, form, help};
}
constexpr Setting f(std::string_view name, Setting::Place place, std::string_view help) {
  return {name, place, Kind::kFlag, 0, 1, "", help};
}

using D = Deadlines;
using L = Limits;
using C = Config;

constexpr std::array kSettings = {
    t("manager.name", &C::name, 128, "word", "name of this process in logs and errors"),
    n("manager.rank", &C::rank, 0, kMany, "rank of this process in its group"),
    d("manager.spin", &C::spin, 0, 100 * kMs, "spin this long after work before sleeping"),

    t("control.bind", &C::bind, 300, "endpoint",
      "address that the control channel listens on; port 0: any free one"),
    t("control.advertise", &C::advertise, 300, "host",
      "HOST or HOST:PORT that peers dial; empty: the bound address"),
    b("control.frame_bytes", &C::control_frame_bytes, 4096, 64U << 20, "one control frame"),
    b("control.queue_bytes", &C::control_queue_bytes, 8192, 1U << 30, "unsent bytes of one link"),
    n("control.links", &C::control_links, 1, 65536, "control links, both directions"),

    t("movers.order", &C::movers, 64, "movers", "movers in order of preference"),
    t("tcp.bind", &C::tcp_bind, 253, "host", "address that the tcp mover listens on; empty: every one"),
    t("tcp.advertise", &C::tcp_advertise, 253, "host",
      "HOST or HOST:PORT that tcp movers dial; empty: worked out"),
    n("tcp.streams", &C::tcp_streams, 1, 16, "connections to each peer"),
    t("tcp.congestion", &C::tcp_congestion, 15, "word", "TCP_CONGESTION; empty: the system's choice"),
    f("shm.adopt", &C::shm_adopt, "re-map the engine's own pool onto a memfd in place"),
    f("shm.foreign", &C::shm_foreign, "let receivers read memory that is no memfd by process_vm_readv"),

    t("bootstrap.server", &C::bootstrap_server, 300, "endpoint",
      "HOST:PORT of the bootstrap server; empty: none"),
    t("bootstrap.group", &C::bootstrap_group, 128, "word", "group that this process registers in"),
    t("bootstrap.listen", &C::bootstrap_listen, 300, "endpoint",
      "address that `kvferry bootstrap` listens on"),
    n("bootstrap.connections", &C::bootstrap_connections, 1, 65536, "open HTTP connections"),
    b("bootstrap.body_bytes", &C::bootstrap_body_bytes, 1024, 1U << 20, "one HTTP body"),
    n("bootstrap.groups", &C::bootstrap_groups, 1, 65536, "groups with a live rank"),
    n("bootstrap.entries", &C::bootstrap_entries, 1, kMany, "registered ranks over all groups"),

    t("log.level", &C::log_level, 8, "level", "least level that is written"),
    n("log.lines_per_second", &C::log_lines_per_second, 1, 100000,
      "lines a second before lines are held back"),
    n("recorder.events", &C::recorder_events, 16, kMany, "events that the flight recorder keeps"),
    t("recorder.folder", &C::recorder_folder, 1024, "path",
      "folder for the flight records of processes that end; empty: none are written"),

    d("deadlines.handshake", &D::handshake, kMs, 24 * kH, "dial until both HELLOs agree"),
    d("deadlines.bootstrap", &D::bootstrap, kMs, 24 * kH,
      "sender's creation until its last grant, without a renewal"),
    d("deadlines.waiting", &D::waiting, kMs, 24 * kH, "grant until the first byte, without a renewal"),
    d("deadlines.progress", &D::progress, kMs, 24 * kH, "no byte and no word that the sender still computes"),
    d("deadlines.drain", &D::drain, kMs, kH, "revoking until nothing is outstanding; then lost"),
    d("deadlines.grace", &D::grace, kMs, kH, "control connection lost until the peer counts as dead"),
    d("deadlines.fence", &D::fence, kMs, kH, "fence asked for until the mover says so; then quarantine"),
    d("deadlines.heartbeat", &D::heartbeat, kMs, kH, "a ping on an idle link"),
    n("deadlines.heartbeats_missed", &D::heartbeats_missed, 1, 1000,
      "missed pings until the link counts as lost"),
    d("deadlines.lease", &D::lease, 10 * kMs, 24 * kH, "one renewal keeps a hold this long"),
    d("deadlines.resend_first", &D::resend_first, kMs, kH, "an unanswered message is sent again; doubles"),
    d("deadlines.resend_most", &D::resend_most, kMs, kH, "the longest wait between two sends of one message"),
    d("deadlines.redial_first", &D::redial_first, kMs, kH, "wait after a failed dial; doubles"),
    d("deadlines.redial_most", &D::redial_most, kMs, kH, "the longest wait between two dials"),
    d("deadlines.gap", &D::gap, 10 * kMs, kH,
      "a longer pause of this process moves the deadlines that accuse a peer"),
    d("deadlines.tombstone", &D::tombstone, kMs, 24 * kH, "how long a failed room's cause is remembered"),

    n("limits.rooms", &L::rooms, 1, kMany, "live rooms; about 1 KiB each"),
    n("limits.legs_per_room", &L::legs_per_room, 1, 4096, "ranks that one room may join"),
    n("limits.chunks_per_room", &L::chunks_per_room, 1, 1U << 20, "chunks of one room"),
    n("limits.peers", &L::peers, 1, 1U << 20, "live processes known"),
    n("limits.endpoints", &L::endpoints, 1, 1U << 20, "dialled addresses known"),
    n("limits.live_grants_per_peer", &L::live_grants_per_peer, 1, kMany,
      "live grants taken from one receiver"),
    n("limits.grant_window", &L::grant_window, 64, kMany, "grant numbers in flight; 1 bit each and peer"),
    n("limits.parked_grants_per_peer", &L::parked_grants_per_peer, 1, kMany,
      "grants for rooms not opened here yet"),
    n("limits.recalls", &L::recalls, 1, kMany, "remembered failures and recalls; 64 B each"),
    n("limits.debts_per_peer", &L::debts_per_peer, 1, kMany, "unanswered messages owed to one peer"),
    n("limits.page_runs_per_part", &L::page_runs_per_part, 1, 65536,
      "page runs in one part of a grant; 8 B each"),
    n("limits.grant_parts", &L::grant_parts, 1, 4096, "parts of one grant"),
    n("limits.ops_in_flight", &L::ops_in_flight, 1, kMany, "operations posted and not yet quiesced"),
    n("limits.ops_in_flight_per_peer", &L::ops_in_flight_per_peer, 1, kMany, "the same, one peer's share"),
    b("limits.bytes_in_flight_per_peer", &L::bytes_in_flight_per_peer, 4096, 1ULL << 40,
      "bytes of those operations"),
    n("limits.loans", &L::loans, 1, kMany, "live loans of memory"),
    b("limits.text_bytes", &L::text_bytes, 64, 4096, "an error text"),
    n("limits.bad_messages_per_peer", &L::bad_messages_per_peer, 1, 1U << 20,
      "then that peer's link is closed"),
    n("limits.commands", &L::commands, 16, kMany, "commands waiting for the progress thread"),
    n("limits.events", &L::events, 16, kMany, "events not yet taken by the caller"),
};

}  // namespace

std::span<const Setting> settings() { return kSettings; }

}  // namespace kvferry::config
