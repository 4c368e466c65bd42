// The manager's state as one JSON object for people and `kvferry` tools. Thread rule: with Shared::core held.
#pragma once

#include <string>

#include "runtime/shared.h"

namespace kvferry::runtime {

std::string status_json(const Shared&, const Counters&, std::string_view name, std::string_view endpoint,
                        Incarnation self);

}  // namespace kvferry::runtime
