#include "conformance/maker.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/all.h"

namespace kvferry::conformance {
namespace {

Result<PartyMemory> map_anonymous(std::uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) {
    return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "conformance memory",
                "mmap of " + std::to_string(bytes) + " bytes: " + std::strerror(errno), errno);
  }
  return PartyMemory{std::shared_ptr<void>(at, [bytes](void* p) { munmap(p, bytes); }), at};
}

#ifdef KVFERRY_HAS_SHM
Result<Made> make_shm_pool() {
  auto opened = open_shm({});
  if (!opened) return tl::unexpected(opened.error());
  ShmTransport* shm = opened->get();
  Made made{std::move(*opened), {}};
  made.allocate = [shm](std::uint64_t bytes) -> Result<PartyMemory> {
    auto pool = allocate_pool(bytes);
    if (!pool) return tl::unexpected(pool.error());
    if (auto ok = shm->share(*pool); !ok) return tl::unexpected(ok.error());
    void* at = (*pool)->data();
    return PartyMemory{std::make_shared<std::shared_ptr<SharedPool>>(*pool), at};
  };
  return made;
}
#endif

// Keeps its library loaded until it is destroyed.
class Plugin final : public Transport {
 public:
  Plugin(std::shared_ptr<void> library, std::unique_ptr<Transport> inner)
      : library_(std::move(library)), inner_(std::move(inner)) {}
  const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  Result<> add_region(RegionId id, const RegionView& view) override { return inner_->add_region(id, view); }
  Result<> drop_region(RegionId id) override { return inner_->drop_region(id); }
  std::vector<std::byte> describe() const override { return inner_->describe(); }
  Result<> add_peer(PeerId id, std::span<const std::byte> text) override {
    return inner_->add_peer(id, text);
  }
  void drop_peer(PeerId id) override { inner_->drop_peer(id); }
  Result<> fence(PeerId id) override { return inner_->fence(id); }
  Result<> lend(const Loan& loan) override { return inner_->lend(loan); }
  Result<> revoke(LoanId id) override { return inner_->revoke(id); }
  Result<> post(const Operation& operation) override { return inner_->post(operation); }
  void cancel(OpId id) noexcept override { inner_->cancel(id); }
  std::size_t progress(std::span<Event> out) override { return inner_->progress(out); }
  bool busy() const noexcept override { return inner_->busy(); }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }

 private:
  std::shared_ptr<void> library_;  // before inner_: destroyed after it
  std::unique_ptr<Transport> inner_;
};

}  // namespace

Result<std::unique_ptr<Transport>> load_plugin(const std::string& path, const std::string& options) {
  const std::string what = "plug-in " + path;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return fail(Code::kEnvironment, Who::kConfig, Next::kAfterFix, what,
                why == nullptr ? "dlopen failed" : why);
  }
  std::shared_ptr<void> library(handle, [](void* h) { dlclose(h); });
  using Maker = Transport* (*)(const char*);
  const auto maker = reinterpret_cast<Maker>(dlsym(handle, "kvferry_make_transport"));
  if (maker == nullptr) {
    return fail(
        Code::kUsage, Who::kConfig, Next::kAfterFix, what,
        "it does not export extern \"C\" kvferry::Transport* kvferry_make_transport(const char* options)");
  }
  std::unique_ptr<Transport> inner(maker(options.empty() ? "{}" : options.c_str()));
  if (!inner) {
    return fail(Code::kTransport, Who::kTransport, Next::kAfterFix, what,
                "kvferry_make_transport returned null for the options " + (options.empty() ? "{}" : options));
  }
  return std::make_unique<Plugin>(std::move(library), std::move(inner));
}

namespace {

Result<Made> make_bare(const MakerSpec& spec) {
  Made made;
  made.allocate = map_anonymous;
  if (!spec.plugin.empty()) {
    auto loaded = load_plugin(spec.plugin, spec.plugin_options);
    if (!loaded) return tl::unexpected(loaded.error());
    made.transport = std::move(*loaded);
    return made;
  }
#ifdef KVFERRY_HAS_SHM
  if (spec.mover == "shm-pool") return make_shm_pool();
#endif
  TransportOptions options;
  options.fabric = spec.fabric;
  options.tcp.bind = spec.bind;
  auto transport = make_transport(spec.mover, options);
  if (!transport) return tl::unexpected(transport.error());
  made.transport = std::move(*transport);
  return made;
}

}  // namespace

Result<Made> make(const MakerSpec& spec) {
  auto made = make_bare(spec);
  if (made && spec.wrap) made->transport = spec.wrap(std::move(made->transport));
  return made;
}

}  // namespace kvferry::conformance
