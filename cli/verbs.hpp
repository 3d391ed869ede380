#pragma once

#include <memory>
#include <vector>

#include "cli/arguments.hpp"

namespace orrery {

[[nodiscard]] std::unique_ptr<Verb> plan_verb();
[[nodiscard]] std::unique_ptr<Verb> sweep_verb();
[[nodiscard]] std::unique_ptr<Verb> report_verb();
[[nodiscard]] std::unique_ptr<Verb> estimate_verb();
[[nodiscard]] std::unique_ptr<Verb> simulate_verb();
[[nodiscard]] std::unique_ptr<Verb> forecast_verb();
[[nodiscard]] std::unique_ptr<Verb> serve_verb();
[[nodiscard]] std::unique_ptr<Verb> jobs_verb();
[[nodiscard]] std::unique_ptr<Verb> place_verb();
[[nodiscard]] std::unique_ptr<Verb> run_verb();
[[nodiscard]] std::unique_ptr<Verb> compare_verb();
[[nodiscard]] std::unique_ptr<Verb> explain_verb();
[[nodiscard]] std::unique_ptr<Verb> calibrate_verb();
[[nodiscard]] std::unique_ptr<Verb> show_verb();
[[nodiscard]] std::unique_ptr<Verb> check_verb();
[[nodiscard]] std::unique_ptr<Verb> study_verb();
[[nodiscard]] std::unique_ptr<Verb> validate_verb();
[[nodiscard]] std::unique_ptr<Verb> import_verb();
[[nodiscard]] std::unique_ptr<Verb> export_verb();
[[nodiscard]] std::unique_ptr<Verb> checkpoint_verb();
[[nodiscard]] std::unique_ptr<Verb> manual_verb();
[[nodiscard]] std::unique_ptr<Verb> completion_verb();

/// The verbs in the order in which --help lists them.
[[nodiscard]] std::vector<std::unique_ptr<Verb>> all_verbs();

}  // namespace orrery
