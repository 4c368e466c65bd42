#include "runtime/register_regions.h"

#include <fmt/format.h>

#include <array>

#include "runtime/sleeper.h"

namespace kvferry::runtime {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(1);
constexpr int kMostPauses = 30'000;  // 30 s of real time: mapping and touching 4 GiB of pool takes about 2 s

// Waits until `mover` has said kRegionReady for `count` regions.
Result<> wait_ready(Transport& mover, std::size_t count) {
  std::array<Event, 16> events;
  Sleeper sleeper;
  sleeper.watch(mover.wake_fd());
  for (int pause = 0; count > 0; ++pause) {
    const std::size_t got = mover.progress(events);
    for (std::size_t i = 0; i < got; ++i) {
      if (events[i].kind != Event::Kind::kRegionReady) continue;
      if (!events[i].error.ok()) return tl::unexpected(events[i].error);
      --count;
    }
    if (count == 0) break;
    if (pause >= kMostPauses) {
      return fail(Code::kTimeout, Who::kTransport, Next::kAfterFix,
                  fmt::format("mover {}", mover.capabilities().name),
                  fmt::format("{} regions were not ready after 30 s; register less memory at once", count));
    }
    if (got == 0) sleeper.sleep(kPause);
  }
  return {};
}

Result<> add_all(Transport& mover, std::span<const RegionView> regions) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (auto added = mover.add_region(RegionId{static_cast<std::uint32_t>(i)}, regions[i]); !added)
      return added;
  }
  return wait_ready(mover, regions.size());
}

}  // namespace

Result<> register_regions(std::vector<std::unique_ptr<Transport>>& movers,
                          std::span<const RegionView> regions,
                          const std::function<void(std::string_view)>& log) {
  const std::size_t offered = movers.size();
  Error last;
  for (auto mover = movers.begin(); mover != movers.end();) {
    if (auto added = add_all(**mover, regions); !added) {
      last = added.error();
      if (log) log(fmt::format("mover {} is left out: {}", (*mover)->capabilities().name, last.line()));
      mover = movers.erase(mover);
    } else {
      ++mover;
    }
  }
  if (offered > 0 && movers.empty()) return tl::unexpected(last);
  return {};
}

}  // namespace kvferry::runtime
