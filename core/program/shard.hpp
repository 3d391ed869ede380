#pragma once

#include <array>
#include <cstdint>

#include "core/plan/mesh.hpp"

namespace orrery {

/// One dimension of a global tensor and how it is cut.
struct ShardDim {
  std::uint64_t extent = 1;   ///< global, padding included
  std::uint64_t valid = 1;    ///< global extent without padding (a padded vocabulary); otherwise equal to extent
  AxisList split;             ///< mesh axes that cut it into equal parts, outermost first
  bool microbatched = false;  ///< cut once more by the slot's microbatch (inside the axes)
  /// n > 0: the dimension is cut into 2n chunks that stand in the order 0, 2n-1, 1, 2n-2, ... before the axes cut it,
  /// so that each of n ranks holds an early and a late one. 0: the chunks stand in order. See coordinate_of.
  std::uint32_t zigzag = 0;
  friend bool operator==(const ShardDim&, const ShardDim&) = default;
};

/// The part of a global tensor that a rank's buffer holds: a box, row-major.
///
/// Interleaved layouts are boxes of a tensor with more dimensions: the QKV
/// weight is [hidden, kv group, (heads per group + 2) x head size] cut along
/// the group; gate and up of SwiGLU are [hidden, 2, ffn] cut along ffn.
/// A dimension that no axis cuts is held whole by every rank: replicas.
struct Shard {
  static constexpr std::size_t max_dims = 4;
  std::uint8_t rank = 0;  ///< number of dimensions
  std::array<ShardDim, max_dims> dims;

  Shard() = default;
  Shard(std::initializer_list<ShardDim> list);
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// The local part, in coordinates of the order in which the axes cut (global coordinates except for zigzag).
struct Box {
  std::uint8_t rank = 0;
  std::array<std::uint64_t, Shard::max_dims> offset{};
  std::array<std::uint64_t, Shard::max_dims> extent{};
  friend bool operator==(const Box&, const Box&) = default;
};

/// The box that `rank` holds.  `microbatch` and `microbatches` matter only for
/// dimensions cut by microbatch.  Requires equal parts (a checked plan).
[[nodiscard]] Box box_of(const Shard&, const Mesh&, Rank rank, std::uint64_t microbatch = 0,
                         std::uint64_t microbatches = 1);

/// Elements of every rank's box.
[[nodiscard]] std::uint64_t local_count(const Shard&, const Mesh&, std::uint64_t microbatches = 1);

/// Global coordinate of the element at place `at`, in the order in which the axes cut the dimension.
[[nodiscard]] std::uint64_t coordinate_of(const ShardDim&, std::uint64_t at);

/// Global (row-major, padded) element index of local element `local`.
[[nodiscard]] std::uint64_t global_index(const Shard&, const Box&, std::uint64_t local);

/// Ranks that hold the same box: product of the mesh axes in `among` that do not cut it.
[[nodiscard]] std::uint64_t replicas(const Shard&, const Mesh&, const AxisList& among);

}  // namespace orrery
