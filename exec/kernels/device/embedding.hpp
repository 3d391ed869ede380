#pragma once

#include <cmath>

#include "exec/kernels/device/elementwise.hpp"
#include "exec/kernels/device/global_place.hpp"
#include "exec/kernels/rotations.hpp"

/// Tables that tokens and positions look up, and rotary angles.
namespace orrery::device {

/// Rows of x that belong to one position.
[[nodiscard]] inline std::uint64_t rows_each(const Kernel& k, const Operand& x) {
  return x.place.shard != nullptr ? x.place.box.extent[1] : std::max<std::uint64_t>(1, k.batch);
}

template <class T>
struct EmbedForward {
  Elements tokens, table, x;
  std::int64_t begin, entries;  ///< this rank's part of the table
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::int64_t entry = tokens.whole(i / columns) - begin;
    const bool here = entry >= 0 && entry < entries;
    x.store(i, here ? table.load<T>(static_cast<std::uint64_t>(entry) * columns + i % columns) : T{0});
  }
};

/// Links the rows of each token, in their order: next[row], and whether a row has one before it (0 before). One row has
/// one predecessor, so no two threads write to one place.
struct LinkRows {
  Elements tokens;
  std::uint64_t rows;
  std::uint32_t* next;    ///< `rows` where there is none
  std::uint32_t* linked;  ///< 1 where there is an earlier row
  ORRERY_ON_DEVICE void operator()(std::uint64_t row) const {
    const std::int32_t token = tokens.whole(row);
    std::uint64_t r = row + 1;
    while (r < rows && tokens.whole(r) != token) ++r;
    next[row] = static_cast<std::uint32_t>(r);
    if (r < rows) linked[r] = 1;
  }
};

/// dtable[token] += the sum of the rows of dx of that token, rounded once. The block of a token's first row adds all of
/// them, in their order, so that no two blocks write to one place.
template <class T>
struct EmbedBackward {
  Elements tokens, dx, dtable;
  std::int64_t begin, entries;
  std::uint64_t rows, columns;
  const std::uint32_t *next, *linked;  ///< as LinkRows leaves them
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::int64_t entry = tokens.whole(row) - begin;
    if (entry < 0 || entry >= entries || linked[row] != 0) return;  // all threads alike
    for (std::uint64_t c = b.thread(); c < columns; c += b.threads()) {
      T sum{0};
      for (std::uint64_t r = row; r < rows; r = next[r]) sum += dx.load<T>(r * columns + c);
      const std::uint64_t i = static_cast<std::uint64_t>(entry) * columns + c;
      dtable.store(i, dtable.load<T>(i) + sum);
    }
  }
};

template <class T>
struct PositionForward {
  Elements x, table;
  Positions positions;
  std::uint64_t first, each, columns;  ///< first: rows of the table ahead of position 0's
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t position = first + positions(i / columns / each);
    x.store(i, x.load<T>(i) + table.load<T>(position * columns + i % columns));
  }
};

/// i counts (position, column).
template <class T>
struct PositionBackward {
  Elements dx, dtable;
  Positions positions;
  std::uint64_t ahead, each, rows, columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t first = i / columns * each;
    const std::uint64_t column = i % columns;
    T sum{0};
    for (std::uint64_t row = first; row < first + each && row < rows; ++row) sum += dx.load<T>(row * columns + column);
    const std::uint64_t at = (ahead + positions(i / columns)) * columns + column;
    dtable.store(at, dtable.load<T>(at) + sum);
  }
};

/// Rows of a table of segments, or of token types.
template <class T>
struct SegmentForward {
  Elements segments, table, x;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const auto row = static_cast<std::uint64_t>(segments.whole(i / columns));
    x.store(i, x.load<T>(i) + table.load<T>(row * columns + i % columns));
  }
};
/// The term of one segment's gradient for add_column_sums.
template <class T>
struct SegmentTerm {
  Elements segments, dx;
  std::uint64_t columns;
  std::int32_t segment;
  ORRERY_ON_DEVICE T operator()(std::uint64_t row, std::uint64_t column) const {
    return segments.whole(row) == segment ? dx.load<T>(row * columns + column) : T{0};
  }
};

