#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/spec/library.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// A row of the table as model, cluster, workload and plan.
struct ExpressedRun {
  std::optional<PlannedRun> run;    ///< passes every check; its autos are not resolved, but its stages are
  std::string reason;               ///< of having none
  std::vector<std::string> filled;  ///< columns whose empty cells a rule filled, in the order of the columns
};

/// The content of a row, in the types of every plan and through the same checks.
///
/// A row is expressed only from its own cells, from the shipped model that its
/// model cell names, from its machine (machine.hpp), and from the rule of its
/// framework (framework.hpp).
[[nodiscard]] ExpressedRun express(const MeasuredRun&, const Library&);

/// Layers of each of `stages` stages as Megatron-LM distributes them: equally many on each. Where that does not divide,
/// the last and the first have fewer, since they hold head and embedding. Empty where a stage would have no layer.
[[nodiscard]] std::vector<std::uint32_t> dealt_layers(std::uint64_t layers, std::uint64_t stages);

}  // namespace orrery
