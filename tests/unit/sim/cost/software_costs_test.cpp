#include <catch2/catch.hpp>
#include <cmath>

#include "sim/cost/cost_model.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

namespace {

// A handful of roundings.
bool close(Seconds a, double seconds) { return std::abs(a.base() - seconds) <= 1e-12 * seconds; }

Calibration with(SoftwareCost cost, double value) {
  Calibration c;  // every kernel at its peak, no gaps
  c.software[cost] = value;
  return c;
}

Kernel kernel(KernelKind kind) {
  Kernel k;
  k.kind = kind;
  k.compute = DType::bf16;
  return k;
}

Kernel attention(KernelKind kind, std::uint32_t width, std::uint64_t tokens) {
  Kernel k = kernel(kind);
  k.batch = 1;
  k.heads = k.kv_heads = 4;
  k.head_dim = width;
  k.rows = tokens;
  k.options.causal = true;
  return k;
}

}  // namespace

TEST_CASE("factors of software multiply what kernels take", "[software]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  // 1000 x 1000 x 10,000: 2e10 flop at 100 TFLOP/s, 200 us; fp8 has no peak here and computes as bf16 does.
  const GemmShape shape{1000, 1000, 10000, false, false};
  CHECK(close(KernelCost(cluster.device, with(SoftwareCost::gemm, 1.5)).gemm(shape, DType::bf16), 300e-6));
  CHECK(close(KernelCost(cluster.device, with(SoftwareCost::gemm, 1.5)).gemm(shape, DType::f8), 200e-6));
  CHECK(close(KernelCost(cluster.device, with(SoftwareCost::gemm_f8, 1.5)).gemm(shape, DType::f8), 300e-6));
  // 1 MB at 1 TB/s: 1 us a pass.
  const Bytes bytes = Bytes::of(1e6);
  const KernelCost memory(cluster.device, with(SoftwareCost::memory, 2.0));
  CHECK(close(memory.bytes(KernelKind::gelu_forward, DType::bf16, bytes), 2e-6));
  CHECK(close(memory.bytes(KernelKind::adam_update, DType::bf16, bytes), 1e-6));
  const KernelCost optimizer(cluster.device, with(SoftwareCost::optimizer, 2.0));
  CHECK(close(optimizer.bytes(KernelKind::gelu_forward, DType::bf16, bytes), 1e-6));
  CHECK(close(optimizer.bytes(KernelKind::adam_update, DType::bf16, bytes), 2e-6));
}

TEST_CASE("casts and sums of gradients pass through memory beside the product", "[software]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  GemmShape shape{1000, 1000, 10000, false, false};
  // 1e7 elements of A, 4 bytes each: 4e7 bytes at 1 TB/s are 40 us beside 200.
  const KernelCost casts(cluster.device, with(SoftwareCost::quantize, 4.0));
  CHECK(close(casts.gemm(shape, DType::f8), 240e-6));
  CHECK(close(casts.gemm(shape, DType::bf16), 200e-6));
  // 1e6 elements of the weight's gradient, 8 bytes each: 8 us.
  const KernelCost sums(cluster.device, with(SoftwareCost::accumulate, 8.0));
  CHECK(close(sums.gemm(shape, DType::bf16), 200e-6));
  shape.transpose_a = true;
  CHECK(close(sums.gemm(shape, DType::bf16), 208e-6));
  CHECK(close(casts.gemm(shape, DType::f8), 200e-6));
}

TEST_CASE("gaps: of experts' launches, of a routing, of a step", "[software]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  Kernel experts = kernel(KernelKind::expert_gemm);
  experts.batch = 10;
  experts.rows = 10000;  // 1000 for each expert: 10 times 1000 x 1000 x 10,000, 2 ms
  experts.columns = 1000;
  experts.depth = 10000;
  const Bytes bytes = Bytes::of(1e6);
  CHECK(close(KernelCost(cluster.device, with(SoftwareCost::expert_gap, 100e-6)).kernel(experts, bytes), 2e-3));
  CHECK(close(KernelCost(cluster.device, with(SoftwareCost::expert_gap, 300e-6)).kernel(experts, bytes), 3e-3));
  // A bias adds passes over 10,000 x 1000 rows in bf16, each read and written: 4e7 bytes at 1 TB/s, 40 us.
  const KernelCost biases(cluster.device, with(SoftwareCost::expert_bias, 6.0));
  CHECK(close(biases.kernel(experts, bytes), 2e-3));
  experts.options.bias = true;
  CHECK(close(biases.kernel(experts, bytes), 2.2e-3));
  CHECK(close(biases.kernel(kernel(KernelKind::expert_bias_backward), bytes), 6e-6));
  const KernelCost routing(cluster.device, with(SoftwareCost::routing_gap, 1e-3));
  CHECK(close(routing.kernel(kernel(KernelKind::route_tokens), bytes), 1001e-6));
  CHECK(close(routing.kernel(kernel(KernelKind::gelu_forward), bytes), 1e-6));
  const KernelCost step(cluster.device, with(SoftwareCost::step_gap, 1e-3));
  CHECK(close(step.kernel(kernel(KernelKind::advance_step), bytes), 1001e-6));
}

