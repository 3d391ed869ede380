#include <catch2/catch.hpp>
#include <iostream>

#include "exec/kernels/cpu/seen_keys.hpp"
#include "tests/support/device_under_test.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Attention on tensor cores against the host's kernel, which oracle tests hold to finite differences. On the host a
// thread is a warp, and computes what PTX says of each instruction. Three threads asked for mean copies as late as the
// body allows (host_warp.hpp).
namespace {

struct Shape {
  std::uint32_t length, heads, kv_heads, dim, value;
  bool causal;
  std::uint32_t window;
  bool chunked, sinks, general;
};

Kernel flash(const Shape& s, DType t) {
  Kernel k = kernel(KernelKind::attention_flash_forward, t, 2 * s.length, 0);
  k.batch = 2;
  k.heads = s.heads;
  k.kv_heads = s.kv_heads;
  k.head_dim = s.dim;
  k.value_dim = s.value;
  k.options.causal = s.causal;
  k.window = s.window;
  k.options.chunked = s.chunked;
  k.options.sinks = s.sinks;
  k.site = 2;
  if (!s.general) return k;
  k.options.dropout = true;
  k.parameter = 0.25;
  k.options.alibi = true;
  k.softcap = 1.5;
  return k;
}

/// Bytes of a block's shared memory, forward and backward; 0: the usual ones.
struct SharedLimits {
  std::uint64_t forward = 0, backward = 0;
};

/// Forward, and backward from what the host's forward pass leaves.
void compare_both(const Shape& s, DType t, double loose, SharedLimits limits = {}) {
  CAPTURE(s.length, s.heads, s.kv_heads, s.dim, s.value, s.causal, s.window, s.chunked, s.general, name_of(t));
  Kernel k = flash(s, t);
  Workload w;
  w.seed = 5;
  const std::uint64_t value = s.value > 0 ? s.value : s.dim;
  const std::uint64_t qkv = k.rows * (s.kv_heads * ((s.heads / s.kv_heads + 1) * s.dim + value));
  const std::uint64_t contexts = k.rows * s.heads * value;
  Memories m{values(t, qkv, 1), zeros(t, contexts), zeros(DType::f32, k.rows * s.heads)};
  if (s.sinks) m.push_back(values(t, s.heads, 9));
  Case forward{k, m, {}, w};
  forward.shared_limit = limits.forward;
  compare(forward, loose);

  KernelContext context;
  KernelScratch scratch;
  context.workload = &w;
  context.scratch = &scratch;
  run_kernel(k, operands_of(forward, m), context);
  k.kind = KernelKind::attention_flash_backward;
  k.options.sinks = false;
  Case backward{
      k, {values(t, contexts, 7), m[0], m[1], m[2], zeros(t, qkv), zeros(DType::f32, k.rows * s.heads * s.dim)}, {}, w};
  backward.rooms = {false, false, false, false, false, true};
  backward.shared_limit = limits.backward;
  compare(backward, loose);
}

}  // namespace

// Probabilities and gradients of scores round to 16 bits before they are multiplied; the host's do not.
TEST_CASE("attention on tensor cores computes what the host's does", "[gpu-bodies]") {
  const auto [t, unit] = GENERATE(std::pair(DType::bf16, 1.0 / 256), std::pair(DType::f16, 1.0 / 2048));
  const double loose = std::max(4 * bound(t), 4 * unit);
  // Lengths below a tile, of whole tiles, and with a rest; each width of tiles; groups of heads that share a key.
  compare_both({37, 4, 2, 16, 0, true, 0, false, false, false}, t, loose);
  compare_both({128, 2, 2, 64, 0, true, 0, false, false, false}, t, loose);
  compare_both({150, 2, 1, 80, 0, true, 0, false, true, false}, t, loose);
  compare_both({150, 1, 1, 128, 64, false, 0, false, false, false}, t, loose);
}

TEST_CASE("attention on tensor cores sees what it may see", "[gpu-bodies]") {
  const double loose = 4 * bound(DType::bf16);
  compare_both({300, 1, 1, 32, 0, true, 70, false, true, false}, DType::bf16, loose);
  compare_both({300, 1, 1, 32, 0, true, 90, true, false, false}, DType::bf16, loose);
  compare_both({200, 1, 1, 24, 40, false, 60, false, false, false}, DType::bf16, loose);
}

TEST_CASE("attention on tensor cores drops, caps and falls as the host's does", "[gpu-bodies]") {
  compare_both({150, 4, 2, 48, 0, true, 0, false, true, true}, DType::bf16, 4 * bound(DType::bf16));
}

// Tiles of 128 features take 256 bytes a row. Forward has 128 rows, and 2 * 64 for each place: 96 KiB with two places
// and 64 KiB with one. Backward has 2 * 128 rows, and as many for each place as forward: 128 KiB and 96 KiB. So each of
// these limits leaves one place.
TEST_CASE("attention on tensor cores computes the same where tiles have one place", "[gpu-bodies]") {
  compare_both({150, 2, 1, 128, 0, true, 0, false, true, false}, DType::bf16, 4 * bound(DType::bf16),
               {std::uint64_t{80} << 10, std::uint64_t{99} << 10});
}

// As long as models have it: whole tiles, pairs of a call that are not all, and heads as wide as Llama's and GPT-2's.
// The host's kernel takes seconds, so only a GPU runs it. What it says tells whose attention this GPU has.
TEST_CASE("attention of a library and our own compute what the host's does", "[gpu-bodies]") {
  Device* gpu = gpu_under_test();
  if (gpu == nullptr || gpu->info().identity.empty()) return;  // threads stand for it
  compare_both({2048, 8, 2, 64, 0, true, 0, false, false, false}, DType::bf16, 4 * bound(DType::bf16));
  compare_both({1000, 4, 4, 128, 0, true, 256, false, false, false}, DType::f16, 4 * bound(DType::bf16));
  compare_both({3072, 16, 2, 64, 0, true, 0, false, false, false}, DType::bf16, 4 * bound(DType::bf16));
  for (const std::string& note : gpu->notes()) std::cout << note << '\n';
}

TEST_CASE("the queries that see a key are those that say that they see it", "[exec]") {
  for (const bool causal : {false, true}) {
    for (const bool chunked : {false, true}) {
      for (const std::uint64_t window : {0, 1, 5, 8, 40}) {
        Kernel k;
        k.options.causal = causal;
        k.options.chunked = chunked && window > 0;
        k.window = window;
        const cpu::SeenKeys seen(k);
        for (std::uint64_t key = 0; key < 20; ++key) {
          for (std::uint64_t query = 0; query < 20; ++query) {
            CAPTURE(causal, chunked, window, key, query);
            CHECK(seen.sees(query, key) == (seen.first_query(key) <= query && query < seen.end_query(key, 20)));
          }
        }
      }
    }
  }
}
