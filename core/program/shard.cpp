#include "core/program/shard.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

Shard::Shard(std::initializer_list<ShardDim> list) : rank(static_cast<std::uint8_t>(list.size())) {
  ORRERY_ASSERT(list.size() <= max_dims, list.size());
  std::size_t i = 0;
  for (const ShardDim& d : list) dims[i++] = d;
}

Box box_of(const Shard& shard, const Mesh& mesh, Rank rank, std::uint64_t microbatch, std::uint64_t microbatches) {
  Box box;
  box.rank = shard.rank;
  for (std::size_t i = 0; i < shard.rank; ++i) {
    const ShardDim& d = shard.dims[i];
    std::uint64_t parts = size(mesh, d.split);
    std::uint64_t at = coordinate(mesh, rank, d.split);
    if (d.microbatched) {
      parts *= microbatches;
      at = at * microbatches + microbatch;
    }
    ORRERY_ASSERT(d.extent % parts == 0, d.extent, parts);
    box.extent[i] = d.extent / parts;
    box.offset[i] = at * box.extent[i];
  }
  return box;
}

std::uint64_t local_count(const Shard& shard, const Mesh& mesh, std::uint64_t microbatches) {
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < shard.rank; ++i) {
    const ShardDim& d = shard.dims[i];
    count *= d.extent / (size(mesh, d.split) * (d.microbatched ? microbatches : 1));
  }
  return count;
}

std::uint64_t coordinate_of(const ShardDim& d, std::uint64_t at) {
  if (d.zigzag == 0) return at;
  const std::uint64_t chunk = d.extent / (2 * std::uint64_t{d.zigzag});
  const std::uint64_t place = at / chunk;
  const std::uint64_t pair = place / 2;
  return (place % 2 == 0 ? pair : 2 * std::uint64_t{d.zigzag} - 1 - pair) * chunk + at % chunk;
}

std::uint64_t global_index(const Shard& shard, const Box& box, std::uint64_t local) {
  std::uint64_t at = 0;
  std::uint64_t stride = 1;
  for (std::size_t i = shard.rank; i-- > 0;) {
    at += coordinate_of(shard.dims[i], box.offset[i] + local % box.extent[i]) * stride;
    local /= box.extent[i];
    stride *= shard.dims[i].extent;
  }
  return at;
}

std::uint64_t replicas(const Shard& shard, const Mesh& mesh, const AxisList& among) {
  std::uint64_t copies = 1;
  for (const Axis axis : among) {
    bool cuts = false;
    for (std::size_t i = 0; i < shard.rank; ++i) {
      for (const Axis s : shard.dims[i].split) cuts = cuts || s == axis;
    }
    if (!cuts) copies *= mesh.size(axis);
  }
  return copies;
}

}  // namespace orrery
