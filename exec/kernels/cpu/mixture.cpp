#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/spec/model_spec.hpp"
#include "core/spec/routing.hpp"
#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/gathered_routing.hpp"

// Layers of experts: which rows go to which rank, the weights of the results, and the products of every expert with its
// own rows.
namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { slots_of_tokens, row_in, row_out, row_more, scores_row, factor_a, factor_b, product_c, bias_rows };

std::int32_t* indices(const Operand& o) {
  ORRERY_ASSERT(o.dtype == DType::i32, o.dtype);
  return static_cast<std::int32_t*>(o.data);
}

/// The tokens of a buffer with dimensions {position, sequence, ...}, as `rank` has them.
struct Tokens {
  Tokens(const Place& place, const KernelContext& c, Rank rank)
      : shard(*place.shard), sequences(place.box.extent[1]), first_position(0), first_sequence(0) {
    const std::uint64_t microbatches = shard.dims[1].extent / (size(*c.mesh, shard.dims[1].split) * sequences);
    const Box box = box_of(shard, *c.mesh, rank, c.microbatch, microbatches);
    first_position = box.offset[0], first_sequence = box.offset[1];
  }
  [[nodiscard]] std::uint64_t sequence(std::uint64_t token) const { return first_sequence + token % sequences; }
  [[nodiscard]] std::uint64_t position(std::uint64_t token) const {
    return coordinate_of(shard.dims[0], first_position + token / sequences);
  }
  const Shard& shard;
  std::uint64_t sequences, first_position, first_sequence;
};

/// Calls visit(token, choice, expert) for the kept choices of a rank's tokens, expert by expert. It covers only experts
/// [low, high).
template <class Visit>
void for_each_kept(const Kernel& k, const LayerRouting& routing, const Tokens& tokens, std::uint32_t low,
                   std::uint32_t high, Visit visit) {
  for (std::uint32_t expert = low; expert < high; ++expert) {
    for (std::uint64_t token = 0; token < k.rows; ++token) {
      for (std::uint32_t j = 0; j < k.batch; ++j) {
        const LayerRouting::Choice choice = routing.choice(tokens.sequence(token), tokens.position(token), j);
        if (choice.expert == expert && choice.kept) visit(token, j, expert);
      }
    }
  }
}

/// The slot of every choice of every token, -1 where it has none.
const std::int32_t* slots_by_choice(const Kernel& k, const Operand& slots, KernelScratch& scratch) {
  auto* of = scratch.get<std::int32_t>(slots_of_tokens, k.rows * k.batch);
  std::fill_n(of, k.rows * k.batch, -1);
  const std::int32_t* at = indices(slots);
  for (std::uint64_t slot = 0; slot < k.depth; ++slot) {
    if (at[slot] >= 0) of[at[slot]] = static_cast<std::int32_t>(slot);
  }
  return of;
}

/// y[token] = (residual) + sum over its slots of weight(choice) * rows[slot].
template <class T, class Weight>
void gather_sum(const Kernel& k, const Operand& rows, const Operand& slots, const Operand* residual, const Operand& y,
                KernelScratch& scratch, Weight weight) {
  const std::int32_t* of = slots_by_choice(k, slots, scratch);
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_in, n);
  T* sum = scratch.get<T>(row_out, n);
  for (std::uint64_t token = 0; token < k.rows; ++token) {
    std::fill_n(sum, n, T{0});
    if (residual != nullptr) {
      const T* x = read(*residual, token * n, n, in);
      std::copy_n(x, n, sum);
    }
    for (std::uint32_t j = 0; j < k.batch; ++j) {
      const std::int32_t slot = of[token * k.batch + j];
      if (slot < 0) continue;
      const T w = weight(token * k.batch + j);
      const T* x = read(rows, static_cast<std::uint64_t>(slot) * n, n, in);
      for (std::uint64_t i = 0; i < n; ++i) sum[i] += w * x[i];
    }
    T* out = target(y, token * n, in);
    std::copy_n(sum, n, out);
    finish(y, token * n, n, out);
  }
}

ExpertGroups groups_of(const Kernel& k) {
  return k.kv_heads > 0 ? ExpertGroups{k.kv_heads, k.head_dim} : ExpertGroups{};
}

