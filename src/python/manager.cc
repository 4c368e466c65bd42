#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <bit>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/registry.h"
#include "kvferry/parts.h"
#include "python/convert.h"
#include "python/room.h"

namespace kvferry::python {
namespace {

using namespace nb::literals;

// poll_many takes an array of Room.handle as the Handles that it is.
static_assert(sizeof(Handle) == sizeof(std::uint64_t) && std::endian::native == std::endian::little);

class PyPool {
 public:
  explicit PyPool(std::uint64_t bytes) : pool_(take(allocate(bytes))) {}
  const std::shared_ptr<const Pool>& pool() const noexcept { return pool_; }

 private:
  static Result<std::shared_ptr<const Pool>> allocate(std::uint64_t bytes) {
    const nb::gil_scoped_release slow;  // 0.4 s a GiB
    return Pool::allocate(bytes);
  }
  std::shared_ptr<const Pool> pool_;
};

int pool_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Pool& pool = *nb::inst_ptr<PyPool>(nb::handle(self))->pool();
  return PyBuffer_FillInfo(view, self, pool.data(), static_cast<Py_ssize_t>(pool.size()), 0, flags);
}

PyType_Slot pool_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(pool_buffer)}, {0, nullptr}};

class PyManager final : public RoomHost {
 public:
  PyManager(nb::handle layout, nb::list regions, const Settings& settings, int log_fd);
  ~PyManager() override {
    const nb::gil_scoped_release waiting;
    if (!stopped_) static_cast<void>(manager_->stop(drain_));
    manager_.reset();
  }
  Manager* manager() noexcept override { return manager_.get(); }
  Manager& get() const noexcept { return *manager_; }
  const std::string& name() const noexcept { return name_; }
  const std::vector<std::string>& left_out() const noexcept { return left_out_; }
  void stop(double timeout) {
    const Duration most = seconds(timeout, "timeout");
    Result<> done;
    {
      const nb::gil_scoped_release waiting;
      done = manager_->stop(most);
    }
    stopped_ = true;
    check(std::move(done));
  }

 private:
  nb::list regions_;  // keep the memory alive
  std::string name_;
  std::vector<std::string> left_out_;
  Duration drain_{0};
  bool stopped_ = false;
  std::unique_ptr<Manager> manager_;
};

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

PartsOptions parts_of(const config::Config& config, nb::handle regions) {
  PartsOptions made;
  made.bind = config.bind;
  made.advertise = config.advertise;
  made.movers = words_of(config.movers);
  made.tcp_streams = static_cast<std::uint16_t>(config.tcp_streams);  // bounded by its setting
  made.tcp_congestion = config.tcp_congestion;
  made.shm_adopt = config.shm_adopt;
  made.shm_foreign = config.shm_foreign;
  for (nb::handle region : regions) {
    const nb::object owner = region.attr("owner");
    if (nb::isinstance<PyPool>(owner)) made.pools.push_back(nb::cast<PyPool&>(owner).pool());
  }
  return made;
}

ManagerOptions options_of(const config::Config& config, nb::handle layout, nb::handle regions, int log_fd) {
  ManagerOptions made;
  made.name = config.name;
  made.rank = config.rank;
  made.spin = config.spin;
  made.limits = config.limits;
  made.deadlines = config.deadlines;
  made.recorder_events = config.recorder_events;
  made.log_lines_per_second = config.log_lines_per_second;
  made.layout = layout_of(layout);
  for (nb::handle region : regions) {
    const auto address = nb::cast<std::uintptr_t>(region.attr("address"));
    made.regions.push_back(
        {reinterpret_cast<void*>(address), nb::cast<std::uint64_t>(region.attr("nbytes"))});
  }
  if (log_fd >= 0) {
    made.log = [log_fd](std::string_view line) {  // on the progress thread: no Python here
      const std::string text = std::string(line) + "\n";
      static_cast<void>(!::write(log_fd, text.data(), text.size()));
    };
  }
  return made;
}

PyManager::PyManager(nb::handle layout, nb::list regions, const Settings& settings, int log_fd)
    : regions_(std::move(regions)) {
  const config::Config config = take(config_of(settings));
  ManagerOptions options = options_of(config, layout, regions_, log_fd);
  const PartsOptions wanted = parts_of(config, regions_);
  name_ = config.name;
  drain_ = config.deadlines.drain;
  Result<std::unique_ptr<Manager>> started = tl::unexpected(Error{});
  {
    const nb::gil_scoped_release waiting;
    Result<Parts> parts = make_parts(wanted, &left_out_);
    if (parts) {
      started = Manager::start(std::move(options), std::move(*parts));
    } else {
      started = tl::unexpected(parts.error());
    }
  }
  manager_ = take(std::move(started));
}

using Handles = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Polls = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void poll_many(const PyManager& self, const Handles& handles, const Polls& out) {
  if (out.shape(0) != handles.shape(0)) {
    raise(usage("poll_many", std::to_string(handles.shape(0)) + " rooms and room for " +
                                 std::to_string(out.shape(0)) + " states; give an `out` of the same length"));
  }
  const auto* first = reinterpret_cast<const Handle*>(handles.data());  // the same 8 bytes: see above
  const nb::gil_scoped_release sweeping;
  self.get().poll_many({first, handles.shape(0)}, {out.data(), out.shape(0)});
}

// The view keeps the Python manager alive, which keeps the board.
auto states(nb::handle self) {
  const auto board = nb::cast<PyManager&>(self).get().board();
  return nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<1>>(
      reinterpret_cast<const std::uint64_t*>(board.data()), {board.size()}, self);
}

