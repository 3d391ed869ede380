#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"

// What a person turns to change a plan: one dimension at a time, through legal values only.

namespace orrery {

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
  recompute_layers,  ///< of each pipeline stage at most
  states_tier,
  parameters_tier,
  activations_tier,
  zigzag,
  inner_ring,
  save_gathered,
  reshard_after_forward,
  prefetch,
  parameter_chunk,  ///< a choice: none, auto, or a power of two of mebibytes; else as it is written
  gradient_bucket,  ///< mebibytes; 0: auto
  collective_algorithm,
};
inline constexpr std::size_t dimension_count = 36;
inline constexpr std::uint64_t open_offload = 9;  ///< "auto" among shares offloaded
/// Among choices of parameter_chunk: "auto", and a size that is none of the list's.
inline constexpr std::uint64_t open_chunk = 1, written_chunk = 8;
/// The size that a choice below `written_chunk` stands for; empty: auto.
[[nodiscard]] std::optional<Bytes> chunk_of(std::uint64_t choice);
/// Those that share a matrix product.
inline constexpr AxisList tensor_axes{Axis::tensor, Axis::depth, Axis::row, Axis::column};

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
/// Layers of the largest stage.
[[nodiscard]] std::uint32_t most_stage_layers(const PlannedRun&);
/// "8", "1f1b", "auto".
[[nodiscard]] std::string text_of(Dimension, std::uint64_t value);

}  // namespace orrery