/// Position 0 is the class token, others are patches, which have a bias.
template <class T>
struct ClassTokenForward {
  Elements x, token, bias;
  Positions positions;
  std::uint64_t each, columns;
  bool biased;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t c = i % columns;
    if (positions(i / columns / each) == 0) {
      x.store(i, token.load<T>(c));
    } else if (biased) {
      x.store(i, x.load<T>(i) + bias.load<T>(c));
    }
  }
};
template <class T>
struct ClassTokenTerm {
  Elements dx;
  Positions positions;
  std::uint64_t each, columns;
  bool of_class;
  ORRERY_ON_DEVICE T operator()(std::uint64_t row, std::uint64_t column) const {
    return (positions(row / each) == 0) == of_class ? dx.load<T>(row * columns + column) : T{0};
  }
};

/// Frequencies that one launch takes, by value.
inline constexpr std::uint64_t frequencies_at_once = 256;

/// [positions, half, 2]: cosine and sine of position * frequency, times the scale, of `count` pairs from `first` on.
template <class T>
struct RopeTable {
  T* table;
  Positions positions;
  std::uint64_t half, first, count;
  double frequencies[frequencies_at_once];
  double cosine_scale, sine_scale;  ///< opposite signs turn back
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const double angle = static_cast<double>(positions(i / count)) * frequencies[i % count];
    T* pair = table + (i / count * half + first + i % count) * 2;
    pair[0] = static_cast<T>(cosine_scale * std::cos(angle));
    pair[1] = static_cast<T>(sine_scale * std::sin(angle));
  }
};

/// Rotates features (i, i + half) of a group's queries and of its key; i counts (row, group, member, half).
/// Source: Su et al., "RoFormer", 2021.
template <class T>
struct Rope {
  Elements qkv;
  const T* table;
  std::uint64_t batch, kv_heads, members, half;  ///< members: the group's queries and its key
  std::uint64_t group_width, dim;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t feature = i % half;
    const std::uint64_t member = i / half % members;
    const std::uint64_t group = i / half / members % kv_heads;
    const std::uint64_t row = i / half / members / kv_heads;
    const T* pair = table + (row / batch * half + feature) * 2;
    const std::uint64_t at = (row * kv_heads + group) * group_width + member * dim + feature;
    const T a = qkv.load<T>(at);
    const T b = qkv.load<T>(at + half);
    qkv.store(at, a * pair[0] - b * pair[1]);
    qkv.store(at + half, a * pair[1] + b * pair[0]);
  }
};

/// The angles of the positions at `place`, in scratch memory.
template <class T, class Launcher>
const T* rope_table(Launcher& l, const Rotation& by, const Place& place, std::uint64_t length, bool backward) {
  const std::uint64_t half = by.frequencies.size();
  auto* table = static_cast<T*>(l.scratch(length * half * 2 * sizeof(T)));
  RopeTable<T> angles{table, Positions(place), half, 0, 0, {}, by.scale, backward ? -by.scale : by.scale};
  for (; angles.first < half; angles.first += angles.count) {
    angles.count = std::min(frequencies_at_once, half - angles.first);
    std::copy_n(by.frequencies.data() + angles.first, angles.count, angles.frequencies);
    for_each(l, length * angles.count, angles);
  }
  return table;
}

template <class T, class Launcher>
void rope(Launcher& l, const Kernel& k, const Operand& qkv, const KernelContext& c, bool backward) {
  const Rotation by = rotation_of(k, c, rotating_features(k));
  const std::uint64_t half = by.frequencies.size();
  const std::uint64_t group = k.heads / k.kv_heads;
  const std::uint64_t value = k.value_dim > 0 ? k.value_dim : k.head_dim;
  const T* table = rope_table<T>(l, by, qkv.place, k.rows / k.batch, backward);
  for_each(l, k.rows * k.kv_heads * (group + 1) * half,
           Rope<T>{Elements(qkv), table, k.batch, k.kv_heads, group + 1, half, (group + 1) * k.head_dim + value,
                   k.head_dim});
}

