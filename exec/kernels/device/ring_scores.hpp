#pragma once

#include "exec/kernels/cpu/brought_keys.hpp"
#include "exec/kernels/device/attention.hpp"
#include "exec/kernels/device/global_place.hpp"

/// Ring self-attention whose scores are kept, kernel by kernel (exec/kernels/cpu/attention_ring_scores.cpp has formulas
/// and source). Scores of all sequences and heads with the keys of one rank are a piece.
namespace orrery::device {

/// The element of a piece, or of the first of several.
struct ScorePlace {
  std::uint64_t sequence, head, query, key;
};
struct ScorePieces {
  std::uint64_t batch, heads, queries, keys, pieces;
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t count() const { return batch * heads * queries * keys; }
  [[nodiscard]] ORRERY_ON_DEVICE ScorePlace place(std::uint64_t i) const {
    return {i / keys / queries / heads, i / keys / queries % heads, i / keys % queries, i % keys};
  }
  /// Element j of the keys of all pieces, in a row that counts (sequence, head, query).
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t at(std::uint64_t row, std::uint64_t j) const {
    return j / keys * count() + row * keys + j % keys;
  }
};

/// A piece's products become scores, and what dropout keeps of them is told.
template <class T>
struct RingScores {
  ScorePieces p;
  Elements scores, mask;  ///< mask: none where data is null
  Positions query_at, key_at;
  ProbabilityMask dropout;
  cpu::ScoreRule<T> rule;
  bool causal;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const ScorePlace at = p.place(i);
    const std::uint64_t query = query_at(at.query), key = key_at(at.key);
    if (causal && key > query) {
      scores.store(i, -std::numeric_limits<T>::infinity());
    } else if (!rule.plain()) {
      scores.store(i, rule.score(scores.load<T>(i), rule.slope(at.head), query, key));
    }
    if (mask.data != nullptr) mask.bytes()[i] = dropout.keeps(at.sequence, at.head, query, key) ? 1 : 0;
  }
};

/// With a block for each row.
template <class T>
struct RingSoftmax {
  ScorePieces p;
  Elements scores, probabilities, mask, weights;  ///< mask, weights: none where data is null
  T inverse;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t n = p.pieces * p.keys;
    T most = -std::numeric_limits<T>::infinity();
    for (std::uint64_t j = b.thread(); j < n; j += b.threads()) {
      const T v = scores.load<T>(p.at(row, j));
      most = most < v ? v : most;
    }
    most = b.largest(most);
    T sum{0};
    for (std::uint64_t j = b.thread(); j < n; j += b.threads()) sum += std::exp(scores.load<T>(p.at(row, j)) - most);
    const T scale = T{1} / b.sum(sum);
    for (std::uint64_t j = b.thread(); j < n; j += b.threads()) {
      const std::uint64_t i = p.at(row, j);
      const T v = std::exp(scores.load<T>(i) - most) * scale;
      probabilities.store(i, v);
      if (mask.data != nullptr) weights.store(i, mask.bytes()[i] != 0 ? v * inverse : T{0});
    }
  }
};

template <class T>
struct RingSoftmaxBackward {
  ScorePieces p;
  Elements probabilities, mask, d;
  T inverse;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t n = p.pieces * p.keys;
    const auto kept = [&](std::uint64_t i) {
      const T v = d.load<T>(i);
      return mask.data == nullptr ? v : mask.bytes()[i] != 0 ? v * inverse : T{0};
    };
    T dot{0};
    for (std::uint64_t j = b.thread(); j < n; j += b.threads()) {
      const std::uint64_t i = p.at(row, j);
      dot += kept(i) * probabilities.load<T>(i);
    }
    dot = b.sum(dot);
    for (std::uint64_t j = b.thread(); j < n; j += b.threads()) {
      const std::uint64_t i = p.at(row, j);
      d.store(i, probabilities.load<T>(i) * (kept(i) - dot));
    }
  }
};

/// The products of a piece. A batch holds those of one sequence and of one member of each group of heads that share a
/// key and a value.
template <class T, class Launcher>
class RingProducts {
 public:
  RingProducts(Launcher& l, const Kernel& k, std::uint64_t keys_of_piece)
      : l_(l), k_(k), s_(k), keys_(keys_of_piece), piece_(s_.length * keys_) {}

