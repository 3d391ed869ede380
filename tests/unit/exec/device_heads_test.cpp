#include <catch2/catch.hpp>

#include "core/program/kernel_table.hpp"
#include "core/program/operand_elements.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Kernels on heads, on a GPU: norms of queries and keys, latent attention's heads, sinks, and adapters of packed
// projections.
namespace {

/// Key heads of 3 queries each; `own` of 2 on this rank. Values may be narrower than keys.
Kernel query_key_norm(KernelKind kind, DType t, bool each, std::uint32_t own, bool weighted) {
  Kernel k = kernel(kind, t, 7, 0);
  k.batch = 1;
  k.kv_heads = own;
  k.heads = 3 * own;
  k.head_dim = 10;
  k.value_dim = 8;
  k.depth = each ? k.head_dim : 6 * k.head_dim;
  k.parameter = 1e-6;
  k.options.cut = !each && own < 2;
  k.options.unweighted = !weighted;
  return k;
}

}  // namespace

TEST_CASE("a GPU's norms of queries and keys compute what the host's do, whole and cut", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const bool each = GENERATE(true, false);
  const bool weighted = GENERATE(true, false);
  for (const std::uint32_t own : {1U, 2U}) {
    const auto of = [&](KernelKind kind) { return query_key_norm(kind, t, each, own, weighted); };
    const Kernel k = of(KernelKind::query_key_norm_forward);
    const auto n = static_cast<std::uint64_t>(elements::qkv(k));
    const auto of_queries = static_cast<std::uint64_t>(elements::query_weights(k));
    const auto of_keys = static_cast<std::uint64_t>(elements::key_weights(k));
    const auto statistics = static_cast<std::uint64_t>(elements::query_key_statistics(k));
    Memory sums = values(wide(t), 2 * k.rows, 9);  // of squares: positive
    for (std::uint64_t i = 0; i < sums.count(); ++i) sums.set(i, 30.0 + sums[i]);
    const auto with = [&](Memories m, const Memories& after, bool given) {
      if (weighted) {
        m.push_back(values(t, of_queries, 2));
        m.push_back(values(t, of_keys, 3));
      }
      if (given && k.options.cut) m.push_back(sums);
      m.insert(m.end(), after.begin(), after.end());
      return m;
    };
    const Memory stats = values(wide(t), statistics, 5);
    compare({k, with({values(t, n, 1)}, {zeros(t, n), zeros(wide(t), statistics)}, true), {}, {}}, bound(t));
    Memories backward = with({values(t, n, 4), values(t, n, 1)}, {stats}, false);
    if (k.options.cut) backward.push_back(sums);
    backward.push_back(zeros(t, n));
    compare({of(KernelKind::query_key_norm_backward_input), backward, {}, {}}, bound(t));
    compare({of(KernelKind::query_key_norm_backward_weight),
             {values(t, n, 4), values(t, n, 1), stats, values(wide(t), of_queries, 6), values(wide(t), of_keys, 7)},
             {false, false, false, true, true},
             {}},
            bound(t));
    if (each) continue;
    compare({of(KernelKind::query_key_squares), {values(t, n, 1), zeros(wide(t), 2 * k.rows)}, {}, {}}, bound(t));
    compare({of(KernelKind::query_key_gradient_sums),
             with({values(t, n, 4), values(t, n, 1)}, {stats, zeros(wide(t), 2 * k.rows)}, false),
             {},
             {}},
            bound(t));
  }
}

TEST_CASE("a GPU's heads of latent attention turn what the host's do", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  // A zigzag shard of 24 positions, 3 sequences.
  Shard shard{{24, 24, {}, false, 3}, {3, 3, {}, false, 0}, {8, 8, {}, false, 0}};
  Place part;
  part.shard = &shard;
  part.box.rank = 3;
  part.box.offset = {8, 0, 0};
  part.box.extent = {4, 3, 8};
  const auto of = [&](KernelKind kind) {
    Kernel k = kernel(kind, t, 12, 6);
    k.batch = 3;
    k.heads = k.kv_heads = 2;
    k.head_dim = 10;
    k.value_dim = 7;
    k.parameter = 10000;
    return k;
  };
  const std::uint64_t heads = 12 * 2;
  const std::uint64_t queries = heads * 10, pairs = heads * (4 + 7), key = 12 * 6, qkv = heads * 27;
  compare({of(KernelKind::latent_heads_forward),
           {values(t, queries, 1), values(t, pairs, 2), values(t, key, 3), zeros(t, qkv)},
           {},
           {},
           {{}, {}, {}, part}},
          bound(t));
  compare({of(KernelKind::latent_heads_backward),
           {values(t, qkv, 1), zeros(t, queries), zeros(t, pairs), zeros(t, key)},
           {},
           {},
           {part}},
          bound(t));
}

