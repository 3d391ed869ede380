#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/program/verify.hpp"
#include "sim/estimate/walk.hpp"
#include "tests/property/sim/estimate/prices.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {
namespace {

/// Every forward and backward block of a module computes for `compute`, in its last kernel; every gather of weights
/// takes `gather`; everything else takes no time.
Prices prices_of(const Program& program, Picoseconds compute, Picoseconds gather) {
  Prices prices;
  resize(prices, program);
  prices.concurrent_lanes = true;
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    const bool pass =
        block.name.find(".forward") != std::string::npos || block.name.find(".backward") != std::string::npos;
    std::size_t last = block.ops.size();
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const auto* collective = std::get_if<Collective>(&block.ops[i].action);
      if (collective != nullptr && collective->kind == Collective::Kind::all_gather) {
        prices.op[prices.first_op[b] + i] = gather;
      }
      if (std::holds_alternative<Compute>(block.ops[i].action)) last = i;
    }
    if (pass && last < block.ops.size()) prices.op[prices.first_op[b] + last] = compute;
  }
  return prices;
}

}  // namespace

// L layers, embedding and head; C a block's compute, A <= C a gather, m
// microbatches.  Without prefetch every gather is waited for: L + 2 forward and
// L + 1 backward (the embedding needs none).  With prefetch only the first of
// each pass is: block l's gather runs beside block l - 1.  Kept weights are
// gathered in the first forward pass alone.
TEST_CASE("ZeRO-3 waits for the gathers that prefetch cannot hide, and for no others", "[property][estimate]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::Draws draw(seed);
    const std::int64_t layers = draw.in(1, 8), m = draw.in(1, 4), compute = draw.in(1, 1000);
    const std::int64_t gather = draw.in(0, compute);
    const bool reshard = draw.in(0, 1) == 1;
    const auto prefetch = static_cast<std::uint32_t>(draw.in(0, 1));
    test::Size size{.layers = static_cast<std::uint64_t>(layers)};
    size.tied = false;
    Workload w;
    w.global_batch = 2 * static_cast<std::uint64_t>(m);
    w.sequence_length = 8;
    Plan plan;
    plan.mesh = Mesh{{{Axis::data, 2}}};
    plan.stage_layers = {static_cast<std::uint32_t>(layers)};
    plan.zero_stage = 3;
    plan.reshard_after_forward = reshard;
    plan.prefetch = prefetch;
    plan.gradient_bucket = static_cast<double>(draw.in(1, 100000)) * byte;
    plan.overlap_gradients = draw.in(0, 1) == 1;
    plan.attention = AttentionKernel::flash;
    const Program program = lower(test::tiny_gpt(size), w, plan);
    REQUIRE(verify(program).empty());
    CompiledProgram compiled;
    Walk walk;
    compiled.compile(program, prices_of(program, compute, gather));
    walk.run(compiled);
    std::int64_t waits = 0;
    if (prefetch == 1) {
      waits = reshard ? 2 * m : 1;
    } else {
      waits = reshard ? m * (2 * layers + 3) : layers + 2;
    }
    CAPTURE(seed, layers, m, compute, gather, reshard, prefetch);
    CHECK(walk.step_time() == waits * gather + 2 * m * (layers + 2) * compute);
  }
}

}  // namespace orrery
