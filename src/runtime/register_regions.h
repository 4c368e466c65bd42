// Hands the caller's memory to the movers before the first HELLO describes it. A mover that cannot take a
// region is left out by name; without any mover left the manager does not start. Thread rule: before the
// thread exists.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/layout.h"
#include "kvferry/transport.h"

namespace kvferry::runtime {

Result<> register_regions(std::vector<std::unique_ptr<Transport>>& movers,
                          std::span<const RegionView> regions,
                          const std::function<void(std::string_view)>& log);

}  // namespace kvferry::runtime
