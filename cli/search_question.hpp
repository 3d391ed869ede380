#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/common.hpp"
#include "framework/search_space.hpp"
#include "planner/search.hpp"

namespace orrery {

/// What a search for plans is asked, in the words of the command line: `orrery plan` asks one, `orrery sweep` one for
/// each of its points.
struct SearchQuestion {
  CommonFlags flags;
  std::string model, part, cluster;
  std::string framework;  ///< of --for; "any": every dimension; empty: the usual program on the device
  std::uint64_t batch = 0, sequence = 0;
  std::string precision = "bf16", optimizer = "adam", objective = "step-time", margin = "auto";
  double dropout = 0.0, clip_norm = 1.0;
  std::uint32_t adapters = 0;                   ///< rank of adapters that are trained alone; 0: all weights are
  std::optional<std::string> adapter_matrices;  ///< "q,v"; unset: all
  std::string base = "unquantized";             ///< what the layers' frozen matrices are kept in
  bool double_quantization = false;
  std::optional<std::string> writer;  ///< of --export
  std::optional<std::string> only;
  bool all = false;
};

/// Declares what is the same for every search of a command: the workload's details, the objective and the limits.
void declare_search(Command&, SearchQuestion&);

/// A question with its files read and found to be one that can be answered.
struct SearchTask {
  SearchQuestion question;  ///< with the model's part in its reference
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  CalibrationChoice calibration;
  SearchSpace space;
  Bytes headroom;
  Objective objective = Objective::step_time;
};

/// Reads what a question names, and checks what no plan could mend. Mistakes are an InputError (codes cli.*,
/// framework.*, workload.*, plan.*, library.*); those `found` before come first.
[[nodiscard]] SearchTask search_task(SearchQuestion, Diagnostics found = {});

/// Searches, with the task's objective, limits and memory to keep free in `options`, and writes into every report found
/// what its prices stand on.
[[nodiscard]] SearchResult search(const SearchTask&, SearchOptions options);

/// A plan that answers the task, as its plan file says it.
[[nodiscard]] PlannedRun planned_run(const SearchTask&, const Plan&, const std::string& name);
/// "llama-3-70b-64-dgx-h100-1": what the plan in this place is called.
[[nodiscard]] std::string plan_name(const SearchTask&, std::size_t place);

}  // namespace orrery
