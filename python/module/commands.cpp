#include "python/module/commands.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "cli/hosted_command.hpp"
#include "python/module/diagnostics.hpp"

namespace orrery::python {
namespace nb = nanobind;

namespace {

/// Signals are looked for and progress is told at most so often.
constexpr std::chrono::milliseconds turn{100};

/// Text for Python; bytes that are no UTF-8, as of a file's name, are replaced. Null, with the exception set, where
/// that fails.
PyObject* text_of(const std::string& t) {
  return PyUnicode_DecodeUTF8(t.data(), static_cast<Py_ssize_t>(t.size()), "replace");
}

/// Whether Python wants the command to end: a signal's handler, or the callback of progress, has raised. The exception
/// stays set.
bool wants_end(HostedCommand& command, const nb::object& progress) {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) return true;
  if (progress.is_none()) return false;
  const std::optional<HostedProgress> p = command.progress();
  if (!p) return false;
  PyObject* said =
      PyObject_CallFunction(progress.ptr(), "NKKN", text_of(p->phase), static_cast<unsigned long long>(p->done),
                            static_cast<unsigned long long>(p->total), text_of(p->note));
  Py_XDECREF(said);
  return said == nullptr;
}

/// Runs a command on a thread of its own, and looks after Python meanwhile: status, output, messages, diagnostics,
/// failure.
nb::tuple command(const std::vector<std::string>& arguments, const nb::object& progress) {
  HostedCommand hosted;
  HostedAnswer answer;
  bool ended = false;
  {
    const nb::gil_scoped_release released;
    std::future<HostedAnswer> coming = std::async(std::launch::async, [&] { return hosted.run(arguments); });
    while (coming.wait_for(turn) != std::future_status::ready) {
      if (ended || !wants_end(hosted, progress)) continue;
      hosted.stop();
      ended = true;
    }
    answer = coming.get();
  }
  if (ended) throw nb::python_error();
  return nb::make_tuple(answer.status, nb::bytes(answer.output.data(), answer.output.size()),
                        nb::bytes(answer.messages.data(), answer.messages.size()), listed(answer.diagnostics),
                        nb::steal(text_of(answer.failure)));
}

}  // namespace

void bind_commands(nb::module_& m) { m.def("command", &command, nb::arg(), nb::arg().none()); }

}  // namespace orrery::python
