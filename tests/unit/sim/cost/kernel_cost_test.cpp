#include <catch2/catch.hpp>
#include <cmath>

#include "sim/cost/kernel_cost.hpp"
#include "sim/cost/memory_cost.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

// A handful of roundings.
static bool close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }
static bool close(Seconds a, Seconds b) { return close(a.base(), b.base()); }

namespace {

Calibration round_calibration() {
  Calibration c;
  c.gemm = {{DType::bf16, 100, 64.0, {{128, 128, 0.8}}}};
  c.attention = {{DType::bf16, 0.5, 0.25}};
  c.memory_efficiency = 0.5;
  c.launch = 2.0 * microsecond;
  return c;
}

Kernel attention(KernelKind kind, bool causal) {
  Kernel k;
  k.kind = kind;
  k.compute = DType::bf16;
  k.options.causal = causal;
  k.batch = 2;
  k.heads = 4;
  k.kv_heads = 4;
  k.head_dim = 64;
  k.rows = 2048;  // 2 sequences of 1024
  return k;
}

}  // namespace

TEST_CASE("Gemm efficiency is the product of tile, wave and depth terms", "[gemm]") {
  const GemmTile tile{128, 128, 0.8};
  // 1280 x 1280: exactly 100 full tiles, one full wave; depth 64 of K0 64 gives a half.
  CHECK(close(gemm_efficiency({1280, 1280, 64, false, false}, tile, 100, 64.0), 0.8 * 0.5));
  // One tile more: 110 tiles in two waves of 100 slots.
  CHECK(close(gemm_efficiency({1408, 1280, 64, false, false}, tile, 100, 64.0), 0.8 * 0.5 * 110 / 200));
  // Half a tile in each direction: a quarter of one tile on one of 100 units.
  CHECK(close(gemm_efficiency({64, 64, 64, false, false}, tile, 100, 64.0), 0.8 * 0.5 * 0.25 / 100));
}

TEST_CASE("The library takes the tile that suits the shape", "[gemm]") {
  const GemmEfficiency of{DType::bf16, 100, 0.0, {{128, 128, 0.8}, {64, 64, 0.6}}};
  // One small tile of 64 x 64 beats a quarter of a large one.
  CHECK(close(gemm_efficiency({64, 64, 64, false, false}, of), 0.6 / 100));
  CHECK(close(gemm_efficiency({1280, 1280, 64, false, false}, of), 0.8));
}

TEST_CASE("A large matrix product costs its flops, a shallow one its bytes", "[gemm]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  const KernelCost cost(cluster.device, round_calibration());
  // 1280 x 1280 x 6400: 2.097e10 flop at 100 TFLOP/s x 0.8 x 6400/6464 = 79.2 TFLOP/s: 264.8 us, + 2 us.
  const double rate = 100e12 * 0.8 * 6400 / 6464;
  CHECK(close(cost.gemm({1280, 1280, 6400, false, false}, DType::bf16),
              Seconds::of(2.0 * 1280 * 1280 * 6400 / rate + 2e-6)));
  // Depth 64: 2.15e9 flop at 100 TFLOP/s x 0.8 x 1/2 x 1024 tiles in 1100 slots take 57.7 us;
  // (2 M K + M N) x 2 bytes at 500 GB/s take 69.2 us.
  const double bytes = 2.0 * (2 * 4096.0 * 64 + 4096.0 * 4096);
  CHECK(close(cost.gemm({4096, 4096, 64, false, false}, DType::bf16), Seconds::of(bytes / 500e9 + 2e-6)));
}

TEST_CASE("A type without a peak computes at the next wider one", "[gemm]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  const KernelCost cost(cluster.device, {});
  const GemmShape large{4096, 4096, 4096, false, false};
  CHECK(cost.gemm(large, DType::f16) == cost.gemm(large, DType::f32));
  CHECK(close(cost.gemm(large, DType::f32), 10.0 * cost.gemm(large, DType::bf16)));
}

// The share of the peak is bf16's (0.8 6400/6464), of 100 or of 200 TFLOP/s.
TEST_CASE("Products in fp8 run at the fp8 peak, or at that of bf16 where a device has none", "[gemm]") {
  ClusterSpec cluster = round_cluster(1, 8);
  const GemmShape shape{1280, 1280, 6400, false, false};
  const Seconds usual = KernelCost(cluster.device, round_calibration()).gemm(shape, DType::bf16);
  CHECK(KernelCost(cluster.device, round_calibration()).gemm(shape, DType::f8) == usual);
  cluster.device.peak[Precision::fp8] = 200.0 * teraflop_per_second;
  const Seconds launch = 2.0 * microsecond;
  CHECK(close(KernelCost(cluster.device, round_calibration()).gemm(shape, DType::f8), launch + 0.5 * (usual - launch)));
}

TEST_CASE("Flash attention costs its executed flops", "[attention]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  const KernelCost cost(cluster.device, round_calibration());
  // Forward: 4 T s a d = 4 x 2048 x 1024 x 4 x 64 = 2.147e9 flop at 50 TFLOP/s: 42.9 us; 1 MB of bytes is less.
  const double forward = 4.0 * 2048 * 1024 * 4 * 64;
  const Bytes megabyte = Bytes::of(1e6);
  CHECK(close(cost.attention(attention(KernelKind::attention_flash_forward, false), megabyte),
              Seconds::of(forward / 50e12 + 2e-6)));
  // Causal: (s + 1) / 2s of the square.
  CHECK(close(cost.attention(attention(KernelKind::attention_flash_forward, true), megabyte),
              Seconds::of(forward * 1025 / 2048 / 50e12 + 2e-6)));
  // Backward: 2.5 forward at 25 TFLOP/s.
  CHECK(close(cost.attention(attention(KernelKind::attention_flash_backward, false), megabyte),
              Seconds::of(2.5 * forward / 25e12 + 2e-6)));
}

