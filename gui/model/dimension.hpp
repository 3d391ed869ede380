#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"

// What a person turns to change a plan: one dimension at a time, through legal values only.

namespace orrery::gui {

/// Dimensions of a training run and its plan.  Values are whole numbers: those of named choices are the enumerators of
/// core/plan/plan.hpp and core/spec/workload.hpp, of switches 0 and 1, of choices that may be open 0 for "auto" and
/// from 1 on the choice, of shares offloaded eighths and 9 for "auto".
enum class Dimension : std::uint8_t {
  devices,
  batch,
  sequence,
  precision,
  optimizer,
  data,
  tensor,  ///< ranks that share a matrix product, whatever the algorithm
  pipeline,
  context,
  expert,
  replica,
  tensor_algorithm,
  context_algorithm,
  microbatch_size,
  schedule,
  chunks,
  sequence_parallel,
  recompute,
  attention,
  zero_stage,
  overlap_gradients,
  offload_states,
  offload_parameters,
  offload_activations,
};
inline constexpr std::size_t dimension_count = 24;

/// How a dimension is set.
enum class DimensionForm : std::uint8_t {
  number,   ///< from a list of legal ones
  counter,  ///< any legal number: the list holds some of them
  choice,   ///< from a list of names
};

struct DimensionInfo {
  const char* label;  ///< "Tensor"
  const char* key;    ///< in plan files: "mesh.tensor"
  DimensionForm form;
  const char* help;                                 ///< one sentence
  const std::vector<std::string_view>& (*names)();  ///< of a choice, by value
  std::optional<Axis> axis;                         ///< whose size it is
};
[[nodiscard]] const DimensionInfo& info(Dimension);

[[nodiscard]] std::uint64_t value_of(const PlannedRun&, Dimension);
/// "8", "1f1b", "auto".
[[nodiscard]] std::string text_of(Dimension, std::uint64_t value);

/// The run with the wished value, and what had to change with it.
struct Move {
  PlannedRun run;                 ///< passes check()
  std::vector<std::string> also;  ///< "data 8 to 4", "stage_layers to auto"
};
/// Changes one dimension of a valid run.  What depends on it follows: other mesh axes so that the mesh still covers the
/// cluster (data first, else those that nearest_meshes finds), stages are split anew, choices that lose their axis go.
/// Empty where no such run is valid; `reason` then has the first rule that the plain change breaks, with its numbers.
[[nodiscard]] std::optional<Move> moved(const PlannedRun&, Dimension, std::uint64_t value, std::string& reason);

/// Values that `moved` reaches, ascending, the run's own among them.
struct LegalValues {
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> refused;  ///< of a choice: those that are not
};
[[nodiscard]] LegalValues legal_values(const PlannedRun&, Dimension);

/// The answer to a wish that may be impossible.
struct Answer {
  std::uint64_t value = 0;  ///< the wish, or the nearest legal value
  Move move;
  std::string reason;  ///< why it is not the wish; empty where it is
};
/// Nearest: by the factor between them, the smaller of two that are equally near.
[[nodiscard]] Answer answer(const PlannedRun&, Dimension, std::uint64_t wish);

/// The run with another model or cluster, made valid as `moved` does; empty with `reason` where nothing near it is.
[[nodiscard]] std::optional<Move> with_model(const PlannedRun&, ModelSpec, const std::string& reference,
                                             std::string& reason);
[[nodiscard]] std::optional<Move> with_cluster(const PlannedRun&, ClusterSpec, const std::string& reference,
                                               std::string& reason);

}  // namespace orrery::gui
