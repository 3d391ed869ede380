#include <catch2/catch.hpp>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Two blocks of four members, each 2 wide. The first of three matrices has two of them; the first and the third are
/// adapted.
struct Packed {
  static constexpr std::uint64_t rows = 5, rank = 3, blocks = 2, width = 2;
  std::uint64_t group = 2;  ///< members of the first matrix
  std::uint64_t members = group + 2;
  std::uint64_t columns = blocks * members * width, adapted = blocks * (group + 1) * width;

  /// The adapted matrix of a column, and its place in the factor; -1: it has none.
  struct Column {
    int matrix, at;
  };
  [[nodiscard]] std::vector<Column> all() const {
    std::vector<Column> out;
    int at = 0;
    for (std::uint64_t c = 0; c < columns; ++c) {
      const std::uint64_t member = c / width % members;
      const int matrix = member < group ? 0 : member == group ? -1 : 1;
      out.push_back({matrix, matrix < 0 ? -1 : at});
      at += matrix < 0 ? 0 : 1;
    }
    return out;
  }
  [[nodiscard]] Kernel of(KernelKind kind, DType t) const {
    Kernel k = kernel(kind, t, rows, columns, rank);
    k.batch = 3;
    k.kv_heads = static_cast<std::uint32_t>(blocks);
    k.heads = static_cast<std::uint32_t>(members);
    k.head_dim = static_cast<std::uint32_t>(width);
    k.site = 0b101;
    k.scale = 0.75;
    return k;
  }
};

}  // namespace

TEST_CASE("the second factor of an adapter meets the columns of its matrices alone", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const Packed p;
  const std::uint64_t narrow = 2 * Packed::rank;
  CHECK(adapted_columns_of(p.of(KernelKind::adapter_forward, t)) == p.adapted);
  Memory u = Memory::random(t, Packed::rows * narrow, 1), b = Memory::random(t, Packed::rank * p.adapted, 2);
  Memory dy = Memory::random(t, Packed::rows * p.columns, 3), y = Memory::random(t, Packed::rows * p.columns, 4);
  Memory db = Memory::random(DType::f64, Packed::rank * p.adapted, 5), du(t, Packed::rows * narrow);
  Memory expected_y(DType::f64, y.count()), expected_du(DType::f64, du.count()), expected_db = db;
  for (std::uint64_t i = 0; i < y.count(); ++i) expected_y.set(i, y[i]);
  const auto columns = p.all();
  for (std::uint64_t row = 0; row < Packed::rows; ++row) {
    for (std::uint64_t c = 0; c < p.columns; ++c) {
      const auto [matrix, at] = columns[c];
      if (matrix < 0) continue;
      for (std::uint64_t r = 0; r < Packed::rank; ++r) {
        const std::uint64_t un = row * narrow + static_cast<std::uint64_t>(matrix) * Packed::rank + r;
        const std::uint64_t bn = r * p.adapted + static_cast<std::uint64_t>(at), yn = row * p.columns + c;
        expected_y.set(yn, expected_y[yn] + 0.75 * u[un] * b[bn]);
        expected_du.set(un, expected_du[un] + 0.75 * dy[yn] * b[bn]);
        expected_db.set(bn, expected_db[bn] + 0.75 * u[un] * dy[yn]);
      }
    }
  }
  run(p.of(KernelKind::adapter_forward, t), {u.operand(), b.operand(), y.operand(true)});
  run(p.of(KernelKind::adapter_backward_input, t), {dy.operand(), b.operand(), du.operand()});
  run(p.of(KernelKind::adapter_backward_weight, t), {u.operand(), dy.operand(), db.operand(true)});
  CHECK(error(y, expected_y) <= tolerance(t));
  CHECK(error(du, expected_du) <= tolerance(t));
  CHECK(error(db, expected_db) <= tolerance(t == DType::f64 ? t : DType::f32));
}
