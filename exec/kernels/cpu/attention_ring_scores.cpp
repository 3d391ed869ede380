#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "exec/kernels/cpu/brought_keys.hpp"
#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/score_rule.hpp"

// Ring self-attention, kernel by kernel. First come scores of this rank's queries with the keys of one rank after the
// other, then their softmax once all are there, and then the weighted values of one rank after the other.
// Source: Li, Xue, Baranwal, Li and You, "Sequence Parallelism: Long Sequence
// Training from System Perspective", ACL 2023, section 3.2.
//
// With S = scale q k^T, P = softmax(S), W = dropout(P), C = W v:
//   dW = dC v^T,  dS = P (dropout(dW) - rowsum(dropout(dW) P)),
//   dq = scale dS k,  dk = scale dS^T q,  dv = W^T dC.
namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { score_piece = first_own, weight_piece, query_places, key_places };

/// Scores of all sequences and heads with the keys of one rank.
struct Pieces {
  explicit Pieces(const Kernel& k)
      : part(k), n(part.own.length), m(part.brought.length), count(part.own.batch * part.own.heads * n * m) {}
  [[nodiscard]] std::uint64_t head(std::uint64_t sequence, std::uint64_t h) const {
    return (sequence * part.own.heads + h) * n * m;
  }
  PartShape part;
  std::uint64_t n, m;  ///< queries; keys of one rank
  std::uint64_t count;
};

/// Visits sequences and local heads in order.
template <class Visit>
void for_each_head(const Heads& shape, Visit&& visit) {
  for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::uint64_t head = 0; head < shape.heads; ++head) visit(sequence, head);
  }
}

/// For a kernel whose keys are all ranks', one piece after the other.
struct AllPieces {
  explicit AllPieces(const Kernel& k) : kernel(k), pieces(k.depth / k.rows), one((kernel.depth = k.rows, kernel)) {}
  Kernel kernel;  ///< of one piece
  std::uint64_t pieces;
  Pieces one;
};

template <class T>
void attention_scores_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Pieces p(k);
  const Heads& own = p.part.own;
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t* query_at = positions(o[N::qkv].place, p.n, query_places, scratch);
  const std::uint64_t* key_at = positions(brought_from(k, o[N::keys].place), p.m, key_places, scratch);
  std::optional<ProbabilityDropout> drop;
  if (k.options.dropout) {
    Kernel of = k;
    of.site = 1;  // of the random key; the kernel's own says where keys come from
    drop.emplace(of, context, o[N::qkv].place, own);
  }
  const ScoreRule<T> rule(k, o[N::qkv].place, own);
  T* q = scratch.get<T>(queries, p.n * own.dim);
  T* keys_of = scratch.get<T>(keys, p.m * own.dim);
  T* buffer = scratch.get<T>(score_piece, p.n * p.m);
  for_each_head(own, [&](std::uint64_t sequence, std::uint64_t head) {
    const std::uint64_t group = head / own.group;
    own.take(o[N::qkv], own.qkv_width(), sequence, own.query_column(head), static_cast<T>(own.scale), q);
    if (head % own.group == 0) {
      p.part.brought.take(o[N::keys], own.kv_heads * own.dim, sequence, group * own.dim, T{1}, keys_of);
    }
    const std::uint64_t at = p.head(sequence, head);
    T* scores = target(o[N::scores], at, buffer);
    matrix(scores, p.n, p.m, p.m).noalias() =
        matrix<T>(static_cast<const T*>(q), p.n, own.dim, own.dim) *
        matrix<T>(static_cast<const T*>(keys_of), p.m, own.dim, own.dim).transpose();
    const T slope = rule.slope(head);
    for (std::uint64_t i = 0; i < p.n; ++i) {
      rule.apply(scores + i * p.m, p.m, slope, query_at[i], [&](std::uint64_t j) { return key_at[j]; });
    }
    for (std::uint64_t i = 0; i < p.n && k.options.causal; ++i) {
      for (std::uint64_t j = 0; j < p.m; ++j) {
        if (key_at[j] > query_at[i]) scores[i * p.m + j] = -std::numeric_limits<T>::infinity();
      }
    }
    finish(o[N::scores], at, p.n * p.m, scores);
    if (!drop) return;
    auto* mask = static_cast<std::uint8_t*>(o[N::mask].data) + at;
    for (std::uint64_t i = 0; i < p.n; ++i) {
      const std::uint64_t element = drop->row(sequence, head, query_at[i]);
      for (std::uint64_t j = 0; j < p.m; ++j) mask[i * p.m + j] = drop->keeps(element + key_at[j]) ? 1 : 0;
    }
  });
}

