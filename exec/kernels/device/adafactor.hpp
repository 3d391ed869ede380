#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/kernels/device/optimizer.hpp"
#include "exec/kernels/factored_runs.hpp"

/// Adafactor, as exec/kernels/cpu/adafactor.cpp has it: Shazeer and Stern, "Adafactor: adaptive learning rates with
/// sublinear memory cost", ICML 2018 (arXiv 1804.04235), algorithms 4 and 5, with a given rate.  Sums are in double and
/// have one order: no two blocks add to the same number.
namespace orrery::device {

/// Where an element of a rank's box stands in the whole matrix.
struct FactoredPlace {
  std::uint64_t matrix = 0, row = 0, column = 0;
  bool pads = false;
};

/// A run in the form in which kernel bodies see it.
struct Factored {
  FactoredRun run;

  /// Column of the statistics for column `c` of the box; `outside` in padding.
  static constexpr std::uint64_t outside = ~std::uint64_t{0};
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t column(std::uint64_t c) const {
    std::uint64_t at = 0, stride = 1;
    for (std::uint32_t d = run.dims; d-- > 0;) {
      const std::uint64_t here = run.offset[d] + c % run.extent[d];
      if (here >= run.valid[d]) return outside;
      at += here * stride;
      c /= run.extent[d];
      stride *= run.valid[d];
    }
    return at;
  }
  /// The place of an element of the box.
  [[nodiscard]] ORRERY_ON_DEVICE FactoredPlace place(std::uint64_t element) const {
    FactoredPlace p;
    p.matrix = element / (run.rows * run.columns);
    p.row = run.first_row + element / run.columns % run.rows;
    p.column = column(element % run.columns);
    p.pads = p.row >= run.valid_rows || p.column == outside;
    return p;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t each() const { return run.all_rows + run.all_columns; }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t row_at(std::uint64_t matrix, std::uint64_t row) const {
    return run.statistics + matrix * each() + row;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t column_at(std::uint64_t matrix, std::uint64_t column) const {
    return run.statistics + matrix * each() + run.all_rows + column;
  }
  /// Whether the operand has the element of the box, and its number in the operand.
  [[nodiscard]] ORRERY_ON_DEVICE bool has(std::uint64_t element) const {
    return run.box_first <= element && element < run.box_first + run.count;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t in_operand(std::uint64_t element) const {
    return run.first + (element - run.box_first);
  }
};

/// The gradient times its factor.
struct ScaledGradient {
  Elements gradient, factor;  ///< factor: none where data is null
  [[nodiscard]] ORRERY_ON_DEVICE bool skips() const { return factor.data != nullptr && factor.load<double>(1) != 0.0; }
  [[nodiscard]] ORRERY_ON_DEVICE double multiplier() const {
    return factor.data != nullptr ? factor.load<double>(0) : 1.0;
  }
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE double at(std::uint64_t i) const {
    return static_cast<double>(gradient.load<T>(i)) * multiplier();
  }
};

/// Sums of rows: each row that the run touches has a block.
template <class T>
struct AdafactorRowSquares {
  Factored f;
  ScaledGradient g;
  Elements sums;
  double share;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t line) const {
    if (g.skips()) return;
    const std::uint64_t at = (f.run.box_first / f.run.columns + line) * f.run.columns;
    double sum = 0.0;
    for (std::uint64_t c = b.thread(); c < f.run.columns; c += b.threads()) {
      if (!f.has(at + c) || f.place(at + c).pads) continue;
      const double v = g.at<T>(f.in_operand(at + c));
      sum += v * v;
    }
    sum = b.sum(sum);
    const FactoredPlace first = f.place(at);
    if (b.thread() != 0 || first.row >= f.run.valid_rows) return;
    const std::uint64_t to = f.row_at(first.matrix, first.row);
    sums.store(to, sums.load<double>(to) + share * sum);
  }
};

/// Sums of columns over some rows each, [matrix][chunk][column], so that neighbouring threads read neighbouring
/// elements.
template <class T>
struct AdafactorColumnSquares {
  Factored f;
  ScaledGradient g;
  std::uint64_t chunks;
  double* partial;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    if (g.skips()) return;
    const std::uint64_t column = i % f.run.columns;
    const std::uint64_t chunk = i / f.run.columns % chunks;
    const std::uint64_t matrix = i / f.run.columns / chunks;
    const std::uint64_t begin = chunk * f.run.rows / chunks, end = (chunk + 1) * f.run.rows / chunks;
    double sum = 0.0;
    for (std::uint64_t r = begin; r < end; ++r) {
      const std::uint64_t element = (matrix * f.run.rows + r) * f.run.columns + column;
      if (!f.has(element) || f.run.first_row + r >= f.run.valid_rows) continue;
      const double v = g.at<T>(f.in_operand(element));
      sum += v * v;
    }
    partial[i] = sum;
  }
};
struct AdafactorAddColumns {
  Factored f;
  ScaledGradient g;
  std::uint64_t chunks;
  const double* partial;
  Elements sums;
  double share;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    if (g.skips()) return;
    const std::uint64_t matrix = i / f.run.columns;
    const std::uint64_t column = f.column(i % f.run.columns);
    if (column == Factored::outside) return;
    double sum = 0.0;
    for (std::uint64_t c = 0; c < chunks; ++c)
      sum += partial[(matrix * chunks + c) * f.run.columns + i % f.run.columns];
    const std::uint64_t to = f.column_at(matrix, column);
    sums.store(to, sums.load<double>(to) + share * sum);
  }
};

/// Means over steps of one tensor's sums.
struct AdafactorMeans {
  Elements sums, steps, factor, moments;
  std::uint64_t first, rows, columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    if (factor.data != nullptr && factor.load<double>(1) != 0.0) return;
    const double kept = 1.0 - std::pow(steps.load<double>(0), -adafactor_decay_exponent);
    const std::uint64_t of_matrix = i % (rows + columns);
    const std::uint64_t elements = of_matrix < rows ? columns : (rows > 0 ? rows : 1);
    const double now = sums.load<double>(first + i) + static_cast<double>(elements) * adafactor_epsilon;
    moments.store(first + i, kept * moments.load<double>(first + i) + (1.0 - kept) * now);
  }
};

