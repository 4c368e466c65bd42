#include "conformance/local_party.h"

#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/sanitized.h"

namespace kvferry::conformance {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr int kQuantaPerPump = 2;

// CPU time of this thread, and how often it was put to sleep.
struct ThreadUse {
  std::uint64_t cpu_ns = 0;
  long sleeps = 0;
};

ThreadUse use_of_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto ns = [](const timeval& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000ULL +
           static_cast<std::uint64_t>(t.tv_usec) * 1'000ULL;
  };
  return {ns(usage.ru_utime) + ns(usage.ru_stime), usage.ru_nvcsw};
}

std::uint64_t entries_of(const char* directory) {
  std::uint64_t count = 0;
  DIR* dir = opendir(directory);
  if (dir == nullptr) return 0;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(dir);
  return count;
}

std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// The same bytes as pattern_byte(), eight at a time.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) {
  std::uint64_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) store_le(mix(seed * 0x100000001B3ULL + (i >> 3)), bytes.subspan(i));
  for (; i < bytes.size(); ++i) bytes[i] = pattern_byte(seed, i);
}

}  // namespace

std::byte pattern_byte(std::uint64_t seed, std::uint64_t i) noexcept {
  return static_cast<std::byte>(mix(seed * 0x100000001B3ULL + (i >> 3)) >> (8 * (i & 7)) & 0xff);
}

std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  fill_pattern(out, seed);
  return out;
}

Result<std::unique_ptr<LocalParty>> LocalParty::start(MakerSpec spec) {
  std::unique_ptr<LocalParty> party(new LocalParty(std::move(spec)));
  if (auto ok = party->restart(); !ok) return tl::unexpected(ok.error());
  return party;
}

LocalParty::~LocalParty() { transport_.reset(); }

Result<> LocalParty::restart() {
  transport_.reset();
  auto made = make(spec_);
  if (!made) return tl::unexpected(made.error());
  transport_ = std::move(made->transport);
  allocate_ = std::move(made->allocate);
  blocks_.clear();
  seen_.clear();
  return {};
}

// Runs one call of the transport and books what it cost.
template <class Call>
auto LocalParty::timed(const char* name, Call&& call) {
  const ThreadUse before = use_of_thread();
  auto result = call();
  const ThreadUse after = use_of_thread();
  const std::uint64_t cost = after.cpu_ns - before.cpu_ns;
  ++costs_.calls;
  if (cost > kMillisecond) ++costs_.over_1ms;
  if (after.sleeps != before.sleeps) ++costs_.slept;
  if (cost > costs_.worst_ns) {
    costs_.worst_ns = cost;
    costs_.worst_call = name;
  }
  return result;
}

Result<> LocalParty::dead() const {
  return fail(Code::kEnvironment, Who::kLocal, Next::kNever, "conformance party",
              "its transport was destroyed");
}

Capabilities LocalParty::capabilities() { return transport_ ? transport_->capabilities() : Capabilities{}; }

std::vector<std::byte> LocalParty::describe() {
  return transport_ ? timed("describe", [&] { return transport_->describe(); }) : std::vector<std::byte>{};
}

Result<> LocalParty::add_region(RegionId id, std::uint64_t bytes) {
  if (!transport_) return dead();
  if (!blocks_.contains(id)) {
    auto memory = allocate_(bytes);
    if (!memory) return tl::unexpected(memory.error());
    blocks_[id] = {std::move(*memory), bytes};
  }
  const RegionView view{blocks_[id].memory.address, blocks_[id].bytes, Memory::kHost};
  return timed("add_region", [&] { return transport_->add_region(id, view); });
}

Result<> LocalParty::add_foreign_region(RegionId id, Memory memory) {
  if (!transport_) return dead();
  alignas(64) static std::array<std::byte, 64> somewhere{};
  const RegionView view{somewhere.data(), somewhere.size(), memory};
  return timed("add_region", [&] { return transport_->add_region(id, view); });
}

Result<> LocalParty::drop_region(RegionId id) {
  if (!transport_) return dead();
  return timed("drop_region", [&] { return transport_->drop_region(id); });
}

Result<> LocalParty::add_peer(PeerId id, const std::vector<std::byte>& description) {
  if (!transport_) return dead();
  return timed("add_peer", [&] { return transport_->add_peer(id, description); });
}

void LocalParty::drop_peer(PeerId id) {
  if (!transport_) return;
  timed("drop_peer", [&] {
    transport_->drop_peer(id);
    return 0;
  });
}

