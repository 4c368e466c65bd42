// Every bound and every deadline of the project, with its name, default and arithmetic. Values; no thread
// rule. A name here is the name that errors, `kvferry config` and docs/protocol.md use.
#pragma once

#include <chrono>
#include <cstdint>

#include "kvferry/types.h"

namespace kvferry {

struct Deadlines {
  Duration handshake =
      std::chrono::seconds(30);     // dial until both HELLOs agree; clock: first dial of the wait
  Duration bootstrap =
      std::chrono::seconds(300);    // sender's creation until its last required GRANT, without a renewal
  Duration waiting =
      std::chrono::seconds(300);      // GRANT emitted / bound until the first byte, without a renewal
  Duration progress = std::chrono::seconds(60);      // no byte and no word that the sender still computes
  Duration drain = std::chrono::seconds(5);          // Revoking until nothing is outstanding; then Lost
  Duration grace = std::chrono::seconds(2);  // control connection lost until the peer counts as dead
  Duration fence = std::chrono::seconds(5);  // fence asked for until the mover says so; then quarantine
  Duration heartbeat = std::chrono::seconds(1);  // a Ping on an idle link
  std::uint32_t heartbeats_missed = 3;  // this many without any frame: the link counts as lost
  Duration lease = std::chrono::seconds(30);  // one renewal keeps a hold this long
  Duration resend_first = std::chrono::seconds(1);  // an unanswered debt; doubles up to resend_most
  Duration resend_most = std::chrono::seconds(16);
  Duration redial_first = std::chrono::milliseconds(20);  // after a failed dial; doubles up to redial_most
  Duration redial_most = std::chrono::seconds(1);
  Duration gap =
      std::chrono::seconds(1);  // a longer pause between turns moves the accusing deadlines (rule 20)
  Duration tombstone =
      std::chrono::seconds(300);  // a failed room's memory of cause and recalls (rule 16, 18)
};

struct Limits {
  // Rooms. One live room: about 0.5 KiB + 0.3 KiB a leg + 8 B a page run.
  std::uint32_t rooms = 16384;  // live handles of one manager: 16384 x 1 KiB = 16 MiB
  std::uint32_t legs_per_room = 64;  // M x N ranks that one room may join
  std::uint32_t chunks_per_room = 4096;  // 2,048 tokens a chunk: 8 Mi tokens
  std::uint32_t peers = 1024;  // live incarnations known
  std::uint32_t endpoints = 4096;  // dialled addresses known
  std::uint32_t live_grants_per_peer = 16384;  // what a sender accepts from one receiver
  std::uint32_t grant_window = 65536;  // seen bitmap: 65536 / 8 = 8 KiB a peer
  std::uint32_t parked_grants_per_peer = 16384;  // GRANTs for rooms not opened here yet
  std::uint32_t recalls = 65536;  // remembered failures and recalls, 64 B each = 4 MiB
  std::uint32_t debts_per_peer = 65536;  // unanswered messages owed to one peer
  std::uint32_t page_runs_per_part = 16384;  // 8 B each: one GRANT part stays under 128 KiB + text
  std::uint32_t grant_parts = 64;  // 64 x 16384 runs = 1 Mi runs
  std::uint32_t ops_in_flight = 1024;  // posted and unquiesced, whole manager
  std::uint32_t ops_in_flight_per_peer = 64;  // a slow peer takes at most this share
  std::uint64_t bytes_in_flight_per_peer = 1ULL << 30;
  std::uint32_t loans = 65536;  // live loans of one manager
  std::uint32_t text_bytes = 1024;  // an error text
  std::uint32_t bad_messages_per_peer = 100;  // then that peer's link is closed (counted)
  std::uint32_t commands = 65536;  // the queue between callers and the progress thread
  std::uint32_t events = 65536;  // events not yet taken by the caller: then the oldest rooms' are merged
};

}  // namespace kvferry
