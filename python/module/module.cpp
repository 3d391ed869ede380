#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "cli/commit.hpp"
#include "cli/hosted_command.hpp"
#include "cli/job.hpp"
#include "core/plan/dimension.hpp"
#include "python/module/commands.hpp"
#include "python/module/errors.hpp"
#include "python/module/estimates.hpp"
#include "python/module/subjects.hpp"

// The module orrery._orrery: what the package `orrery` (python/orrery) is made of. Names and documentation for people
// are there.

namespace orrery::python {
namespace nb = nanobind;

namespace {

std::string_view name_of(DimensionKind kind) {
  switch (kind) {
    case DimensionKind::axis: return "axis";
    case DimensionKind::count: return "count";
    case DimensionKind::choice: return "choice";
    case DimensionKind::toggle: return "toggle";
    case DimensionKind::share: return "share";
    case DimensionKind::written: return "written";
  }
  return "";
}

std::string text(std::string_view t) { return std::string(t); }

/// The table of dimensions: key, other words, kind, one sentence, names, least, most.
nb::list dimension_rows() {
  nb::list out;
  for (const Dimension& d : dimensions()) {
    nb::list aliases, names;
    for (const std::string_view a : d.aliases) aliases.append(text(a));
    for (const std::string_view n : d.names) names.append(text(n));
    out.append(
        nb::make_tuple(text(d.key), aliases, text(name_of(d.kind)), std::string(d.help), names, d.least, d.most));
  }
  return out;
}

/// Keys of the dimensions that a word means: "tensor" is an axis, and an algorithm.
nb::list dimensions_called(const std::string& word) {
  nb::list out;
  for (const Dimension& d : dimensions()) {
    if (is_called(d, word)) out.append(text(d.key));
  }
  return out;
}

}  // namespace

NB_MODULE(_orrery, m) {
  translate_errors();
  bind_subjects(m);
  bind_estimates(m);
  bind_commands(m);
  m.def("dimensions", &dimension_rows);
  m.def("dimensions_called", &dimensions_called);
  m.def("set_data_folder", [](const std::string& folder) { set_data_folder(folder); });
  m.def("version", [] { return std::string(orrery_version()); });
  m.def("commit", [] { return std::string(orrery_commit()); });
}

}  // namespace orrery::python
