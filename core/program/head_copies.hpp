#pragma once

#include <cstdint>

#include "core/program/kernel.hpp"

// What share_heads_forward and share_heads_backward read and write. A row of `all` columns has the queries, key and
// value of each of `groups` groups. Of each group, `copies` ranks, or parts of a row, take a share: some of its
// queries, and a copy of its key and value.

namespace orrery {

struct HeadCopies {
  std::uint64_t rows, columns, parts;  ///< of x[parts, rows, columns]
  std::uint64_t shares;                ///< of a row, over all parts
  std::uint64_t held;                  ///< shares of a row of qkv
  std::uint64_t queries, pair;         ///< columns of a share: queries, then key and value
  std::uint64_t groups = 0, copies = 0;

  explicit constexpr HeadCopies(const Kernel& k)
      : rows(k.rows),
        columns(k.columns),
        parts(k.depth),
        shares(k.depth * k.kv_heads),
        held(k.kv_heads),
        queries(k.kv_heads == 0 ? 0 : std::uint64_t{k.heads / k.kv_heads} * k.head_dim),
        pair(std::uint64_t{k.head_dim} + (k.value_dim > 0 ? k.value_dim : k.head_dim)) {
    const std::uint64_t all = columns * parts, of_queries = shares * queries;
    if (all <= of_queries || (all - of_queries) % pair != 0) return;
    groups = (all - of_queries) / pair;
    copies = shares % groups == 0 ? shares / groups : 0;
  }
  /// Whether the shapes go together: every group has as many shares.
  [[nodiscard]] constexpr bool valid() const { return copies > 0; }

  [[nodiscard]] constexpr std::uint64_t group_width() const { return copies * queries + pair; }
  [[nodiscard]] constexpr std::uint64_t share_width() const { return queries + pair; }
  /// Element of x in that row and column.
  [[nodiscard]] constexpr std::uint64_t element(std::uint64_t row, std::uint64_t column) const {
    return (column / columns * rows + row) * columns + column % columns;
  }
  /// Column of a row of x that column c of a share comes from.
  [[nodiscard]] constexpr std::uint64_t source(std::uint64_t share, std::uint64_t c) const {
    const std::uint64_t own = c < queries ? share % copies * queries : (copies - 1) * queries;
    return share / copies * group_width() + own + c;
  }
};

}  // namespace orrery
