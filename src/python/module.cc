// The native module kvferry._core: wires the parts together. Thread rule: see each part; the progress thread
// of a manager never enters Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "python/room.h"
#include "transport/all.h"

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  nb::set_leak_warnings(false);  // rooms kept by a traceback until the interpreter's end are no leak of ours
  m.attr("__version__") = KVFERRY_VERSION;
#ifdef NDEBUG
  m.attr("BUILD") = "release";
#else
  m.attr("BUILD") = "debug";
#endif
  nb::list movers;
  for (const std::string& name : kvferry::transport_names()) {
    if (!name.starts_with("loopback")) movers.append(nb::cast(name));
  }
  m.attr("MOVERS") = nb::tuple(movers);
  kvferry::python::bind_rooms(m);
  kvferry::python::bind_managers(m);
  kvferry::python::bind_registry(m);
  kvferry::python::bind_testkit(m);
}
