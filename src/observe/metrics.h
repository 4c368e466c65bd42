// A manager's counters as Prometheus text (exposition format 0.0.4). Pure; no thread rule.
#pragma once

#include <string>
#include <string_view>

#include "kvferry/manager.h"

namespace kvferry::observe {

// Every sample carries {manager="NAME"}; NAME is escaped. Counters end in _total, gauges do not.
std::string metrics_text(const Counters&, std::string_view manager);

}  // namespace kvferry::observe
