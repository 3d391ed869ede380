#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "core/program/operand_elements.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Attention of context parallelism on a GPU: keys and values that were brought from other ranks, in parts that are
// merged, or with scores that are kept.
namespace {

constexpr std::uint64_t own = 20, batch = 2;  ///< positions of a rank, sequences
constexpr std::uint32_t ranks = 3, heads = 4, dim = 10, value = 6;

/// Rank 1 of three, whose positions are in order or an early and a late chunk.
struct Part {
  std::uint32_t kv_heads;
  bool zigzag, causal;
  std::uint32_t key_width, value_width;
  Shard shard{};
  Place place{};

  Part(std::uint32_t groups, bool cut, bool masked, std::uint32_t of_key = dim, std::uint32_t of_value = value)
      : kv_heads(groups), zigzag(cut), causal(masked), key_width(of_key), value_width(of_value) {
    const std::uint64_t group = (heads / kv_heads + 1) * key_width + value_width;
    ShardDim positions{ranks * own, ranks * own, {Axis::context}, false, zigzag ? ranks : 0};
    shard = {positions, {batch, batch, {}, false, 0}, {kv_heads, kv_heads, {}, false, 0}, {group, group, {}, false, 0}};
  }
  /// Where this rank's data lie; the object must stay where it is.
  [[nodiscard]] Place here() const {
    Place p;
    p.shard = &shard;
    p.box.rank = shard.rank;
    p.box.offset = {own, 0, 0, 0};
    p.box.extent = {own, batch, kv_heads, shard.dims[3].extent};
    return p;
  }
  /// `pieces`: ranks whose keys the kernel has.
  [[nodiscard]] Kernel of(KernelKind kind, DType t, std::uint64_t pieces = 0) const {
    Kernel k = kernel(kind, t, own * batch, 0, pieces * own * batch);
    k.batch = batch;
    k.heads = heads;
    k.kv_heads = kv_heads;
    k.head_dim = key_width;
    k.value_dim = value_width;
    k.options.causal = causal;
    return k;
  }
};

std::uint64_t count(double n) { return static_cast<std::uint64_t>(n); }

}  // namespace

TEST_CASE("a GPU moves what the host moves", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const std::uint32_t kv_heads = GENERATE(4U, 2U, 1U);
  const Part p(kv_heads, false, true);
  const Kernel k = p.of(KernelKind::pack_keys_values, t);
  const Memory qkv = values(t, count(elements::qkv(k)), 1);
  compare({k, {qkv, zeros(t, count(elements::keys_values(k)))}, {}, {}}, 0.0);
  compare({p.of(KernelKind::split_keys_values, t),
           {qkv, zeros(t, count(elements::keys(k))), zeros(t, count(elements::values(k)))},
           {},
           {}},
          0.0);
  compare({p.of(KernelKind::unpack_gradients, t),
           {values(t, count(elements::queries(k)), 1), values(t, count(elements::keys_values(k)), 2),
            zeros(t, qkv.count())},
           {},
           {}},
          0.0);
  compare({kernel(KernelKind::swap_blocks, t, 7, 5, 4), {values(t, 7 * 5 * 4, 1), zeros(t, 7 * 5 * 4)}, {}, {}}, 0.0);
}

TEST_CASE("a GPU shares heads out as the host does", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  // Two groups of four queries over `shares` ranks or copies; a row has 2 (4 x 10 + 10 + 6) columns.
  const std::uint32_t shares = GENERATE(2U, 4U, 8U), groups = 2, group = 4;
  const std::uint64_t all = groups * (group * dim + dim + value);
  const std::uint64_t share = groups * group / shares * dim + dim + value;
  for (const std::uint64_t parts : {std::uint64_t{1}, std::uint64_t{shares}}) {
    const std::uint32_t held = parts == 1 ? shares : 1;
    Shard shard{
        {own, own, {}, false}, {1, 1, {}, false}, {shares, shares, {Axis::tensor}, false}, {share, share, {}, false}};
    Place place;
    place.shard = &shard;
    place.box.rank = 4;
    place.box.offset = {0, 0, parts == 1 ? 0U : shares - 1U, 0};
    place.box.extent = {own, 1, held, share};
    Kernel k = kernel(KernelKind::share_heads_forward, t, own, all / parts, parts);
    k.batch = 1;
    k.heads = groups * group / shares * held;
    k.kv_heads = held;
    k.head_dim = dim;
    k.value_dim = value;
    CAPTURE(shares, parts);
    compare({k, {values(t, own * all, 1), zeros(t, own * held * share)}, {}, {}, {Place{}, place}}, 0.0);
    k.kind = KernelKind::share_heads_backward;
    compare({k, {values(t, own * held * share, 1), zeros(t, own * all)}, {}, {}, {place, Place{}}}, bound(t));
  }
}

