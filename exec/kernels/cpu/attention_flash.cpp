#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/score_rule.hpp"
#include "exec/kernels/cpu/seen_keys.hpp"

// Attention without the [length, length] matrix in memory: blocks of scores are
// formed, used and forgotten.  Source: Dao, Fu, Ermon, Rudra and Re,
// "FlashAttention", NeurIPS 2022 (online softmax forward, recomputed blocks
// backward).  Dropout decisions come from the key again instead of a mask.
namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { score_block = first_own, context_row_values, row_values };

constexpr std::uint64_t query_block = 64;
constexpr std::uint64_t key_block = 128;

/// Keys of the block [j0, j0 + m) that a query sees: [first, end) of the block.
struct BlockRow {
  BlockRow(const SeenKeys& seen, std::uint64_t query, std::uint64_t j0, std::uint64_t m)
      : first(within(seen.first(query), j0, m)), end(std::max(first, within(seen.end(query, j0 + m), j0, m))) {}
  [[nodiscard]] std::uint64_t count() const { return end - first; }
  std::uint64_t first, end;

 private:
  static std::uint64_t within(std::uint64_t key, std::uint64_t j0, std::uint64_t m) {
    return key < j0 ? 0 : std::min(m, key - j0);
  }
};

/// The first key of the block in which a query's keys begin.
std::uint64_t first_block(const SeenKeys& seen, std::uint64_t query) {
  return seen.first(query) / key_block * key_block;
}

/// row[0 .. m) keeps what the query sees, and is zero elsewhere.
template <class T>
void keep_seen(T* row, const BlockRow& keys, std::uint64_t m) {
  std::fill(row, row + keys.first, T{0});
  std::fill(row + keys.end, row + m, T{0});
}

template <class T>
void attention_flash_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Heads shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.length;
  const std::uint64_t d = shape.dim;
  const std::uint64_t e = shape.value;
  std::optional<ProbabilityDropout> key;
  if (k.options.dropout) key.emplace(k, context, o[N::qkv].place, shape);
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  const SeenKeys seen(k);
  const ScoreRule<T> rule(k, o[N::qkv].place, shape);
  PackedHead<T> packed(shape, scratch);
  const T* q = packed.q;
  const T* kk = packed.k;
  const T* v = packed.v;
  T* out = scratch.get<T>(outputs, s * e);
  T* p = scratch.get<T>(score_block, query_block * key_block);
  T* largest = scratch.get<T>(row_values, 2 * query_block);
  T* total = largest + query_block;
  for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.heads; ++head) {
      packed.load(o[N::qkv], sequence, head);
      const T slope = rule.slope(head);
      // A sink is a key without a value, which every query meets first.
      const T sink =
          k.options.sinks ? static_cast<T>(read_scalar(o[N::sinks], head)) : std::numeric_limits<T>::lowest();
      std::fill_n(out, s * e, T{0});
      for (std::uint64_t i0 = 0; i0 < s; i0 += query_block) {
        const std::uint64_t n = std::min(query_block, s - i0);
        std::fill_n(largest, n, sink);
        std::fill_n(total, n, k.options.sinks ? T{1} : T{0});
        const std::uint64_t end = seen.end(i0 + n - 1, s);
        for (std::uint64_t j0 = first_block(seen, i0); j0 < end; j0 += key_block) {
          const std::uint64_t m = std::min(key_block, end - j0);
          matrix(p, n, m, key_block).noalias() =
              matrix<T>(q + i0 * d, n, d, d) * matrix<T>(kk + j0 * d, m, d, d).transpose();
          for (std::uint64_t i = 0; i < n; ++i) {
            const BlockRow keys(seen, i0 + i, j0, m);
            const std::uint64_t visible = keys.count();
            T* row = p + i * key_block + keys.first;
            rule.apply(row, visible, slope, i0 + i, [&](std::uint64_t j) { return j0 + keys.first + j; });
            const T high = max_over(visible, row, largest[i]);
            for (std::uint64_t j = 0; j < visible; ++j) row[j] -= high;
            exponentials(row, visible);
            keep_seen(p + i * key_block, keys, m);
            // Earlier sums were counted from the old maximum.
            const T shrink = std::exp(largest[i] - high);
            T* sum = out + (i0 + i) * e;
            for (std::uint64_t c = 0; c < e; ++c) sum[c] *= shrink;
            total[i] = total[i] * shrink + sum_over<T>(visible, [&](std::uint64_t j) { return row[j]; });
            largest[i] = high;
            if (key) {
              const std::uint64_t element = key->row(sequence, head, i0 + i) + j0 + keys.first;
              for (std::uint64_t j = 0; j < visible; ++j) row[j] = key->keeps(element + j) ? row[j] * inverse : T{0};
            }
          }
          matrix(out + i0 * e, n, e, e).noalias() +=
              matrix<T>(static_cast<const T*>(p), n, m, key_block) * matrix<T>(v + j0 * e, m, e, e);
        }
        for (std::uint64_t i = 0; i < n; ++i) {
          T* sum = out + (i0 + i) * e;
          for (std::uint64_t c = 0; c < e; ++c) sum[c] /= total[i];
          largest[i] += std::log(total[i]);
        }
        const std::uint64_t at = (sequence * shape.heads + head) * s + i0;
        T* lse = target(o[N::lse], at, largest);
        if (lse != largest) std::copy_n(largest, n, lse);
        finish(o[N::lse], at, n, largest);
      }
      shape.put(o[N::context], shape.context_width(), sequence, head * e, T{1}, out, e);
    }
  }
}

