#include <algorithm>
#include <optional>

#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/score_rule.hpp"
#include "exec/kernels/cpu/seen_keys.hpp"

namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { scores = first_own, weights, products, row_sums };

/// Number of query rows whose products are formed together: a block multiplies only the keys from the first that its
/// first row sees to the last that its last row sees.
constexpr std::uint64_t block = 64;

/// row[0 .. count) becomes its softmax, beside a further logit where there is one. Returns the log-sum-exp.
template <class T>
T softmax(T* row, std::uint64_t count, const T* sink) {
  const T largest = max_over(count, row, sink != nullptr ? *sink : row[0]);
  for (std::uint64_t j = 0; j < count; ++j) row[j] -= largest;
  exponentials(row, count);
  T total = sum_over<T>(count, [&](std::uint64_t j) { return row[j]; });
  if (sink != nullptr) total += std::exp(*sink - largest);
  const T inverse = T{1} / total;
  for (std::uint64_t j = 0; j < count; ++j) row[j] *= inverse;
  return largest + std::log(total);
}

/// row[0 .. length) keeps what stands in [first, end), and is zero elsewhere.
template <class T>
void keep_seen(T* row, std::uint64_t first, std::uint64_t end, std::uint64_t length) {
  std::fill(row, row + first, T{0});
  std::fill(row + end, row + length, T{0});
}

template <class T>
void attention_unfused_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Heads shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.length;
  const std::uint64_t d = shape.dim;
  const std::uint64_t e = shape.value;
  const bool dropout = k.options.dropout;
  const SeenKeys seen(k);
  std::optional<ProbabilityDropout> key;
  if (dropout) key.emplace(k, context, o[N::qkv].place, shape);
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  PackedHead<T> packed(shape, scratch);
  const T* q = packed.q;
  const T* kk = packed.k;
  const T* v = packed.v;
  T* out = scratch.get<T>(outputs, s * e);
  T* p_buffer = scratch.get<T>(scores, block * s);
  T* d_buffer = scratch.get<T>(weights, block * s);
  T* lse = scratch.get<T>(row_sums, block);
  const ScoreRule<T> rule(k, o[N::qkv].place, shape);
  for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.heads; ++head) {
      packed.load(o[N::qkv], sequence, head);
      const T slope = rule.slope(head);
      const T sink = k.options.sinks ? static_cast<T>(read_scalar(o[N::sinks], head)) : T{0};
      const std::uint64_t first = (sequence * shape.heads + head) * s * s;
      for (std::uint64_t i0 = 0; i0 < s; i0 += block) {
        const std::uint64_t n = std::min(block, s - i0);
        const std::uint64_t j0 = seen.first(i0);
        const std::uint64_t m = seen.end(i0 + n - 1, s) - j0;
        T* p = target(o[N::probabilities], first + i0 * s, p_buffer);
        auto scores_block = matrix(p + j0, n, m, s);
        scores_block.noalias() = matrix<T>(q + i0 * d, n, d, d) * matrix<T>(kk + j0 * d, m, d, d).transpose();
        for (std::uint64_t i = 0; i < n; ++i) {
          const std::uint64_t first_key = seen.first(i0 + i), end = seen.end(i0 + i, s);
          T* row = p + i * s + first_key;
          rule.apply(row, end - first_key, slope, i0 + i, [&](std::uint64_t j) { return first_key + j; });
          lse[i] = softmax(row, end - first_key, k.options.sinks ? &sink : nullptr);
          keep_seen(p + i * s, first_key, end, s);
        }
        if (k.options.sinks) {
          const std::uint64_t at = (sequence * shape.heads + head) * s + i0;
          std::copy_n(lse, n, target(o[N::lse], at, lse));
          finish(o[N::lse], at, n, lse);
        }
        T* used = p;
        if (dropout) {
          used = target(o[N::dropped], first + i0 * s, d_buffer);
          auto* mask = static_cast<std::uint8_t*>(o[N::mask].data) + first + i0 * s;
          for (std::uint64_t i = 0; i < n; ++i) {
            const std::uint64_t element = key->row(sequence, head, i0 + i);
            for (std::uint64_t j = 0; j < s; ++j) {
              mask[i * s + j] = key->keeps(element + j) ? 1 : 0;
              used[i * s + j] = mask[i * s + j] != 0 ? p[i * s + j] * inverse : T{0};
            }
          }
        }
        matrix(out + i0 * e, n, e, e).noalias() =
            matrix<T>(static_cast<const T*>(used + j0), n, m, s) * matrix<T>(v + j0 * e, m, e, e);
        finish(o[N::probabilities], first + i0 * s, n * s, p);
        if (dropout) finish(o[N::dropped], first + i0 * s, n * s, used);
      }
      shape.put(o[N::context], shape.context_width(), sequence, head * e, T{1}, out, e);
    }
  }
}

