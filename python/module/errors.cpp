#include "python/module/errors.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>

#include "cli/common.hpp"
#include "cli/cut_off.hpp"
#include "python/module/diagnostics.hpp"

namespace orrery::python {
namespace nb = nanobind;

namespace {

void raise(const Diagnostics& d) {
  nb::object type = nb::module_::import_("orrery._errors").attr("Invalid");
  nb::object value = type(nb::module_::import_("orrery._errors").attr("diagnostics_of")(listed(d)));
  PyErr_SetObject(type.ptr(), value.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InputError& wrong) {
    raise(wrong.diagnostics);
  } catch (const CutOff& cut) {
    raise(diagnosed(cut));
  } catch (const Error& failed) {
    nb::object type = nb::module_::import_("orrery._errors").attr("Failed");
    PyErr_SetString(type.ptr(), failed.what());
  }
}

}  // namespace

nb::list listed(const Diagnostics& diagnostics) {
  nb::list out;
  const auto known = [](auto value, bool is) { return is ? nb::cast(value) : nb::object(nb::none()); };
  for (const Diagnostic& d : diagnostics.list()) {
    nb::list details;
    for (const std::string& line : d.details) details.append(line);
    out.append(nb::make_tuple(known(d.file, !d.file.empty()), known(d.position.line, d.position.line > 0),
                              known(d.position.column, d.position.line > 0), d.code, d.message, details, render(d)));
  }
  return out;
}

void translate_errors() { nb::register_exception_translator(translate); }

}  // namespace orrery::python
