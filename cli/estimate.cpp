#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/price_text.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/tensors_text.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/record/report_file.hpp"

namespace orrery {
namespace {

class EstimateVerb final : public Verb {
 public:
  const char* name() const override { return "estimate"; }
  const char* summary() const override { return "predict a plan's step time and memory, without contention"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
    c.option("--cluster", cluster_, "cluster in place of the plan's: a name, a .toml file, or as h200:8x4");
    c.flag("--memory", tensors_, "list what each stage holds at its peak, tensor by tensor");
    c.option("--explain-op", explained_,
             "explain the prices of one kind of operation (a name of the report, or all): formula, numbers, sources");
    declare_allocator(c, flags_);
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the report here, as JSON");
    c.examples(
        "  orrery estimate plan.toml\n"
        "  orrery estimate llama-3-70b-8-dgx-h100 --json\n"
        "  orrery estimate plan.toml --memory\n"
        "  orrery estimate plan.toml --explain-op gemm\n"
        "  orrery estimate plan.toml --explain-op \"all_reduce tensor\" --json\n"
        "  orrery estimate plan.toml --calibration mine.toml -o report.json");
  }

  int run() override {
    keep_apart(plan_path(plan_, library_of(flags_)), {flags_.output});
    const LoadedPlan loaded = load_plan(plan_, flags_, cluster_);
    const Report report = estimated(loaded, flags_.expandable_segments);
    std::vector<ExplainedOperation> prices;
    if (explained_) prices = explain_operations(loaded, *explained_);
    write_output(flags_, write_report(report));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      nlohmann::ordered_json json = to_json(report);
      if (tensors_) json["peak_tensors"] = tensors_json(peak_tensors(loaded.program));
      if (explained_) json["prices"] = prices_json(prices, loaded, library_of(flags_));
      print_json(json);
    } else {
      print_wrapped(heading_text(loaded.run, loaded.calibration) + resolutions_text(loaded.resolved) + "\n" +
                    report_text(report) + (tensors_ ? tensors_text(peak_tensors(loaded.program)) : "") +
                    (explained_ ? prices_text(prices, loaded, library_of(flags_)) : "") +
                    unfit_text(loaded.run.plan.name, report));
    }
    return report.fits ? status_fine : status_no;
  }

 private:
  CommonFlags flags_;
  std::string plan_;
  std::optional<std::string> cluster_, explained_;
  bool tensors_ = false;
};

}  // namespace

std::unique_ptr<Verb> estimate_verb() { return std::make_unique<EstimateVerb>(); }

}  // namespace orrery