  void scores(const NamedOperands& o) {
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      multiply({s_.length, keys_, s_.dim}, query(Elements(o[N::qkv]), sequence, member),
               turned(brought(Elements(o[N::keys]), sequence, s_.dim)),
               of_piece(Elements(o[N::scores]), sequence, member), s_.scale, false);
    });
  }
  void values(const NamedOperands& o) {
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      multiply({s_.length, s_.value, keys_}, of_piece(Elements(o[N::weights]), sequence, member),
               brought(Elements(o[N::values]), sequence, s_.value), context(Elements(o[N::context]), sequence, member),
               1.0, o[N::context].accumulate);
    });
  }
  void weight_gradients(const NamedOperands& o) {
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      multiply({s_.length, keys_, s_.value}, context(Elements(o[N::dcontext]), sequence, member),
               turned(brought(Elements(o[N::values]), sequence, s_.value)),
               of_piece(Elements(o[N::dweights]), sequence, member), 1.0, false);
    });
  }
  void query_gradients(const NamedOperands& o) {
    const Elements dq(o[N::dq]);
    const std::uint64_t width = s_.heads * s_.dim;
    for_each_member([&](std::uint64_t sequence, std::uint64_t member) {
      multiply({s_.length, s_.dim, keys_}, of_piece(Elements(o[N::dscores]), sequence, member),
               brought(Elements(o[N::keys]), sequence, s_.dim),
               {at(dq, sequence * width + member * s_.dim), false, s_.batch * width, s_.group * s_.dim}, s_.scale,
               o[N::dq].accumulate);
    });
  }
  /// Gradients of keys and values with which all pieces were made; `first_of(piece)` is where a piece's begin in dkv.
  template <class FirstOf>
  void pair_gradients(const NamedOperands& o, std::uint64_t pieces, FirstOf first_of) {
    const std::uint64_t keys = s_.kv_heads * keys_ * s_.dim, values = s_.kv_heads * keys_ * s_.value;
    // Sums over the heads of a group are kept in the type of the arithmetic.
    auto* dk = static_cast<T*>(l_.scratch((keys + values) * sizeof(T)));
    T* dv = dk + keys;
    const DType wide = sizeof(T) == 8 ? DType::f64 : DType::f32;
    const std::uint64_t pair = s_.dim + s_.value, width = s_.kv_heads * pair;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const std::uint64_t from = piece * s_.batch * s_.heads * piece_;
      const Elements ds = at(Elements(o[N::dscores]), from), w = at(Elements(o[N::weights]), from);
      const Elements to = at(Elements(o[N::dkv]), first_of(piece) * s_.batch * width);
      for (std::uint64_t sequence = 0; sequence < s_.batch; ++sequence) {
        for (std::uint64_t member = 0; member < s_.group; ++member) {
          multiply({keys_, s_.dim, s_.length}, turned(of_piece(ds, sequence, member)),
                   query(Elements(o[N::qkv]), sequence, member), {Elements(dk, wide), false, s_.dim, keys_ * s_.dim},
                   s_.scale, member > 0);
          multiply({keys_, s_.value, s_.length}, turned(of_piece(w, sequence, member)),
                   context(Elements(o[N::dcontext]), sequence, member),
                   {Elements(dv, wide), false, s_.value, keys_ * s_.value}, 1.0, member > 0);
        }
        for_each(l_, keys, PutHeads<T>{dk, to, s_.kv_heads, keys_, s_.dim, s_.batch, sequence, width, 0, pair});
        for_each(l_, values,
                 PutHeads<T>{dv, to, s_.kv_heads, keys_, s_.value, s_.batch, sequence, width, s_.dim, pair});
      }
    }
  }

 private:
  struct Sizes {
    std::uint64_t rows, columns, depth;
  };
  template <class F>
  void for_each_member(F f) {
    for (std::uint64_t sequence = 0; sequence < s_.batch; ++sequence) {
      for (std::uint64_t member = 0; member < s_.group; ++member) f(sequence, member);
    }
  }
  void multiply(Sizes sizes, const Product::Factor& a, const Product::Factor& b, const Product::Factor& c, double alpha,
                bool add) {
    Product p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.rows = sizes.rows;
    p.columns = sizes.columns;
    p.depth = sizes.depth;
    p.batch = s_.kv_heads;
    p.alpha = alpha;
    p.add = add;
    p.compute = k_.compute;
    l_.multiply(p);
  }
  [[nodiscard]] static Product::Factor turned(Product::Factor f) {
    f.transposed = !f.transposed;
    return f;
  }
  [[nodiscard]] Product::Factor query(const Elements& qkv, std::uint64_t sequence, std::uint64_t member) const {
    return {at(qkv, sequence * s_.qkv_width() + member * s_.dim), false, s_.batch * s_.qkv_width(), s_.group_width()};
  }
  /// Keys, or values, of one sequence.
  [[nodiscard]] Product::Factor brought(const Elements& x, std::uint64_t sequence, std::uint64_t width) const {
    const std::uint64_t row = s_.kv_heads * width;
    return {at(x, sequence * row), false, s_.batch * row, width};
  }
  /// [queries, keys] of heads `member`, group + member, 2 group + member, ...
  [[nodiscard]] Product::Factor of_piece(const Elements& x, std::uint64_t sequence, std::uint64_t member) const {
    return {at(x, (sequence * s_.heads + member) * piece_), false, keys_, s_.group * piece_};
  }
  [[nodiscard]] Product::Factor context(const Elements& x, std::uint64_t sequence, std::uint64_t member) const {
    return {at(x, sequence * s_.context_width() + member * s_.value), false, s_.batch * s_.context_width(),
            s_.group * s_.value};
  }

  Launcher& l_;
  const Kernel& k_;
  cpu::Heads s_;
  std::uint64_t keys_, piece_;
};

