// The messages as data: who says it, about which key, what answers it, when it is said again. Normative:
// docs/protocol.md prints this table, a test holds both the document and the outbox to it. Pure; no thread
// rule.
#pragma once

#include <array>
#include <cstddef>

#include "wire/message.h"

namespace kvferry::core {

enum class Again : std::uint8_t {
  kNever,      // an answer, or a hint: its question is said again instead
  kDebt,       // until answered: on reconnect, else with back-off from resend_first to resend_most
  kHandshake,  // every resend_first until both sides know each other's session
  kPeriod,     // every heartbeat
};

struct MessageRule {
  const char* name;
  const char* sender;
  const char* key;
  const char* answer;
  Again again;
  const char* bound;
};

// In the order of wire::Body.
inline constexpr std::array<MessageRule, wire::kKinds> kMessageTable = {{
    {"HELLO", "both", "link", "HELLO", Again::kHandshake, "one per link and second"},
    {"WHO", "both", "life", "HELLO", Again::kNever, "bad_messages_per_peer per link"},
    {"GRANT", "receiver", "grant, part", "READY, or ACK(stale), FAIL, OFFER, DONE", Again::kDebt,
     "grant_window, max_live_grants, grant_parts x page_runs_per_part"},
    {"READY", "sender", "grant", "-", Again::kNever, "one per GRANT"},
    {"REVOKE", "receiver", "grant", "REVOKED", Again::kDebt, "one per grant"},
    {"REVOKED", "sender", "grant", "ACK", Again::kDebt, "one per grant"},
    {"DONE", "sender", "grant", "ACK(outcome)", Again::kDebt, "chunks_per_room entries"},
    {"FAIL", "sender", "grant", "ACK", Again::kDebt, "two per grant (undrained, drained)"},
    {"OFFER", "sender", "grant, chunk", "RELEASE", Again::kDebt, "chunks_per_room, loans"},
    {"RELEASE", "receiver", "grant, chunk, loan", "ACK", Again::kDebt, "one per OFFER"},
    {"ACK", "both", "what, grant, chunk", "-", Again::kNever, "one per message that it answers"},
    {"RENEW", "receiver", "room, number", "RENEWED", Again::kNever, "renew_items per frame"},
    {"RENEWED", "sender", "room, number", "-", Again::kNever, "one per RENEW"},
    {"COMPUTING", "sender", "grant, number", "-", Again::kNever, "one per quiesced operation or renew()"},
    {"PING", "both", "link", "-", Again::kPeriod, "one per heartbeat"},
    {"STALL", "sender", "grant", "GRANT(resumes)", Again::kDebt, "seam: refused in this version"},
    {"REGIONS", "receiver", "generation", "ACK", Again::kDebt, "seam: refused in this version"},
    {"RESEND", "receiver", "grant", "OFFER or a new operation", Again::kDebt,
     "seam: refused in this version"},
}};

}  // namespace kvferry::core
