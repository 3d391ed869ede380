#pragma once

#include "exec/kernels/device/product_tile.hpp"
#include "exec/kernels/device/tensor_expert_product.hpp"

/// Products of every expert with its own rows, and sums over them. Blocks look up their expert on the device.
namespace orrery::device {

static_assert(ProductTile<float>::side == ExpertLists::tile, "a block takes one tile of a list");

/// A block's tile of rows. B is [depth, columns], or `transposed` [columns, depth].
template <class T, bool transposed>
struct RowsTile : ProductTile<T> {
  template <class Block, class Tiles>
  ORRERY_KERNEL_BODY void operator()(Block& b, const Tiles& tiles, const ExpertTile& t) const {
    if (t.count == 0) return;  // all threads alike
    const ExpertFactors<T>& of = tiles.of;
    typename Block::template PerLane<typename ProductTile<T>::Cells> cells;
    const std::uint64_t matrix = t.expert * of.depth * of.columns;
    this->template multiply<true, transposed>(
        b, cells, of.depth,
        [&](std::uint32_t r, std::uint64_t d) {
          return r < t.count ? of.a.template load<T>(t.list[r] * of.depth + d) : T{0};
        },
        [&](std::uint64_t d, std::uint32_t c) {
          const std::uint64_t column = t.column + c;
          if (column >= of.columns) return T{0};
          return of.b.template load<T>(matrix + (transposed ? column * of.depth + d : d * of.columns + column));
        });
    this->each(b, cells, [&](std::uint32_t r, std::uint32_t c, T value) { tiles.put(t, r, c, value); });
  }
};

/// A block's tile of a weight's gradient.
template <class T>
struct WeightTile : ProductTile<T> {
  template <class Block, class Tiles>
  ORRERY_KERNEL_BODY void operator()(Block& b, const Tiles& tiles, const ExpertTile& t) const {
    const ExpertFactors<T>& of = tiles.of;
    typename Block::template PerLane<typename ProductTile<T>::Cells> cells;
    this->template multiply<false, false>(
        b, cells, t.count,
        [&](std::uint32_t r, std::uint64_t d) {
          return t.row + r < of.rows ? of.a.template load<T>(t.list[d] * of.rows + t.row + r) : T{0};
        },
        [&](std::uint64_t d, std::uint32_t c) {
          return t.column + c < of.columns ? of.b.template load<T>(t.list[d] * of.columns + t.column + c) : T{0};
        });
    this->each(b, cells, [&](std::uint32_t r, std::uint32_t c, T value) { tiles.put(t, r, c, value); });
  }
};

/// Rows of no expert are 0.
struct ClearRows {
  Elements c;
  const std::int32_t* experts;
  std::uint64_t columns;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    if (experts[row] >= 0) return;
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) c.store(row * columns + i, 0.0F);
  }
};

/// dbias[expert] += scale * the sum of its rows of dy. A block has 32 columns of an expert, and sums eight parts of its
/// rows.
template <class T>
struct ExpertBiasBackward {
  Elements dy, dbias;
  ExpertLists lists;
  std::uint64_t columns;
  T scale;
  static constexpr std::uint32_t width = 32, parts = 8;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t n) const {
    const std::uint64_t across = (columns + width - 1) / width, first = n % across * width;
    const auto expert = static_cast<std::uint32_t>(n / across);
    const std::uint32_t* list = lists.rows + lists.begin[expert];
    const std::uint32_t count = lists.count(expert);
    T* const sums = b.template shared<T>();
    for (std::uint32_t cell = b.thread(); cell < width * parts; cell += b.threads()) {
      T sum{0};
      if (first + cell % width < columns) {
        for (std::uint32_t i = cell / width; i < count; i += parts) {
          sum += dy.load<T>(list[i] * columns + first + cell % width);
        }
      }
      sums[cell] = sum;
    }
    b.sync();
    for (std::uint32_t c = b.thread(); c < width && first + c < columns; c += b.threads()) {
      T sum{0};
      for (std::uint32_t part = 0; part < parts; ++part) sum += sums[part * width + c];
      const std::uint64_t to = expert * columns + first + c;
      dbias.store(to, dbias.load<T>(to) + scale * sum);
    }
  }
};

template <class Launcher, class T>
void multiply_experts(Launcher& l, const Kernel& k, const ExpertFactors<T>& of) {
  if (k.options.transpose_a) {
    for_each_tile(l, TilesOfWeights<T>{of}, WeightTile<T>{});
  } else if (k.options.transpose_b) {
    for_each_tile(l, TilesOfRows<T>{of}, RowsTile<T, true>{});
  } else {
    for_each_tile(l, TilesOfRows<T>{of}, RowsTile<T, false>{});
  }
}
template <DType type, class Launcher>
void multiply_on_tensor_cores(Launcher& l, const Kernel& k, const ExpertFactors<float>& of) {
  if (k.options.transpose_a) {
    for_each_tile(l, TilesOfWeights<float>{of}, TensorWeightTile<type>{});
  } else if (k.options.transpose_b) {
    for_each_tile(l, TilesOfRows<float>{of}, TensorRowsTile<type, true>{});
  } else {
    for_each_tile(l, TilesOfRows<float>{of}, TensorRowsTile<type, false>{});
  }
}

template <class T, class Launcher>
void expert_gemm(Launcher& l, const Kernel& k, const NamedOperands& o) {
  const bool to_weight = k.options.transpose_a;
  const auto* experts = static_cast<const std::int32_t*>(o[N::experts].data);
  const ExpertFactors<T> of{Elements(o[N::a]),
                            Elements(o[N::b]),
                            Elements(o[N::c]),
                            elements_if(o, N::bias),
                            list_rows(l, experts, to_weight ? k.depth : k.rows, k.batch),
                            k.rows,
                            k.columns,
                            k.depth,
                            static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale),
                            o[N::c].accumulate};
  if (!to_weight && !of.add) for_each_row(l, k.rows, ClearRows{of.c, experts, k.columns});
  if constexpr (sizeof(T) == sizeof(float)) {
    const bool whole_chunks = k.columns % 8 == 0 && (to_weight ? k.rows : k.depth) % 8 == 0;
    if (whole_chunks && TensorTile::takes(of) && TensorTile::shared_bytes <= l.shared_limit()) {
      if (of.a.dtype == DType::bf16) return multiply_on_tensor_cores<DType::bf16>(l, k, of);
      return multiply_on_tensor_cores<DType::f16>(l, k, of);
    }
  }
  multiply_experts(l, k, of);
}

template <class T, class Launcher>
bool run_expert_products(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  switch (k.kind) {
    case KernelKind::expert_gemm: expert_gemm<T>(l, k, o); return true;
    case KernelKind::expert_bias_backward: {
      using Body = ExpertBiasBackward<T>;
      const ExpertLists lists = list_rows(l, static_cast<const std::int32_t*>(o[N::experts].data), k.rows, k.batch);
      for_each_row(l, k.batch * ((k.columns + Body::width - 1) / Body::width),
                   Body{Elements(o[N::dy]), Elements(o[N::dbias]), lists, k.columns,
                        static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale)},
                   usual_threads, Body::width * Body::parts * sizeof(T));
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