Result<> LocalParty::fence(PeerId id) {
  if (!transport_) return dead();
  return timed("fence", [&] { return transport_->fence(id); });
}

Result<> LocalParty::lend(const LoanSpec& spec) {
  if (!transport_) return dead();
  std::vector<LoanGroup> groups;
  for (const LoanGroupSpec& group : spec.groups)
    groups.push_back({group.planes, group.item_bytes, group.runs});
  const Loan loan{spec.id, spec.token, spec.peer, spec.access, groups};
  return timed("lend", [&] { return transport_->lend(loan); });
}

Result<> LocalParty::revoke(LoanId id) {
  if (!transport_) return dead();
  return timed("revoke", [&] { return transport_->revoke(id); });
}

// The spans end with the call, as the contract says: what the transport keeps it must have copied.
Result<> LocalParty::post(const OpSpec& spec) {
  if (!transport_) return dead();
  std::vector<OpGroup> copies = spec.groups;
  std::vector<PieceGroup> groups;
  for (const OpGroup& group : copies) groups.push_back({group.planes, group.runs});
  Operation operation;
  operation.op = spec.op;
  operation.access = spec.access;
  operation.peer = spec.peer;
  operation.ticket = spec.ticket;
  operation.groups = groups;
  operation.notice = spec.notice;
  operation.priority = spec.priority;
  auto result = timed("post", [&] { return transport_->post(operation); });
  for (OpGroup& group : copies) {
    for (PlanePair& plane : group.planes) plane = {};
    for (RunPair& run : group.runs) run = {};
  }
  return result;
}

void LocalParty::cancel(OpId id) {
  if (!transport_) return;
  timed("cancel", [&] {
    transport_->cancel(id);
    return 0;
  });
}

void LocalParty::pump() {
  for (int i = 0; i < kQuantaPerPump && transport_ && !held_; ++i) {
    std::array<Event, 8> out;
    // Watched: one event a time, so that nothing moves between an event and its hash.
    const std::span<Event> room = std::span(out).first(blocks_.contains(watched_) ? 1 : out.size());
    const std::size_t count = timed("progress", [&] { return transport_->progress(room); });
    const std::uint64_t hash =
        count != 0 && blocks_.contains(watched_) ? hash64(bytes_of_region(watched_)) : 0;
    for (std::size_t k = 0; k < count; ++k) seen_.push_back({std::move(out[k]), hash});
    if (count == 0 && !transport_->busy()) return;
  }
}

std::vector<SeenEvent> LocalParty::take_events() { return std::exchange(seen_, {}); }

std::span<std::byte> LocalParty::bytes_of_region(RegionId id) {
  const auto it = blocks_.find(id);
  if (it == blocks_.end()) return {};
  return {static_cast<std::byte*>(it->second.memory.address), it->second.bytes};
}

void LocalParty::fill(RegionId id, std::uint64_t seed) { fill_pattern(bytes_of_region(id), seed); }

std::uint64_t LocalParty::hash(RegionId id) { return hash64(bytes_of_region(id)); }

std::vector<std::byte> LocalParty::read(RegionId id, std::uint64_t offset, std::uint64_t length) {
  const std::span<std::byte> bytes = bytes_of_region(id);
  if (offset > bytes.size() || length > bytes.size() - offset) return {};
  const auto part = bytes.subspan(offset, length);
  return {part.begin(), part.end()};
}

void LocalParty::watch(RegionId id) { watched_ = id; }

Resources LocalParty::resources() { return resources_of_this_process(); }

// A sanitizer keeps freed memory in quarantine, so its anonymous mappings grow by themselves: there only
// mapped files (pools, lease words) are counted, and LeakSanitizer answers for the rest.
Resources resources_of_this_process() {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t mappings = 0;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, rights, offset, device;
    std::uint64_t inode = 0;
    fields >> range >> rights >> offset >> device >> inode;
    if (!kSanitized || inode != 0) ++mappings;
  }
  return {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), mappings};
}

bool LocalParty::wakes() { return transport_ && transport_->wake_fd() >= 0; }

bool LocalParty::wait_wake(int ms) {
  if (!transport_ || transport_->busy()) return transport_ != nullptr;
  pollfd entry{transport_->wake_fd(), POLLIN, 0};
  return poll(&entry, 1, ms) == 1;
}

}  // namespace kvferry::conformance
