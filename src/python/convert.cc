#include "python/convert.h"

#include <nanobind/stl/string.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace kvferry::python {
namespace {

// A buffer that Python lends us; given back at the end of the scope.
class Lent {
 public:
  Lent(nb::handle source, int flags) : held_(PyObject_GetBuffer(source.ptr(), &view_, flags) == 0) {
    if (!held_) throw nb::python_error();
  }
  ~Lent() {
    if (held_) PyBuffer_Release(&view_);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  const Py_buffer& view() const noexcept { return view_; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

class Runs {
 public:
  void add(std::int64_t page) {
    if (page < 0 || page >= std::int64_t{kNoSlot}) {
      raise(usage("pages", "page index " + std::to_string(page) + " is not between 0 and 4294967294"));
    }
    const auto index = static_cast<std::uint32_t>(page);  // in range: judged above
    if (!runs_.empty() && runs_.back().first + runs_.back().count == index) {
      ++runs_.back().count;
    } else {
      runs_.push_back({index, 1});
    }
  }
  PageRuns take() { return std::move(runs_); }

 private:
  PageRuns runs_;
};

template <class T>
void add_items(Runs& runs, const Py_buffer& view) {
  const auto* from = static_cast<const char*>(view.buf);
  for (Py_ssize_t i = 0; i < view.shape[0]; ++i) {
    T value{};
    std::memcpy(&value, from + i * view.strides[0], sizeof value);
    const bool large =
        static_cast<long double>(value) > static_cast<long double>(std::numeric_limits<std::int64_t>::max());
    runs.add(large ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(value));
  }
}

bool add_buffer(Runs& runs, const Py_buffer& view) {
  if (view.ndim != 1 || view.format == nullptr || std::strlen(view.format) != 1) return false;
  switch (view.format[0]) {
    case 'b': add_items<signed char>(runs, view); return true;
    case 'B': add_items<unsigned char>(runs, view); return true;
    case 'h': add_items<short>(runs, view); return true;
    case 'H': add_items<unsigned short>(runs, view); return true;
    case 'i': add_items<int>(runs, view); return true;
    case 'I': add_items<unsigned>(runs, view); return true;
    case 'l': add_items<long>(runs, view); return true;
    case 'L': add_items<unsigned long>(runs, view); return true;
    case 'q': add_items<long long>(runs, view); return true;
    case 'Q': add_items<unsigned long long>(runs, view); return true;
    default: return false;
  }
}

template <class T>
T attribute(nb::handle object, const char* name) {
  return nb::cast<T>(object.attr(name));
}

Component component_of(nb::handle part) {
  Component made;
  made.kind = static_cast<ComponentKind>(attribute<std::uint8_t>(part, "kind"));
  made.space = static_cast<Space>(attribute<std::uint8_t>(part, "space"));
  made.name = attribute<std::string>(part, "name");
  made.dtype = attribute<std::string>(part, "dtype");
  made.item_bytes = attribute<std::uint32_t>(part, "item_bytes");
  made.items = attribute<std::uint32_t>(part, "items");
  for (nb::handle place : part.attr("layers")) {
    made.layers.push_back({attribute<std::uint32_t>(place, "layer"),
                           {attribute<std::uint32_t>(place, "region")},
                           attribute<std::uint64_t>(place, "base"),
                           attribute<std::uint64_t>(place, "stride")});
  }
  return made;
}

}  // namespace

nb::object to_python(const Error& error) {
  if (error.ok()) return nb::none();
  return nb::module_::import_("kvferry.errors")
      .attr("_make")(static_cast<int>(error.code), static_cast<int>(error.who), static_cast<int>(error.next),
                     error.status, error.what, error.why, error.line());
}

void raise(const Error& error) {
  const nb::object made = to_python(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

Error usage(std::string what, std::string why) {
  return {Code::kUsage, Who::kConfig, Next::kAfterFix, 0, std::move(what), std::move(why)};
}

PageRuns page_runs(nb::handle pages) {
  Runs runs;
  if (PyObject_CheckBuffer(pages.ptr()) != 0) {
    const Lent lent(pages, PyBUF_FORMAT | PyBUF_STRIDES);
    if (!add_buffer(runs, lent.view())) {
      raise(usage("pages", "an array of page indices is 1-D and of an integer type"));
    }
    return runs.take();
  }
  for (nb::handle page : nb::iter(pages)) {
    const nb::object index = nb::steal(PyNumber_Index(page.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    runs.add(overflow == 0 ? value : std::numeric_limits<std::int64_t>::max());
  }
  return runs.take();
}

std::uint32_t slot_of(nb::handle slot) { return slot.is_none() ? kNoSlot : nb::cast<std::uint32_t>(slot); }

Duration seconds(double value, const char* what) {
  if (std::isnan(value) || value < 0) {
    raise(usage(what, std::to_string(value) + " s; give seconds from 0 on"));
  }
  constexpr double kMost = 9e9;  // seconds; more does not fit into 64 bits of nanoseconds
  if (value >= kMost) return Duration::max();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

double to_seconds(Duration duration) noexcept { return std::chrono::duration<double>(duration).count(); }

std::uint64_t number_of(Handle handle) noexcept {
  return std::uint64_t{handle.generation} << 32U | handle.slot;
}

Layout layout_of(nb::handle layout) {
  Layout made;
  made.page_tokens = attribute<std::uint32_t>(layout, "page_tokens");
  for (nb::handle part : layout.attr("components")) made.components.push_back(component_of(part));
  made.tp_rank = attribute<std::uint32_t>(layout, "tp_rank");
  made.tp_size = attribute<std::uint32_t>(layout, "tp_size");
  made.pp_rank = attribute<std::uint32_t>(layout, "pp_rank");
  made.pp_size = attribute<std::uint32_t>(layout, "pp_size");
  made.dp_rank = attribute<std::uint32_t>(layout, "dp_rank");
  made.dp_size = attribute<std::uint32_t>(layout, "dp_size");
  made.cp_rank = attribute<std::uint32_t>(layout, "cp_rank");
  made.cp_size = attribute<std::uint32_t>(layout, "cp_size");
  return made;
}

Result<config::Config> config_of(const Settings& settings) {
  config::Config made;
  for (const auto& [name, value] : settings) {
    const config::Setting* known = config::find_setting(name);
    if (known == nullptr) {
      const std::string near(config::nearest_setting(name));
      return tl::unexpected(usage(
          "setting " + name, "there is none of that name" + (near.empty() ? "" : "; is it " + near + "?")));
    }
    if (value.empty() && config::value_of(made, *known).empty()) continue;  // text that stays unset
    if (auto set = config::set_value(made, *known, value, "argument"); !set)
      return tl::unexpected(set.error());
  }
  if (auto held = config::check(made); !held) return tl::unexpected(held.error());
  return made;
}

}  // namespace kvferry::python
