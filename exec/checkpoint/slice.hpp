#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/program/shard.hpp"

namespace orrery {

/// Neighbouring elements of a box of a global tensor, in the row-major order of the box.
///
/// All coordinates are global. The box may reach beyond the tensor where a plan pads it; such elements belong to no
/// tensor.
struct Slice {
  std::vector<std::uint64_t> shape;           ///< of the whole tensor, without padding
  std::vector<std::uint64_t> offset, extent;  ///< of the box
  std::uint64_t first = 0;                    ///< element of the box
  std::uint64_t count = 0;
  friend auto operator<=>(const Slice&, const Slice&) = default;
};

[[nodiscard]] Slice slice_of(const Shard&, const Box&, std::uint64_t first, std::uint64_t count);

/// Elements of the whole tensor.  Requires a product below 2^64 (readers check it).
[[nodiscard]] std::uint64_t element_count(const Slice&);

/// Whether both are of one tensor, element by element. One may have neighbouring dimensions of the other as one: plans
/// that cut a matrix between heads tell heads and columns apart, others do not.
[[nodiscard]] bool of_one_tensor(const Slice&, const Slice&);

/// Calls visit(global, local, count) for runs of elements that are neighbours
/// both in the whole tensor (row-major) and in the slice, leaving padding out.
void for_each_stretch(const Slice&, const std::function<void(std::uint64_t, std::uint64_t, std::uint64_t)>& visit);

}  // namespace orrery
