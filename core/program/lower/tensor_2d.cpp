#include <algorithm>

#include "core/program/lower/tensor_grid.hpp"

namespace orrery::lowering {
namespace {

/// SUMMA on q x q ranks (van de Geijn and Watts, 1997), as Optimus applies it to
/// transformers (Xu et al., arXiv 2104.05343).
///
/// Rank (i, j) of the grid holds block (i, j) of every matrix: of activations
/// the sequences i and features j, of weights the rows i and columns j.  Three
/// products close under differentiation, q steps each:
///
///     Y = X W     step k: X(i, k) to the ranks of row i, W(k, j) to those of
///                 column j; every rank adds their product to its Y(i, j)
///     X = Y W^T   step k: W(k, j) to those of column j; the products
///                 Y(i, j) W(k, j)^T are summed over row i, on column k
///     W = X^T Y   step k: X(i, k) to the ranks of row i; the products
///                 X(i, k)^T Y(i, j) are summed over column j, on row k
///
/// Panels are double-buffered: the broadcasts of step k + 1 run beside the
/// product of step k.
///
/// With depth, 2.5D (Tesseract, Wang et al., arXiv 2105.14500) as intended: every
/// layer of the depth axis holds all weights, takes other sequences and
/// multiplies by itself; weight gradients are then summed over depth.
class Summa final : public GridSharding {
 public:
  explicit Summa(bool depth) : depth_(depth) {}

  TensorLayout layout() const override {
    TensorLayout l;
    l.stream_sequences = depth_ ? AxisList{Axis::depth, Axis::row} : AxisList{Axis::row};
    l.wide_sequences = l.stream_sequences;
    l.stream_features = l.wide_features = {Axis::column};
    l.widen_in = l.narrow_in = l.vocabulary = {Axis::row};
    l.widen_out = l.narrow_out = {Axis::column};
    return l;
  }

  void forward(State& c, BlockBuilder& b, const Product& p, BufferId x, BufferId y) const override {
    const Operand w = weight_of(c, *p.module, p.weight);
    if (p.transposed) {
      multiply_by_transposed(c, b, {p, ".forward", Pass::forward}, read(x), p.in, w, y, p.out);
    } else {
      multiply(c, b, {p, ".forward", Pass::forward}, read(x), p.in, w, y, p.out);
    }
  }

  void input_gradient(State& c, BlockBuilder& b, const Product& p, Operand dy, BufferId dx) const override {
    const Operand w = weight_of(c, *p.module, p.weight);
    if (p.transposed) {
      multiply(c, b, {p, ".input", Pass::input_gradient}, dy, p.out, w, dx, p.in);
    } else {
      multiply_by_transposed(c, b, {p, ".input", Pass::input_gradient}, dy, p.out, w, dx, p.in);
    }
  }

  void weight_gradient(State& c, BlockBuilder& b, const Product& p, BufferId x, Operand dy) const override {
    if (p.transposed) {
      multiply_transposed(c, b, p, dy, p.out, read(x), p.in);
    } else {
      multiply_transposed(c, b, p, read(x), p.in, dy, p.out);
    }
  }

 private:
  /// Which of a product's three multiplications this is.
  struct Use {
    const Product& product;
    const char* name;
    Pass pass;
  };

  /// Two places for blocks that come and go in turn.
  struct Pair {
    BufferId buffer{};
    std::uint64_t block = 0;
    [[nodiscard]] Operand at(std::uint32_t step, View::Use use) const {
      return {buffer, use, 0, (step % 2) * block, block, {}};
    }
  };
  static Pair pair(State& c, const Product& p, const std::string& name, DType dtype, std::uint64_t block) {
    return {flat_buffer(c, stem(p) + name, Role::workspace, p.scope, dtype, 2 * block), block};
  }
  static Operand all(BufferId buffer, std::uint64_t count, View::Use use) { return {buffer, use, 0, 0, count, {}}; }
  /// The operand of this layer or, for the output of the layer above, of that one.
  static Operand all(const Operand& x, std::uint64_t count) {
    return {x.buffer, View::Use::read, x.layer_shift, 0, count, {}};
  }
  static std::uint32_t steps(const State& c) { return c.plan.mesh.size(Axis::row); }

