#pragma once

#include <algorithm>

#include "exec/kernels/device/product_tile.hpp"

/// Any product, on ordinary cores: for what a library of products refuses.
namespace orrery::device {

/// A tile of one matrix of the batch. Where `a_deep`, elements of A that are added up lie beside each other; likewise
/// `b_deep`.
template <class T, bool a_deep, bool b_deep>
struct PlainProduct : ProductTile<T> {
  using Tile = ProductTile<T>;
  static constexpr std::uint32_t most_threads = Tile::warps * lanes_of_warp;
  Product p;

  explicit PlainProduct(const Product& product) : p(product) {}
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t down() const { return (p.rows + Tile::side - 1) / Tile::side; }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t across() const { return (p.columns + Tile::width - 1) / Tile::width; }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t tiles() const { return p.batch * down() * across(); }

  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    typename Block::template PerLane<typename Tile::Cells> cells;
    for (std::uint64_t n = b.index(); n < tiles(); n += b.blocks()) {
      const std::uint64_t matrix = n / across() / down();
      const std::uint64_t first_row = n / across() % down() * Tile::side, first_column = n % across() * Tile::width;
      this->template multiply<a_deep, b_deep>(
          b, cells, p.depth,
          [&](std::uint32_t r, std::uint64_t d) {
            return first_row + r < p.rows ? element_of<T>(p.a, matrix, first_row + r, d) : T{0};
          },
          [&](std::uint64_t d, std::uint32_t c) {
            return first_column + c < p.columns ? element_of<T>(p.b, matrix, d, first_column + c) : T{0};
          });
      this->each(b, cells, [&](std::uint32_t r, std::uint32_t c, T sum) {
        if (first_row + r < p.rows && first_column + c < p.columns) {
          put_result(p, matrix, first_row + r, first_column + c, sum);
        }
      });
      b.sync();  // shared memory is used again
    }
  }
};

template <class T, bool a_deep, bool b_deep, class Launcher>
void launch_plain(Launcher& l, const Product& p) {
  const PlainProduct<T, a_deep, b_deep> body(p);
  const std::uint64_t tiles = body.tiles();
  if (tiles > 0) l.launch_warps(body, std::min(most_blocks, tiles), body.warps, body.shared_bytes);
}

template <class T, class Launcher>
void launch_plain(Launcher& l, const Product& p) {
  if (p.a.transposed) {
    p.b.transposed ? launch_plain<T, false, true>(l, p) : launch_plain<T, false, false>(l, p);
  } else {
    p.b.transposed ? launch_plain<T, true, true>(l, p) : launch_plain<T, true, false>(l, p);
  }
}

/// Products of every shape and type, with the bias of any type. Each sum goes over the depth in order.
template <class Launcher>
void multiply_plainly(Launcher& l, const Product& p) {
  p.compute == DType::f64 ? launch_plain<double>(l, p) : launch_plain<float>(l, p);
}

}  // namespace orrery::device
