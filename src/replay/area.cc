#include "replay/area.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

namespace kvferry::replay {
namespace {

constexpr std::uint64_t kMagic = 0x6b76665f61726561ULL;  // "kvf_area"
constexpr std::size_t kLine = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

tl::unexpected<Error> trouble(const char* call) {
  const int code = errno;
  return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "shared area of the run",
              fmt::format("{}: {}", call, std::strerror(code)), code);
}

}  // namespace

struct Area::Header {
  std::uint64_t magic = kMagic;
  std::uint64_t size = 0;
  std::uint32_t requests = 0;
  std::uint32_t hashes = 0;
  std::size_t workers_at = 0, sides_at = 0, requests_at = 0, hashes_at = 0;
  AreaConfig config;
};

Result<Area> Area::create(const AreaConfig& config, const Trace& trace) {
  Header header;
  header.config = config;
  header.requests = static_cast<std::uint32_t>(trace.requests.size());
  header.hashes = static_cast<std::uint32_t>(trace.hashes.size());
  header.workers_at = aligned(sizeof(Header));
  header.sides_at = header.workers_at + aligned(sizeof(WorkerSlot) * (config.prefill + config.decode));
  header.requests_at = header.sides_at + aligned(sizeof(SideRecord) * 2 * header.requests);
  header.hashes_at = header.requests_at + aligned(sizeof(TraceRequest) * header.requests);
  header.size = header.hashes_at + aligned(sizeof(std::uint64_t) * header.hashes);
  const int fd = memfd_create("kvferry-replay", MFD_CLOEXEC);
  if (fd < 0) return trouble("memfd_create");
  Area area(fd, nullptr, 0);
  if (ftruncate(fd, static_cast<off_t>(header.size)) != 0) return trouble("ftruncate");
  void* base = mmap(nullptr, header.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return trouble("mmap");
  area.base_ = static_cast<std::byte*>(base);
  area.size_ = header.size;
  new (area.base_) Header(header);
  for (std::uint32_t i = 0; i < config.prefill + config.decode; ++i) new (&area.worker(i)) WorkerSlot();
  for (std::uint32_t i = 0; i < header.requests; ++i) {
    new (&area.side(i, Side::kPrefill)) SideRecord();
    new (&area.side(i, Side::kDecode)) SideRecord();
  }
  std::ranges::copy(trace.requests, reinterpret_cast<TraceRequest*>(area.base_ + header.requests_at));
  std::ranges::copy(trace.hashes, reinterpret_cast<std::uint64_t*>(area.base_ + header.hashes_at));
  return area;
}

Result<Area> Area::attach(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return trouble("fstat");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < sizeof(Header)) {
    return fail(Code::kMismatch, Who::kConfig, Next::kNever, "shared area of the run",
                fmt::format("has {} bytes", size));
  }
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return trouble("mmap");
  Area area(fd, static_cast<std::byte*>(base), size);
  if (area.header().magic != kMagic || area.header().size != size) {
    return fail(Code::kMismatch, Who::kConfig, Next::kNever, "shared area of the run",
                "was not made by this program");
  }
  return area;
}

Area::Area(Area&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Area& Area::operator=(Area&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  return *this;
}

Area::~Area() {
  if (base_ != nullptr) munmap(base_, size_);
  if (fd_ >= 0) close(fd_);
}

Area::Header& Area::header() const noexcept { return *std::launder(reinterpret_cast<Header*>(base_)); }
const AreaConfig& Area::config() const noexcept { return header().config; }
std::uint32_t Area::requests() const noexcept { return header().requests; }

Shape Area::shape() const {
  const AreaConfig& c = config();
  Shape shape;
  shape.model = Model{c.model, c.dtype, c.mla != 0, c.layers, {}};
  for (std::uint32_t i = 0; i < c.parts; ++i) shape.model.parts.push_back({c.part_names[i], c.part_bytes[i]});
  shape.page_tokens = c.page_tokens;
  shape.pages = c.pages;
  shape.aux_slots = c.aux_slots;
  return shape;
}

WorkerSlot& Area::worker(std::uint32_t slot) const noexcept {
  return *(reinterpret_cast<WorkerSlot*>(base_ + header().workers_at) + slot);
}

SideRecord& Area::side(std::uint32_t request, Side side) const noexcept {
  return *(reinterpret_cast<SideRecord*>(base_ + header().sides_at) + std::size_t{request} * 2 +
           static_cast<std::size_t>(side));
}

const TraceRequest& Area::request(std::uint32_t index) const noexcept {
  return *(reinterpret_cast<const TraceRequest*>(base_ + header().requests_at) + index);
}

std::span<const std::uint64_t> Area::hashes(std::uint32_t index) const noexcept {
  const TraceRequest& r = request(index);
  return {reinterpret_cast<const std::uint64_t*>(base_ + header().hashes_at) + r.first_hash, r.hashes};
}

std::uint64_t Area::total(Count count) const noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < workers(); ++i) sum += worker(i).get(count);
  return sum;
}

AreaConfig make_config(const Shape& shape, std::string_view mover, std::uint32_t prefill,
                       std::uint32_t decode, std::uint32_t chunk_tokens, std::uint64_t seed) {
  AreaConfig config;
  config.seed = seed;
  config.prefill = prefill;
  config.decode = decode;
  config.page_tokens = shape.page_tokens;
  config.chunk_tokens = chunk_tokens;
  config.pages = shape.pages;
  config.aux_slots = shape.aux_slots;
  config.layers = shape.model.layers;
  config.mla = shape.model.mla ? 1 : 0;
  config.parts = static_cast<std::uint32_t>(std::min<std::size_t>(shape.model.parts.size(), 2));
  for (std::uint32_t i = 0; i < config.parts; ++i) {
    config.part_bytes[i] = shape.model.parts[i].row_bytes;
    put_text(config.part_names[i], shape.model.parts[i].name);
  }
  put_text(config.dtype, shape.model.dtype);
  put_text(config.model, shape.model.name);
  put_text(config.mover, mover);
  return config;
}

void put_text(std::span<char> to, std::string_view text) noexcept {
  const std::size_t size = std::min(text.size(), to.size() - 1);
  if (size > 0) std::memcpy(to.data(), text.data(), size);
  to[size] = '\0';
}

std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace kvferry::replay