  /// y[rows, n] = x[rows, m] w[m, n]
  static void multiply(State& c, BlockBuilder& b, const Use& u, const Operand& x, std::uint64_t m, const Operand& w,
                       BufferId y, std::uint64_t n) {
    const std::uint64_t rows = rows_of(c, u.product);
    const Pair left = pair(c, u.product, std::string(u.name) + ".x", c.program[x.buffer].dtype, rows * m);
    const Pair right = pair(c, u.product, std::string(u.name) + ".w", c.act, m * n);
    const auto bring = [&](std::uint32_t k) {
      b.rooted_seam(Collective::Kind::broadcast, c.column_group, Peer{k},
                    {all(x, rows * m), left.at(k, View::Use::write)});
      b.rooted_seam(Collective::Kind::broadcast, c.row_group, Peer{k}, {w, right.at(k, View::Use::write)});
    };
    bring(0);
    for (std::uint32_t k = 0; k < steps(c); ++k) {
      if (k + 1 < steps(c)) bring(k + 1);
      Kernel gemm = c.kernel(KernelKind::gemm, u.pass, rows, n, m);
      gemm.compute = compute_type(c, u.product);
      const Operand out = all(y, rows * n, k == 0 ? View::Use::write : View::Use::accumulate);
      if (k == 0 && u.pass == Pass::forward && u.product.bias != nullptr) {
        gemm.options.bias = true;
        b.compute(gemm, {left.at(k, View::Use::read), right.at(k, View::Use::read), out,
                         weight_of(c, *u.product.module, u.product.bias)});
      } else {
        b.compute(gemm, {left.at(k, View::Use::read), right.at(k, View::Use::read), out});
      }
    }
  }

  /// x[rows, m] = y[rows, n] w[m, n]^T
  static void multiply_by_transposed(State& c, BlockBuilder& b, const Use& u, const Operand& y, std::uint64_t n,
                                     const Operand& w, BufferId x, std::uint64_t m) {
    const std::uint64_t rows = rows_of(c, u.product);
    const Pair right = pair(c, u.product, std::string(u.name) + ".w", c.act, m * n);
    const DType sums = c.program[x].dtype;
    const Pair part = pair(c, u.product, std::string(u.name) + ".part", sums, rows * m);
    const auto bring = [&](std::uint32_t k) {
      b.rooted_seam(Collective::Kind::broadcast, c.row_group, Peer{k}, {w, right.at(k, View::Use::write)});
    };
    bring(0);
    for (std::uint32_t k = 0; k < steps(c); ++k) {
      if (k + 1 < steps(c)) bring(k + 1);
      Kernel gemm = c.kernel(KernelKind::gemm, u.pass, rows, m, n);
      gemm.compute = compute_type(c, u.product);
      gemm.options.transpose_b = true;
      b.compute(gemm, {all(y, rows * n), right.at(k, View::Use::read), part.at(k, View::Use::write)});
      b.rooted_seam(Collective::Kind::reduce, c.column_group, Peer{k},
                    {part.at(k, View::Use::read), all(x, rows * m, View::Use::write)});
    }
  }

  /// dW[m, n] += x[rows, m]^T y[rows, n]
  static void multiply_transposed(State& c, BlockBuilder& b, const Product& p, const Operand& x, std::uint64_t m,
                                  const Operand& y, std::uint64_t n) {
    const std::uint64_t rows = rows_of(c, p);
    const Operand gradient = gradient_of(c, *p.module, p.weight);
    const Pair left = pair(c, p, ".weight.x", c.program[x.buffer].dtype, rows * m);
    const Pair part = pair(c, p, ".weight.part", c.grad, m * n);
    const auto bring = [&](std::uint32_t k) {
      b.rooted_seam(Collective::Kind::broadcast, c.column_group, Peer{k},
                    {all(x, rows * m), left.at(k, View::Use::write)});
    };
    bring(0);
    for (std::uint32_t k = 0; k < steps(c); ++k) {
      if (k + 1 < steps(c)) bring(k + 1);
      Kernel gemm = c.kernel(KernelKind::gemm, Pass::weight_gradient, m, n, rows);
      gemm.compute = compute_type(c, p);
      gemm.options.transpose_a = true;
      b.compute(gemm, {left.at(k, View::Use::read), all(y, rows * n), part.at(k, View::Use::write)});
      b.rooted_seam(Collective::Kind::reduce, c.row_group, Peer{k}, {part.at(k, View::Use::read), gradient});
    }
  }

  bool depth_;
};

}  // namespace

const TensorSharding& tensor_2d() {
  static const Summa sharding(false);
  return sharding;
}

const TensorSharding& tensor_2_5d() {
  static const Summa sharding(true);
  return sharding;
}

}  // namespace orrery::lowering
