// A Party in another process, over one stream (socket pair or TCP): the proxy here and the loop that serves
// it there. Messages: a 32-bit length and a CBOR object. Thread rule: one thread each.
#pragma once

#include <memory>

#include "conformance/maker.h"
#include "conformance/party.h"

namespace kvferry::conformance {

// Owns the descriptor. A call that gets no answer within 20 s, or none at all because the process died,
// answers kEnvironment, as do all calls behind it.
std::unique_ptr<Party> make_remote_party(int stream);

// Serves a LocalParty made by `spec` until the stream ends. Returns the exit status of the process: 0, or 3
// when the transport could not be made (the reason is told over the stream first).
int serve_party(int stream, const MakerSpec& spec);

}  // namespace kvferry::conformance