TEST_CASE("a GPU's attention on brought keys computes what the host's does", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const std::uint32_t kv_heads = GENERATE(4U, 2U, 1U);
  const bool zigzag = GENERATE(false, true);
  const bool causal = GENERATE(true, false);
  const Part p(kv_heads, zigzag, causal);
  const double loose = (t == DType::bf16 ? 4 : 2) * bound(t);
  const Place here = p.here();
  Workload w;
  w.seed = 5;
  w.attention_dropout = 0.25;
  for (std::uint8_t back = 0; back < ranks; ++back) {
    for (const bool dropout : {false, true}) {
      Kernel k = p.of(KernelKind::attention_part_forward, t, 1);
      k.site = back;
      k.options.dropout = dropout;
      k.window = causal && kv_heads < 4 ? 23 : 0;
      k.options.chunked = kv_heads == 1;
      k.options.alibi = kv_heads == 2;
      k.softcap = kv_heads == 1 ? 1.5 : 0.0;
      CAPTURE(back, dropout);
      const std::uint64_t rows = count(elements::row_sums(k));
      const Memory qkv = values(t, count(elements::qkv(k)), 1), kv = values(t, count(elements::brought(k)), 2);
      Memories m{qkv, kv, zeros(t, count(elements::contexts(k))), zeros(wide(t), rows)};
      const std::vector<Place> places{here, here, {}, {}};
      compare({k, m, {}, w, places}, loose);
      Kernel sinking = k;
      sinking.options.sinks = true;
      Memories with_sinks = m;
      with_sinks.push_back(values(t, heads, 9));
      compare({sinking, with_sinks, {}, w, places}, loose);

      Case forward{k, m, {}, w, places};
      KernelScratch scratch;
      KernelContext context;
      context.workload = &w;
      context.scratch = &scratch;
      run_kernel(k, operands_of(forward, m), context);
      // A merged sum is larger than a part's, and finite.
      for (std::uint64_t i = 0; i < rows; ++i) m[3].set(i, std::isinf(m[3][i]) ? 1.0 : m[3][i] + 0.5);
      Kernel backward = k;
      backward.kind = KernelKind::attention_part_backward;
      for (const bool add : {false, true}) {
        compare({backward,
                 {values(t, m[2].count(), 7), qkv, kv, m[2], m[3], values(t, count(elements::queries(k)), 8),
                  zeros(t, kv.count())},
                 {false, false, false, false, false, add, false},
                 w,
                 {{}, here, here, {}, {}, {}, {}}},
                loose);
      }
    }
  }
}

// cuDNN computes this kind where it is there; the host's threads run our own kernels.
TEST_CASE("a GPU's attention on brought keys in 16 bits computes what the host's does", "[gpu-bodies]") {
  const DType t = GENERATE(DType::bf16, DType::f16);
  const bool zigzag = GENERATE(false, true);
  const bool causal = GENERATE(true, false);
  const DType result = GENERATE(DType::f32, DType::bf16);
  if (result != DType::f32 && result != t) return;
  const Part p(2, zigzag, causal, 64, 64);
  const double loose = 4 * bound(t);
  const Place here = p.here();
  for (std::uint8_t back = 0; back < ranks; ++back) {
    Kernel k = p.of(KernelKind::attention_part_forward, t, 1);
    k.site = back;
    CAPTURE(back);
    const std::uint64_t rows = count(elements::row_sums(k));
    const Memory qkv = values(t, count(elements::qkv(k)), 1), kv = values(t, count(elements::brought(k)), 2);
    const Memory context = values(t, count(elements::contexts(k)), 3), dcontext = values(t, context.count(), 7);
    compare({k, {qkv, kv, zeros(result, context.count()), zeros(DType::f32, rows)}, {}, {}, {here, here, {}, {}}},
            loose);
    Memory lse = values(DType::f32, rows, 4);
    for (std::uint64_t i = 0; i < rows; ++i) lse.set(i, 5.0 + 0.2 * lse[i]);  // about ln 60 + 1 / 2, of all ranks
    k.kind = KernelKind::attention_part_backward;
    for (const bool add : {false, true}) {
      compare(
          {k,
           {dcontext, qkv, kv, context, lse, values(result, count(elements::queries(k)), 8), zeros(result, kv.count())},
           {false, false, false, false, false, add, false},
           {},
           {{}, here, here, {}, {}, {}, {}}},
          loose);
    }
  }
}