/// The groups of `size` experts from which a token's choices come: those worth most, among equal ones the lower
/// numbers.
template <class T>
void best_groups(const Kernel& k, const T* logits, std::uint64_t size, std::vector<bool>& open) {
  const T most = *std::max_element(logits, logits + k.columns);
  const auto worth = [&](T logit) {
    return k.site == 2 ? T{1} / (T{1} + std::exp(-logit)) : k.site == 1 ? std::exp(logit - most) : logit;
  };
  std::vector<T> worths(k.kv_heads);
  for (std::uint32_t g = 0; g < k.kv_heads; ++g) {
    T first = -std::numeric_limits<T>::infinity(), second = first;
    for (std::uint64_t e = g * size; e < (g + 1) * size; ++e) {
      const T x = logits[e];
      second = std::max(second, std::min(first, x));
      first = std::max(first, x);
    }
    worths[g] = worth(first) + (k.site > 0 && size > 1 ? worth(second) : T{0});
  }
  open.assign(k.kv_heads, false);
  for (std::uint32_t n = 0; n < k.head_dim; ++n) {
    std::uint32_t best = k.kv_heads;
    for (std::uint32_t g = 0; g < k.kv_heads; ++g) {
      if (!open[g] && (best == k.kv_heads || worths[g] > worths[best])) best = g;
    }
    open[best] = true;
  }
}

void route_tokens(const Kernel& k, const Operands& o, const KernelContext& c) {
  const Place& place = o[N::choice].place;
  ORRERY_ASSERT(place.shard != nullptr && c.mesh != nullptr && c.workload != nullptr);
  const auto experts = static_cast<std::uint32_t>(k.columns);
  const LayerRouting routing(*c.workload, experts, k.batch, c.layer, groups_of(k));
  std::int32_t* choice = indices(o[N::choice]);
  std::int32_t* slots = indices(o[N::slots]);
  std::int32_t* arriving = indices(o[N::experts]);
  const Tokens own(place, c, c.rank);
  for (std::uint64_t token = 0; token < k.rows; ++token) {
    for (std::uint32_t j = 0; j < k.batch; ++j) {
      choice[token * k.batch + j] =
          static_cast<std::int32_t>(routing.choice(own.sequence(token), own.position(token), j).expert);
    }
  }
  const std::uint32_t parts = k.heads;
  const std::uint64_t part = k.depth / parts;
  const std::uint32_t local = experts / parts;
  std::fill_n(slots, k.depth, -1);
  std::fill_n(arriving, k.depth, -1);
  const AxisList axes = routing_axes(k);
  const auto here = static_cast<std::uint32_t>(parts == 1 ? 0 : coordinate(*c.mesh, c.rank, axes));
  if (routes_gathered(k)) {
    // Rows are for this rank's experts, one after the other, from the gathered tokens of all ranks.
    std::uint64_t at = 0;
    for (std::uint32_t e = here * local; e < (here + 1) * local; ++e) {
      for (std::uint32_t p = 0; p < parts; ++p) {
        const std::uint64_t first = p * k.rows;
        for_each_kept(k, routing, Tokens(place, c, moved(*c.mesh, c.rank, axes, p)), e, e + 1,
                      [&](std::uint64_t token, std::uint32_t j, std::uint32_t) {
                        ORRERY_ASSERT(at < k.depth, at, k.depth);
                        slots[at] = static_cast<std::int32_t>((first + token) * k.batch + j);
                        arriving[at++] = static_cast<std::int32_t>(e - here * local);
                      });
      }
    }
    return;
  }
  for (std::uint32_t p = 0; p < parts; ++p) {
    std::uint64_t at = p * part;
    for_each_kept(k, routing, own, p * local, (p + 1) * local,
                  [&](std::uint64_t token, std::uint32_t j, std::uint32_t) {
                    ORRERY_ASSERT(at < (p + 1) * part, at, part);
                    slots[at++] = static_cast<std::int32_t>(token * k.batch + j);
                  });
    const Rank source = parts == 1 ? c.rank : moved(*c.mesh, c.rank, axes, p);
    at = p * part;
    for_each_kept(k, routing, Tokens(place, c, source), here * local, (here + 1) * local,
                  [&](std::uint64_t, std::uint32_t, std::uint32_t expert) {
                    arriving[at++] = static_cast<std::int32_t>(expert - here * local);
                  });
  }
}

