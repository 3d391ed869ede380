#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "exec/kernels/cpu/brought_keys.hpp"
#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/score_rule.hpp"
#include "exec/kernels/cpu/seen_keys.hpp"

// Attention of one rank's queries on keys and values that were brought to it from the ranks of the context axis, in
// blocks as in attention_flash.cpp. The mask compares global positions, which need not stand in order: a zigzag cut
// gives a rank an early and a late chunk of the sequence.
namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { score_block = first_own, row_values, context_row_values, query_places, key_places };

constexpr std::uint64_t query_block = 64;
constexpr std::uint64_t key_block = 128;

/// Attention dropout; a part's own fields hold other values than its rate and site.
ProbabilityDropout dropout_of(const Kernel& k, const KernelContext& context, const Place& qkv, const Heads& heads) {
  Kernel drop = k;
  drop.site = 1;
  drop.parameter = context.workload->attention_dropout;
  return {drop, context, qkv, heads};
}

/// One head's matrices, as PackedHead has them, with keys of their own length.
template <class T>
struct PartHead {
  PartHead(const PartShape& s, KernelScratch& scratch)
      : q(scratch.get<T>(queries, s.own.length * s.own.dim)),
        k(scratch.get<T>(keys, s.brought.length * s.own.dim)),
        v(scratch.get<T>(values, s.brought.length * s.own.value)),
        shape(s) {}
  /// Heads come in order: a group's keys and values are taken with its first.
  void load(const Operand& qkv, const Operand& kv, std::uint64_t sequence, std::uint64_t head) {
    const std::uint64_t group = head / shape.own.group;
    const std::uint64_t width = shape.brought_width();
    if (head % shape.own.group == 0) {
      const std::uint64_t at = group * shape.pair();
      shape.brought.take(kv, width, sequence, at, T{1}, k);
      shape.brought.take(kv, width, sequence, at + shape.own.dim, T{1}, v, shape.own.value);
    }
    shape.own.take(qkv, shape.own.qkv_width(), sequence, shape.own.query_column(head), static_cast<T>(shape.own.scale),
                   q);
  }
  T* q;
  T* k;
  T* v;
  const PartShape& shape;
};

/// Whether any query may see any of the keys.
bool any_visible(const SeenKeys& seen, const std::uint64_t* query, std::uint64_t n, const std::uint64_t* key,
                 std::uint64_t m) {
  const auto [first_query, last_query] = std::minmax_element(query, query + n);
  const auto [first_key, last_key] = std::minmax_element(key, key + m);
  return seen.may_see(*first_query, *last_query, *first_key, *last_key);
}