TEST_CASE("Unfused attention passes its matrix through memory", "[attention]") {
  // Scores: 2048 x 1024 x 4 elements of 2 bytes = 16.8 MB per pass.
  const double pass = 2048.0 * 1024 * 4 * 2;
  Kernel k = attention(KernelKind::attention_unfused_forward, true);
  CHECK(close(memory_traffic(k, Bytes::of(1e6)).base(), 1e6 + 3 * pass));
  k.options.dropout = true;
  CHECK(close(memory_traffic(k, Bytes::of(1e6)).base(), 1e6 + 4 * pass));
  k = attention(KernelKind::attention_unfused_backward, true);
  CHECK(close(memory_traffic(k, Bytes::of(1e6)).base(), 1e6 + 5 * pass));
  const ClusterSpec cluster = round_cluster(1, 8);
  CHECK(KernelCost(cluster.device, round_calibration()).attention(k, Bytes::of(1e6)).base() > (1e6 + 5 * pass) / 500e9);
}

// 1024 positions with a window of 256 see 256 * 257 / 2 + 768 * 256 = 229,504 pairs, chunks of 256 4 * 256 * 257 / 2 =
// 131,584. Of each, in 2 sequences and 4 heads: 4 * 64 FLOPs forward, at 50 TFLOP/s x 256 / (256 + 256).
TEST_CASE("Flash attention takes the time of the pairs that a window leaves", "[attention]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  Calibration c = round_calibration();
  c.attention[0].sequence_half = 256.0;
  const KernelCost cost(cluster.device, c);
  Kernel k = attention(KernelKind::attention_flash_forward, true);
  k.window = 256;
  CHECK(close(cost.attention(k, Bytes::of(1.0)), Seconds::of(229504.0 * 8 * 256 / 25e12 + 2e-6)));
  k.options.chunked = true;
  CHECK(close(cost.attention(k, Bytes::of(1.0)), Seconds::of(131584.0 * 8 * 256 / 25e12 + 2e-6)));
  // A window of the sequence or more is none.
  k.options.chunked = false;
  k.window = 1024;
  CHECK(cost.attention(k, Bytes::of(1.0)) ==
        cost.attention(attention(KernelKind::attention_flash_forward, true), Bytes::of(1.0)));
}

// The unfused kernels multiply the whole square and mask it. A soft cap's derivative makes the scores again: 5 products
// where 4 were.
TEST_CASE("Unfused attention takes the time of the square, whatever a window leaves", "[attention]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  const KernelCost cost(cluster.device, round_calibration());
  const Bytes touched = Bytes::of(1e6);
  Kernel k = attention(KernelKind::attention_unfused_backward, true);
  const Seconds plain = cost.attention(k, touched);
  k.window = 10;
  CHECK(cost.attention(k, touched) == plain);
  const double products = plain.base() - 5 * 2e-6 - memory_traffic(k, touched).base() / 500e9;
  k.softcap = 50.0;
  CHECK(close(cost.attention(k, touched), plain + Seconds::of(products / 4)));
}

TEST_CASE("An embedding lookup reads the rows it needs, not the table", "[memory]") {
  Kernel k;
  k.kind = KernelKind::embed_forward;
  k.compute = DType::bf16;
  k.rows = 10;
  k.columns = 100;
  k.depth = 50000;
  // 10 token numbers of 4 bytes, 10 rows read and 10 written of 200 bytes.
  CHECK(memory_traffic(k, Bytes::of(1e7)).base() == 4040);
  // Never more than the views hold.
  CHECK(memory_traffic(k, Bytes::of(3000)).base() == 3000);
}

TEST_CASE("Elementwise kernels cost their bytes and the launch", "[memory]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  const KernelCost cost(cluster.device, round_calibration());
  // 1 GB at 1 TB/s x 0.5.
  CHECK(close(cost.bytes(KernelKind::gelu_forward, DType::bf16, gigabyte), Seconds::of(2e-3 + 2e-6)));
}

TEST_CASE("Measured rates win over the roofline", "[kernel]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  Calibration c = round_calibration();
  c.kernels = {{KernelKind::gelu_forward, DType::bf16, false, false, false, {{{1e3, 1e6}}, {1e9, 4e9}}},
               {KernelKind::gemm, DType::bf16, false, true, false, {{{16}, {16}, {16}}, {5e9}}}};
  c.busy_memory_slowdown = 3.0;
  c.busy_compute_slowdown = 2.0;
  const KernelCost alone(cluster.device, c);
  CHECK(close(alone.bytes(KernelKind::gelu_forward, DType::bf16, Bytes::of(1e6)), Seconds::of(2e-6 + 1e6 / 4e9)));
  CHECK(close(alone.gemm({10, 10, 10, false, true}, DType::bf16), Seconds::of(2e-6 + 2000 / 5e9)));
  // Another transposition has no table: roofline.
  CHECK(alone.gemm({10, 10, 10, true, false}, DType::bf16) != alone.gemm({10, 10, 10, false, true}, DType::bf16));
  const KernelCost busy(cluster.device, c, true);
  CHECK(close(busy.bytes(KernelKind::gelu_forward, DType::bf16, Bytes::of(1e6)), Seconds::of(2e-6 + 3 * 1e6 / 4e9)));
  CHECK(close(busy.gemm({10, 10, 10, false, true}, DType::bf16), Seconds::of(2e-6 + 2 * 2000 / 5e9)));
}