/// Dropout of the scores' own site; the kernel's says where keys come from.
[[nodiscard]] inline ProbabilityMask ring_mask(const Kernel& k, const KernelContext& c, const Place& qkv) {
  Kernel drop = k;
  drop.site = 1;
  return probability_mask(drop, c, qkv);
}

template <class T, class Launcher>
bool run_ring_scores(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto x = [&](N name) { return Elements(o[name]); };
  // A kernel for one piece has its keys; one for all pieces has as many as queries in each.
  const auto pieces = [&](bool all) {
    const cpu::PartShape part(k);
    const std::uint64_t n = part.own.length;
    return ScorePieces{part.own.batch, part.own.heads, n, all ? n : part.brought.length, all ? k.depth / k.rows : 1};
  };
  switch (k.kind) {
    case KernelKind::attention_scores_forward: {
      const ScorePieces p = pieces(false);
      RingProducts<T, Launcher>(l, k, p.keys).scores(o);
      const Place& qkv = o[N::qkv].place;
      const cpu::ScoreRule<T> rule(k, qkv, cpu::Heads(k));
      if (rule.plain() && !k.options.causal && !k.options.dropout) return true;
      for_each(l, p.count(),
               RingScores<T>{p, x(N::scores), elements_if(o, N::mask), Positions(qkv),
                             Positions(cpu::brought_from(k, o[N::keys].place)), ring_mask(k, c, qkv), rule,
                             k.options.causal});
      return true;
    }
    case KernelKind::attention_softmax_forward: {
      const ScorePieces p = pieces(true);
      for_each_row(l, p.count() / p.keys,
                   RingSoftmax<T>{p, x(N::scores), x(N::probabilities), elements_if(o, N::mask),
                                  elements_if(o, N::weights), kept_factor<T>(k)});
      return true;
    }
    case KernelKind::attention_values_forward:
      RingProducts<T, Launcher>(l, k, pieces(false).keys).values(o);
      return true;
    case KernelKind::attention_values_backward:
      RingProducts<T, Launcher>(l, k, pieces(false).keys).weight_gradients(o);
      return true;
    case KernelKind::attention_softmax_backward: {
      const ScorePieces p = pieces(true);
      for_each_row(
          l, p.count() / p.keys,
          RingSoftmaxBackward<T>{p, x(N::probabilities), elements_if(o, N::mask), x(N::dscores), kept_factor<T>(k)});
      return true;
    }
    case KernelKind::attention_scores_backward:
      RingProducts<T, Launcher>(l, k, pieces(false).keys).query_gradients(o);
      return true;
    case KernelKind::attention_pairs_backward: {
      const ScorePieces p = pieces(true);
      Kernel one = k;
      one.depth = k.rows;
      RingProducts<T, Launcher>(l, one, p.keys).pair_gradients(o, p.pieces, [&](std::uint64_t piece) {
        one.site = static_cast<std::uint8_t>(piece);
        const Place& qkv = o[N::qkv].place;
        return qkv.shard == nullptr ? piece * p.keys : cpu::brought_from(one, qkv).box.offset[0];
      });
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