TEST_CASE("flash attention slows down where heads are narrow and causal sequences short", "[software]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  Calibration c;
  c.attention = {{DType::bf16, 0.5, 0.25, 64.0, 1000.0}};
  const KernelCost cost(cluster.device, c);
  const Kernel k = attention(KernelKind::attention_flash_forward, 64, 1000);
  // A half for the width, a half for the length: an eighth of 100 TFLOP/s.
  CHECK(close(cost.attention(k, Bytes::of(1.0)), flops_of(k).executed / 12.5e12));
  Kernel whole = k;
  whole.options.causal = false;
  CHECK(close(cost.attention(whole, Bytes::of(1.0)), flops_of(whole).executed / 25e12));
  c.software[SoftwareCost::attention] = 2.0;
  CHECK(close(KernelCost(cluster.device, c).attention(k, Bytes::of(1.0)), flops_of(k).executed / 6.25e12));
}

TEST_CASE("unfused products of heads that do not begin at 16 bytes leave the tensor cores", "[software]") {
  const ClusterSpec cluster = round_cluster(1, 8);
  const KernelCost cost(cluster.device, Calibration{});
  for (const std::uint32_t width : {104U, 108U}) {  // 208 and 216 bytes
    const Kernel k = attention(KernelKind::attention_unfused_forward, width, 1024);
    const double rate = width == 104 ? 100e12 : 10e12;  // bf16, fp32
    const double bytes = memory_traffic(k, Bytes::of(1e6)).in(byte);
    CHECK(close(cost.attention(k, Bytes::of(1e6)), flops_of(k).counted / rate + bytes / 1e12));
  }
}

TEST_CASE("factors of collectives: links between nodes, the tensor axis", "[software]") {
  const ClusterSpec cluster = round_cluster(2, 2);
  const Mesh mesh{{{Axis::data, 2}, {Axis::tensor, 2}}};
  const Bytes payload = Bytes::of(1e9);
  const Group data{{Axis::data}, {}};
  const Group tensor{{Axis::tensor}, {}};
  const auto time = [&](const Calibration& c, Collective::Kind kind, const Group& group) {
    return CostModel(cluster, c, mesh).collective(kind, payload, group);
  };
  constexpr auto gather = Collective::Kind::all_gather;
  // Half of 1 GB: 1 us + 5 ms inside a node, 10 us + 50 ms between nodes.
  CHECK(close(time({}, gather, tensor), 5.001e-3));
  CHECK(close(time(with(SoftwareCost::network, 2.0), gather, tensor), 5.001e-3));
  CHECK(close(time(with(SoftwareCost::network, 2.0), gather, data), 100.01e-3));
  CHECK(close(time(with(SoftwareCost::tensor, 0.5), gather, tensor), 2.5005e-3));
  CHECK(close(time(with(SoftwareCost::tensor, 0.5), gather, data), 50.01e-3));
}

TEST_CASE("a token crosses the network once for each node that its choices reach", "[software]") {
  // By hand: 8 choices on 2 nodes reach 2 (1 - 1/256) of them; on 8 nodes, of which half may be chosen, 4 (1 -
  // (3/4)^8).
  CHECK(reached_nodes(2, {8, 1, 1}) == Approx(2.0 * (1.0 - 1.0 / 256.0)));
  CHECK(reached_nodes(8, {8, 8, 4}) == Approx(4.0 * (1.0 - std::pow(0.75, 8))));
  CHECK(reached_nodes(1, {8, 1, 1}) == 1.0);
  CHECK(reached_nodes(4, {1, 1, 1}) == Approx(1.0));
  const ClusterSpec cluster = round_cluster(2, 4);
  const Mesh mesh{{{Axis::expert, 8}}};
  const Group experts{{Axis::expert}, {}};
  const Bytes payload = Bytes::of(1e9);
  const TokenChoices two{2, 1, 1};
  const CostModel plain(cluster, {}, mesh);
  const CostModel once(cluster, with(SoftwareCost::node_copies, 1e-9), mesh);
  // Each choice a message: 4 peers of 125 MB at 10 GB/s behind 3 at 100 GB/s.
  CHECK(close(plain.exchange(payload, experts, two), 4 * (10e-6 + 12.5e-3) + 3 * (1e-6 + 1.25e-3)));
  CHECK(plain.exchange(payload, experts, two) == plain.collective(Collective::Kind::all_to_all, payload, experts));
  // An algorithm that is asked for holds for tokens, too.
  const CostModel rounds(cluster, {}, mesh, {}, CollectiveAlgorithm::recursive);
  CHECK(rounds.exchange(payload, experts, two) == rounds.collective(Collective::Kind::all_to_all, payload, experts));
  CHECK(rounds.exchange(payload, experts, two) != plain.exchange(payload, experts, two));
  // Two choices reach 1.5 nodes, so three quarters of the bytes: 375 MB to the other node, beside 3 times 250 MB.
  CHECK(std::abs(once.exchange(payload, experts, two).base() - (10e-6 + 37.5e-3)) < 1e-9);
  // Inside a node nothing is sent twice over the network, and nothing changes.
  const ClusterSpec node = round_cluster(1, 8);
  CHECK(CostModel(node, with(SoftwareCost::node_copies, 1e-9), mesh).exchange(payload, experts, two) ==
        CostModel(node, {}, mesh).exchange(payload, experts, two));
}
