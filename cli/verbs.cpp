#include "cli/verbs.hpp"

namespace orrery {

std::vector<std::unique_ptr<Verb>> all_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  verbs.push_back(plan_verb());
  verbs.push_back(sweep_verb());
  verbs.push_back(estimate_verb());
  verbs.push_back(simulate_verb());
  verbs.push_back(forecast_verb());
  verbs.push_back(serve_verb());
  verbs.push_back(jobs_verb());
  verbs.push_back(place_verb());
  verbs.push_back(run_verb());
  verbs.push_back(compare_verb());
  verbs.push_back(report_verb());
  verbs.push_back(explain_verb());
  verbs.push_back(calibrate_verb());
  verbs.push_back(show_verb());
  verbs.push_back(check_verb());
  verbs.push_back(study_verb());
  verbs.push_back(validate_verb());
  verbs.push_back(import_verb());
  verbs.push_back(export_verb());
  verbs.push_back(checkpoint_verb());
  verbs.push_back(manual_verb());
  verbs.push_back(completion_verb());
  return verbs;
}

}  // namespace orrery
