#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "core/spec/adapters.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/matrix.hpp"

namespace orrery::test {

/// Says which of a rank's elements are read.
enum class Held {
  all,       ///< every element of the buffer is meant to be current
  own_part,  ///< only the rank's part of every segment (gradients under ZeRO)
};

/// Puts the persistent buffers "MODULE.what" ("weights", "gradients", "masters", "moment1", "moment2") of all ranks
/// together into global tensors of the shapes in `shapes`. It was written for the tests, independently of exec/run: it
/// uses only the declarations, element by element.
///
/// Adds a line to `failures` for every tensor of which elements are missing,
/// of which two holders disagree in a bit, or whose padding is not zero.
///
/// Weights of matrices that `adapters` keeps in few bits are what the stored numbers stand for.
[[nodiscard]] ParameterSet collect(const Program&, const RunBuffers&, const std::string& what, Held,
                                   const ParameterSet& shapes, std::vector<std::string>& failures,
                                   const std::optional<Adapters>& adapters = std::nullopt);

/// Element of the tensor without padding, or nothing inside the padding.
[[nodiscard]] std::optional<std::uint64_t> place_of(const Shard&, const Box&, std::uint64_t local);

/// Element `i` of raw memory as a double.
[[nodiscard]] double element_at(const std::byte* data, DType, std::uint64_t i);

/// Value `i` of the scalar buffer `name` on the rank; the buffer must exist.
[[nodiscard]] double scalar_on(const Program&, const RunBuffers&, Rank, const std::string& name, std::uint64_t i = 0);

}  // namespace orrery::test
