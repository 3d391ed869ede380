#pragma once

#include "core/plan/plan.hpp"

// Changes the sizes of a mesh's axes.

namespace orrery {

/// The axes whose ranks share a matrix product.
inline constexpr AxisList tensor_axes{Axis::tensor, Axis::depth, Axis::row, Axis::column};

/// An axis that the mesh lacks gets its place in the usual order, unless `size` is 1.
void set_size(Mesh&, Axis, std::uint32_t size);

/// Gives `ranks` ranks to an algorithm of matrix products; false where it takes no such number.
[[nodiscard]] bool set_tensor(Plan&, TensorAlgorithm, std::uint64_t ranks);

}  // namespace orrery
