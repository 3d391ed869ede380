#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sweep/measure.hpp"
#include "sweep/points_file.hpp"

namespace orrery {

/// How a sweep is looked at.
struct SweepView {
  std::vector<const SweepMeasure*> pareto;  ///< two or more, or none
  WholeRun run;
};

/// The measures that --pareto lists, "step-time,cost". Throws an InputError (sweep.value).
[[nodiscard]] std::vector<const SweepMeasure*> sweep_measures_of(std::string_view list, const WholeRun&);

/// The points as a table of what varies and what came of each, what does not fit with its reason, and the Pareto
/// front. At most `most_rows` points are shown.
[[nodiscard]] std::string sweep_text(const SweepRecord&, const SweepView&, std::size_t most_rows = 64);
/// One row for each point: every key, the state, the reason, and the figures with units in the names of columns.
[[nodiscard]] std::string sweep_csv(const SweepRecord&, const SweepView&);
/// Everything, as JSON.
[[nodiscard]] nlohmann::ordered_json sweep_json(const SweepRecord&, const SweepView&);

}  // namespace orrery
