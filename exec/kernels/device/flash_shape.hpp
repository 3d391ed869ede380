#pragma once

#include "exec/kernels/device/attention.hpp"

namespace orrery::device {

/// The shape that kernels of flash attention share.
struct FlashShape {
  std::uint64_t batch, length, heads, kv_heads, group, dim, value;
  std::uint64_t qkv_width, group_width, context_width;
  std::uint64_t tile;  ///< queries, and keys, of a tile
  cpu::SeenKeys seen;

  FlashShape(const Kernel& k, std::uint64_t rows_of_tile) : tile(rows_of_tile), seen(k) {
    const cpu::Heads s(k);
    batch = s.batch;
    length = s.length;
    heads = s.heads;
    kv_heads = s.kv_heads;
    group = s.group;
    dim = s.dim;
    value = s.value;
    qkv_width = s.qkv_width();
    group_width = s.group_width();
    context_width = s.context_width();
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t tiles() const { return (length + tile - 1) / tile; }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t qkv_row(std::uint64_t position, std::uint64_t sequence) const {
    return (position * batch + sequence) * qkv_width;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t query_column(std::uint64_t head) const {
    return head / group * group_width + head % group * dim;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t key_column(std::uint64_t kv_head) const {
    return kv_head * group_width + group * dim;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t context_at(std::uint64_t position, std::uint64_t sequence,
                                                          std::uint64_t head) const {
    return (position * batch + sequence) * context_width + head * value;
  }
};

}  // namespace orrery::device