// With S = scale q k^T, P = softmax(S), D = dropout(P), C = D v:
//   dv = D^T dC,  dP = dropout(dC v^T),  dS = P (dP - rowsum(dP P)),
//   dq = scale dS k,  dk = scale dS^T q.
// A soft cap, P = softmax(cap(S)), needs S again: dS is multiplied by cap'(S).
template <class T>
void attention_unfused_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Heads shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.length;
  const std::uint64_t d = shape.dim;
  const std::uint64_t e = shape.value;
  const bool dropout = k.options.dropout;
  const SeenKeys seen(k);
  const Operand& qkv = o[N::qkv];
  const Operand& probabilities = o[N::probabilities];
  const Operand& dqkv = o[N::dqkv];
  const Operand& dscores = o[N::dscores];
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  PackedHead<T> packed(shape, scratch);
  PackedGradients<T> gradients(shape, scratch);
  const T* q = packed.q;
  const T* kk = packed.k;
  const T* v = packed.v;
  T* dq = scratch.get<T>(outputs, s * d);
  const T* dc = gradients.dc;
  T* dk = gradients.dk;
  T* dv = gradients.dv;
  T* p_buffer = scratch.get<T>(weights, 2 * block * s);
  T* dropped_buffer = p_buffer + block * s;
  T* ds_buffer = scratch.get<T>(scores, block * s);
  const ScoreRule<T> rule(k, qkv.place, shape);
  T* x = rule.caps() ? scratch.get<T>(products, block * s) : nullptr;
  for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.heads; ++head) {
      packed.load(qkv, sequence, head);
      gradients.load(o[N::dcontext], sequence, head);
      const std::uint64_t first = (sequence * shape.heads + head) * s * s;
      for (std::uint64_t i0 = 0; i0 < s; i0 += block) {
        const std::uint64_t n = std::min(block, s - i0);
        const std::uint64_t j0 = seen.first(i0);
        const std::uint64_t m = seen.end(i0 + n - 1, s) - j0;
        const std::uint64_t at = first + i0 * s;
        const T* p = read(probabilities, at, n * s, p_buffer);
        const T* used = dropout ? read(o[N::dropped], at, n * s, dropped_buffer) : p;
        const auto* mask = dropout ? static_cast<const std::uint8_t*>(o[N::mask].data) + at : nullptr;
        T* ds = target(dscores, at, ds_buffer);
        const auto dc_block = matrix<T>(dc + i0 * e, n, e, e);
        if (rule.caps()) {
          matrix(x + j0, n, m, s).noalias() =
              matrix<T>(q + i0 * d, n, d, d) * matrix<T>(kk + j0 * d, m, d, d).transpose();
        }
        matrix(ds + j0, n, m, s).noalias() = dc_block * matrix<T>(v + j0 * e, m, e, e).transpose();
        for (std::uint64_t i = 0; i < n; ++i) {
          const std::uint64_t first_key = seen.first(i0 + i), end = seen.end(i0 + i, s);
          const std::uint64_t visible = end - first_key;
          T* row = ds + i * s + first_key;
          const T* p_row = p + i * s + first_key;
          if (dropout) {
            const std::uint8_t* kept = mask + i * s + first_key;
            for (std::uint64_t j = 0; j < visible; ++j) row[j] = kept[j] != 0 ? row[j] * inverse : T{0};
          }
          const T dot = sum_over<T>(visible, [&](std::uint64_t j) { return row[j] * p_row[j]; });
          for (std::uint64_t j = 0; j < visible; ++j) row[j] = p_row[j] * (row[j] - dot);
          for (std::uint64_t j = 0; j < visible && rule.caps(); ++j) {
            row[j] *= rule.derivative(rule.capped(x[i * s + first_key + j]));
          }
          keep_seen(ds + i * s, first_key, end, s);
        }
        const auto ds_block = matrix<T>(static_cast<const T*>(ds + j0), n, m, s);
        matrix(dv + j0 * e, m, e, e).noalias() += matrix<T>(used + j0, n, m, s).transpose() * dc_block;
        matrix(dq + i0 * d, n, d, d).noalias() = ds_block * matrix<T>(kk + j0 * d, m, d, d);
        matrix(dk + j0 * d, m, d, d).noalias() += ds_block.transpose() * matrix<T>(q + i0 * d, n, d, d);
        finish(dscores, at, n * s, ds);
      }
      gradients.store(dqkv, sequence, head, dq);
    }
  }
}

}  // namespace

std::span<const HostKernel> unfused_attention_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::attention_unfused_forward, attention_unfused_forward<float>, attention_unfused_forward<double>},
      {KernelKind::attention_unfused_backward, attention_unfused_backward<float>, attention_unfused_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
