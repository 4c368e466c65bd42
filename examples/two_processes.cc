// One prefill and one decode process on this host: prefill computes two pages, decode receives them byte for
// byte. Only headers of include/kvferry/ are used. Build it in the tree or outside (examples/outside); run it
// without arguments.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "kvferry/manager.h"
#include "kvferry/parts.h"

namespace {

using namespace kvferry;

constexpr std::uint32_t kPageTokens = 16, kPages = 64, kPageBytes = 4096, kLayers = 2;
constexpr RoomId kRoom{7001};

// The pool of one rank: all pages of layer 0, then all pages of layer 1.
struct Pool {
  std::vector<char> bytes = std::vector<char>(std::size_t{kLayers} * kPages * kPageBytes);
  char* page(std::uint32_t layer, std::uint32_t page) {
    return bytes.data() + (std::size_t{layer} * kPages + page) * kPageBytes;
  }
};

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "%s\n", error.line().c_str());
  std::_Exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::unique_ptr<Manager> start(const char* name, Pool& pool) {
  ManagerOptions options;
  options.name = name;
  options.regions = {RegionView{pool.bytes.data(), pool.bytes.size(), Memory::kHost}};
  options.layout.page_tokens = kPageTokens;
  Component pages{ComponentKind::kAttention, Space::kPages, "kv", "u8", kPageBytes, kPages, {}};
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    pages.layers.push_back({layer, RegionId{0}, std::uint64_t{layer} * kPages * kPageBytes, kPageBytes});
  }
  options.layout.components.push_back(pages);
  return must(Manager::start(std::move(options), must(make_parts(PartsOptions{}))));
}

Poll wait_end(const Manager& manager, Handle handle) {
  for (;;) {
    const Poll poll = manager.poll(handle);
    if (poll == Poll::kSuccess || poll == Poll::kFailed || poll == Poll::kStale) return poll;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int run_prefill(int endpoint_out) {
  Pool pool;
  const auto manager = start("prefill-0", pool);
  const std::string endpoint = manager->endpoint() + "\n";
  if (::write(endpoint_out, endpoint.data(), endpoint.size()) < 0) return 1;
  const Handle handle = must(manager->open(OpenSpec{kRoom, Role::kSender, {}, {}, 0, 1, {}, 0, 0}));
  std::snprintf(pool.page(0, 3), kPageBytes, "layer 0 of the first page, computed by process %d", ::getpid());
  std::snprintf(pool.page(1, 4), kPageBytes, "layer 1 of the second page");
  ChunkSpec chunk;
  chunk.pages = {{3, 2}};  // pages 3 and 4 here
  chunk.tokens = 30;
  chunk.last = true;
  must(manager->push(handle, chunk));
  if (wait_end(*manager, handle) != Poll::kSuccess) give_up(manager->error(handle));
  std::printf("prefill: sent over %s\n", manager->info(handle).mover.c_str());
  return 0;
}

int run_decode(const std::string& prefill) {
  Pool pool;
  const auto manager = start("decode-0", pool);
  const Handle handle = must(manager->open(OpenSpec{kRoom, Role::kReceiver, {}, {prefill}, 0, 1, {}, 0, 0}));
  GrantSpec grant;
  grant.pages = {{20, 1}, {9, 1}};  // wherever there is room
  grant.tokens = 30;
  must(manager->grant(handle, grant));
  if (wait_end(*manager, handle) != Poll::kSuccess) give_up(manager->error(handle));
  std::printf("decode: \"%s\"\ndecode: \"%s\"\n", pool.page(0, 20), pool.page(1, 9));
  std::printf("decode: %llu bytes\n", static_cast<unsigned long long>(manager->info(handle).bytes));
  return std::strncmp(pool.page(1, 9), "layer 1 of the second page", 26) == 0 ? 0 : 1;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();  // before any manager exists: a manager does not survive a fork
  if (child < 0) return 1;
  if (child == 0) return run_prefill(ends[1]);
  ::close(ends[1]);
  std::string endpoint;
  for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) endpoint += c;
  if (endpoint.empty()) return 1;
  const int decode = run_decode(endpoint);
  int status = 0;
  ::waitpid(child, &status, 0);
  return decode != 0 ? decode : (WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