template <class T>
void attention_softmax_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const AllPieces all(k);
  const Pieces& p = all.one;
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  const std::uint64_t s = all.pieces * p.m;
  T* in = scratch.get<T>(score_piece, p.m);
  T* row = scratch.get<T>(weight_piece, 2 * s);
  T* weights = row + s;
  for_each_head(p.part.own, [&](std::uint64_t sequence, std::uint64_t head) {
    for (std::uint64_t i = 0; i < p.n; ++i) {
      const std::uint64_t first = p.head(sequence, head) + i * p.m;
      for (std::uint64_t piece = 0; piece < all.pieces; ++piece) {
        std::copy_n(read(o[N::scores], piece * p.count + first, p.m, in), p.m, row + piece * p.m);
      }
      const T largest = max_over(s, row, row[0]);
      for (std::uint64_t j = 0; j < s; ++j) row[j] = std::exp(row[j] - largest);
      const T scale = T{1} / sum_over<T>(s, [&](std::uint64_t j) { return row[j]; });
      for (std::uint64_t j = 0; j < s; ++j) row[j] *= scale;
      for (std::uint64_t piece = 0; piece < all.pieces; ++piece) {
        const std::uint64_t at = piece * p.count + first;
        const auto put = [&](const Operand& to, const T* from) {
          T* out = target(to, at, in);
          std::copy_n(from, p.m, out);
          finish(to, at, p.m, out);
        };
        put(o[N::probabilities], row + piece * p.m);
        if (!k.options.dropout) continue;
        const auto* mask = static_cast<const std::uint8_t*>(o[N::mask].data) + at;
        for (std::uint64_t j = 0; j < p.m; ++j) weights[j] = mask[j] != 0 ? row[piece * p.m + j] * inverse : T{0};
        put(o[N::weights], weights);
      }
    }
  });
}

template <class T>
void attention_values_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Pieces p(k);
  const Heads& own = p.part.own;
  const std::uint64_t e = own.value;
  T* v = scratch.get<T>(values, p.m * e);
  T* out = scratch.get<T>(outputs, p.n * e);
  T* buffer = scratch.get<T>(score_piece, p.n * p.m);
  for_each_head(own, [&](std::uint64_t sequence, std::uint64_t head) {
    if (head % own.group == 0) {
      p.part.brought.take(o[N::values], own.kv_heads * e, sequence, head / own.group * e, T{1}, v, e);
    }
    if (o[N::context].accumulate) {
      own.take(o[N::context], own.context_width(), sequence, head * e, T{1}, out, e);
    } else {
      std::fill_n(out, p.n * e, T{0});
    }
    const T* weights = read(o[N::weights], p.head(sequence, head), p.n * p.m, buffer);
    matrix(out, p.n, e, e).noalias() +=
        matrix<T>(weights, p.n, p.m, p.m) * matrix<T>(static_cast<const T*>(v), p.m, e, e);
    own.put(o[N::context], own.context_width(), sequence, head * e, T{1}, out, e);
  });
}

template <class T>
void attention_values_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Pieces p(k);
  const Heads& own = p.part.own;
  const std::uint64_t e = own.value;
  T* v = scratch.get<T>(values, p.m * e);
  T* dc = scratch.get<T>(context_gradients, p.n * e);
  T* buffer = scratch.get<T>(score_piece, p.n * p.m);
  for_each_head(own, [&](std::uint64_t sequence, std::uint64_t head) {
    if (head % own.group == 0) {
      p.part.brought.take(o[N::values], own.kv_heads * e, sequence, head / own.group * e, T{1}, v, e);
    }
    own.take(o[N::dcontext], own.context_width(), sequence, head * e, T{1}, dc, e);
    const std::uint64_t at = p.head(sequence, head);
    T* dw = target(o[N::dweights], at, buffer);
    matrix(dw, p.n, p.m, p.m).noalias() =
        matrix<T>(static_cast<const T*>(dc), p.n, e, e) * matrix<T>(static_cast<const T*>(v), p.m, e, e).transpose();
    finish(o[N::dweights], at, p.n * p.m, dw);
  });
}

template <class T>
void attention_softmax_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const AllPieces all(k);
  const Pieces& p = all.one;
  const Operand& d = o[N::dscores];
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  const std::uint64_t s = all.pieces * p.m;
  T* in = scratch.get<T>(score_piece, p.m);
  T* probabilities = scratch.get<T>(weight_piece, 2 * s);
  T* row = probabilities + s;
  for_each_head(p.part.own, [&](std::uint64_t sequence, std::uint64_t head) {
    for (std::uint64_t i = 0; i < p.n; ++i) {
      const std::uint64_t first = p.head(sequence, head) + i * p.m;
      for (std::uint64_t piece = 0; piece < all.pieces; ++piece) {
        const std::uint64_t at = piece * p.count + first;
        std::copy_n(read(o[N::probabilities], at, p.m, in), p.m, probabilities + piece * p.m);
        T* to = row + piece * p.m;
        std::copy_n(read(d, at, p.m, in), p.m, to);
        if (!k.options.dropout) continue;
        const auto* mask = static_cast<const std::uint8_t*>(o[N::mask].data) + at;
        for (std::uint64_t j = 0; j < p.m; ++j) to[j] = mask[j] != 0 ? to[j] * inverse : T{0};
      }
      const T dot = sum_over<T>(s, [&](std::uint64_t j) { return row[j] * probabilities[j]; });
      for (std::uint64_t j = 0; j < s; ++j) row[j] = probabilities[j] * (row[j] - dot);
      for (std::uint64_t piece = 0; piece < all.pieces; ++piece) {
        const std::uint64_t at = piece * p.count + first;
        T* out = target(d, at, in);
        std::copy_n(row + piece * p.m, p.m, out);
        finish(d, at, p.m, out);
      }
    }
  });
}

