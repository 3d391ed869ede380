#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/update_operands.hpp"
#include "exec/kernels/factored_runs.hpp"
#include "exec/kernels/parameter_layout.hpp"

// Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory
// cost", ICML 2018 (arXiv 1804.04235), algorithms 4 and 5, with a given rate.
// Statistics are computed in double: their product leaves the range of f32.
namespace orrery::cpu {
namespace {

/// Neighbouring elements of one matrix, and where they stand in the whole one.
struct Piece {
  const FactoredTensor* tensor = nullptr;
  std::uint64_t matrix = 0;  ///< of the tensor
  std::uint64_t first = 0;   ///< in the operand
  std::uint64_t count = 0;
  std::uint64_t row[tile];  ///< `outside`: padding
  std::uint64_t column[tile];

  [[nodiscard]] bool pads(std::uint64_t i) const { return row[i] == outside || column[i] == outside; }
  /// First of its elements among the segment's statistics and norms.
  [[nodiscard]] std::uint64_t begin() const { return tensor->first + matrix * tensor->each(); }
  [[nodiscard]] std::uint64_t norm() const { return tensor->first_matrix + matrix; }
  [[nodiscard]] std::uint64_t row_at(std::uint64_t i) const { return begin() + row[i]; }
  [[nodiscard]] std::uint64_t column_at(std::uint64_t i) const { return begin() + tensor->rows + column[i]; }
};

/// Global coordinates of the local ones over dimensions [from, to), `outside` in padding.
std::vector<std::uint64_t> coordinates(const Shard& shard, const Box& box, std::size_t from, std::size_t to) {
  std::vector<std::uint64_t> out = {0};
  for (std::size_t d = from; d < to; ++d) {
    std::vector<std::uint64_t> next;
    for (const std::uint64_t outer : out) {
      for (std::uint64_t i = 0; i < box.extent[d]; ++i) {
        const std::uint64_t here = box.offset[d] + i;
        const bool pads = outer == outside || here >= shard.dims[d].valid;
        next.push_back(pads ? outside : outer * shard.dims[d].valid + here);
      }
    }
    out = std::move(next);
  }
  return out;
}

/// Calls visit for pieces of at most `tile` elements of the operand's part of the segment.
template <class Visit>
void for_each_piece(const Operand& operand, const FactoredSegment& segment, const KernelContext& context, Visit visit) {
  const Place& place = operand.place;
  Piece piece;
  for_each_run(*place.table, *context.mesh, context.rank, place.flat_split, [&](const ParameterRun& run) {
    const std::uint64_t low = std::max(run.buffer_first, place.flat_first);
    const std::uint64_t high = std::min(run.buffer_first + run.count, place.flat_first + operand.count);
    if (low >= high) return;
    const auto tensor = std::find_if(segment.tensors.begin(), segment.tensors.end(),
                                     [&](const FactoredTensor& t) { return t.slice == run.slice; });
    ORRERY_ASSERT(tensor != segment.tensors.end(), run.slice->name);
    const Shard& shard = run.slice->shard;
    const Box box = box_of(shard, *context.mesh, context.rank);
    const std::size_t of_matrix = segment.experts ? 1 : 0;
    const std::size_t of_columns = of_matrix + (tensor->rows > 0 ? 1 : 0);
    const auto rows = coordinates(shard, box, of_matrix, of_columns);
    const auto columns = coordinates(shard, box, of_columns, shard.rank);
    const std::uint64_t matrix = rows.size() * columns.size();
    piece.tensor = &*tensor;
    for (std::uint64_t at = low; at < high; at += piece.count) {
      const std::uint64_t element = run.slice_first + (at - run.buffer_first);
      piece.matrix = element / matrix;
      piece.first = at - place.flat_first;
      piece.count = std::min({tile, high - at, matrix - element % matrix});
      std::uint64_t r = element % matrix / columns.size(), c = element % columns.size();
      for (std::uint64_t i = 0; i < piece.count; ++i) {
        piece.row[i] = rows[r];
        piece.column[i] = columns[c];
        if (++c == columns.size()) c = 0, ++r;
      }
      visit(piece);
    }
  });
}

/// A segment's statistics, ready to be multiplied.
class SecondMoment {
 public:
  SecondMoment(const FactoredSegment& segment, const Operand& moments)
      : values_(segment.count), rows_(segment.matrices, 1.0) {
    load_elements(moments.dtype, moments.data, 0, segment.count, values_.data());
    for (const FactoredTensor& t : segment.tensors) {
      for (std::uint64_t m = 0; m < t.matrices && t.rows > 0; ++m) {
        double sum = 0.0;
        for (std::uint64_t r = 0; r < t.rows; ++r) sum += values_[t.first + m * t.each() + r];
        rows_[t.first_matrix + m] = sum;
      }
    }
  }
  /// R_i C_j / sum of R; of a vector C_j.
  [[nodiscard]] double operator()(const Piece& p, std::uint64_t i) const {
    const double column = values_[p.column_at(i)];
    return p.tensor->rows == 0 ? column : values_[p.row_at(i)] / rows_[p.norm()] * column;
  }

