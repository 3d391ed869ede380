#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/program/program.hpp"
#include "exec/checkpoint/directory.hpp"

namespace orrery {

/// Where the scales are for a run of moments that are rounded together.
struct ScaleRun {
  Instance instance;              ///< of the buffer of scales
  std::uint64_t first_scale = 0;  ///< of the pair of the run's first block
  std::uint64_t first = 0;        ///< element of the moments' instance where the run begins
  std::uint64_t count = 0;
  bool second = false;  ///< the second moment's
  friend bool operator==(const ScaleRun&, const ScaleRun&) = default;
};

/// A part of the training state in a buffer of one rank.
struct HeldPart {
  StatePart part;
  Instance where;
  std::uint64_t first = 0;  ///< element of the instance
  std::optional<ScaleRun> scales;
  /// Another buffer of the rank has it too (weights below a device's own), or another module has it (a tied table's
  /// copy).
  bool copy = false;
};

/// All of the training state that the rank holds from one step to the next: weights, masters, moments with their
/// scales, Adafactor's statistics, and the scalars steps and loss scale. Buffers that a step makes anew (gradients,
/// activations, the other scalars) are not part of it.
[[nodiscard]] std::vector<HeldPart> held_parts(const Program&, Rank);

/// The parts of the state that each rank writes, so that every element is written once, or, where ranks hold different
/// stretches of it, at least once. Ranks that hold equal parts write them in turn, so that replicas share the work.
[[nodiscard]] std::vector<std::vector<HeldPart>> written_parts(const Program&);

}  // namespace orrery
