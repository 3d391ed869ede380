#include <catch2/catch.hpp>

#include <cmath>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr double epsilon = 1e-6;
constexpr std::uint32_t kv_heads = 2, group = 3, dim = 4;  // 6 heads of queries
constexpr std::uint64_t rows = 3;

/// Norms of the heads of one rank; all kv_heads of them, or some.
struct QueryKeyNorm {
  DType t;
  bool each;
  std::uint32_t own;  ///< key heads
  std::uint64_t width = own * (group + 2) * dim;
  Memory x, query_gamma, key_gamma, dy;
  Memory y{t, rows*width}, stats{t == DType::f64 ? DType::f64 : DType::f32, rows*(each ? own*(group + 1) : 2)};

  QueryKeyNorm(DType type, bool each_head, std::uint32_t heads = kv_heads)
      : t(type),
        each(each_head),
        own(heads),
        x(Memory::random(t, rows * width, 1, 2.0)),
        query_gamma(Memory::random(t, dim * (each ? 1 : own * group), 2)),
        key_gamma(Memory::random(t, dim * (each ? 1 : own), 3)),
        dy(Memory::random(t, rows * width, 4)) {}

  [[nodiscard]] Kernel kernel_of(KernelKind kind) const {
    Kernel k = kernel(kind, t, rows, width, each ? dim : kv_heads * group * dim);
    k.batch = 1;
    k.heads = own * group;
    k.kv_heads = own;
    k.head_dim = dim;
    k.parameter = epsilon;
    k.options.cut = own < kv_heads;
    return k;
  }
  /// `sums`: those of squares over all ranks, where this one has only some heads.
  void forward(Memory* sums = nullptr) {
    std::vector<Operand> o = {x.operand(), query_gamma.operand(), key_gamma.operand()};
    if (sums != nullptr) o.push_back(sums->operand());
    o.insert(o.end(), {y.operand(), stats.operand()});
    run(kernel_of(KernelKind::query_key_norm_forward), o);
  }
  Memory backward_input(Memory* sums = nullptr) {
    Memory dx(t, rows * width);
    std::vector<Operand> o = {dy.operand(), x.operand(), query_gamma.operand(), key_gamma.operand(), stats.operand()};
    if (sums != nullptr) o.push_back(sums->operand());
    o.push_back(dx.operand());
    run(kernel_of(KernelKind::query_key_norm_backward_input), o);
    return dx;
  }
  /// Column of feature i of a group's member: its queries, then its key, then its value.
  static std::uint64_t at(std::uint64_t row, std::uint64_t of, std::uint64_t member, std::uint64_t i, std::uint64_t w) {
    return row * w + (of * (group + 2) + member) * dim + i;
  }
};

