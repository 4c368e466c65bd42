#include "replay/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace kvferry::replay {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kMostPageBytes = 1ULL << 30;   // of one layer of one component
constexpr std::uint64_t kMostPages = 1ULL << 26;
constexpr std::uint64_t kLeastDefault = 16 * kMiB, kMostDefault = 4096 * kMiB;

tl::unexpected<Error> usage(std::string what, std::string why) {
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::move(what), std::move(why));
}

std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib = 0; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace

Result<Shape> make_shape(const PoolWish& wish) {
  Shape shape;
  shape.model = wish.model;
  shape.page_tokens = wish.page_tokens;
  shape.aux_slots = wish.aux_slots;
  const std::uint64_t page = shape.page_bytes();
  for (const ModelPart& part : wish.model.parts) {
    if (std::uint64_t{part.row_bytes} * wish.page_tokens > kMostPageBytes) {
      return usage(
          fmt::format("--page-tokens {}", wish.page_tokens),
          fmt::format("a page has {} bytes a layer, at most {} are possible; give fewer tokens a page",
                      std::uint64_t{part.row_bytes} * wish.page_tokens, kMostPageBytes));
    }
  }
  const std::uint64_t prompt = wish.model.bytes_per_token() * wish.longest_prompt;
  const std::uint64_t chunk_pages = (wish.chunk_tokens + wish.page_tokens - 1) / wish.page_tokens;
  std::uint64_t bytes = wish.pool_mib * kMiB;
  if (bytes == 0) bytes = std::max(std::clamp(4 * prompt, kLeastDefault, kMostDefault), chunk_pages * page);
  const std::uint64_t pages = bytes / page;
  if (pages < chunk_pages) {
    return usage(
        fmt::format("--pool-mib {}", bytes / kMiB),
        fmt::format("the pool holds {} tokens, but one chunk has {}; give at least --pool-mib {} or smaller "
                    "--chunk-tokens",
                    pages * wish.page_tokens, wish.chunk_tokens, (chunk_pages * page + kMiB - 1) / kMiB));
  }
  if (pages > kMostPages) {
    return usage(fmt::format("--pool-mib {}", bytes / kMiB),
                 fmt::format("the pool has {} pages, at most {} are possible; give more --page-tokens", pages,
                             kMostPages));
  }
  shape.pages = static_cast<std::uint32_t>(pages);
  return shape;
}

Result<> check_memory(const Shape& shape, std::uint32_t processes) {
  const std::uint64_t needed = shape.total_bytes() * processes, available = available_bytes();
  if (available == 0 || needed <= available) return {};
  return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "memory for the pools",
              fmt::format("{} processes need {} MiB, {} MiB are available; give a smaller --pool-mib",
                          processes, needed / kMiB, available / kMiB));
}

}  // namespace kvferry::replay