template <class T>
void choose_experts(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_in, n);
  std::int32_t* choice = indices(o[N::choice]);
  const std::uint64_t size = n / std::max(1U, k.kv_heads);
  std::vector<bool> open(1, true);  // groups of experts
  for (std::uint64_t token = 0; token < k.rows; ++token) {
    const T* logits = read(o[N::logits], token * n, n, in);
    if (k.kv_heads > 0) best_groups(k, logits, size, open);
    std::int32_t* chosen = choice + token * k.batch;
    for (std::uint32_t j = 0; j < k.batch; ++j) {
      std::int32_t best = -1;
      for (std::int32_t e = 0; e < static_cast<std::int32_t>(n); ++e) {
        if (!open[static_cast<std::uint64_t>(e) / size] || std::find(chosen, chosen + j, e) != chosen + j) continue;
        if (best < 0 || logits[e] > logits[best]) best = e;
      }
      chosen[j] = best;
    }
  }
}

/// Routing groups of a rank, sequences innermost: the group of a row of tokens.
struct RowGroups {
  std::uint64_t sequences, positions;  ///< of the rank; of a group
  [[nodiscard]] std::uint64_t of(std::uint64_t row) const {
    return row / sequences / positions * sequences + row % sequences;
  }
};

void route_choices(const Kernel& k, const Operands& o, const KernelContext& c) {
  const auto experts = static_cast<std::uint32_t>(k.columns);
  const RowGroups groups{o[N::choice].place.box.extent[1], routing_group(*c.workload)};
  const std::uint64_t capacity = expert_capacity(*c.workload, experts, k.batch);
  const std::int32_t* choice = indices(o[N::choice]);
  // A group's positions come in order, and of an expert's choices the first are kept.
  std::vector<std::uint64_t> chosen(k.rows / groups.positions * experts);
  std::vector<std::vector<std::int32_t>> kept(experts);
  for (std::uint64_t at = 0; at < k.rows * k.batch; ++at) {
    const auto expert = static_cast<std::uint32_t>(choice[at]);
    if (++chosen[groups.of(at / k.batch) * experts + expert] <= capacity) {
      kept[expert].push_back(static_cast<std::int32_t>(at));
    }
  }
  std::int32_t* slots = indices(o[N::slots]);
  std::int32_t* numbers = indices(o[N::experts]);
  std::fill_n(slots, k.depth, -1);
  std::fill_n(numbers, k.depth, -1);
  const std::uint32_t local = experts / k.heads;
  const std::uint64_t part = k.depth / k.heads;
  for (std::uint32_t p = 0; p < k.heads; ++p) {
    std::uint64_t at = p * part;
    for (std::uint32_t e = 0; e < local; ++e) {
      for (const std::int32_t one : kept[p * local + e]) {
        ORRERY_ASSERT(at < (p + 1) * part, at, part);
        slots[at] = one;
        numbers[at++] = static_cast<std::int32_t>(e);
      }
    }
  }
  if (k.options.loads) std::copy(chosen.begin(), chosen.end(), indices(o[N::loads]));
  if (c.routing == nullptr || k.pass != Pass::forward) return;  // what is recomputed was counted
  if (routes_gathered(k) && !reports_choices(k, *c.mesh, c.rank)) return;
  LayerCounts& counts = (*c.routing)[c.layer];
  counts.chosen.resize(experts);
  for (std::size_t i = 0; i < chosen.size(); ++i) counts.chosen[i % experts] += chosen[i];
  for (const std::vector<std::int32_t>& of : kept) counts.kept += of.size();
  counts.room += k.depth;
}

/// p = softmax of x.
template <class T>
void softmax(std::uint64_t n, const T* x, T* p) {
  T most = x[0];
  for (std::uint64_t i = 1; i < n; ++i) most = std::max(most, x[i]);
  T sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) sum += p[i] = std::exp(x[i] - most);
  for (std::uint64_t i = 0; i < n; ++i) p[i] /= sum;
}