template <class T, class Launcher>
bool run_embeddings(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto begin = [](const Operand& table) {
    return table.place.shard == nullptr ? std::int64_t{0} : static_cast<std::int64_t>(table.place.box.offset[0]);
  };
  const auto entries = static_cast<std::int64_t>(k.depth);
  switch (k.kind) {
    case KernelKind::embed_forward:
      for_each(l, k.rows * k.columns,
               EmbedForward<T>{Elements(o[N::tokens]), Elements(o[N::table]), Elements(o[N::x]), begin(o[N::table]),
                               entries, k.columns});
      return true;
    case KernelKind::embed_backward: {
      const Elements tokens(o[N::tokens]);
      auto* next = static_cast<std::uint32_t*>(l.scratch(2 * k.rows * sizeof(std::uint32_t)));
      auto* linked = next + k.rows;
      l.clear(linked, k.rows * sizeof(std::uint32_t));
      for_each(l, k.rows, LinkRows{tokens, k.rows, next, linked});
      for_each_row(l, k.rows,
                   EmbedBackward<T>{tokens, Elements(o[N::dx]), Elements(o[N::dtable]), begin(o[N::dtable]), entries,
                                    k.rows, k.columns, next, linked});
      return true;
    }
    case KernelKind::position_forward:
      for_each(l, k.rows * k.columns,
               PositionForward<T>{Elements(o[N::x]), Elements(o[N::table]), Positions(o[N::x].place), k.depth,
                                  rows_each(k, o[N::x]), k.columns});
      return true;
    case KernelKind::position_backward: {
      const std::uint64_t each = rows_each(k, o[N::dx]);
      for_each(l, (k.rows + each - 1) / each * k.columns,
               PositionBackward<T>{Elements(o[N::dx]), Elements(o[N::dtable]), Positions(o[N::dx].place), k.depth, each,
                                   k.rows, k.columns});
      return true;
    }
    case KernelKind::segment_forward:
      for_each(l, k.rows * k.columns,
               SegmentForward<T>{Elements(o[N::segments]), Elements(o[N::table]), Elements(o[N::x]), k.columns});
      return true;
    case KernelKind::segment_backward:
      for (std::uint64_t segment = 0; segment < k.depth; ++segment) {
        const SegmentTerm<T> term{Elements(o[N::segments]), Elements(o[N::dx]), k.columns,
                                  static_cast<std::int32_t>(segment)};
        add_column_sums<T>(l, term, at(Elements(o[N::dtable]), segment * k.columns), k.rows, k.columns);
      }
      return true;
    case KernelKind::class_token_forward:
      for_each(l, k.rows * k.columns,
               ClassTokenForward<T>{Elements(o[N::x]), Elements(o[N::token]),
                                    Elements(o[k.options.unbiased ? N::token : N::bias]), Positions(o[N::x].place),
                                    rows_each(k, o[N::x]), k.columns, !k.options.unbiased});
      return true;
    case KernelKind::class_token_backward:
      for (const bool of_class : {true, false}) {
        if (!of_class && k.options.unbiased) break;
        const ClassTokenTerm<T> term{Elements(o[N::dx]), Positions(o[N::dx].place), rows_each(k, o[N::dx]), k.columns,
                                     of_class};
        add_column_sums<T>(l, term, Elements(o[of_class ? N::dtoken : N::dbias]), k.rows, k.columns);
      }
      return true;
    case KernelKind::rope_forward: rope<T>(l, k, o[N::qkv], c, false); return true;
    case KernelKind::rope_backward: rope<T>(l, k, o[N::dqkv], c, true); return true;
    default: return false;
  }
}

}  // namespace orrery::device
