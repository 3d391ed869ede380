#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/score_rule.hpp"
#include "exec/kernels/cpu/seen_keys.hpp"
#include "exec/kernels/device/launcher.hpp"

/// Attention with the matrix of probabilities in memory: matrix products and row kernels.
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

/// The products of unfused attention. A batch holds those of one sequence and of one member of each group of heads that
/// share a key and a value.
template <class T, class Launcher>
class UnfusedAttention {
 public:
  UnfusedAttention(Launcher& l, const Kernel& k) : l_(l), k_(k), s_(k) {}

  void forward(const NamedOperands& o, const KernelContext& c) {
    const bool dropout = k_.options.dropout;
    const std::uint64_t square = s_.length * s_.length;
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      Product p = product(s_.length, s_.length, s_.dim);
      p.a = query(o[N::qkv], sequence, member);
      p.b = key(o[N::qkv], sequence, true);
      p.c = scores(o[N::probabilities], sequence, member, square);
      p.alpha = s_.scale;
      l_.multiply(p);
    });
    SoftmaxForward<T> f{Elements(o[N::probabilities]),
                        elements_if(o, N::mask),
                        elements_if(o, N::dropped),
                        elements_if(o, N::sinks),
                        elements_if(o, N::lse),
                        probability_mask(k_, c, o[N::qkv].place),
                        cpu::ScoreRule<T>(k_, o[N::qkv].place, s_),
                        s_.heads,
                        s_.length,
                        kept_factor<T>(k_),
                        cpu::SeenKeys(k_)};
    for_each_row(l_, s_.batch * s_.heads * s_.length, f);
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      Product p = product(s_.length, s_.value, s_.length);
      p.a = scores(o[dropout ? N::dropped : N::probabilities], sequence, member, square);
      p.b = value(o[N::qkv], sequence, false);
      p.c = context(o[N::context], sequence, member);
      l_.multiply(p);
    });
  }

  /// Products that a soft cap needs again are made in parts of about `most_products` elements.
  void backward(const NamedOperands& o, std::uint64_t most_products = std::uint64_t{32} << 20) {
    const bool dropout = k_.options.dropout;
    const std::uint64_t square = s_.length * s_.length;
    const Operand& dqkv = o[N::dqkv];
    const Operand& dscores = o[N::dscores];
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      Product p = product(s_.length, s_.length, s_.value);
      p.a = context(o[N::dcontext], sequence, member);
      p.b = value(o[N::qkv], sequence, true);
      p.c = scores(dscores, sequence, member, square);
      l_.multiply(p);
    });
    // Sums over the heads of a group are kept in the type of the arithmetic.
    const std::uint64_t keys = s_.kv_heads * s_.length * s_.dim;
    const std::uint64_t values = s_.kv_heads * s_.length * s_.value;
    const cpu::ScoreRule<T> rule(k_, o[N::qkv].place, s_);
    const std::uint64_t groups =
        std::clamp<std::uint64_t>(most_products / square, 1, s_.kv_heads);  // whose products are there at once
    const std::uint64_t room = std::max(keys + values, rule.caps() ? groups * square : 0);
    auto* dk = static_cast<T*>(l_.scratch(room * sizeof(T)));
    T* dv = dk + keys;
    const DType type = sizeof(T) == 8 ? DType::f64 : DType::f32;
    const SoftmaxBackward<T> softmax{Elements(o[N::probabilities]),
                                     elements_if(o, N::mask),
                                     Elements(dscores),
                                     s_.length,
                                     kept_factor<T>(k_),
                                     cpu::SeenKeys(k_)};
    if (!rule.caps()) for_each_row(l_, s_.batch * s_.heads * s_.length, softmax);
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      T* products = dk;  // before the sums
      for (std::uint64_t first = 0; rule.caps() && first < s_.kv_heads; first += groups) {
        Product p = product(s_.length, s_.length, s_.dim);
        p.batch = std::min(groups, s_.kv_heads - first);
        p.a = from_group(query(o[N::qkv], sequence, member), first);
        p.b = from_group(key(o[N::qkv], sequence, true), first);
        p.c = {Elements(products, type), false, s_.length, square};
        p.alpha = s_.scale;
        l_.multiply(p);
        const std::uint64_t head = sequence * s_.heads + first * s_.group + member;
        for_each_row(l_, p.batch * s_.length, CappedBackward<T>{softmax, rule, products, head, s_.group});
      }
    });
    for (std::uint64_t sequence = 0; sequence < s_.batch; ++sequence) {
      for (std::uint64_t member = 0; member < s_.group; ++member) {
        Product q = product(s_.length, s_.dim, s_.length);
        q.a = scores(dscores, sequence, member, square);
        q.b = key(o[N::qkv], sequence, false);
        q.c = query(dqkv, sequence, member);
        q.alpha = s_.scale;
        l_.multiply(q);
        Product p = product(s_.length, s_.dim, s_.length);
        p.a = transposed(scores(dscores, sequence, member, square));
        p.b = query(o[N::qkv], sequence, member);
        p.c = {Elements(dk, type), false, s_.dim, s_.length * s_.dim};
        p.alpha = s_.scale;
        p.add = member > 0;
        l_.multiply(p);
        Product w = product(s_.length, s_.value, s_.length);
        w.a = transposed(scores(o[dropout ? N::dropped : N::probabilities], sequence, member, square));
        w.b = context(o[N::dcontext], sequence, member);
        w.c = {Elements(dv, type), false, s_.value, s_.length * s_.value};
        w.add = member > 0;
        l_.multiply(w);
      }
      for_each(l_, keys,
               PutHeads<T>{dk, Elements(dqkv), s_.kv_heads, s_.length, s_.dim, s_.batch, sequence, s_.qkv_width(),
                           s_.key_column(0), s_.group_width()});
      for_each(l_, values,
               PutHeads<T>{dv, Elements(dqkv), s_.kv_heads, s_.length, s_.value, s_.batch, sequence, s_.qkv_width(),
                           s_.value_column(0), s_.group_width()});
    }
  }

 private:
  template <class F>
  void for_each_member(F f) {
    for (std::uint64_t sequence = 0; sequence < s_.batch; ++sequence) {
      for (std::uint64_t member = 0; member < s_.group; ++member) f(sequence, member);
    }
  }
  [[nodiscard]] Product product(std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) const {
    Product p;
    p.rows = rows;
    p.columns = columns;
    p.depth = depth;
    p.batch = s_.kv_heads;
    p.compute = k_.compute;
    return p;
  }
  [[nodiscard]] static Product::Factor from_group(Product::Factor f, std::uint64_t group) {
    f.x = at(f.x, group * f.step);
    return f;
  }
  [[nodiscard]] static Product::Factor transposed(Product::Factor f) {
    f.transposed = !f.transposed;
    return f;
  }
  /// [length, ..] of one sequence at a column of packed qkv, for every group.
  [[nodiscard]] Product::Factor packed(const Operand& qkv, std::uint64_t sequence, std::uint64_t column,
                                       bool turned) const {
    return {at(Elements(qkv), sequence * s_.qkv_width() + column), turned, s_.batch * s_.qkv_width(), s_.group_width()};
  }
  [[nodiscard]] Product::Factor query(const Operand& qkv, std::uint64_t sequence, std::uint64_t member) const {
    return packed(qkv, sequence, member * s_.dim, false);
  }
  [[nodiscard]] Product::Factor key(const Operand& qkv, std::uint64_t sequence, bool turned) const {
    return packed(qkv, sequence, s_.key_column(0), turned);
  }
  [[nodiscard]] Product::Factor value(const Operand& qkv, std::uint64_t sequence, bool turned) const {
    return packed(qkv, sequence, s_.value_column(0), turned);
  }
  /// [length, value] of heads `member`, group + member, 2 group + member, ...
  [[nodiscard]] Product::Factor context(const Operand& x, std::uint64_t sequence, std::uint64_t member) const {
    return {at(Elements(x), sequence * s_.context_width() + member * s_.value), false, s_.batch * s_.context_width(),
            s_.group * s_.value};
  }
  [[nodiscard]] Product::Factor scores(const Operand& x, std::uint64_t sequence, std::uint64_t member,
                                       std::uint64_t square) const {
    return {at(Elements(x), (sequence * s_.heads + member) * square), false, s_.length, s_.group * square};
  }

  Launcher& l_;
  const Kernel& k_;
  cpu::Heads s_;
};

template <class T, class Launcher>
bool run_attention(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  if (k.kind == KernelKind::attention_unfused_forward) {
    UnfusedAttention<T, Launcher>(l, k).forward(o, c);
    return true;
  }
  if (k.kind == KernelKind::attention_unfused_backward) {
    UnfusedAttention<T, Launcher>(l, k).backward(o);
    return true;
  }
  return false;
}

}  // namespace orrery::device