template <class T>
void attention_part_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const PartShape shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.own.length;
  const std::uint64_t length = shape.brought.length;
  const std::uint64_t d = shape.own.dim;
  const std::uint64_t e = shape.own.value;
  const SeenKeys seen(k);
  const ScoreRule<T> rule(k, o[N::qkv].place, shape.own);
  const std::uint64_t* query_at = positions(o[N::qkv].place, s, query_places, scratch);
  const std::uint64_t* key_at = positions(brought_from(k, o[N::kv].place), length, key_places, scratch);
  std::optional<ProbabilityDropout> drop;
  if (k.options.dropout) drop.emplace(dropout_of(k, context, o[N::qkv].place, shape.own));
  const auto inverse = static_cast<T>(drop ? 1.0 / (1.0 - context.workload->attention_dropout) : 1.0);
  PartHead<T> head_of(shape, scratch);
  T* out = scratch.get<T>(outputs, s * e);
  T* p = scratch.get<T>(score_block, query_block * key_block);
  T* largest = scratch.get<T>(row_values, 2 * query_block);
  T* total = largest + query_block;
  for (std::uint64_t sequence = 0; sequence < shape.own.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.own.heads; ++head) {
      head_of.load(o[N::qkv], o[N::kv], sequence, head);
      const T slope = rule.slope(head);
      // A sink is a key without a value, which every query meets first.
      const T sink =
          k.options.sinks ? static_cast<T>(read_scalar(o[N::sinks], head)) : -std::numeric_limits<T>::infinity();
      std::fill_n(out, s * e, T{0});
      for (std::uint64_t i0 = 0; i0 < s; i0 += query_block) {
        const std::uint64_t n = std::min(query_block, s - i0);
        std::fill_n(largest, n, sink);
        std::fill_n(total, n, k.options.sinks ? T{1} : T{0});
        for (std::uint64_t j0 = 0; j0 < length; j0 += key_block) {
          const std::uint64_t m = std::min(key_block, length - j0);
          if (!any_visible(seen, query_at + i0, n, key_at + j0, m)) continue;
          matrix(p, n, m, key_block).noalias() =
              matrix<T>(static_cast<const T*>(head_of.q + i0 * d), n, d, d) *
              matrix<T>(static_cast<const T*>(head_of.k + j0 * d), m, d, d).transpose();
          for (std::uint64_t i = 0; i < n; ++i) {
            T* row = p + i * key_block;
            const auto sees = [&](std::uint64_t j) { return seen.sees(query_at[i0 + i], key_at[j0 + j]); };
            const auto place_of = [&](std::uint64_t j) { return key_at[j0 + j]; };
            rule.apply(row, m, slope, query_at[i0 + i], place_of);
            T high = largest[i];
            for (std::uint64_t j = 0; j < m; ++j) {
              if (sees(j)) high = std::max(high, row[j]);
            }
            if (high == -std::numeric_limits<T>::infinity()) {  // sees none so far
              std::fill_n(row, m, T{0});
              continue;
            }
            for (std::uint64_t j = 0; j < m; ++j) row[j] = sees(j) ? row[j] - high : T{0};
            exponentials(row, m);
            for (std::uint64_t j = 0; j < m; ++j) row[j] = sees(j) ? row[j] : T{0};
            const T shrink = std::exp(largest[i] - high);
            T* sum = out + (i0 + i) * e;
            for (std::uint64_t c = 0; c < e; ++c) sum[c] *= shrink;
            total[i] = total[i] * shrink + sum_over<T>(m, [&](std::uint64_t j) { return row[j]; });
            largest[i] = high;
            if (!drop) continue;
            const std::uint64_t element = drop->row(sequence, head, query_at[i0 + i]);
            for (std::uint64_t j = 0; j < m; ++j) row[j] *= drop->keeps(element + key_at[j0 + j]) ? inverse : T{0};
          }
          matrix(out + i0 * e, n, e, e).noalias() += matrix<T>(static_cast<const T*>(p), n, m, key_block) *
                                                     matrix<T>(static_cast<const T*>(head_of.v + j0 * e), m, e, e);
        }
        for (std::uint64_t i = 0; i < n; ++i) {
          if (total[i] == T{0}) continue;  // no key: nothing, and minus infinity
          T* sum = out + (i0 + i) * e;
          for (std::uint64_t c = 0; c < e; ++c) sum[c] /= total[i];
          largest[i] += std::log(total[i]);
        }
        const std::uint64_t at = (sequence * shape.own.heads + head) * s + i0;
        T* lse = target(o[N::lse], at, largest);
        if (lse != largest) std::copy_n(largest, n, lse);
        finish(o[N::lse], at, n, largest);
      }
      shape.own.put(o[N::context], shape.own.context_width(), sequence, head * e, T{1}, out, e);
    }
  }
}