/// dx[i] += p[i] (dp[i] - sum of dp p), for values p that follow from others and are divided by their sum.
template <class T>
void divided_back(std::uint64_t n, const T* p, const T* dp, T* dx) {
  T dot = 0;
  for (std::uint64_t i = 0; i < n; ++i) dot += dp[i] * p[i];
  for (std::uint64_t i = 0; i < n; ++i) dx[i] += p[i] * (dp[i] - dot);
}

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// The gates of the choices of one token, with `chosen` and `p` in the order of the choices:
///   softmax_chosen  softmax of the chosen logits     softmax_all  of all of them
///   sigmoid         sigmoids, divided by their sum
/// `all` has the scores of all experts, divided by their sum, where `wanted` says so or they are needed.
template <class T>
struct Gates {
  Mixture::Scores kind;
  std::uint64_t experts;
  std::uint32_t choices;
  bool wanted;

  void forward(const T* logits, const std::int32_t* chosen, T* p, T* all) const {
    if (wanted || kind == Mixture::Scores::softmax_all) scores(logits, all);
    switch (kind) {
      case Mixture::Scores::softmax_chosen:
        for (std::uint32_t j = 0; j < choices; ++j) p[j] = logits[chosen[j]];
        softmax<T>(choices, p, p);
        break;
      case Mixture::Scores::softmax_all:
        for (std::uint32_t j = 0; j < choices; ++j) p[j] = all[chosen[j]];
        break;
      case Mixture::Scores::sigmoid: {
        T sum = 0;
        for (std::uint32_t j = 0; j < choices; ++j) sum += p[j] = sigmoid(logits[chosen[j]]);
        for (std::uint32_t j = 0; j < choices; ++j) p[j] /= sum;
        break;
      }
    }
  }

  /// Adds to dlogits the part from dp, and that from dall where wanted. `scratch` has room for the experts.
  void backward(const T* logits, const std::int32_t* chosen, const T* p, const T* all, const T* dp, const T* dall,
                T* dlogits, T* scratch) const {
    std::fill_n(scratch, experts, T{0});
    if (kind == Mixture::Scores::softmax_all) {
      for (std::uint32_t j = 0; j < choices; ++j) scratch[chosen[j]] = dp[j];
      divided_back(experts, all, scratch, dlogits);
    } else {
      divided_back(choices, p, dp, scratch);
      for (std::uint32_t j = 0; j < choices; ++j) dlogits[chosen[j]] += scratch[j] * slope(logits[chosen[j]]);
    }
    if (!wanted) return;
    std::fill_n(scratch, experts, T{0});
    divided_back(experts, all, dall, scratch);
    for (std::uint64_t e = 0; e < experts; ++e) dlogits[e] += scratch[e] * slope(logits[e]);
  }

 private:
  void scores(const T* logits, T* all) const {
    if (kind != Mixture::Scores::sigmoid) return softmax(experts, logits, all);
    T sum = 0;
    for (std::uint64_t e = 0; e < experts; ++e) sum += all[e] = sigmoid(logits[e]);
    for (std::uint64_t e = 0; e < experts; ++e) all[e] /= sum;
  }
  /// Derivative of the logarithm of an undivided score: exp or sigmoid.
  T slope(T logit) const { return kind == Mixture::Scores::sigmoid ? T{1} - sigmoid(logit) : T{1}; }
};

template <class T>
void gates_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Gates<T> of{static_cast<Mixture::Scores>(k.site), k.columns, k.batch, false};
  const std::int32_t* choice = indices(o[N::choice]);
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_in, n);
  T* all = scratch.get<T>(scores_row, n);
  T* out = scratch.get<T>(row_out, k.batch);
  for (std::uint64_t token = 0; token < k.rows; ++token) {
    T* gates = target(o[N::gates], token * k.batch, out);
    of.forward(read(o[N::logits], token * n, n, in), choice + token * k.batch, gates, all);
    for (std::uint32_t j = 0; j < k.batch; ++j) gates[j] *= static_cast<T>(k.parameter);
    finish(o[N::gates], token * k.batch, k.batch, gates);
  }
}

