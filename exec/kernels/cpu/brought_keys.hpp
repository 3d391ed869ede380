#pragma once

#include <cstdint>

#include "exec/kernels/cpu/heads.hpp"

namespace orrery::cpu {

/// Queries of this rank, and the keys that were brought to it from a rank of the context axis.
struct PartShape {
  explicit PartShape(const Kernel& k) : own(k), brought(k) { brought.length = k.depth / k.batch; }
  [[nodiscard]] std::uint64_t pair() const { return own.dim + own.value; }  ///< a key and its value, side by side
  [[nodiscard]] std::uint64_t brought_width() const { return own.kv_heads * pair(); }
  Heads own, brought;
};

/// Global positions of the data that this rank holds at the operand's place; in order where nothing cuts positions.
inline const std::uint64_t* positions(const Place& place, std::uint64_t count, std::size_t slot,
                                      KernelScratch& scratch) {
  auto* list = scratch.get<std::uint64_t>(slot, count);
  for (std::uint64_t i = 0; i < count; ++i) list[i] = position_at(place, i);
  return list;
}

/// Place of the data on the rank from which, by Kernel::site and Kernel::ring, the operand has come.
inline Place brought_from(const Kernel& k, const Place& place) {
  Place holder = place;
  if (place.shard == nullptr) return holder;
  const std::uint64_t part = place.box.extent[0];
  const std::uint64_t ranks = place.shard->dims[0].extent / part;
  const std::uint64_t ring = k.ring == 0 ? ranks : k.ring, rings = ranks / ring;
  const std::uint64_t own = place.box.offset[0] / part;
  const std::uint64_t inside = (own + ring - k.site % ring) % ring;
  const std::uint64_t which = (own / ring + rings - k.site / ring % rings) % rings;
  holder.box.offset[0] = (which * ring + inside) * part;
  return holder;
}

}  // namespace orrery::cpu