template <class T>
void attention_part_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const PartShape shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.own.length;
  const std::uint64_t length = shape.brought.length;
  const std::uint64_t d = shape.own.dim;
  const std::uint64_t e = shape.own.value;
  const SeenKeys seen(k);
  const ScoreRule<T> rule(k, o[N::qkv].place, shape.own);
  const std::uint64_t width = shape.own.context_width();
  const std::uint64_t queries_width = shape.own.heads * d;
  const std::uint64_t* query_at = positions(o[N::qkv].place, s, query_places, scratch);
  const std::uint64_t* key_at = positions(brought_from(k, o[N::kv].place), length, key_places, scratch);
  std::optional<ProbabilityDropout> drop;
  if (k.options.dropout) drop.emplace(dropout_of(k, context, o[N::qkv].place, shape.own));
  const auto inverse = static_cast<T>(drop ? 1.0 / (1.0 - context.workload->attention_dropout) : 1.0);
  PartHead<T> head_of(shape, scratch);
  T* dc = scratch.get<T>(context_gradients, s * e);
  T* dk = scratch.get<T>(key_gradients, length * d);
  T* dv = scratch.get<T>(value_gradients, length * e);
  T* dq = scratch.get<T>(outputs, s * d);
  T* p = scratch.get<T>(score_block, 2 * query_block * key_block);
  T* dp = p + query_block * key_block;
  T* dots = scratch.get<T>(row_values, 2 * s);  // row sums of dC C
  T* lse_buffer = dots + s;
  T* context_row = scratch.get<T>(context_row_values, e);
  for (std::uint64_t sequence = 0; sequence < shape.own.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.own.heads; ++head) {
      const std::uint64_t group = head / shape.own.group;
      head_of.load(o[N::qkv], o[N::kv], sequence, head);
      const T slope = rule.slope(head);
      shape.own.take(o[N::dcontext], width, sequence, head * e, T{1}, dc, e);
      if (head % shape.own.group == 0) {
        std::fill_n(dk, length * d, T{0});
        std::fill_n(dv, length * e, T{0});
      }
      std::fill_n(dq, s * d, T{0});
      for (std::uint64_t i = 0; i < s; ++i) {
        const T* c = read(o[N::context], (i * shape.own.batch + sequence) * width + head * e, e, context_row);
        const T* g = dc + i * e;
        dots[i] = sum_over<T>(e, [&](std::uint64_t j) { return c[j] * g[j]; });
      }
      const T* lse = read(o[N::lse], (sequence * shape.own.heads + head) * s, s, lse_buffer);
      for (std::uint64_t i0 = 0; i0 < s; i0 += query_block) {
        const std::uint64_t n = std::min(query_block, s - i0);
        const auto q_block = matrix<T>(static_cast<const T*>(head_of.q + i0 * d), n, d, d);
        const auto dc_block = matrix<T>(static_cast<const T*>(dc + i0 * e), n, e, e);
        for (std::uint64_t j0 = 0; j0 < length; j0 += key_block) {
          const std::uint64_t m = std::min(key_block, length - j0);
          if (!any_visible(seen, query_at + i0, n, key_at + j0, m)) continue;
          const auto k_block = matrix<T>(static_cast<const T*>(head_of.k + j0 * d), m, d, d);
          matrix(p, n, m, key_block).noalias() = q_block * k_block.transpose();
          matrix(dp, n, m, key_block).noalias() =
              dc_block * matrix<T>(static_cast<const T*>(head_of.v + j0 * e), m, e, e).transpose();
          // p becomes the probabilities, dp the gradient of the scores.
          for (std::uint64_t i = 0; i < n; ++i) {
            T* p_row = p + i * key_block;
            T* dp_row = dp + i * key_block;
            const auto sees = [&](std::uint64_t j) { return seen.sees(query_at[i0 + i], key_at[j0 + j]); };
            const auto place_of = [&](std::uint64_t j) { return key_at[j0 + j]; };
            T derivatives[key_block];
            rule.apply(p_row, m, slope, query_at[i0 + i], place_of, derivatives);
            for (std::uint64_t j = 0; j < m; ++j) p_row[j] = sees(j) ? p_row[j] - lse[i0 + i] : T{0};
            exponentials(p_row, m);
            const std::uint64_t element = drop ? drop->row(sequence, head, query_at[i0 + i]) : 0;
            for (std::uint64_t j = 0; j < m; ++j) {
              const T kept = !drop ? T{1} : drop->keeps(element + key_at[j0 + j]) ? inverse : T{0};
              p_row[j] = sees(j) ? p_row[j] : T{0};
              dp_row[j] = p_row[j] * (dp_row[j] * kept - dots[i0 + i]);
              p_row[j] *= kept;
            }
            for (std::uint64_t j = 0; j < m && rule.caps(); ++j) dp_row[j] *= derivatives[j];
          }
          const auto p_block = matrix<T>(static_cast<const T*>(p), n, m, key_block);
          const auto ds_block = matrix<T>(static_cast<const T*>(dp), n, m, key_block);
          matrix(dv + j0 * e, m, e, e).noalias() += p_block.transpose() * dc_block;
          matrix(dk + j0 * d, m, d, d).noalias() += ds_block.transpose() * q_block;
          matrix(dq + i0 * d, n, d, d).noalias() += ds_block * k_block;
        }
      }
      const auto scale = static_cast<T>(shape.own.scale);
      if (o[N::dq].accumulate) {  // what other keys gave; the queries' place is free now
        shape.own.take(o[N::dq], queries_width, sequence, head * d, T{1}, head_of.q);
        for (std::uint64_t i = 0; i < s * d; ++i) dq[i] = dq[i] * scale + head_of.q[i];
      }
      shape.own.put(o[N::dq], queries_width, sequence, head * d, o[N::dq].accumulate ? T{1} : scale, dq);
      if (head % shape.own.group + 1 != shape.own.group) continue;
      // The queries were scaled already.
      const std::uint64_t at = group * shape.pair();
      shape.brought.put(o[N::dkv], shape.brought_width(), sequence, at, T{1}, dk);
      shape.brought.put(o[N::dkv], shape.brought_width(), sequence, at + d, T{1}, dv, e);
    }
  }
}