/// y of all heads, from the definition.
Memory expected_of(const QueryKeyNorm& n) {
  Memory y(DType::f64, rows * n.width);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto squares = [&](std::uint64_t of, std::uint64_t member) {
      double sum = 0.0;
      for (std::uint64_t i = 0; i < dim; ++i) sum += std::pow(n.x[QueryKeyNorm::at(row, of, member, i, n.width)], 2);
      return sum;
    };
    double queries = 0.0, keys = 0.0;
    for (std::uint64_t of = 0; of < kv_heads; ++of) {
      for (std::uint64_t member = 0; member < group; ++member) queries += squares(of, member);
      keys += squares(of, group);
    }
    for (std::uint64_t of = 0; of < kv_heads; ++of) {
      for (std::uint64_t member = 0; member < group + 2; ++member) {
        const bool key = member == group, value = member > group;
        const double mean = n.each ? squares(of, member) / dim
                            : key  ? keys / (kv_heads * dim)
                                   : queries / (kv_heads * group * dim);
        for (std::uint64_t i = 0; i < dim; ++i) {
          const std::uint64_t to = QueryKeyNorm::at(row, of, member, i, n.width);
          const std::uint64_t weight = n.each ? i : key ? of * dim + i : (of * group + member) * dim + i;
          const double gamma = value ? 1.0 : key ? n.key_gamma[weight] : n.query_gamma[weight];
          y.set(to, value ? n.x[to] : n.x[to] / std::sqrt(mean + epsilon) * gamma);
        }
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("queries and keys are divided by the root mean square of their head, or of all heads", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const bool each = GENERATE(true, false);
  QueryKeyNorm n(t, each);
  n.forward();
  CAPTURE(name_of(t), each);
  CHECK(error(n.y, expected_of(n)) <= tolerance(t));
}

// Central differences in f64, as for other norms.
TEST_CASE("gradients of norms of queries and keys are derivatives", "[kernels]") {
  const bool each = GENERATE(true, false);
  QueryKeyNorm n(DType::f64, each);
  n.forward();
  const Memory dx = n.backward_input();
  Memory dquery = Memory::random(DType::f64, n.query_gamma.count(), 5);
  Memory dkey = Memory::random(DType::f64, n.key_gamma.count(), 6);
  const Memory dquery0 = dquery, dkey0 = dkey;
  run(n.kernel_of(KernelKind::query_key_norm_backward_weight),
      {n.dy.operand(), n.x.operand(), n.stats.operand(), dquery.operand(true), dkey.operand(true)});
  const auto derivative = [&](Memory& of, std::uint64_t i) {
    constexpr double h = 1e-5;
    const double at = of[i];
    const auto loss = [&](double x) {
      of.set(i, x);
      n.forward();
      double sum = 0.0;
      for (std::uint64_t j = 0; j < n.y.count(); ++j) sum += n.y[j] * n.dy[j];
      return sum;
    };
    const double slope = (loss(at + h) - loss(at - h)) / (2 * h);
    of.set(i, at);
    return slope;
  };
  for (std::uint64_t i = 0; i < dx.count(); ++i) CHECK(dx[i] == Approx(derivative(n.x, i)).margin(1e-8));
  for (std::uint64_t i = 0; i < dquery.count(); ++i) {
    CHECK(dquery[i] - dquery0[i] == Approx(derivative(n.query_gamma, i)).margin(1e-8));
  }
  for (std::uint64_t i = 0; i < dkey.count(); ++i) {
    CHECK(dkey[i] - dkey0[i] == Approx(derivative(n.key_gamma, i)).margin(1e-8));
  }
}

TEST_CASE("heads of two ranks are normed together as those of one are", "[kernels]") {
  QueryKeyNorm whole(DType::f64, false);
  whole.forward();
  const Memory dx = whole.backward_input();
  std::vector<QueryKeyNorm> parts(2, QueryKeyNorm(DType::f64, false, 1));
  const std::uint64_t w = parts[0].width;
  for (std::uint64_t r = 0; r < 2; ++r) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t i = 0; i < w; ++i) {
        parts[r].x.set(row * w + i, whole.x[row * 2 * w + r * w + i]);
        parts[r].dy.set(row * w + i, whole.dy[row * 2 * w + r * w + i]);
      }
    }
    for (std::uint64_t i = 0; i < group * dim; ++i) parts[r].query_gamma.set(i, whole.query_gamma[r * group * dim + i]);
    for (std::uint64_t i = 0; i < dim; ++i) parts[r].key_gamma.set(i, whole.key_gamma[r * dim + i]);
  }
  const auto summed = [&](auto make) {
    Memory sum = Memory::of(DType::f64, std::vector<double>(2 * rows, 0.0));
    for (QueryKeyNorm& n : parts) {
      Memory part(DType::f64, 2 * rows);
      make(n, part);
      for (std::uint64_t i = 0; i < sum.count(); ++i) sum.set(i, sum[i] + part[i]);
    }
    return sum;
  };
  Memory squares = summed([](QueryKeyNorm& n, Memory& to) {
    run(n.kernel_of(KernelKind::query_key_squares), {n.x.operand(), to.operand()});
  });
  for (QueryKeyNorm& n : parts) n.forward(&squares);
  Memory sums = summed([](QueryKeyNorm& n, Memory& to) {
    run(n.kernel_of(KernelKind::query_key_gradient_sums), {n.dy.operand(), n.x.operand(), n.query_gamma.operand(),
                                                           n.key_gamma.operand(), n.stats.operand(), to.operand()});
  });
  for (std::uint64_t r = 0; r < 2; ++r) {
    const Memory part = parts[r].backward_input(&sums);
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t i = 0; i < w; ++i) {
        CHECK(parts[r].y[row * w + i] == Approx(whole.y[row * 2 * w + r * w + i]).margin(1e-13));
        CHECK(part[row * w + i] == Approx(dx[row * 2 * w + r * w + i]).margin(1e-13));
      }
    }
  }
}