TEST_CASE("a GPU's parts of attention merge as the host's do, where one saw no key, too", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const Part p(2, false, true);
  const Kernel k = p.of(KernelKind::attention_merge, t);
  const std::uint64_t n = count(elements::contexts(k)), rows = count(elements::row_sums(k));
  Memory lse = values(wide(t), rows, 3), part_lse = values(wide(t), rows, 4);
  for (std::uint64_t i = 0; i < rows; i += 5) part_lse.set(i, -std::numeric_limits<double>::infinity());
  for (std::uint64_t i = 1; i < rows; i += 5) lse.set(i, -std::numeric_limits<double>::infinity());
  compare({k, {values(t, n, 1), lse, values(t, n, 2), part_lse}, {true, true}, {}}, bound(t));
}

TEST_CASE("a GPU's ring attention with kept scores computes what the host's does", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const std::uint32_t kv_heads = GENERATE(4U, 2U, 1U);
  const bool zigzag = GENERATE(false, true);
  const bool causal = GENERATE(true, false);
  const bool dropout = GENERATE(false, true);
  const Part p(kv_heads, zigzag, causal);
  const double loose = (t == DType::bf16 ? 4 : 2) * bound(t);
  const Place here = p.here();
  Workload w;
  w.seed = 5;
  const auto of = [&](KernelKind kind, std::uint64_t pieces) {
    Kernel k = p.of(kind, t, pieces);
    k.options.dropout = dropout;
    k.parameter = dropout ? 0.25 : 0.0;
    k.options.alibi = kv_heads == 2;
    k.softcap = kv_heads == 1 ? 1.5 : 0.0;
    return k;
  };
  const Kernel one = of(KernelKind::attention_scores_forward, 1),
               all = of(KernelKind::attention_softmax_forward, ranks);
  const std::uint64_t piece = count(elements::brought_scores(one)), square = count(elements::brought_scores(all));
  const Memory qkv = values(t, count(elements::qkv(one)), 1), keys = values(t, count(elements::brought_keys(one)), 2);
  const Memory of_values = values(t, count(elements::brought_values(one)), 3);
  const Memory contexts = values(t, count(elements::contexts(one)), 4);
  const auto masked = [&](Memories m, const Memory& mask) {
    if (dropout) m.push_back(mask);
    return m;
  };
  for (std::uint8_t back = 0; back < ranks; ++back) {
    Kernel k = one;
    k.site = back;
    compare({k, masked({qkv, keys, zeros(t, piece)}, Memory(DType::u8, piece)), {}, w, {here, here, {}, {}}}, loose);
  }
  Memory scores = values(t, square, 5), mask(DType::u8, square);
  for (std::uint64_t i = 0; i < square; ++i) {
    static_cast<std::uint8_t*>(mask.operand().data)[i] = i % 3 == 0 ? 0 : 1;
    if (causal && i % 7 == 1) scores.set(i, -std::numeric_limits<double>::infinity());
  }
  Memories softmax = masked({scores, zeros(t, square)}, mask);
  if (dropout) softmax.push_back(zeros(t, square));
  compare({all, softmax, {}, w}, loose);
  Memory probabilities = values(t, square, 6);
  compare(
      {of(KernelKind::attention_softmax_backward, ranks),
       dropout ? Memories{probabilities, mask, values(t, square, 7)} : Memories{probabilities, values(t, square, 7)},
       dropout ? std::vector<bool>{false, false, true} : std::vector<bool>{false, true}, w},
      loose);
  for (const bool add : {false, true}) {
    compare({of(KernelKind::attention_values_forward, 1),
             {values(t, piece, 6), of_values, contexts},
             {false, false, add},
             w},
            loose);
    compare({of(KernelKind::attention_scores_backward, 1),
             {values(t, piece, 6), keys, values(t, count(elements::queries(one)), 8)},
             {false, false, add},
             w},
            loose);
  }
  compare({of(KernelKind::attention_values_backward, 1), {contexts, of_values, zeros(t, piece)}, {}, w}, loose);
  compare({of(KernelKind::attention_pairs_backward, ranks),
           {contexts, qkv, values(t, square, 6), values(t, square, 7), zeros(t, count(elements::brought(all)))},
           {},
           w,
           {{}, here, {}, {}, {}}},
          loose);
}
