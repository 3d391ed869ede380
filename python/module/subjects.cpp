#include "python/module/subjects.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>

#include "cli/common.hpp"
#include "cli/plan_source.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_words.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/framework.hpp"
#include "python/module/diagnostics.hpp"

namespace orrery::python {
namespace nb = nanobind;

namespace {

using std::optional;
using std::string;

NamedModel model_named(const string& reference) {
  const Library library = library_of({});
  Diagnostics d;
  optional<ModelSpec> spec = named_model(library, reference, d);
  require_none(d);
  return {std::move(*spec), library.portable_model(reference, "")};
}

NamedModel model_written(const string& text, const string& file) {
  Diagnostics d;
  optional<ModelSpec> spec = parse_model(text, file, d);
  require_none(d);
  return {std::move(*spec), file};
}

NamedCluster cluster_named(const string& reference, optional<std::uint32_t> gpus, const optional<string>& nic) {
  CommonFlags flags;
  flags.nic = nic;
  const string word = with_nic(reference, flags);
  Diagnostics d;
  optional<ClusterSpec> spec = named_cluster(library_of({}), word, gpus, d);
  require_none(d);
  return {std::move(*spec), portable(word, "")};
}

NamedCluster cluster_written(const string& text, const string& file, optional<std::uint32_t> gpus) {
  const Library library = library_of({});
  Diagnostics d;
  const DeviceLookup devices = [&](const string& name, Diagnostics& found) { return library.device(name, found); };
  optional<ClusterSpec> spec = parse_cluster(text, file, devices, d);
  require_none(d);
  if (gpus) spec = resized(*std::move(spec), *gpus, d);
  require_none(d);
  return {std::move(*spec), file};
}

Workload workload_written(const string& text) {
  Diagnostics d;
  optional<Workload> out = parse_workload(text, "", d);
  require_none(d);
  return std::move(*out);
}

void put(PlannedRun& run, const string& words) {
  Diagnostics d;
  static_cast<void>(put_words(run, words, d));
  require_none(d);
}

SharedRun made(const NamedModel& model, const NamedCluster& cluster, const Workload& workload, const string& words,
               const string& name) {
  auto run = std::make_shared<PlannedRun>();
  run->model = model.spec;
  run->model_reference = model.reference;
  run->cluster = cluster.spec;
  run->cluster_reference = cluster.reference;
  run->workload = workload;
  set_size(run->plan.mesh, Axis::data, static_cast<std::uint32_t>(cluster.spec.devices()));
  run->plan.name = name;
  if (!words.empty()) put(*run, words);
  return run;
}

/// A plan as a file or a launch file says it, or as it is shipped; references in it mean the same from any folder.
SharedRun loaded(const string& reference, const CommonFlags& flags, const optional<string>& cluster) {
  PlannedRun run = read_plan_source(reference, flags, cluster);
  const std::filesystem::path folder = plan_path(reference, library_of(flags)).parent_path();
  run.model_reference = library_of(flags).portable_model(run.model_reference, folder);
  if (!run.cluster_reference.empty()) run.cluster_reference = portable(run.cluster_reference, folder);
  return std::make_shared<PlannedRun>(std::move(run));
}

SharedRun parsed(const string& text, const string& file, optional<std::uint32_t> gpus) {
  Diagnostics d;
  optional<PlannedRun> run = read_unchecked_plan(text, file, library_of({}), gpus, nullptr, d);
  require_none(d);
  return std::make_shared<PlannedRun>(std::move(*run));
}

SharedRun with_words(const PlannedRun& run, const string& words) {
  auto out = std::make_shared<PlannedRun>(run);
  put(*out, words);
  return out;
}

SharedRun renamed(const PlannedRun& run, const string& name, const string& framework) {
  auto out = std::make_shared<PlannedRun>(run);
  out->plan.name = name;
  out->framework = framework;
  return out;
}

SharedRun on_cluster(const PlannedRun& run, const NamedCluster& cluster) {
  auto out = std::make_shared<PlannedRun>(run);
  out->cluster = cluster.spec;
  out->cluster_reference = cluster.reference;
  return out;
}

/// Everything that is wrong with a plan, as a list; what check() and the verbs refuse.
nb::list checked(const PlannedRun& given) {
  Diagnostics found;
  {
    const nb::gil_scoped_release released;
    PlannedRun run = given;
    try {
      if (run.cluster) {
        check_run(run, {});
      } else {
        static_cast<void>(check_sizes(run.model, run.workload, found));
        orrery::check(run.plan, run.model, run.workload, nullptr, found);
      }
    } catch (const InputError& wrong) {
      found = wrong.diagnostics;
    }
  }
  return listed(found);
}

}  // namespace

void bind_subjects(nb::module_& m) {
  nb::class_<NamedModel>(m, "NamedModel")
      .def_static("named", &model_named)
      .def_static("written", &model_written)
      .def_prop_ro("name", [](const NamedModel& x) { return x.spec.name; })
      .def_ro("reference", &NamedModel::reference)
      .def_prop_ro("parameters", [](const NamedModel& x) { return parameter_count(x.spec); })
      .def("text", [](const NamedModel& x) { return write_model(x.spec); });
  nb::class_<NamedCluster>(m, "NamedCluster")
      .def_static("named", &cluster_named)
      .def_static("written", &cluster_written)
      .def_prop_ro("name", [](const NamedCluster& x) { return x.spec.name; })
      .def_ro("reference", &NamedCluster::reference)
      .def_prop_ro("gpus", [](const NamedCluster& x) { return x.spec.devices(); })
      .def("text", [](const NamedCluster& x) { return write_cluster(x.spec); });
  nb::class_<Workload>(m, "WrittenWorkload")
      .def_static("written", &workload_written)
      .def("text", [](const Workload& w) { return write_workload(w); });
  nb::class_<CommonFlags>(m, "Flags")
      .def(nb::init<>())
      .def_rw("gpus", &CommonFlags::gpus, nb::arg().none())
      .def_rw("calibration", &CommonFlags::calibration, nb::arg().none())
      .def_rw("software", &CommonFlags::software)
      .def_rw("price", &CommonFlags::price, nb::arg().none())
      .def_rw("nic", &CommonFlags::nic, nb::arg().none())
      .def_rw("lanes", &CommonFlags::lanes)
      .def_rw("expandable_segments", &CommonFlags::expandable_segments)
      .def_rw("model", &CommonFlags::model, nb::arg().none())
      .def_rw("set", &CommonFlags::set)
      .def_rw("nearest", &CommonFlags::nearest);
  nb::class_<PlannedRun>(m, "Run")
      .def_static("made", &made)
      .def_static("loaded", &loaded, nb::arg(), nb::arg(), nb::arg().none())
      .def_static("parsed", &parsed, nb::arg(), nb::arg(), nb::arg().none())
      .def("with_words", &with_words)
      .def("renamed", &renamed)
      .def("on_cluster", &on_cluster)
      .def("check", &checked)
      .def("text", [](const PlannedRun& r) { return write_plan(r); })
      .def("workload_text", [](const PlannedRun& r) { return write_workload(r.workload); })
      .def_prop_ro("name", [](const PlannedRun& r) { return r.plan.name; })
      .def_prop_ro("framework", [](const PlannedRun& r) { return r.framework; })
      .def_prop_ro("model_reference", [](const PlannedRun& r) { return r.model_reference; })
      .def_prop_ro("cluster_reference", [](const PlannedRun& r) { return r.cluster_reference; })
      .def_prop_ro("ranks", [](const PlannedRun& r) { return r.plan.mesh.size(); })
      .def_prop_ro("model",
                   [](const PlannedRun& r) {
                     return NamedModel{r.model, r.model_reference};
                   })
      .def_prop_ro("cluster", [](const PlannedRun& r) -> optional<NamedCluster> {
        if (!r.cluster) return std::nullopt;
        return NamedCluster{*r.cluster, r.cluster_reference};
      });
}

}  // namespace orrery::python
