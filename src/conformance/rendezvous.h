// How two hosts meet for one conformance run: one TCP connection, over which remote_party speaks. Thread
// rule: main.
#pragma once

#include <string>

#include "kvferry/error.h"

namespace kvferry::conformance {

// Both sides say who they are first; a different program or version is refused by name. The caller owns the
// descriptor.
Result<int> meet_by_dialling(const std::string& endpoint, const std::string& mover);
// Waits for one connection. Prints nothing; `bound` is told the real port once it listens.
Result<int> meet_by_listening(const std::string& endpoint, const std::string& mover, std::string* bound,
                              void (*listening)(const std::string& bound));

}  // namespace kvferry::conformance