template <class T>
void gates_backward(const Kernel& k, const Operands& o, const KernelContext& c) {
  KernelScratch& scratch = *c.scratch;
  const std::int32_t* choice = indices(o[N::choice]);
  const Operand& result = o[N::dlogits];
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_in, n);
  T* all = scratch.get<T>(scores_row, n);
  T* more = scratch.get<T>(row_more, n);
  T* out = scratch.get<T>(row_out, n);
  T* p = scratch.get<T>(factor_a, k.batch);
  T* dp = scratch.get<T>(factor_b, k.batch);
  T* gate_in = scratch.get<T>(product_c, k.batch);
  // Weight of each expert's score in the auxiliary loss, by routing group or the same for all groups.
  std::vector<T> weight;
  RowGroups groups{1, 1};
  std::uint64_t first_row = 0;
  if (c.workload->routing.auxiliary_loss > 0.0) {
    const auto experts = static_cast<std::uint32_t>(n);
    const double scale = k.options.scaled ? read_scalar(o[N::loss_scale]) : 1.0;
    const auto add_group = [&](auto chosen_by) {
      std::vector<double> exact;
      double mean = 0.0;
      for (std::uint32_t e = 0; e < experts; ++e) {
        exact.push_back(scale * auxiliary_weight(*c.workload, experts, k.batch, chosen_by(e)));
        mean += exact.back() / experts;
      }
      // Scores sum to 1, so the common part of all weights has no gradient; without it little cancels.
      for (const double w : exact) weight.push_back(static_cast<T>(w - mean));
    };
    if (k.options.loads) {
      const Operand& loads = o[N::loads];
      const std::int32_t* chosen = indices(loads);
      for (std::uint64_t at = 0; at < loads.count; at += n) {
        add_group([&](std::uint32_t e) { return static_cast<std::uint64_t>(chosen[at + e]); });
      }
      groups = {o[N::choice].place.box.extent[1], routing_group(*c.workload)};
      first_row = o[N::choice].place.first / k.batch;  // with sequence parallelism a part of the rank's rows
    } else {
      const LayerRouting routing(*c.workload, experts, k.batch, c.layer, groups_of(k));
      add_group([&](std::uint32_t e) { return routing.chosen(e); });
    }
  }
  const Gates<T> of{static_cast<Mixture::Scores>(k.site), n, k.batch, !weight.empty()};
  for (std::uint64_t token = 0; token < k.rows; ++token) {
    const std::int32_t* chosen = choice + token * k.batch;
    const T* logits = read(o[N::logits], token * n, n, in);
    const T* dgates = read(o[N::dgates], token * k.batch, k.batch, gate_in);
    of.forward(logits, chosen, p, all);
    for (std::uint32_t j = 0; j < k.batch; ++j) dp[j] = dgates[j] * static_cast<T>(k.parameter);
    T* dlogits = target(result, token * n, out);
    std::fill_n(dlogits, n, T{0});
    const T* balance = k.options.loads ? weight.data() + groups.of(first_row + token) * n : weight.data();
    of.backward(logits, chosen, p, all, dp, balance, dlogits, more);
    finish(result, token * n, n, dlogits);
  }
}

void dispatch_forward(const Kernel& k, const Operands& o, const KernelContext&) {
  ORRERY_ASSERT(o[N::x].dtype == o[N::rows].dtype, o[N::x].dtype, o[N::rows].dtype);
  const std::uint64_t bytes = k.columns * size_of(o[N::x].dtype);
  const auto* from = static_cast<const std::byte*>(o[N::x].data);
  auto* to = static_cast<std::byte*>(o[N::rows].data);
  const std::int32_t* slots = indices(o[N::slots]);
  for (std::uint64_t slot = 0; slot < k.depth; ++slot, to += bytes) {
    if (slots[slot] < 0) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, from + static_cast<std::uint64_t>(slots[slot]) / k.batch * bytes, bytes);
    }
  }
}

template <class T>
void dispatch_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  gather_sum<T>(k, o[N::drows], o[N::slots], o.find(N::residual), o[N::dx], scratch,
                [](std::uint64_t) { return T{1}; });
}

template <class T>
void combine_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const T* gates = read(o[N::gates], 0, o[N::gates].count, scratch.get<T>(factor_a, o[N::gates].count));
  gather_sum<T>(k, o[N::rows], o[N::slots], o.find(N::residual), o[N::y], scratch,
                [gates](std::uint64_t choice) { return gates[choice]; });
}

