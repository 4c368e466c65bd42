// What happened, in words for a person who reads a trace. Pure.
#pragma once

#include <string>

#include "core/io.h"
#include "sim/sim_transport.h"
#include "wire/message.h"

namespace kvferry::sim {

std::string text_of(const wire::Message&);           // "GRANT 3 room 7 leg 1/2"
std::string text_of(const core::Input&);
std::string text_of(const core::Output&);            // empty: not worth a line
std::string text_of(const SimOp&, std::uint32_t mover_step);

}  // namespace kvferry::sim