template <class T>
void attention_flash_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Heads shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.length;
  const std::uint64_t d = shape.dim;
  const std::uint64_t e = shape.value;
  const Operand& qkv = o[N::qkv];
  const Operand& dqkv = o[N::dqkv];
  const Operand& accumulator = o[N::dq_accumulator];
  std::optional<ProbabilityDropout> key;
  if (k.options.dropout) key.emplace(k, context, qkv.place, shape);
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  const SeenKeys seen(k);
  const ScoreRule<T> rule(k, o[N::qkv].place, shape);
  PackedHead<T> packed(shape, scratch);
  PackedGradients<T> gradients(shape, scratch);
  const T* q = packed.q;
  const T* kk = packed.k;
  const T* v = packed.v;
  const T* dc = gradients.dc;
  T* dk = gradients.dk;
  T* dv = gradients.dv;
  T* p = scratch.get<T>(score_block, 2 * query_block * key_block);
  T* dp = p + query_block * key_block;
  T* dots = scratch.get<T>(row_values, 2 * s);  // row sums of dC C
  T* lse_buffer = dots + s;
  T* dq_buffer = scratch.get<T>(outputs, s * d);
  T* context_row = scratch.get<T>(context_row_values, e);
  for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.heads; ++head) {
      packed.load(qkv, sequence, head);
      const T slope = rule.slope(head);
      gradients.load(o[N::dcontext], sequence, head);
      for (std::uint64_t i = 0; i < s; ++i) {
        const T* c =
            read(o[N::context], (i * shape.batch + sequence) * shape.context_width() + head * e, e, context_row);
        const T* g = dc + i * e;
        dots[i] = sum_over<T>(e, [&](std::uint64_t j) { return c[j] * g[j]; });
      }
      const T* lse = read(o[N::lse], (sequence * shape.heads + head) * s, s, lse_buffer);
      const std::uint64_t dq_first = (sequence * shape.heads + head) * s * d;
      T* dq = target(accumulator, dq_first, dq_buffer);
      std::fill_n(dq, s * d, T{0});
      for (std::uint64_t i0 = 0; i0 < s; i0 += query_block) {
        const std::uint64_t n = std::min(query_block, s - i0);
        const auto q_block = matrix<T>(q + i0 * d, n, d, d);
        const auto dc_block = matrix<T>(dc + i0 * e, n, e, e);
        const std::uint64_t end = seen.end(i0 + n - 1, s);
        for (std::uint64_t j0 = first_block(seen, i0); j0 < end; j0 += key_block) {
          const std::uint64_t m = std::min(key_block, end - j0);
          const auto k_block = matrix<T>(kk + j0 * d, m, d, d);
          matrix(p, n, m, key_block).noalias() = q_block * k_block.transpose();
          matrix(dp, n, m, key_block).noalias() = dc_block * matrix<T>(v + j0 * e, m, e, e).transpose();
          // p becomes the (dropped) probabilities, dp the gradient of the scores.
          for (std::uint64_t i = 0; i < n; ++i) {
            const BlockRow keys(seen, i0 + i, j0, m);
            const std::uint64_t visible = keys.count();
            T* p_row = p + i * key_block + keys.first;
            T* dp_row = dp + i * key_block + keys.first;
            T derivatives[key_block];
            rule.apply(
                p_row, visible, slope, i0 + i, [&](std::uint64_t j) { return j0 + keys.first + j; }, derivatives);
            for (std::uint64_t j = 0; j < visible; ++j) p_row[j] -= lse[i0 + i];
            exponentials(p_row, visible);
            if (key) {
              const std::uint64_t element = key->row(sequence, head, i0 + i) + j0 + keys.first;
              for (std::uint64_t j = 0; j < visible; ++j) {
                const T kept = key->keeps(element + j) ? inverse : T{0};
                dp_row[j] = p_row[j] * (dp_row[j] * kept - dots[i0 + i]);
                p_row[j] *= kept;
              }
            } else {
              for (std::uint64_t j = 0; j < visible; ++j) dp_row[j] = p_row[j] * (dp_row[j] - dots[i0 + i]);
            }
            for (std::uint64_t j = 0; j < visible && rule.caps(); ++j) dp_row[j] *= derivatives[j];
            keep_seen(p + i * key_block, keys, m);
            keep_seen(dp + i * key_block, keys, m);
          }
          const auto p_block = matrix<T>(static_cast<const T*>(p), n, m, key_block);
          const auto ds_block = matrix<T>(static_cast<const T*>(dp), n, m, key_block);
          matrix(dv + j0 * e, m, e, e).noalias() += p_block.transpose() * dc_block;
          matrix(dk + j0 * d, m, d, d).noalias() += ds_block.transpose() * q_block;
          matrix(dq + i0 * d, n, d, d).noalias() += ds_block * k_block;
        }
      }
      finish(accumulator, dq_first, s * d, dq);
      if (dq != dq_buffer) std::copy_n(dq, s * d, dq_buffer);
      gradients.store(dqkv, sequence, head, dq_buffer);
    }
  }
}

}  // namespace

std::span<const HostKernel> flash_attention_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::attention_flash_forward, attention_flash_forward<float>, attention_flash_forward<double>},
      {KernelKind::attention_flash_backward, attention_flash_backward<float>, attention_flash_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
