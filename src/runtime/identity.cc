#include "runtime/identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>

#include "base/checksum.h"

namespace kvferry::runtime {
namespace {

std::uint64_t random_bits() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

}  // namespace

Incarnation draw_incarnation() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
  return Incarnation{static_cast<std::uint64_t>(ms), random_bits()};
}

std::uint64_t draw_token_seed() { return random_bits(); }

std::string default_host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", space, sizeof space - 1);
  if (boot.empty() || length <= 0) return fmt::format("unknown-{:016x}", random_bits());
  const std::string text = boot + "/" + std::string(space, static_cast<std::size_t>(length));
  return fmt::format("{:016x}", hash64(text));
}

}  // namespace kvferry::runtime
