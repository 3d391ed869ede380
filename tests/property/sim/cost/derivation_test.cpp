#include <catch2/catch.hpp>

#include <cmath>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/record/operation.hpp"
#include "sim/cost/prices.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

/// CPU ranks: measured rates of two kernels and of messages, the roofline for all others.
Calibration measured_cores() {
  Calibration c;
  c.device = "small";
  const RateTable products{{{4, 64}, {4, 64}, {4, 64}}, {1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, 8e9}};
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      c.kernels.push_back({KernelKind::gemm, DType::f32, a, b, false, products});
    }
  }
  c.kernels.push_back({KernelKind::gelu_forward, DType::f32, false, false, false, {{{100, 10000}}, {1e9, 3e9}}});
  c.messages = MessageRate{Seconds::of(1e-6),          Seconds::of(3e-6),          Seconds::of(2e-6),
                           {{{64, 4096}}, {1e8, 1e9}}, {{{64, 4096}}, {2e8, 2e9}}, {{{64, 4096}}, {1e8, 8e8}}};
  c.busy_compute_slowdown = 1.2;
  c.busy_memory_slowdown = 1.5;
  return c;
}

struct Machine {
  ClusterSpec cluster;
  Calibration calibration;
  std::optional<CollectiveAlgorithm> algorithm;
};

/// A machine for every way in which sim/cost prices: NCCL's model, the library's algorithms, each alone and the best of
/// all, rates by size, sums in switches, cores of one machine.
Machine machine(std::uint64_t seed, std::uint32_t ranks) {
  Machine m;
  m.cluster = test::small_cluster((ranks + 3) / 4, 4, 80.0 * gibibyte);
  m.cluster.device.peak[Precision::fp32] = 2.0 * teraflop_per_second;
  m.cluster.host_bandwidth = 20.0 * gigabyte_per_second;
  Diagnostics d;
  m.calibration = *read_calibration(ORRERY_SOURCE_DIR "/models/calibration/h100.toml", d);
  if (seed % 2 == 0) m.calibration.software = test::random_software(seed);
  switch (seed % 7) {
    case 0: m.cluster.levels[0].bandwidth = 450.0 * gigabyte_per_second; return m;
    case 1:
      m.cluster.levels[0].rates = {{Bytes::of(64), 1.0 * gigabyte_per_second},
                                   {Bytes::of(1e5), 90.0 * gigabyte_per_second}};
      break;
    case 2: m.algorithm = CollectiveAlgorithm::tree; break;
    case 3: m.algorithm = CollectiveAlgorithm::recursive; break;
    case 4:
      m.algorithm = CollectiveAlgorithm::in_network;
      m.cluster.levels[0].switches = SwitchSum::nvls;
      m.cluster.levels[1].switches = SwitchSum::sharp;
      break;
    case 5:
      m.cluster.device.concurrent_lanes = false;
      m.cluster.device.cores_shared = 2;
      m.calibration = measured_cores();
      return m;
    default: break;
  }
  m.calibration.nccl.reset();
  return m;
}

/// Largest relative difference between a number of the tree and what its parts give.
double worst(const DerivedNumber& n) {
  const double value = evaluate(n);
  double out = std::abs(value - n.value) / std::max({std::abs(value), std::abs(n.value), 1e-30});
  if (n.value == 0.0 && std::abs(value) < 1e-18) out = 0.0;
  for (const DerivedNumber& part : n.from) out = std::max(out, worst(part));
  return out;
}

}  // namespace

// The tree is evaluated from its given numbers alone, which pricing itself never does.
TEST_CASE("Every price of a random plan follows from the numbers that explain it", "[property][cost]") {
  std::size_t ops = 0;
  for (std::uint64_t seed = 1; seed <= 350; ++seed) {
    test::RandomRunLimits limits;
    limits.placement = false;
    const PlannedRun run = test::random_run(seed, limits);
    const Program program = lower(run.model, run.workload, run.plan);
    const Machine on = machine(seed, static_cast<std::uint32_t>(program.mesh.size()));
    const CostModel costs(on.cluster, on.calibration, program.mesh, {}, on.algorithm);
    Prices prices;
    price(prices, program, costs);
    CAPTURE(seed, test::describe(run));
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      for (const BlockId id : prices.blocks_of(c)) {
        const Block& block = program[id];
        for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
          const Op& op = block.ops[i];
          const DerivedNumber why = derive(program, costs, c, id, i);
          Picoseconds charged = prices.of_op(id, i);
          if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
            for (std::uint32_t t = 0; t < exchange->transfers.count; ++t) {
              charged = std::max(charged, prices.of_transfer(c, id, exchange->transfers.first + t));
            }
          }
          // The result is rounded to whole picoseconds, and sums are taken in another order.
          const double ps = 1e12 * evaluate(why);
          const double off = std::abs(ps - static_cast<double>(charged));
          const double apart = worst(why);
          ++ops;
          if (off <= 0.5 + 1e-9 * ps && apart <= 1e-9 && (is_timed(op) || charged == 0)) continue;
          CAPTURE(block.name, i, name_of(why.by), why.name, ps, charged, apart);
          REQUIRE(off <= 0.5 + 1e-9 * ps);
          REQUIRE(apart <= 1e-9);
        }
      }
    }
  }
  CHECK(ops > 20'000);
}
