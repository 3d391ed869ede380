#pragma once

#include "exec/kernels/device/flash_shape.hpp"
#include "exec/kernels/device/global_place.hpp"

namespace orrery::device {

/// Which queries meet which keys: those of the same sequences, packed side by side, or keys and values of their own
/// that were brought from another rank of the context axis, whose positions need not stand in order.
struct FlashSides {
  static constexpr std::uint64_t none = ~std::uint64_t{0};  ///< position behind a sequence's end

  FlashShape s;                                 ///< of the queries; `length` of them
  std::uint64_t keys;                           ///< of a sequence
  std::uint64_t key_row, key_group, key_first;  ///< elements: a row of keys and values; group to group; the first key
  Positions query_at, key_at;                   ///< global

  /// Keys beside their queries.
  explicit FlashSides(const FlashShape& shape)
      : s(shape),
        keys(shape.length),
        key_row(shape.qkv_width),
        key_group(shape.group_width),
        key_first(shape.group * shape.dim),
        query_at(Place{}),
        key_at(Place{}) {}
  /// Keys that were brought.
  FlashSides(const FlashShape& shape, std::uint64_t brought, const Place& own, const Place& from)
      : s(shape),
        keys(brought),
        key_row(shape.kv_heads * (shape.dim + shape.value)),
        key_group(shape.dim + shape.value),
        key_first(0),
        query_at(own),
        key_at(from) {}

  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t query_tiles() const { return s.tiles(); }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t key_tiles() const { return (keys + s.tile - 1) / s.tile; }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t key_column(std::uint64_t kv_head) const {
    return key_first + kv_head * key_group;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t key_place(std::uint64_t key, std::uint64_t sequence) const {
    return (key * s.batch + sequence) * key_row;
  }
  /// Elements of T that the positions of a tile of queries and one of keys take.
  template <class T>
  [[nodiscard]] static constexpr std::uint64_t of_positions(std::uint64_t tile) {
    return 2 * tile * sizeof(std::uint64_t) / sizeof(T);
  }
  /// Positions of a tile, `none` behind the end.
  template <class Block>
  ORRERY_KERNEL_BODY void take_positions(Block& b, const Positions& at, std::uint64_t first, std::uint64_t count,
                                         std::uint64_t* to) const {
    for (std::uint64_t i = b.thread(); i < s.tile; i += b.threads()) to[i] = first + i < count ? at(first + i) : none;
  }
  [[nodiscard]] ORRERY_ON_DEVICE bool sees(std::uint64_t query, std::uint64_t key) const {
    return query != none && key != none && s.seen.sees(query, key);
  }
  /// Whether queries of a tile can see keys of another.
  [[nodiscard]] ORRERY_ON_DEVICE bool meet(const std::uint64_t* query, const std::uint64_t* key) const {
    std::uint64_t first_query = none, last_query = 0, first_key = none, last_key = 0;
    for (std::uint64_t i = 0; i < s.tile; ++i) {
      if (query[i] < first_query) first_query = query[i];
      if (query[i] != none && query[i] > last_query) last_query = query[i];
      if (key[i] < first_key) first_key = key[i];
      if (key[i] != none && key[i] > last_key) last_key = key[i];
    }
    return s.seen.may_see(first_query, last_query, first_key, last_key);
  }
};

/// tile[rows, width] = x[rows first .., column ..] times a factor; zero behind the sequence's end, `count`.
template <class T, class Block>
ORRERY_KERNEL_BODY void take_tile(Block& b, const FlashShape& s, const Elements& x, std::uint64_t first,
                                  std::uint64_t count, std::uint64_t row_width, std::uint64_t sequence,
                                  std::uint64_t column, std::uint64_t width, T factor, T* out) {
  for (std::uint64_t i = b.thread(); i < s.tile * width; i += b.threads()) {
    const std::uint64_t position = first + i / width;
    const std::uint64_t from = (position * s.batch + sequence) * row_width + column + i % width;
    out[i] = position < count ? x.load<T>(from) * factor : T{0};
  }
}

/// sum over c of a[c] b[c].
template <class T>
[[nodiscard]] ORRERY_ON_DEVICE inline T dot(const T* a, const T* b, std::uint64_t count) {
  T sum{0};
  for (std::uint64_t c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

}  // namespace orrery::device
