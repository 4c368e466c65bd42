// Memory and mover of one worker, by mover name. Thread rule: the worker's main thread, before the manager
// starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "config/settings.h"
#include "kvferry/error.h"
#include "kvferry/transport.h"

namespace kvferry::replay {

struct MoverSetup {
  std::shared_ptr<const void> owner;  // keeps the memory mapped
  std::byte* memory = nullptr;        // page-aligned, touched
  std::uint64_t bytes = 0;            // at least what was asked for
  std::unique_ptr<Transport> transport;
};

// "shm" or "tcp". Errors: kEnvironment for memory that the host has not got, and what the mover says.
Result<MoverSetup> open_mover(std::string_view name, std::uint64_t bytes, const config::Config&);
bool known_mover(std::string_view name) noexcept;

}  // namespace kvferry::replay
