#include "replay/worker_core.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <utility>

#include "base/prng.h"
#include "control/tcp_channel.h"

namespace kvferry::replay {
namespace {

constexpr std::uint64_t kAuxPlace = 1ULL << 40;  // poison of auxiliary slots differs from that of all pages
constexpr std::string_view kExpected = "room is failing";
constexpr Duration kStopDeadline = std::chrono::seconds(8);

}  // namespace

WorkerCore::WorkerCore(Area area, Link link, std::uint32_t slot, const config::Config& config)
    : area_(std::move(area)),
      link_(std::move(link)),
      slot_(slot),
      config_(config),
      side_(slot < area_.config().prefill ? Side::kPrefill : Side::kDecode),
      index_(side_ == Side::kPrefill ? slot : slot - area_.config().prefill) {}

std::string WorkerCore::name() const { return fmt::format("{}-{}", name_of(side_), index_); }

Result<ManagerOptions> WorkerCore::options() {
  ManagerOptions options;
  options.name = name();
  options.rank = index_;
  options.layout = area_.shape().layout(RegionId{0});
  options.regions.push_back({mover_.memory, mover_.bytes, Memory::kHost});
  options.limits = config_.limits;
  options.deadlines = config_.deadlines;
  options.spin = config_.spin;
  options.recorder_events = config_.recorder_events;
  options.log_lines_per_second = config_.log_lines_per_second;
  const Result<observe::Level> level = observe::parse_level(config_.log_level);
  if (!level) return tl::unexpected(level.error());
  options.log = [level = *level](std::string_view line) {
    // Rooms fail here on purpose; the report counts them with their reasons. Shown from debug on.
    const bool expected = line.find(kExpected) != std::string_view::npos;
    if (level > (expected ? observe::Level::kDebug : observe::Level::kWarn)) return;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  return options;
}

Result<> WorkerCore::start() {
  const Shape shape = area_.shape();
  Result<MoverSetup> mover = open_mover(area_.config().mover, shape.total_bytes(), config_);
  if (!mover) return tl::unexpected(mover.error());
  mover_ = std::move(*mover);
  memory_ = std::make_unique<PageMemory>(shape, mover_.memory);
  pool_ = std::make_unique<PagePool>(shape.pages, mix64(area_.config().seed + slot_));
  for (const std::uint32_t page : pool_->free_pages()) memory_->poison(page);
  for (std::uint32_t slot = shape.aux_slots; slot > 0; --slot) give_aux(slot - 1);

  control::TcpChannelOptions channel_options;
  channel_options.bind = slot().endpoint;
  channel_options.max_frame = config_.control_frame_bytes;
  channel_options.queue_bytes = config_.control_queue_bytes;
  channel_options.max_links = config_.control_links;
  Result<std::unique_ptr<Channel>> channel = control::make_tcp_channel(channel_options);
  if (!channel) return tl::unexpected(channel.error());
  Parts parts;
  parts.clock = std::make_shared<SystemClock>();
  parts.channel = std::move(*channel);
  parts.transports.push_back(std::move(mover_.transport));
  Result<ManagerOptions> with = options();
  if (!with) return tl::unexpected(with.error());
  Result<std::unique_ptr<Manager>> manager = Manager::start(std::move(*with), std::move(parts));
  if (!manager) return tl::unexpected(manager.error());
  manager_ = std::move(*manager);
  const Incarnation self = manager_->incarnation();
  slot().writer_started.store(self.started_ms, std::memory_order_relaxed);
  slot().writer_random.store(self.random, std::memory_order_relaxed);
  return {};
}

SideRecord& WorkerCore::begin_record(std::uint32_t request, std::uint32_t attempt) {
  SideRecord& r = record(request);
  r.state = SideState::kNone;
  r.attempt = attempt;
  r.opened_ns = r.granted_ns = r.pushed_ns = r.failing_ns = r.terminal_ns = 0;
  r.tokens = r.bytes = r.serial = 0;
  r.abort_said = 0;
  r.refused = 0;
  r.code = 0;
  r.status = 0;
  put_text(r.why, "");
  return r;
}

void WorkerCore::note_cause(std::uint32_t request, const Error& error) {
  SideRecord& r = record(request);
  r.code = static_cast<std::uint32_t>(error.code);
  r.status = error.status;
  put_text(r.why, error.line());
}

void WorkerCore::tell(Message::Kind kind, std::uint32_t request, std::uint32_t attempt) {
  Message message;
  message.kind = kind;
  message.request = request;
  message.attempt = attempt;
  link_.send(message);
}

void WorkerCore::abort(Handle handle, const std::string& why) {
  if (Result<> said = manager_->abort(handle, why); !said) refused("abort", said.error());
}

void WorkerCore::refused(std::string_view call, const Error& error) {
  count(Count::kRefused, 1);
  std::fprintf(stderr, "%s: %.*s refused: %s\n", name().c_str(), static_cast<int>(call.size()), call.data(),
               error.line().c_str());
}

void WorkerCore::retire(std::uint32_t page, bool check, const PageTag& tag) {
  dirty_.push_back({page, check, tag});
}

void WorkerCore::retire_all(std::span<const std::uint32_t> pages) {
  for (const std::uint32_t page : pages) retire(page, false, {});
}

bool WorkerCore::scrub(std::uint64_t bytes) {
  const std::uint64_t step = memory_->page_bytes();
  for (std::uint64_t done = 0; done < bytes && !dirty_.empty(); done += step) {
    const Dirty& next = dirty_.front();
    if (next.check) count(Count::kStrangerWrites, memory_->wrong(next.page, next.tag));
    memory_->poison(next.page);
    pool_->give_back(next.page);
    dirty_.pop_front();
  }
  return !dirty_.empty();
}

bool WorkerCore::take_aux(std::uint32_t& slot) {
  if (free_aux_.empty()) return false;
  slot = free_aux_.back();
  free_aux_.pop_back();
  count(Count::kStrangerWrites, poison_wrong(memory_->aux(slot), kAuxPlace + slot));
  return true;
}

void WorkerCore::give_aux(std::uint32_t slot) {
  poison_fill(memory_->aux(slot), kAuxPlace + slot);
  free_aux_.push_back(slot);
}

void WorkerCore::write_record() {
  if (config_.recorder_folder.empty()) return;
  const std::string path = fmt::format("{}/{}.{}.json", config_.recorder_folder, name(), getpid());
  std::ofstream file(path);
  file << manager_->flight_record() << std::flush;
  if (!file) {
    std::fprintf(stderr, "%s: the flight record %s cannot be written; make the folder (recorder.folder)\n",
                 name().c_str(), path.c_str());
  }
}

void WorkerCore::finish() {
  if (Result<> stopped = manager_->stop(kStopDeadline); !stopped) refused("stop", stopped.error());
  write_record();
  for (const Quarantined& q : manager_->quarantined()) {
    for (const PageRun& run : q.pages) count(Count::kPagesQuarantined, run.count);
  }
  while (scrub(kSliceBytes)) {}
  for (const std::uint32_t page : pool_->free_pages()) check_free(page);
  for (const std::uint32_t slot : free_aux_) {
    count(Count::kStrangerWrites, poison_wrong(memory_->aux(slot), kAuxPlace + slot));
  }
}

}  // namespace kvferry::replay
