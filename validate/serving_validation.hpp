#pragma once

#include <functional>
#include <string>
#include <vector>

#include "validate/serving_fit.hpp"

namespace orrery {

/// Errors of one group of points: of TPOT, and of TTFT where the prediction says that requests do not queue for room.
struct ServingErrors {
  std::string name;
  ErrorSummary tpot, ttft;
};

/// Points predicted in one way: by the shipped costs, or by costs that have not seen them.
struct ServingRound {
  std::string name;
  std::vector<ServingTimes> times;  ///< in the order of the cases
  std::vector<ServingErrors> groups;
};

struct ServingValidation {
  std::vector<ServingCase> cases;
  std::vector<SkippedServing> skipped;
  /// By the shipped costs; by costs fitted to this table; without each point's (input, output) shape; without its
  /// model.
  std::vector<ServingRound> rounds;
  EngineTable shipped, refitted;
};

/// Predicts every row of a table. Only aggregated points are fitted to; disaggregated ones are predicted. `go_on` gets
/// the share done and ends the work by returning false; the result is empty then.
[[nodiscard]] std::optional<ServingValidation> validate_serving(const std::vector<MeasuredServing>&, const EngineTable&,
                                                                const Library&,
                                                                const std::function<bool(double)>& go_on = {});

/// The groups that errors are given for: pool and kind; then, of aggregated points, each engine, GPU, precision, model.
[[nodiscard]] std::vector<ServingErrors> serving_errors(const std::vector<ServingCase>&,
                                                        const std::vector<ServingTimes>&);

}  // namespace orrery
