#pragma once

#include <array>
#include <cstdint>

#include "exec/kernels/device/on_device.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery::device {

/// The function coordinate_of (core/program/shard.hpp) for kernel bodies: the global coordinate of the element at a
/// place of the order in which axes cut a dimension.
struct CutDimension {
  std::uint64_t extent = 1;
  std::uint64_t zigzag = 0;
  std::uint64_t offset = 0;  ///< of the box
  std::uint64_t size = 1;    ///< of the box

  CutDimension() = default;
  CutDimension(const ShardDim& d, const Box& box, std::size_t i)
      : extent(d.extent), zigzag(d.zigzag), offset(box.offset[i]), size(box.extent[i]) {}

  /// Global index of element `local` of the box.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t coordinate(std::uint64_t local) const {
    const std::uint64_t place = offset + local;
    if (zigzag == 0) return place;
    const std::uint64_t chunk = extent / (2 * zigzag);
    const std::uint64_t number = place / chunk;
    const std::uint64_t pair = number / 2;
    return (number % 2 == 0 ? pair : 2 * zigzag - 1 - pair) * chunk + place % chunk;
  }
};

/// Global position of local row group i, as position_at of exec/kernels/cpu.
struct Positions {
  CutDimension rows;
  bool whole = true;

  explicit Positions(const Place& place) : whole(place.shard == nullptr) {
    if (!whole) rows = CutDimension(place.shard->dims[0], place.box, 0);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t operator()(std::uint64_t i) const {
    return whole ? i : rows.coordinate(i);
  }
};

/// global_index (core/program/shard.hpp) for kernel bodies.
struct GlobalIndex {
  CutDimension dims[Shard::max_dims];
  std::uint32_t rank = 0;  ///< 0: the operand is the whole tensor

  explicit GlobalIndex(const Place& place) {
    if (place.shard == nullptr) return;
    rank = place.shard->rank;
    for (std::uint32_t i = 0; i < rank; ++i) dims[i] = CutDimension(place.shard->dims[i], place.box, i);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t operator()(std::uint64_t local) const {
    if (rank == 0) return local;
    std::uint64_t at = 0;
    std::uint64_t stride = 1;
    for (std::uint32_t i = rank; i-- > 0;) {
      at += dims[i].coordinate(local % dims[i].size) * stride;
      local /= dims[i].size;
      stride *= dims[i].extent;
    }
    return at;
  }
};

}  // namespace orrery::device
