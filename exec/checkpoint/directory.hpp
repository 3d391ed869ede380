#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/dtype.hpp"
#include "exec/checkpoint/slice.hpp"

namespace orrery {

/// A part of one tensor of the training state.
///
/// `what` is the kind of state: "weights", "masters", "moment1", "moment2" of a parameter; "factored" for Adafactor's
/// statistics, [matrices, rows + columns]; "scalar" for steps and loss_scale.
struct StatePart {
  std::string what;
  std::string tensor;  ///< "layers.3.ffn.up.weight"
  Slice slice;
  DType dtype = DType::f32;
  /// For moments with scales: how far into a block of scales the first element stands. An f32 scale for each block
  /// that the part touches then follows its elements.
  std::optional<std::uint32_t> scale_phase;
  friend bool operator==(const StatePart&, const StatePart&) = default;
};

[[nodiscard]] std::uint64_t element_bytes(const StatePart&);
/// Number of scales of the part, of 4 bytes each.
[[nodiscard]] std::uint64_t scale_count(const StatePart&);
[[nodiscard]] std::uint64_t bytes_of(const StatePart&);

/// The contents of a rank's file, in order, as compact JSON.
[[nodiscard]] std::string write_directory(const std::vector<StatePart>&);

/// Reads it back; every slice lies in its box and every size is below 2^63.
/// Mistakes have the code checkpoint.file.
[[nodiscard]] std::optional<std::vector<StatePart>> read_directory(std::string_view text, const std::string& file,
                                                                   Diagnostics&);

}  // namespace orrery