template <class T>
void attention_scores_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Pieces p(k);
  const Heads& own = p.part.own;
  const std::uint64_t d = own.dim, width = own.heads * d;
  T* keys_of = scratch.get<T>(keys, p.m * d);
  T* dq = scratch.get<T>(outputs, p.n * d);
  T* buffer = scratch.get<T>(score_piece, p.n * p.m);
  for_each_head(own, [&](std::uint64_t sequence, std::uint64_t head) {
    if (head % own.group == 0) {
      p.part.brought.take(o[N::keys], own.kv_heads * d, sequence, head / own.group * d, T{1}, keys_of);
    }
    if (o[N::dq].accumulate) {
      own.take(o[N::dq], width, sequence, head * d, T{1}, dq);
    } else {
      std::fill_n(dq, p.n * d, T{0});
    }
    const T* ds = read(o[N::dscores], p.head(sequence, head), p.n * p.m, buffer);
    matrix(dq, p.n, d, d).noalias() +=
        static_cast<T>(own.scale) * matrix<T>(ds, p.n, p.m, p.m) * matrix<T>(static_cast<const T*>(keys_of), p.m, d, d);
    own.put(o[N::dq], width, sequence, head * d, T{1}, dq);
  });
}

template <class T>
void attention_pairs_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  AllPieces all(k);
  const Pieces& p = all.one;
  const Heads& own = p.part.own;
  const std::uint64_t d = own.dim, e = own.value, pair = p.part.pair(), width = p.part.brought_width();
  T* q = scratch.get<T>(queries, own.group * p.n * d);
  T* dc = scratch.get<T>(context_gradients, own.group * p.n * e);
  T* dk = scratch.get<T>(key_gradients, p.m * d);
  T* dv = scratch.get<T>(value_gradients, p.m * e);
  T* ds_buffer = scratch.get<T>(score_piece, p.n * p.m);
  T* weights_buffer = scratch.get<T>(weight_piece, p.n * p.m);
  for (std::uint64_t sequence = 0; sequence < own.batch; ++sequence) {
    for (std::uint64_t group = 0; group < own.kv_heads; ++group) {
      for (std::uint64_t h = 0; h < own.group; ++h) {
        const std::uint64_t head = group * own.group + h;
        own.take(o[N::qkv], own.qkv_width(), sequence, own.query_column(head), static_cast<T>(own.scale),
                 q + h * p.n * d);
        own.take(o[N::dcontext], own.context_width(), sequence, head * e, T{1}, dc + h * p.n * e, e);
      }
      for (std::uint64_t piece = 0; piece < all.pieces; ++piece) {
        std::fill_n(dk, p.m * d, T{0});
        std::fill_n(dv, p.m * e, T{0});
        for (std::uint64_t h = 0; h < own.group; ++h) {
          const std::uint64_t at = piece * p.count + p.head(sequence, group * own.group + h);
          const T* weights = read(o[N::weights], at, p.n * p.m, weights_buffer);
          const T* ds = read(o[N::dscores], at, p.n * p.m, ds_buffer);
          matrix(dk, p.m, d, d).noalias() +=
              matrix<T>(ds, p.n, p.m, p.m).transpose() * matrix<T>(static_cast<const T*>(q + h * p.n * d), p.n, d, d);
          matrix(dv, p.m, e, e).noalias() += matrix<T>(weights, p.n, p.m, p.m).transpose() *
                                             matrix<T>(static_cast<const T*>(dc + h * p.n * e), p.n, e, e);
        }
        all.kernel.site = static_cast<std::uint8_t>(piece);
        const Place holder = brought_from(all.kernel, o[N::qkv].place);
        const std::uint64_t first = o[N::qkv].place.shard == nullptr ? piece * p.m : holder.box.offset[0];
        const std::uint64_t at = first * own.batch * width + group * pair;
        p.part.brought.put(o[N::dkv], width, sequence, at, T{1}, dk);
        p.part.brought.put(o[N::dkv], width, sequence, at + d, T{1}, dv, e);
      }
    }
  }
}

}  // namespace

std::span<const HostKernel> ring_scores_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::attention_scores_forward, attention_scores_forward<float>, attention_scores_forward<double>},
      {KernelKind::attention_softmax_forward, attention_softmax_forward<float>, attention_softmax_forward<double>},
      {KernelKind::attention_values_forward, attention_values_forward<float>, attention_values_forward<double>},
      {KernelKind::attention_values_backward, attention_values_backward<float>, attention_values_backward<double>},
      {KernelKind::attention_softmax_backward, attention_softmax_backward<float>, attention_softmax_backward<double>},
      {KernelKind::attention_scores_backward, attention_scores_backward<float>, attention_scores_backward<double>},
      {KernelKind::attention_pairs_backward, attention_pairs_backward<float>, attention_pairs_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