// (address, bytes, DLPack device type, contiguous) of what has the buffer protocol or __dlpack__.
nb::tuple memory_of(nb::handle source) {
  if (PyObject_CheckBuffer(source.ptr()) != 0) {
    Py_buffer view{};
    if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_STRIDES | PyBUF_WRITABLE) != 0)
      throw nb::python_error();
    const auto made = nb::make_tuple(reinterpret_cast<std::uintptr_t>(view.buf), view.len, 1,
                                     PyBuffer_IsContiguous(&view, 'A') != 0);
    PyBuffer_Release(&view);
    return made;
  }
  if (!nb::hasattr(source, "__dlpack__")) {
    raise(usage("region", "an object of type " + std::string(nb::type_name(source.type()).c_str()) +
                              " has neither the buffer protocol nor __dlpack__; give (address, nbytes)"));
  }
  const auto device = nb::cast<int>(source.attr("__dlpack_device__")()[0]);
  const auto array = nb::cast<nb::ndarray<>>(source);
  std::int64_t expected = 1;
  bool contiguous = true;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    contiguous = contiguous && (array.shape(i) == 1 || array.stride(i) == expected);
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.data()), array.nbytes(), device, contiguous);
}

void bind_pool(nb::module_& m) {
  nb::class_<PyPool>(m, "Pool", nb::type_slots(pool_slots))
      .def(nb::init<std::uint64_t>(), "nbytes"_a)
      .def_prop_ro("address",
                   [](const PyPool& pool) { return reinterpret_cast<std::uintptr_t>(pool.pool()->data()); })
      .def_prop_ro("nbytes", [](const PyPool& pool) { return pool.pool()->size(); })
      .def_prop_ro("report", [](const PyPool& pool) { return pool.pool()->report(); });
}

}  // namespace

nb::dict counters_of(const Manager& manager) {
  const Counters now = manager.counters();
  nb::dict made;
#define KVF_PUT(name) made[#name] = now.name
  KVF_PUT(rooms_opened);
  KVF_PUT(rooms_succeeded);
  KVF_PUT(rooms_failed);
  KVF_PUT(rooms_live);
  KVF_PUT(bytes_sent);
  KVF_PUT(bytes_received);
  KVF_PUT(messages_sent);
  KVF_PUT(messages_received);
  KVF_PUT(frames_bad);
  KVF_PUT(refused_from_peer);
  KVF_PUT(stale_answered);
  KVF_PUT(debts_resent);
  KVF_PUT(debts);
  KVF_PUT(parked);
  KVF_PUT(pages_lent);
  KVF_PUT(pages_returned);
  KVF_PUT(pages_quarantined);
  KVF_PUT(legs_lost);
  KVF_PUT(timeouts);
  KVF_PUT(gaps);
  KVF_PUT(peers_lost);
  KVF_PUT(peers);
  KVF_PUT(links);
  KVF_PUT(ops_posted);
  KVF_PUT(ops_in_flight);
  KVF_PUT(commands_refused);
#undef KVF_PUT
  return made;
}

nb::list quarantined_of(const Manager& manager) {
  nb::list made;
  for (const Quarantined& entry : manager.quarantined()) {
    nb::list runs;
    for (const PageRun& run : entry.pages) runs.append(nb::make_tuple(run.first, run.count));
    made.append(nb::make_tuple(entry.room.value, entry.peer, runs));
  }
  return made;
}

nb::list events_of(Manager& manager, std::size_t most) {
  std::vector<ManagerEvent> events;
  manager.take_events(events, most);
  nb::list made;
  for (const ManagerEvent& event : events) {
    made.append(nb::make_tuple(static_cast<int>(event.kind), number_of(event.handle), event.chunk));
  }
  return made;
}

void bind_managers(nb::module_& m) {
  m.attr("EVENTS_MOST") = Limits{}.events;
  m.def("memory_of", &memory_of, "source"_a);
  bind_pool(m);
  nb::class_<RoomHost>(m, "_RoomHost");
  nb::class_<PyManager, RoomHost>(m, "Manager")
      .def(nb::init<nb::handle, nb::list, const Settings&, int>(), "layout"_a, "regions"_a, "settings"_a,
           "log_fd"_a)
      .def_prop_ro("endpoint", [](const PyManager& self) { return self.get().endpoint(); })
      .def_prop_ro("incarnation",
                   [](const PyManager& self) { return core::print_incarnation(self.get().incarnation()); })
      .def_prop_ro("name", &PyManager::name)
      .def_prop_ro("left_out", &PyManager::left_out)
      .def(
          "fired",
          [](PyManager& self, std::uint64_t event, bool ok) { check(self.get().fired({event}, ok)); },
          "event"_a, "ok"_a = true)
      .def("rekey", [](PyManager& self) { check(self.get().rekey()); })
      .def("_poll_many", &poll_many, "handles"_a, "out"_a.noconvert())
      .def("_states", &states)
      .def("_event_fd", [](const PyManager& self) { return self.get().event_fd(); })
      .def(
          "_take_events", [](PyManager& self, std::size_t most) { return events_of(self.get(), most); },
          "most"_a = 4096)
      .def("_counters", [](const PyManager& self) { return counters_of(self.get()); })
      .def("_status_json", [](const PyManager& self) { return self.get().status_json(); })
      .def("_quarantined", [](const PyManager& self) { return quarantined_of(self.get()); })
      .def("_stop", &PyManager::stop, "timeout"_a);
}

}  // namespace kvferry::python
