// A wish of a caller on its way to the engine, with the moment it was made: a room's creation time is when
// open() was called, not when the thread came round to it. Values; no thread rule.
#pragma once

#include <utility>
#include <variant>

#include "core/io.h"

namespace kvferry::runtime {

// The inputs that a caller can cause; core::Input as a whole is several times larger.
using Wish =
    std::variant<core::in::Endpoint, core::in::Open, core::in::GrantPages, core::in::Push, core::in::Abort,
                 core::in::Renew, core::in::Close, core::in::EventFired, core::in::Rekey, core::in::Stop>;

struct Command {
  TimePoint at;
  Wish wish;
};

inline core::Input to_input(Wish wish) {
  return std::visit([](auto& value) { return core::Input(std::move(value)); }, wish);
}

}  // namespace kvferry::runtime
