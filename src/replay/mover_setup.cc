#include "replay/mover_setup.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp.h"

namespace kvferry::replay {
namespace {

constexpr std::uint64_t kHuge = 2ULL << 20;

class Mapping {
 public:
  Mapping(void* base, std::size_t size) : base_(base), size_(size) {}
  ~Mapping() { munmap(base_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

 private:
  void* base_;
  std::size_t size_;
};

Result<MoverSetup> shm_setup(std::uint64_t bytes) {
  Result<std::shared_ptr<SharedPool>> pool = allocate_pool(bytes);
  if (!pool) return tl::unexpected(pool.error());
  ShmOptions options;
  options.pools.push_back(*pool);
  Result<std::unique_ptr<Transport>> transport = make_shm(options);
  if (!transport) return tl::unexpected(transport.error());
  MoverSetup setup;
  setup.memory = (*pool)->data();
  setup.bytes = bytes;
  setup.owner = std::move(*pool);
  setup.transport = std::move(*transport);
  return setup;
}

Result<MoverSetup> tcp_setup(std::uint64_t bytes, const config::Config& config) {
  const std::uint64_t size = (bytes + kHuge - 1) / kHuge * kHuge + kHuge;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    const int code = errno;
    return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, fmt::format("pool of {} MiB", size >> 20),
                fmt::format("mmap: {}; give a smaller --pool-mib", std::strerror(code)), code);
  }
  MoverSetup setup;
  setup.owner = std::make_shared<Mapping>(base, size);
  const auto address = (reinterpret_cast<std::uintptr_t>(base) + kHuge - 1) / kHuge * kHuge;
  setup.memory = static_cast<std::byte*>(base) + (address - reinterpret_cast<std::uintptr_t>(base));
  setup.bytes = bytes;
  madvise(setup.memory, size - kHuge, MADV_HUGEPAGE);  // a wish; poisoning the pages touches them
  TcpOptions options;
  options.bind = "127.0.0.1";
  options.streams = static_cast<std::uint16_t>(config.tcp_streams);
  options.congestion = config.tcp_congestion;
  Result<std::unique_ptr<TcpTransport>> transport = open_tcp(options);
  if (!transport) return tl::unexpected(transport.error());
  setup.transport = std::move(*transport);
  return setup;
}

}  // namespace

bool known_mover(std::string_view name) noexcept { return name == "shm" || name == "tcp"; }

Result<MoverSetup> open_mover(std::string_view name, std::uint64_t bytes, const config::Config& config) {
  if (name == "shm") return shm_setup(bytes);
  if (name == "tcp") return tcp_setup(bytes, config);
  return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "--mover",
              fmt::format("\"{}\" is not one of shm, tcp", name));
}

}  // namespace kvferry::replay