template <class T>
void combine_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const std::uint64_t choices = k.rows * k.batch;
  const T* gates = read(o[N::gates], 0, choices, scratch.get<T>(factor_a, choices));
  T* dgates = target(o[N::dgates], 0, scratch.get<T>(factor_b, choices));
  std::fill_n(dgates, choices, T{0});
  const std::int32_t* slots = indices(o[N::slots]);
  T* dy_in = scratch.get<T>(row_in, n);
  T* row_buffer = scratch.get<T>(row_more, n);
  T* out = scratch.get<T>(row_out, n);
  for (std::uint64_t slot = 0; slot < k.depth; ++slot) {
    T* drow = target(o[N::drows], slot * n, out);
    if (slots[slot] < 0) {
      std::fill_n(drow, n, T{0});
    } else {
      const auto choice = static_cast<std::uint64_t>(slots[slot]);
      const T* dy = read(o[N::dy], choice / k.batch * n, n, dy_in);
      const T* row = read(o[N::rows], slot * n, n, row_buffer);
      T dot = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        dot += dy[i] * row[i];
        drow[i] = gates[choice] * dy[i];
      }
      dgates[choice] = dot;
    }
    finish(o[N::drows], slot * n, n, drow);
  }
  finish(o[N::dgates], 0, choices, dgates);
}

template <class T>
void expert_gemm(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Operand& out = o[N::c];
  const bool to_weight = k.options.transpose_a;
  const std::uint64_t rows = to_weight ? k.depth : k.rows;  // that meet an expert
  const std::uint64_t m = k.rows, n = k.columns, d = k.depth;
  const auto factor = [&](const Operand& x, std::size_t place) {
    return read(x, 0, x.count, x.dtype == dtype_of<T> ? nullptr : scratch.get<T>(place, x.count));
  };
  const T* a = factor(o[N::a], factor_a);
  const T* b = factor(o[N::b], factor_b);
  const std::int32_t* experts = indices(o[N::experts]);
  T* c = out.dtype == dtype_of<T> ? static_cast<T*>(out.data) : scratch.get<T>(product_c, out.count);
  if (!out.accumulate) {
    std::fill_n(c, out.count, T{0});
  } else if (out.dtype != dtype_of<T>) {
    load_elements(out.dtype, out.data, 0, out.count, c);
  }
  // Rows of one expert stand in runs, one from each source.
  for (std::uint64_t first = 0; first < rows;) {
    std::uint64_t end = first + 1;
    while (end < rows && experts[end] == experts[first]) ++end;
    if (experts[first] >= 0) {
      const auto expert = static_cast<std::uint64_t>(experts[first]);
      const std::uint64_t count = end - first;
      if (to_weight) {
        MatrixMap<T> sum = matrix(c + expert * m * n, m, n, n);
        sum.noalias() += matrix(a + first * m, count, m, m).transpose() * matrix(b + first * n, count, n, n);
      } else {
        MatrixMap<T> product = matrix(c + first * n, count, n, n);
        const auto x = matrix(a + first * d, count, d, d);
        if (k.options.transpose_b) {
          product.noalias() += x * matrix(b + expert * d * n, n, d, d).transpose();
        } else {
          product.noalias() += x * matrix(b + expert * d * n, d, n, n);
        }
      }
    }
    first = end;
  }
  if (const Operand* bias = o.find(N::bias)) {
    const T* of = read(*bias, 0, k.batch * n, scratch.get<T>(bias_rows, k.batch * n));
    const auto scale = static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale);
    for (std::uint64_t row = 0; row < m; ++row) {
      if (experts[row] < 0) continue;
      const T* b_row = of + static_cast<std::uint64_t>(experts[row]) * n;
      for (std::uint64_t i = 0; i < n; ++i) c[row * n + i] += scale * b_row[i];
    }
  }
  finish(out, 0, out.count, c);
}

}  // namespace

std::span<const HostKernel> mixture_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::route_tokens, route_tokens, route_tokens},
      {KernelKind::choose_experts, choose_experts<float>, choose_experts<double>},
      {KernelKind::route_choices, route_choices, route_choices},
      {KernelKind::gates_forward, gates_forward<float>, gates_forward<double>},
      {KernelKind::gates_backward, gates_backward<float>, gates_backward<double>},
      {KernelKind::dispatch_forward, dispatch_forward, dispatch_forward},
      {KernelKind::dispatch_backward, dispatch_backward<float>, dispatch_backward<double>},
      {KernelKind::combine_forward, combine_forward<float>, combine_forward<double>},
      {KernelKind::combine_backward, combine_backward<float>, combine_backward<double>},
      {KernelKind::expert_gemm, expert_gemm<float>, expert_gemm<double>},
  };
  return list;
}

}  // namespace orrery::cpu
