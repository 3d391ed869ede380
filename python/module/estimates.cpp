#include "python/module/estimates.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common.hpp"
#include "core/record/report_file.hpp"
#include "python/module/prices.hpp"
#include "python/module/subjects.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery::python {
namespace nb = nanobind;

namespace {

/// The report of a plan. Its times are there at once. What its processes hold takes several times as long to play, so
/// that is done when somebody asks; the report is then what `orrery estimate` gives.
class Estimate {
 public:
  Estimate(const PlannedRun& given, const CommonFlags& flags) : expandable_(flags.expandable_segments) {
    PlannedRun run = given;
    if (!run.cluster) {
      refuse("cli.cluster", "the plan names no cluster",
             {"Write cluster = \"...\" into the plan; most verbs also take --cluster."});
    }
    check_run(run, flags);
    prices_ = prices_of(run, flags);
    loaded_ = resolved_and_lowered({std::move(run), *prices_});
    report_ = estimate(loaded_.run, loaded_.program, cost_model(loaded_));
  }

  [[nodiscard]] const Report& timed() const { return report_; }
  [[nodiscard]] const Report& judged() {
    const std::scoped_lock lock(mutex_);
    if (!judged_) {
      // On a copy: other threads read the times meanwhile, and where it fails nothing is half judged.
      Report judged = report_;
      tell_prices(judged, *prices_);
      judge_memory(judged, loaded_.run, loaded_.program, loaded_.calibration.calibration, {{}, expandable_});
      judged_ = std::move(judged);
    }
    return *judged_;
  }

 private:
  bool expandable_;
  std::shared_ptr<const CalibrationChoice> prices_;
  LoadedPlan loaded_;
  Report report_;
  std::optional<Report> judged_;
  std::mutex mutex_;
};

using Shared = std::shared_ptr<Estimate>;

}  // namespace

void bind_estimates(nb::module_& m) {
  nb::class_<Estimate>(m, "Estimate")
      .def_prop_ro("step_time_s", [](const Estimate& e) { return e.timed().step_time.base(); })
      .def_prop_ro("tokens_per_s", [](const Estimate& e) { return e.timed().tokens_per_s; })
      .def_prop_ro("tokens_per_s_per_gpu", [](const Estimate& e) { return e.timed().tokens_per_s_per_gpu; })
      .def_prop_ro("model_flops_utilization", [](const Estimate& e) { return e.timed().model_flops_utilization; })
      .def_prop_ro("fits",
                   [](Estimate& e) {
                     const nb::gil_scoped_release released;
                     return e.judged().fits;
                   })
      .def("text", [](Estimate& e) {
        const nb::gil_scoped_release released;
        return json_text(to_json(e.judged()));
      });
  m.def(
      "estimate",
      [](const SharedRun& run, const CommonFlags& flags) {
        const nb::gil_scoped_release released;
        return std::make_shared<Estimate>(*run, flags);
      },
      nb::arg(), nb::arg());
}

}  // namespace orrery::python
