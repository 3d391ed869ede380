#pragma once

#include <cmath>
#include <limits>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/score_rule.hpp"
#include "exec/kernels/cpu/seen_keys.hpp"
#include "exec/kernels/device/launcher.hpp"

/// Rows of the matrix of probabilities, between the products of attention (attention.hpp).
namespace orrery::device {

/// Says which probabilities dropout keeps; with `on` false it keeps all.
struct ProbabilityMask {
  cpu::ProbabilityDropout key;
  bool on;
  [[nodiscard]] ORRERY_ON_DEVICE bool keeps(std::uint64_t sequence, std::uint64_t head, std::uint64_t query,
                                            std::uint64_t position) const {
    return !on || key.keeps(key.row(sequence, head, query) + position);
  }
};

/// The mask of a kernel on packed qkv.
[[nodiscard]] inline ProbabilityMask probability_mask(const Kernel& k, const KernelContext& c, const Place& qkv) {
  const cpu::Heads heads(k);
  if (k.options.dropout) return {cpu::ProbabilityDropout(k, c, qkv, heads), true};
  Kernel keeps_all = k;
  keeps_all.parameter = 0.0;
  const Workload none;
  KernelContext context = c;
  context.workload = &none;
  return {cpu::ProbabilityDropout(keeps_all, context, qkv, heads), false};
}
/// The factor by which kept elements grow.
template <class T>
[[nodiscard]] T kept_factor(const Kernel& k) {
  return static_cast<T>(k.options.dropout ? 1.0 / (1.0 - k.parameter) : 1.0);
}

/// A row of products becomes that of scores, and then its softmax, with a block for each (sequence, head, query).
template <class T>
struct SoftmaxForward {
  Elements scores, mask, dropped, sinks, lse;  ///< sinks: none where data is null
  ProbabilityMask dropout;
  cpu::ScoreRule<T> rule;
  std::uint64_t heads, length;
  T inverse;  ///< of what dropout keeps
  cpu::SeenKeys seen;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t query = row % length;
    const std::uint64_t head = row / length % heads;
    const std::uint64_t sequence = row / length / heads;
    const std::uint64_t low = seen.first(query), end = seen.end(query, length);
    const std::uint64_t first = row * length;
    const bool has_sink = sinks.data != nullptr;
    const T sink = has_sink ? sinks.load<T>(head) : -std::numeric_limits<T>::infinity();
    const T slope = rule.slope(head);
    const auto score = [&](std::uint64_t j) { return rule.score(scores.load<T>(first + j), slope, query, j); };
    T most = sink;
    for (std::uint64_t j = low + b.thread(); j < end; j += b.threads()) {
      const T v = score(j);
      most = most < v ? v : most;
    }
    most = b.largest(most);
    T sum{0};
    for (std::uint64_t j = low + b.thread(); j < end; j += b.threads()) sum += std::exp(score(j) - most);
    sum = b.sum(sum) + (has_sink ? std::exp(sink - most) : T{0});
    if (has_sink && b.thread() == 0) lse.store(row, most + std::log(sum));
    for (std::uint64_t j = b.thread(); j < length; j += b.threads()) {
      const T p = low <= j && j < end ? std::exp(score(j) - most) / sum : T{0};
      scores.store(first + j, p);
      if (!dropout.on) continue;
      const bool kept = dropout.keeps(sequence, head, query, j);
      mask.bytes()[first + j] = kept ? 1 : 0;
      dropped.store(first + j, kept ? p * inverse : T{0});
    }
  }
};

// dS = P (dP - rowsum(dP P)), where the row holds dP = dropout(dC v^T).
template <class T>
struct SoftmaxBackward {
  Elements probabilities, mask, d;  ///< mask: none where data is null
  std::uint64_t length;
  T inverse;
  cpu::SeenKeys seen;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    of_row(b, row, [](std::uint64_t) { return T{1}; });
  }
  /// slope(j) is that of the score of key j by its product with the query.
  template <class Block, class Slope>
  ORRERY_KERNEL_BODY void of_row(Block& b, std::uint64_t row, Slope slope) const {
    const std::uint64_t low = seen.first(row % length), end = seen.end(row % length, length);
    const std::uint64_t first = row * length;
    T dot{0};
    for (std::uint64_t j = low + b.thread(); j < end; j += b.threads()) {
      dot += dropped(first + j) * probabilities.load<T>(first + j);
    }
    dot = b.sum(dot);
    for (std::uint64_t j = b.thread(); j < length; j += b.threads()) {
      const T v = low <= j && j < end ? probabilities.load<T>(first + j) * (dropped(first + j) - dot) * slope(j) : T{0};
      d.store(first + j, v);
    }
  }
  [[nodiscard]] ORRERY_ON_DEVICE T dropped(std::uint64_t i) const {
    if (mask.data != nullptr) return mask.bytes()[i] != 0 ? d.load<T>(i) * inverse : T{0};
    return d.load<T>(i);
  }
};

/// The same where a soft cap makes scores of products, for heads that are `group` apart; a row's products are at hand.
template <class T>
struct CappedBackward {
  SoftmaxBackward<T> softmax;
  cpu::ScoreRule<T> rule;
  const T* products;  ///< [heads, length, length]
  std::uint64_t first, group;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t length = softmax.length;
    const T* of_row = products + row * length;
    softmax.of_row(b, (first + row / length * group) * length + row % length,
                   [&](std::uint64_t j) { return rule.derivative(rule.capped(of_row[j])); });
  }
};

/// Writes sums[groups, length, width] into the columns of a packed row, for one sequence; i counts (position, group,
/// feature).
template <class T>
struct PutHeads {
  const T* sums;
  Elements packed;
  std::uint64_t groups, length, width;
  std::uint64_t batch, sequence, row, column, group_width;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t feature = i % width;
    const std::uint64_t group = i / width % groups;
    const std::uint64_t position = i / width / groups;
    packed.store((position * batch + sequence) * row + column + group * group_width + feature,
                 sums[(group * length + position) * width + feature]);
  }
};

}  // namespace orrery::device