TEST_CASE("a GPU's gradient of sinks is the host's", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  Kernel k = kernel(KernelKind::attention_sinks_backward, t, 2 * 19, 0);
  k.batch = 2;
  k.heads = 4;
  k.kv_heads = 2;
  k.head_dim = 10;
  k.value_dim = 6;
  const std::uint64_t contexts = k.rows * 4 * 6;
  compare({k,
           {values(t, contexts, 1), values(t, contexts, 2), values(wide(t), k.rows * 4, 3), values(t, 4, 4),
            values(wide(t), 4, 5)},
           {false, false, false, false, true},
           {}},
          bound(t));
}

TEST_CASE("a GPU's adapters meet the columns that the host's do", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const std::uint64_t rows = 19, rank = 5;
  const std::uint64_t blocks = GENERATE(1U, 3U);
  // Blocks of 4 members, 6 wide: 2 of the first matrix, one each of two others, of which some are adapted.
  for (const std::uint32_t adapted : {0b101U, 0b111U, 0b010U}) {
    const auto of = [&](KernelKind kind) {
      Kernel k = kernel(kind, t, rows, blocks * 4 * 6, rank);
      k.batch = 3;
      k.kv_heads = static_cast<std::uint32_t>(blocks);
      k.heads = 4;
      k.head_dim = 6;
      k.site = static_cast<std::uint8_t>(adapted);
      k.scale = 0.75;
      return k;
    };
    const Kernel k = of(KernelKind::adapter_forward);
    const std::uint64_t inputs = rows * rank * adapted_matrices_of(k), factor = rank * adapted_columns_of(k);
    const std::uint64_t results = rows * k.columns;
    compare({k, {values(t, inputs, 1), values(t, factor, 2), values(t, results, 3)}, {false, false, true}, {}},
            bound(t));
    compare({of(KernelKind::adapter_backward_input),
             {values(t, results, 1), values(t, factor, 2), zeros(t, inputs)},
             {},
             {}},
            bound(t));
    compare({of(KernelKind::adapter_backward_weight),
             {values(t, inputs, 1), values(t, results, 2), values(wide(t), factor, 3)},
             {false, false, true},
             {}},
            bound(t));
  }
}

TEST_CASE("a GPU's segments and class tokens are the host's", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const std::uint64_t rows = 12, columns = 10;
  const Memory segments = whole_numbers({0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0});
  const auto of = [&](KernelKind kind) {
    Kernel k = kernel(kind, t, rows, columns, 2);
    k.batch = 3;
    return k;
  };
  compare({of(KernelKind::segment_forward),
           {segments, values(t, rows * columns, 1), values(t, 2 * columns, 2)},
           {false, true},
           {}},
          bound(t));
  compare({of(KernelKind::segment_backward),
           {segments, values(t, rows * columns, 1), values(wide(t), 2 * columns, 2)},
           {false, false, true},
           {}},
          bound(t));
  // The second part of 8 positions has no class token.
  for (const std::uint64_t first : {0U, 4U}) {
    Shard shard{{8, 8, {}, false, 0}, {3, 3, {}, false, 0}, {columns, columns, {}, false, 0}};
    Place part;
    part.shard = &shard;
    part.box.rank = 3;
    part.box.offset = {first, 0, 0};
    part.box.extent = {4, 3, columns};
    compare({of(KernelKind::class_token_forward),
             {values(t, rows * columns, 1), values(t, columns, 2), values(t, columns, 3)},
             {true},
             {},
             {part}},
            bound(t));
    compare({of(KernelKind::class_token_backward),
             {values(t, rows * columns, 1), values(wide(t), columns, 2), values(wide(t), columns, 3)},
             {false, true, true},
             {},
             {part}},
            bound(t));
    Kernel unbiased = of(KernelKind::class_token_forward);
    unbiased.options.unbiased = true;
    compare({unbiased, {values(t, rows * columns, 1), values(t, columns, 2)}, {true}, {}, {part}}, bound(t));
    unbiased.kind = KernelKind::class_token_backward;
    compare({unbiased, {values(t, rows * columns, 1), values(wide(t), columns, 2)}, {false, true}, {}, {part}},
            bound(t));
  }
}
