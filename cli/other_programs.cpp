#include "cli/other_programs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/program/lower/lower.hpp"
#include "sim/estimate/estimate.hpp"
#include "validate/calibration_choice.hpp"
#include "validate/cost_labels.hpp"

namespace orrery {

std::vector<ProgramStep> other_program_steps(const PlannedRun& run, const CalibrationChoice& prices,
                                             const CommonFlags& flags) {
  std::vector<ProgramStep> out;
  const Software& own = prices.software;
  if (own.chosen || flags.calibration || own.name == "none") return out;
  const Program program = lower(run.model, run.workload, run.plan);
  const Library library = library_of(flags);
  for (const TrainingProgram& p : training_programs()) {
    if (p.name == own.name) continue;
    PriceWishes wishes;
    wishes.software = p.name;
    Diagnostics unknown_here;
    const auto other = choose_calibration(wishes, library, *run.cluster, run.workload.precision, unknown_here);
    if (!other || other->software.runs == 0) continue;
    const Plan& plan = run.plan;
    const CostModel costs(*run.cluster, other->calibration, plan.mesh, plan.placement, plan.collective_algorithm);
    out.push_back({p.name, estimate(run, program, costs).step_time, other->software.runs});
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return out;
}

std::string other_programs_text(const std::vector<ProgramStep>& steps) {
  if (steps.empty()) return "";
  const auto text = [](const ProgramStep& s) { return fmt::format("{} ({})", short_text(s.step), s.program); };
  std::string out = fmt::format("As other programs run it: {}", text(steps.front()));
  if (steps.size() > 1) out += fmt::format(" to {}", text(steps.back()));
  return out + ".\n";
}

}  // namespace orrery
