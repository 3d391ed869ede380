#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/plan/mesh.hpp"
#include "core/program/buffer.hpp"

namespace orrery {

/// A run of elements of one parameter tensor inside a rank's flat buffer.
struct ParameterRun {
  const ParameterSlice* slice = nullptr;
  std::uint64_t buffer_first = 0;  ///< element of the rank's buffer
  std::uint64_t slice_first = 0;   ///< element of the slice's box
  std::uint64_t count = 0;
};

/// Calls `visit` for every part of every slice that lies in the rank's buffer of this table, in the order of the table.
/// With `flat_split` the buffer holds only the rank's part of every segment (flat_parts); the parts of the segments lie
/// one after the other.
void for_each_run(const ParameterTable&, const Mesh&, Rank, const AxisList& flat_split,
                  const std::function<void(const ParameterRun&)>& visit);

/// The slice that holds element `at` of the (unsplit) flat buffer; null in padding.
[[nodiscard]] const ParameterSlice* slice_at(const ParameterTable&, const Mesh&, std::uint64_t at);

/// Row-major index of local element `local` in the global tensor without its
/// padding; `outside` for padding.
inline constexpr std::uint64_t outside = ~std::uint64_t{0};
[[nodiscard]] std::uint64_t valid_index(const Shard&, const Box&, std::uint64_t local);

}  // namespace orrery
