#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/mesh.hpp"

namespace orrery {

/// An order in which the axes of a mesh, or factors of them, are nested on the devices: the last is the innermost, so
/// its ranks are neighbours.  Where an axis has several factors, outer ones count in larger steps.
struct AxisOrder {
  std::vector<MeshAxis> axes;  ///< an axis stands once for each factor
  friend bool operator==(const AxisOrder&, const AxisOrder&) = default;
};

/// All orders of the axes longer than 1, in lexicographic order of their places in the mesh.
[[nodiscard]] std::vector<AxisOrder> whole_orders(const Mesh&);
/// All orders of the prime factors of all axes; empty where there are more than `most`.
[[nodiscard]] std::vector<AxisOrder> factor_orders(const Mesh&, std::uint64_t most);

/// placement[rank] for the mesh's ranks in that order.
[[nodiscard]] std::vector<std::uint32_t> placement_of(const Mesh&, const AxisOrder&);
/// Whether every axis stands there whole, once.
[[nodiscard]] bool is_whole(const AxisOrder&);
/// Neighbouring factors of one axis as one.
[[nodiscard]] AxisOrder joined(const AxisOrder&);
/// "pipeline 4 > tensor 8 > data 2".
[[nodiscard]] std::string text_of(const AxisOrder&);

}  // namespace orrery