template <class T>
void attention_merge(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Heads shape(k);
  const std::uint64_t s = shape.length;
  const std::uint64_t d = shape.value;
  const std::uint64_t width = shape.context_width();
  T* lse_buffer = scratch.get<T>(row_values, 2 * s);
  T* part_lse_buffer = lse_buffer + s;
  T* sum_buffer = scratch.get<T>(context_row_values, 2 * d);
  T* part_buffer = sum_buffer + d;
  for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.heads; ++head) {
      const std::uint64_t first = (sequence * shape.heads + head) * s;
      T* lse = update(o[N::lse], first, s, lse_buffer);
      const T* part_lse = read(o[N::part_lse], first, s, part_lse_buffer);
      for (std::uint64_t i = 0; i < s; ++i) {
        if (part_lse[i] == -std::numeric_limits<T>::infinity()) continue;  // saw none of the keys
        const std::uint64_t at = (i * shape.batch + sequence) * width + head * d;
        const T high = std::max(lse[i], part_lse[i]);
        const T mine = std::exp(lse[i] - high);
        const T other = std::exp(part_lse[i] - high);
        const T total = mine + other;
        T* sum = update(o[N::context], at, d, sum_buffer);
        const T* part = read(o[N::part], at, d, part_buffer);
        for (std::uint64_t c = 0; c < d; ++c) sum[c] = (sum[c] * mine + part[c] * other) / total;
        finish(o[N::context], at, d, sum);
        lse[i] = high + std::log(total);
      }
      finish(o[N::lse], first, s, lse);
    }
  }
}

}  // namespace

std::span<const HostKernel> part_attention_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::attention_part_forward, attention_part_forward<float>, attention_part_forward<double>},
      {KernelKind::attention_part_backward, attention_part_backward<float>, attention_part_backward<double>},
      {KernelKind::attention_merge, attention_merge<float>, attention_merge<double>},
  };
  return list;
}

}  // namespace orrery::cpu