/// The sum of each matrix's row statistics.
struct AdafactorRowSums {
  Elements moments;
  std::uint64_t first, rows, columns;
  double* sums;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t matrix) const {
    double sum = 0.0;
    for (std::uint64_t r = b.thread(); r < rows; r += b.threads()) {
      sum += moments.load<double>(first + matrix * (rows + columns) + r);
    }
    sum = b.sum(sum);
    if (b.thread() == 0) sums[matrix] = sum;
  }
};

/// A segment's statistics, ready to be multiplied.
struct AdafactorSecond {
  Elements moments;
  const double* row_sums;  ///< by norm
  /// R_i C_j / sum of R; of a vector C_j.
  [[nodiscard]] ORRERY_ON_DEVICE double operator()(const Factored& f, const FactoredPlace& p) const {
    const double column = moments.load<double>(f.column_at(p.matrix, p.column));
    if (f.run.all_rows == 0) return column;
    return moments.load<double>(f.row_at(p.matrix, p.row)) / row_sums[f.run.norms + p.matrix] * column;
  }
};

/// Every block's sum of squares of each matrix's update, [matrix][sum_blocks].
template <class T>
struct AdafactorUpdateSquares {
  Factored f;
  ScaledGradient g;
  AdafactorSecond second;
  double* partial;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (g.skips()) return;
    const std::uint64_t of_matrix = f.run.rows * f.run.columns;
    const std::uint64_t last = f.run.box_first + f.run.count;
    for (std::uint64_t m = 0; m < f.run.matrices; ++m) {
      const std::uint64_t begin = m * of_matrix < f.run.box_first ? f.run.box_first : m * of_matrix;
      const std::uint64_t end = (m + 1) * of_matrix < last ? (m + 1) * of_matrix : last;
      double sum = 0.0;
      for (std::uint64_t e = begin + b.index() * b.threads() + b.thread(); e < end; e += b.blocks() * b.threads()) {
        const FactoredPlace p = f.place(e);
        if (p.pads) continue;
        const double v = g.at<T>(f.in_operand(e));
        sum += v * v / second(f, p);
      }
      sum = b.sum(sum);
      if (b.thread() == 0) partial[m * sum_blocks + b.index()] = sum;
    }
  }
};
struct AdafactorAddNorms {
  ScaledGradient g;
  const double* partial;
  std::uint64_t blocks, first;
  Elements norms;
  double share;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t matrix) const {
    if (g.skips()) return;
    double sum = 0.0;
    for (std::uint64_t i = b.thread(); i < blocks; i += b.threads()) sum += partial[matrix * sum_blocks + i];
    sum = b.sum(sum);
    if (b.thread() == 0) norms.store(first + matrix, norms.load<double>(first + matrix) + share * sum);
  }
};

