#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "sim/cost/derivation.hpp"
#include "sim/des/simulate.hpp"
#include "sim/memory/live_tensors.hpp"

namespace orrery {

/// Operations of one kind, shape and price.
struct ReportedPrice {
  std::string what;   ///< with its shape
  double runs = 0.0;  ///< in a step, mean over ranks
  DerivedNumber price;
};

/// A plan as a launch of a training program, or why there is none.
struct ReportedLaunch {
  std::string title, name;  ///< "Megatron-LM", "megatron"
  std::string text;         ///< empty where it cannot be written
  std::string refused;
};

/// All that a report says of one plan. Words for people are made by who knows how they are said elsewhere, so that the
/// report and the terminal say the same.
struct ReportedPlan {
  PlannedRun run;  ///< resolved
  Program program;
  Report report;            ///< of estimate, its memory judged
  Simulation step;          ///< with a trace of classes, the critical path and its gains
  std::string verdict;      ///< "fits, 3.2 GiB to spare on stage 0"
  std::string step_time;    ///< "15.54 s", or "about 40.4 s"
  std::string interval;     ///< "14.7 s to 16.2 s"; may be empty
  double faster = 1.0;      ///< the predicted step over the one that is said first
  std::string description;  ///< describe(plan)
  std::vector<std::pair<std::string, std::string>> provenance;  ///< "device", "H100: fitted on 117 runs; ..."
  std::vector<std::pair<std::string, std::string>> resolved;    ///< what was auto: key and value with the reason
  std::vector<ReportedPrice> prices;                            ///< the most expensive together first
  std::vector<PeakTensors> tensors;
  std::string plan_file;
  std::vector<ReportedLaunch> launches;
  std::vector<std::string> differences;  ///< from the first plan of the report
};

}  // namespace orrery
