#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "bootstrap/client.h"
#include "bootstrap/service.h"
#include "core/registry.h"
#include "python/convert.h"
#include "python/room.h"

namespace kvferry::python {
namespace {

using namespace nb::literals;
using bootstrap::BootstrapClient;
using bootstrap::BootstrapService;

std::chrono::milliseconds milliseconds(double value, const char* what) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(seconds(value, what));
}

// Ends a thread of its own when it goes: not while this thread holds the GIL.
template <class Part>
class Held {
 public:
  explicit Held(std::unique_ptr<Part> part) : part_(std::move(part)) {}
  ~Held() {
    const nb::gil_scoped_release joining;
    part_.reset();
  }
  Part& operator*() const noexcept { return *part_; }
  Part* operator->() const noexcept { return part_.get(); }

 private:
  std::unique_ptr<Part> part_;
};

using Server = Held<BootstrapService>;
using Client = Held<BootstrapClient>;

void serve(Server* self, const std::string& listen) {
  bootstrap::ServiceOptions options;
  options.listen = listen;
  Result<std::unique_ptr<BootstrapService>> started = tl::unexpected(Error{});
  {
    const nb::gil_scoped_release waiting;
    started = BootstrapService::start(std::move(options));
  }
  new (self) Server(take(std::move(started)));
}

void connect(Client* self, const std::string& server, double request_timeout) {
  bootstrap::ClientOptions options;
  options.server = server;
  options.request_timeout = milliseconds(request_timeout, "request_timeout");
  new (self) Client(take(BootstrapClient::start(std::move(options))));
}

void hold(Client& self, const std::string& group, std::uint32_t rank, const std::string& endpoint,
          const std::string& incarnation, Role role, const std::string& name, std::uint32_t tp,
          std::uint32_t pp, std::uint32_t dp, double lease, bool draining) {
  const auto life = core::parse_incarnation(incarnation);
  if (!life) raise(usage("incarnation", "\"" + incarnation + "\"; give Manager.incarnation"));
  core::Registration wish;
  wish.group = group;
  wish.rank = rank;
  wish.endpoint = endpoint;
  wish.name = name;
  wish.incarnation = *life;
  wish.role = role;
  wish.shape = {tp, pp, dp};
  wish.lease = seconds(lease, "lease");
  wish.draining = draining;
  self->hold(std::move(wish));
}

nb::list resolve(Client& self, const std::string& group, double timeout) {
  const auto most = milliseconds(timeout, "timeout");
  Result<std::vector<bootstrap::ResolvedRank>> found = tl::unexpected(Error{});
  {
    const nb::gil_scoped_release waiting;
    found = self->resolve(group, most);
  }
  nb::list made;
  for (const bootstrap::ResolvedRank& rank : take(std::move(found))) {
    made.append(
        nb::make_tuple(rank.rank, rank.endpoint, rank.name, core::print_incarnation(rank.incarnation)));
  }
  return made;
}

bool wait_registered(const Client& self, double timeout) {
  const auto most = milliseconds(timeout, "timeout");
  const nb::gil_scoped_release waiting;
  return self->wait_registered(most);
}

void stop(Client& self, double farewell) {
  const auto most = milliseconds(farewell, "farewell");
  const nb::gil_scoped_release waiting;
  self->stop(most);
}

nb::tuple status(const Client& self) {
  const bootstrap::ClientStatus now = self->status();
  return nb::make_tuple(now.reachable, now.held, now.registered, now.superseded, now.registrations,
                        now.renewals, now.failures, to_python(now.last_error));
}

}  // namespace

void bind_registry(nb::module_& m) {
  nb::class_<Server>(m, "RegistryServer")
      .def("__init__", &serve, "listen"_a)
      .def_prop_ro("endpoint", [](const Server& self) { return self->endpoint(); })
      .def("stop", [](Server& self) {
        const nb::gil_scoped_release joining;
        self->stop();
      });
  nb::class_<Client>(m, "RegistryClient")
      .def("__init__", &connect, "server"_a, "request_timeout"_a)
      .def(
          "release",
          [](Client& self, const std::string& group, std::uint32_t rank) { self->release(group, rank); },
          "group"_a, "rank"_a)
      .def("wait_registered", &wait_registered, "timeout"_a)
      .def("stop", &stop, "farewell"_a = 0.0)
      .def("_hold", &hold)
      .def("_resolve", &resolve)
      .def("_status", &status);
}

}  // namespace kvferry::python