template <class T>
struct AdafactorUpdate {
  Factored f;
  UpdateOperands u;  ///< its moments: statistics, norms
  ScaledGradient g;
  AdafactorSecond second;
  LearningRate schedule;
  double decay;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    if (u.skips()) return;
    const FactoredPlace p = f.place(f.run.box_first + i);
    if (p.pads) return;
    const double rate = schedule.at(u.steps.load<double>(0));
    const auto elements = static_cast<double>((f.run.all_rows > 0 ? f.run.all_rows : 1) * f.run.all_columns);
    const double length = std::sqrt(u.moments[1].load<double>(f.run.norms + p.matrix) / elements) / adafactor_clip;
    const std::uint64_t at = f.run.first + i;
    const double direction = g.at<T>(at) / (length > 1.0 ? length : 1.0) / std::sqrt(second(f, p));
    const auto w = static_cast<double>(u.exact<T>(at));
    u.put(at, static_cast<T>(w - rate * (direction + decay * w)));
  }
};

template <class T, class Launcher>
bool run_adafactor(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto row_sums = [&](const FactoredSegment& segment, const Elements& moments, double* sums) {
    for (const FactoredTensor& t : segment.tensors) {
      if (t.rows == 0) continue;
      for_each_row(l, t.matrices, AdafactorRowSums{moments, t.first, t.rows, t.columns, sums + t.first_matrix});
    }
  };
  switch (k.kind) {
    case KernelKind::adafactor_squares: {
      const Operand& gradient = o[N::gradient];
      const ScaledGradient g{Elements(gradient), elements_if(o, N::factor)};
      const Elements sums(o[N::sums]);
      for (const FactoredRun& run : factored_runs(gradient, factored_segment(gradient, c), c)) {
        const Factored f{run};
        const std::uint64_t first_line = run.box_first / run.columns;
        const std::uint64_t lines = (run.box_first + run.count - 1) / run.columns - first_line + 1;
        if (run.all_rows > 0) for_each_row(l, lines, AdafactorRowSquares<T>{f, g, sums, k.parameter});
        // This gives enough threads for few columns, and not much scratch for many matrices.
        const std::uint64_t most = std::max<std::uint64_t>(1, 32 / run.matrices);
        const std::uint64_t chunks = std::min(most, (run.rows + 63) / 64);
        auto* partial = static_cast<double*>(l.scratch(run.matrices * chunks * run.columns * sizeof(double)));
        for_each(l, run.matrices * chunks * run.columns, AdafactorColumnSquares<T>{f, g, chunks, partial});
        for_each(l, run.matrices * run.columns, AdafactorAddColumns{f, g, chunks, partial, sums, k.parameter});
      }
      return true;
    }
    case KernelKind::adafactor_moments: {
      const Operand& gradient = o[N::gradient];
      const ScaledGradient g{Elements(gradient), elements_if(o, N::factor)};
      const Elements moments(o[N::moments]), norms(o[N::norms]);
      const FactoredSegment segment = factored_segment(gradient, c);
      for (const FactoredTensor& t : segment.tensors) {
        for_each(
            l, t.matrices * t.each(),
            AdafactorMeans{Elements(o[N::sums]), Elements(o[N::steps]), g.factor, moments, t.first, t.rows, t.columns});
      }
      auto* sums = static_cast<double*>(l.scratch(segment.matrices * (1 + sum_blocks) * sizeof(double)));
      row_sums(segment, moments, sums);
      for (const FactoredRun& run : factored_runs(gradient, segment, c)) {
        double* partial = sums + segment.matrices + run.norms * sum_blocks;
        const std::uint64_t blocks =
            std::min(sum_blocks, (run.rows * run.columns + 4 * usual_threads - 1) / (4 * usual_threads));
        l.launch(AdafactorUpdateSquares<T>{Factored{run}, g, AdafactorSecond{moments, sums}, partial}, blocks,
                 usual_threads, 0);
        for_each_row(l, run.matrices, AdafactorAddNorms{g, partial, blocks, run.norms, norms, k.parameter});
      }
      return true;
    }
    case KernelKind::adafactor_update: {
      const Operand& gradient = o[N::gradient];
      const UpdateOperands u(o, N::gradient, N::weight, N::moments, N::norms);
      const FactoredSegment segment = factored_segment(gradient, c);
      auto* sums = static_cast<double*>(l.scratch(segment.matrices * sizeof(double)));
      row_sums(segment, u.moments[0], sums);
      for (const FactoredRun& run : factored_runs(gradient, segment, c)) {
        for_each(l, run.count,
                 AdafactorUpdate<T>{Factored{run}, u, ScaledGradient{u.gradient, u.factor},
                                    AdafactorSecond{u.moments[0], sums}, LearningRate(*c.workload),
                                    k.options.decay ? c.workload->optimizer.weight_decay : 0.0});
      }
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
