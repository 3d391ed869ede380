#pragma once

#include <cstddef>
#include <vector>

namespace orrery {

/// The 256 values of dynamic tree quantization in their order: for a first moment in [-1, 1], for a second one in [0,
/// 1]. They are listed from the definition (docs/formulas/training.md, moments in codes of a byte); nothing is shared
/// with exec/kernels.
[[nodiscard]] std::vector<double> dynamic_values(bool squares);

/// Rounds every value to the nearest of these times the largest magnitude of `block` neighbours, which is an f32.
void round_to_dynamic_values(std::vector<double>&, bool squares, std::size_t block);

}  // namespace orrery