 private:
  std::vector<double> values_;
  std::vector<double> rows_;  ///< sums, by matrix
};

template <class T>
void adafactor_squares(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Factor factor(o);
  if (factor.skip) return;
  const Operand& sums = o[N::sums];
  const FactoredSegment segment = factored_segment(o[N::gradient], context);
  std::vector<double> added(segment.count);
  for_each_piece(o[N::gradient], segment, context, [&](const Piece& p) {
    T buffer[tile];
    const T* g = read(o[N::gradient], p.first, p.count, buffer);
    for (std::uint64_t i = 0; i < p.count; ++i) {
      if (p.pads(i)) continue;
      const double scaled = static_cast<double>(g[i]) * factor.multiplier;
      if (p.tensor->rows > 0) added[p.row_at(i)] += scaled * scaled;
      added[p.column_at(i)] += scaled * scaled;
    }
  });
  for (std::uint64_t i = 0; i < segment.count; ++i)
    write_scalar(sums, read_scalar(sums, i) + k.parameter * added[i], i);
}

template <class T>
void adafactor_moments(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Factor factor(o);
  if (factor.skip) return;
  const Operand& moments = o[N::moments];
  const Operand& norms = o[N::norms];
  const FactoredSegment segment = factored_segment(o[N::gradient], context);
  const double kept = 1.0 - std::pow(read_scalar(o[N::steps]), -adafactor_decay_exponent);
  const auto average = [&](std::uint64_t at, std::uint64_t elements) {
    const double mean =
        kept * read_scalar(moments, at) +
        (1.0 - kept) * (read_scalar(o[N::sums], at) + static_cast<double>(elements) * adafactor_epsilon);
    write_scalar(moments, mean, at);
  };
  for (const FactoredTensor& t : segment.tensors) {
    for (std::uint64_t m = 0; m < t.matrices; ++m) {
      const std::uint64_t begin = t.first + m * t.each();
      for (std::uint64_t r = 0; r < t.rows; ++r) average(begin + r, t.columns);
      for (std::uint64_t c = 0; c < t.columns; ++c) average(begin + t.rows + c, std::max<std::uint64_t>(t.rows, 1));
    }
  }
  const SecondMoment second(segment, moments);
  std::vector<double> added(segment.matrices);
  for_each_piece(o[N::gradient], segment, context, [&](const Piece& p) {
    T buffer[tile];
    const T* g = read(o[N::gradient], p.first, p.count, buffer);
    for (std::uint64_t i = 0; i < p.count; ++i) {
      if (p.pads(i)) continue;
      const double scaled = static_cast<double>(g[i]) * factor.multiplier;
      added[p.norm()] += scaled * scaled / second(p, i);
    }
  });
  for (std::uint64_t i = 0; i < added.size(); ++i)
    write_scalar(norms, read_scalar(norms, i) + k.parameter * added[i], i);
}

template <class T>
void adafactor_update(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Update u(o);
  const Factor factor(o);
  if (factor.skip) return;
  const Operand& norms = o[N::norms];
  const FactoredSegment segment = factored_segment(o[N::gradient], context);
  const SecondMoment second(segment, o[N::moments]);
  const Workload& w = *context.workload;
  const double rate = learning_rate(w, static_cast<std::uint64_t>(read_scalar(o[N::steps])));
  const double decay = k.options.decay ? w.optimizer.weight_decay : 0.0;
  for_each_piece(o[N::gradient], segment, context, [&](const Piece& p) {
    const auto elements = static_cast<double>(std::max<std::uint64_t>(p.tensor->rows, 1) * p.tensor->columns);
    const double length = std::sqrt(read_scalar(norms, p.norm()) / elements);
    const double scale = factor.multiplier / std::max(1.0, length / adafactor_clip);
    T g_buffer[tile], w_buffer[tile];
    const T* g = read(o[N::gradient], p.first, p.count, g_buffer);
    T* x = update(u.exact, p.first, p.count, w_buffer);
    for (std::uint64_t i = 0; i < p.count; ++i) {
      if (p.pads(i)) continue;
      const double direction = scale * static_cast<double>(g[i]) / std::sqrt(second(p, i));
      x[i] = static_cast<T>(static_cast<double>(x[i]) - rate * (direction + decay * static_cast<double>(x[i])));
    }
    finish(u.exact, p.first, p.count, x);
    u.round(p.first, p.count, x);
  });
}

}  // namespace

std::span<const HostKernel> adafactor_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::adafactor_squares, adafactor_squares<float>, adafactor_squares<double>},
      {KernelKind::adafactor_moments, adafactor_moments<float>, adafactor_moments<double>},
      {KernelKind::adafactor_update, adafactor_update<float>, adafactor_update<double>},
  };
  return list;
}

}  // namespace orrery::cpu
