#include <array>

#include "wire/message.h"

namespace kvferry::wire {

namespace {

// In the order of Body.
constexpr std::array<const char*, kKinds> kNames = {
    "HELLO",   "WHO", "GRANT", "READY",   "REVOKE",    "REVOKED", "DONE",  "FAIL",    "OFFER",
    "RELEASE", "ACK", "RENEW", "RENEWED", "COMPUTING", "PING",    "STALL", "REGIONS", "RESEND",
};

}  // namespace

const char* name_of(const Body& body) noexcept {
  return body.valueless_by_exception() ? "no message" : kNames[body.index()];
}

}  // namespace kvferry::wire
