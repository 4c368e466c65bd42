// Values between Python and C++: errors, page lists, settings, layouts. Thread rule: the caller holds the
// GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "kvferry/error.h"
#include "kvferry/manager.h"

namespace kvferry::python {

namespace nb = nanobind;

using Settings = std::vector<std::pair<std::string, std::string>>;

nb::object to_python(const Error&);  // an exception object of the class of its code; None for "no error"
[[noreturn]] void raise(const Error&);
Error usage(std::string what, std::string why);

inline void check(Result<> result) {
  if (!result) raise(result.error());
}
template <class T>
T take(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

// Page indices from a 1-D integer array (buffer protocol) or an iterable of ints; neighbours become one run.
PageRuns page_runs(nb::handle pages);
std::uint32_t slot_of(nb::handle slot);  // None: kNoSlot
Duration seconds(double, const char* what);  // refuses NaN and what is below zero
double to_seconds(Duration) noexcept;
std::uint64_t number_of(
    Handle) noexcept;  // generation << 32 | slot: the memory of a Handle, read as one word

Layout layout_of(nb::handle layout);  // of a kvferry.Layout
Result<config::Config> config_of(const Settings&);

}  // namespace kvferry::python
