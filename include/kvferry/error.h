// One error type for the whole project: who failed, at what, why, and what next. Values; no thread rule.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "kvferry/export.h"

namespace kvferry {

enum class Code : std::uint8_t {
  kOk = 0,
  kAborted,      // a user of either side said so
  kRejected,     // prefill refused the request (its status and text travel along)
  kTimeout,      // a named deadline ran out
  kPeerLost,     // the other process died, restarted or stayed silent
  kSuperseded,   // a newer attempt of the same room took over
  kRefused,      // a rule of the protocol forbids it (duplicate live room, page still lent, ...)
  kMismatch,     // the two sides disagree; both values are in the text
  kBadMessage,   // a frame that is not ours
  kExhausted,    // a named limit was reached
  kWouldBlock,   // back-pressure: try again
  kTransport,    // the mover's own failure, with its own code and text
  kUnsupported,  // named, known, and not offered here
  kEnvironment,  // port, file, memory or permission of this host
  kUsage,        // a value given by the caller or the operator is wrong
  kBug,          // ours
};

enum class Who : std::uint8_t { kLocal = 0, kPeer, kTransport, kConfig };  // whose fault: for the pager
enum class Next : std::uint8_t {
  kNever = 0,
  kSameRoom,
  kNewRoom,
  kAfterFix,
  kRetry
};  // what the caller may do: for code

KVFERRY_API const char* name_of(Code) noexcept;
KVFERRY_API const char* name_of(Who) noexcept;
KVFERRY_API const char* name_of(Next) noexcept;

// A plain value; an empty `why` with Code::kOk is "no error". It crosses the wire whole (wire::Cause is this
// struct).
struct [[nodiscard]] Error {
  Code code = Code::kOk;
  Who who = Who::kLocal;
  Next next = Next::kNever;
  std::int32_t status =
      0;  // the engine's own status (HTTP style) for kRejected; a mover's or errno value else
  std::string what;  // component and subject: "room 7001 leg 2/4 (prefill-1@10.0.0.5:8998)"
  std::string why;  // exact cause with numbers

  bool ok() const noexcept { return code == Code::kOk; }
  // "peer: room 7001 leg 2/4 (...): connection reset; next: new room" -- one log line, always in this order.
  KVFERRY_API std::string line() const;
  bool operator==(const Error&) const = default;
};

template <class T = void>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, Who who, Next next, std::string what, std::string why,
                                  std::int32_t status = 0) {
  return tl::unexpected<Error>(Error{code, who, next, status, std::move(what), std::move(why)});
}

}  // namespace kvferry
