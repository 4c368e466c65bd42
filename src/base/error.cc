#include "kvferry/error.h"

namespace kvferry {

const char* name_of(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kAborted: return "aborted";
    case Code::kRejected: return "rejected";
    case Code::kTimeout: return "timeout";
    case Code::kPeerLost: return "peer lost";
    case Code::kSuperseded: return "superseded";
    case Code::kRefused: return "refused";
    case Code::kMismatch: return "mismatch";
    case Code::kBadMessage: return "bad message";
    case Code::kExhausted: return "exhausted";
    case Code::kWouldBlock: return "would block";
    case Code::kTransport: return "transport";
    case Code::kUnsupported: return "unsupported";
    case Code::kEnvironment: return "environment";
    case Code::kUsage: return "usage";
    case Code::kBug: return "bug";
  }
  return "unknown code";
}

const char* name_of(Who who) noexcept {
  switch (who) {
    case Who::kLocal: return "local";
    case Who::kPeer: return "peer";
    case Who::kTransport: return "transport";
    case Who::kConfig: return "config";
  }
  return "unknown who";
}

const char* name_of(Next next) noexcept {
  switch (next) {
    case Next::kNever: return "never";
    case Next::kSameRoom: return "same room";
    case Next::kNewRoom: return "new room";
    case Next::kAfterFix: return "after fix";
    case Next::kRetry: return "retry";
  }
  return "unknown next";
}

namespace {

// A text of a peer may hold anything; a log line stays one line.
void append_one_line(std::string& out, const std::string& text) {
  for (const char c : text) {
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c);
  }
}

}  // namespace

std::string Error::line() const {
  if (ok()) {
    return "ok";
  }
  std::string out = name_of(who);
  out.append(": ");
  if (!what.empty()) {
    append_one_line(out, what);
    out.append(": ");
  }
  if (why.empty()) {
    out.append(name_of(code));
  } else {
    append_one_line(out, why);
  }
  out.append("; next: ").append(name_of(next));
  return out;
}

}  // namespace kvferry
