#include "sim/memory/held_memory.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "core/program/lower/lower.hpp"
#include "core/record/live_memory.hpp"
#include "sim/memory/live_tensors.hpp"
#include "sim/memory/memory_figures.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {
namespace {

// Hidden 16, feed-forward 32, 4 heads of 4 with 2 for keys, vocabulary 40, 2 layers, untied; microbatches of 2 x 8.
PlannedRun small_llama() {
  PlannedRun run;
  run.model = test::tiny_llama({.kv_heads = 2, .ffn = 32, .vocabulary = 40, .positions = 8, .tied = false});
  Workload& w = run.workload;
  w.global_batch = 4;
  w.sequence_length = 8;
  w.precision = Precision::bf16;
  w.gradient_dtype = DType::f32;
  Plan& p = run.plan;
  p.microbatch_size = 2;
  p.schedule = ScheduleName::one_f_one_b;
  p.stage_layers = std::vector<std::uint32_t>{2};
  p.attention = AttentionKernel::flash;
  p.overlap_gradients = false;
  p.gradient_bucket = 1.0 * mebibyte;
  return run;
}

Program small_program() {
  const PlannedRun run = small_llama();
  return lower(run.model, run.workload, run.plan);
}

std::uint64_t peak(const Program& program, const FrameworkMemory& framework) {
  return memory_figures(program, framework).at(0).live;
}

/// Bytes of tensors that the training program adds at the peak, by name.
std::map<std::string, std::uint64_t> own_tensors(const Program& program, const FrameworkMemory& framework) {
  std::map<std::string, std::uint64_t> out;
  const std::vector<PeakTensors> peaks = peak_tensors(program, framework);
  for (const LiveTensor& t : peaks.at(0).tensors) {
    if (t.role == "framework") out[t.name] += t.bytes;
  }
  return out;
}

}  // namespace

// A class's list is walked op by op here, and block by block in core/record.
TEST_CASE("what a rank holds peaks where the Program's Allocs and Frees do", "[property][memory]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 41)));
  const PlannedRun run = test::random_run(seed);
  CAPTURE(seed, test::describe(run));
  const Program program = lower(run.model, run.workload, run.plan);
  LiveMemory memory;
  memory.read(program);
  const std::vector<MemoryFigures> figures = memory_figures(program);
  const std::vector<PeakTensors> tensors = peak_tensors(program);
  REQUIRE(figures.size() == program.classes.size());
  for (std::uint32_t c = 0; c < figures.size(); ++c) {
    const MemoryFigures& m = figures[c];
    CHECK(m.live == memory.peak(program, c).peak);
    CHECK(m.setup <= m.live);
    CHECK(m.steady <= m.setup);
    CHECK(m.live <= m.allocated);
    CHECK(m.allocated <= m.reserved);
    CHECK(m.fits);
    CHECK(tensors[c].bytes == m.live);
    std::uint64_t sum = 0;
    for (const LiveTensor& t : tensors[c].tensors) sum += t.bytes;
    CHECK(sum == m.live);
  }
}

// With every rule, what is allocated is freed, under names that nothing else has, and the tensors still add up.
TEST_CASE("what a training program adds is given back", "[property][memory]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 21)));
  const WeightGradients gradients = GENERATE(WeightGradients::placeholders, WeightGradients::apart);
  const CrossEntropy entropy = GENERATE(CrossEntropy::fused, CrossEntropy::plain, CrossEntropy::eager);
  const PlannedRun run = test::random_run(seed);
  CAPTURE(seed, test::describe(run));
  const Program program = lower(run.model, run.workload, run.plan);
  const FrameworkMemory framework{gradients, entropy, Bytes::of(1000.0)};
  const std::vector<MemoryFigures> figures = memory_figures(program, framework);
  const std::vector<PeakTensors> tensors = peak_tensors(program, framework);
  for (std::uint32_t c = 0; c < figures.size(); ++c) {
    CHECK(tensors[c].bytes == figures[c].live);
    std::uint64_t sum = 0;
    for (const LiveTensor& t : tensors[c].tensors) sum += t.bytes;
    CHECK(sum == figures[c].live);
  }
}

// Matrices of a layer, in elements: qkv 16 x (4 + 2 + 2) 4 = 512, out 256, gate and up 16 x 64 = 1024, down 512: 2304.
// Both layers have the same, and share 2 bytes for each.  The head has 40 x 16 for as long as its backward pass.
TEST_CASE("layers share placeholders of weight gradients, and the head has its own", "[unit][memory]") {
  const Program program = small_program();
  const FrameworkMemory framework{WeightGradients::placeholders, CrossEntropy::in_place, {}};
  const HeldMemory memory(program, framework);
  std::uint64_t shared = 0, passing = 0;
  for (const HeldMemory::Own& own : memory.own()) {
    (own.name == "placeholder 40x16" || own.name == "gradient 40x16" ? passing : shared) += own.bytes;
  }
  CHECK(shared == 2 * 2304);
  CHECK(passing == 2 * (2 * 40 * 16));  // of the head, and of the lookup
  // Between steps the shared ones are still there.
  CHECK(memory_figures(program, framework)[0].steady == memory_figures(program)[0].steady + 2 * 2304);
}

TEST_CASE("gradients apart hold one product at a time", "[unit][memory]") {
  const Program program = small_program();
  const FrameworkMemory framework{WeightGradients::apart, CrossEntropy::in_place, {}};
  CHECK(memory_figures(program, framework)[0].steady == memory_figures(program)[0].steady);
  const auto own = own_tensors(program, framework);
  CHECK(own.size() <= 1);
  CHECK(peak(program, framework) > peak(program, {}));
}

// A microbatch has 16 rows of 40 logits: 2560 bytes in fp32, 1280 in bf16.
TEST_CASE("logits are held as the cross-entropy wants them", "[unit][memory]") {
  const Program alone = small_program();
  const auto logits = [&](CrossEntropy entropy, const Program& program) {
    std::uint64_t most = 0;
    const HeldMemory memory(program, {WeightGradients::in_place, entropy, {}});
    std::vector<bool> kept;
    std::uint64_t live = 0;
    memory.walk(program.classes[0].step, kept, [&](bool alloc, std::uint64_t tensor, std::uint64_t bytes) {
      const TensorId id = memory.tensor_of(tensor);
      const std::string& name = id.own ? memory.own()[*id.own].name : program.buffers[index(id.instance.buffer)].name;
      if (name != "logits" && name.rfind("logits (", 0) != 0) return;
      live += alloc ? bytes : -bytes;
      most = std::max(most, live);
    });
    CHECK(live == 0);
    return most;
  };
  CHECK(logits(CrossEntropy::in_place, alone) == 2560);
  CHECK(logits(CrossEntropy::fused, alone) == 1280);
  CHECK(logits(CrossEntropy::plain, alone) == 2560 + 1280);
  CHECK(logits(CrossEntropy::eager, alone) == 3 * 2560);  // backward; forward 2 x 2560 and the product
  // Two tensor ranks have 20 of the 40 each, 1280 bytes in fp32. Backward there are the log-softmax, the targets' part,
  // the exponentials and the sum, then the product in place of the exponentials; forward 3 x 1280 and the product's
  // 640.
  PlannedRun run = small_llama();
  run.plan.mesh = Mesh{{{Axis::tensor, 2}}};
  CHECK(logits(CrossEntropy::eager, lower(run.model, run.workload, run.plan)) == 4 * 1280);
  // In four pieces each has a quarter.
  run = small_llama();
  run.plan.loss_chunks = 4;
  const Program pieces = lower(run.model, run.workload, run.plan);
  CHECK(logits(CrossEntropy::in_place, pieces) == 640);
  CHECK(logits(CrossEntropy::fused, pieces) == 320);
  CHECK(logits(CrossEntropy::plain, pieces) == 640 + 320);
  CHECK(logits(CrossEntropy::eager, pieces) == 3 * 640);
}

// The memory between steps is the same however it came to be: 16-bit weights, fp32 gradients, masters and two moments.
TEST_CASE("Megatron's buffers hold what the Program's tensors hold, and cost their weights twice at first",
          "[unit][memory]") {
  PlannedRun run = small_llama();
  run.plan.mesh = Mesh{{{Axis::data, 2}}};
  run.plan.zero_stage = 1;
  const Program program = lower(run.model, run.workload, run.plan);
  FrameworkMemory framework;
  framework.states = StateLayout::contiguous;
  const MemoryFigures buffers = memory_figures(program, framework)[0], listed = memory_figures(program)[0];
  CHECK(buffers.steady == listed.steady);
  CHECK(buffers.live == listed.live);
  // 2 x 2336 elements of layers, 640 of the embedding, 656 of head and norm; while weights move there are
  // 2 + 2 + 4 bytes of each, later 2 + 4 and half of 4 for masters, with a copy of 2 bytes of at most one tensor.
  const std::uint64_t elements = 2 * 2336 + 640 + 656;
  CHECK(buffers.setup >= 8 * elements);
  CHECK(buffers.setup <= 8 * elements + 2 * 1024 + 64);
}

// The rank's half has 4 bytes each of masters, two moments and reduced gradients, but no 16-bit shards.
TEST_CASE("FSDP2 keeps shards in full precision alone", "[unit][memory]") {
  PlannedRun run = small_llama();
  run.plan.mesh = Mesh{{{Axis::data, 2}}};
  run.plan.zero_stage = 3;
  const Program program = lower(run.model, run.workload, run.plan);
  FrameworkMemory framework;
  framework.states = StateLayout::fsdp;
  const MemoryFigures fsdp = memory_figures(program, framework)[0], listed = memory_figures(program)[0];
  const std::uint64_t shard = (2 * 2336 + 640 + 656) / 2;
  CHECK(fsdp.steady == listed.steady - 2 * shard);
  CHECK(fsdp.setup == listed.setup - (2 + 4 + 8) * shard);
  // What each layer keeps is there at the peak, which is in the head's backward pass.
  framework.kept_products = Bytes::of(1 << 20);
  CHECK(memory_figures(program, framework)[0].live == fsdp.live + (2 << 20));
}

// In bf16 alone the rank's half has 2 bytes each of weights, two moments and reduced gradients; moments come with the
// first update, gradients with the first backward pass.
TEST_CASE("FSDP2 keeps bf16 shards where there are no masters", "[unit][memory]") {
  PlannedRun run = small_llama();
  run.workload.master_weights = false;
  run.workload.gradient_dtype.reset();
  run.plan.mesh = Mesh{{{Axis::data, 2}}};
  run.plan.zero_stage = 3;
  const Program program = lower(run.model, run.workload, run.plan);
  FrameworkMemory framework;
  framework.states = StateLayout::fsdp;
  const MemoryFigures fsdp = memory_figures(program, framework)[0], listed = memory_figures(program)[0];
  const std::uint64_t shard = (2 * 2336 + 640 + 656) / 2;
  CHECK(fsdp.steady == listed.steady);
  CHECK(fsdp.setup == listed.setup - (2 + 4) * shard);
}

// With every rule on any plan with ZeRO, everything that comes goes, under names that nothing else has, and nothing is
// left over.
TEST_CASE("states of a training program come and go in pairs", "[property][memory]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 41)));
  PlannedRun run = test::random_run(seed);
  const StateLayout states = run.plan.zero_stage == 3 ? StateLayout::fsdp : StateLayout::contiguous;
  CAPTURE(seed, test::describe(run));
  if (run.plan.zero_stage == 2) return;  // neither program's
  const Program program = lower(run.model, run.workload, run.plan);
  FrameworkMemory framework;
  framework.states = states;
  for (const MemoryFigures& m : memory_figures(program, framework)) {
    CHECK(m.live <= m.allocated);
    CHECK(m.allocated <= m.reserved);
    CHECK(m.steady < m.live);
  }
}

TEST_CASE("workspaces of product libraries are always there", "[unit][memory]") {
  const Program program = small_program();
  const FrameworkMemory framework{WeightGradients::in_place, CrossEntropy::in_place, Bytes::of(4096.0)};
  const MemoryFigures with = memory_figures(program, framework)[0], without = memory_figures(program)[0];
  CHECK(with.live == without.live + 4096);
  CHECK(with.setup == without.setup + 4096);
  CHECK(with.steady == without.steady + 4096);
}

TEST_CASE("tensors at the peak say what they are and whose", "[unit][memory]") {
  const PeakTensors at = peak_tensors(small_program()).at(0);
  std::map<std::string, LiveTensor> by_name;
  std::uint64_t before = ~std::uint64_t{0};
  for (const LiveTensor& t : at.tensors) {
    CHECK(t.bytes <= before);
    before = t.bytes;
    by_name[t.name] = t;
  }
  // 2304 elements of matrices, two norms of 16; fp32 masters and moments, bf16 weights, fp32 gradients.
  const LiveTensor& masters = by_name.at("layer.masters");
  CHECK(masters.bytes == 2 * 4 * 2336);
  CHECK(masters.count == 2);
  CHECK(masters.shape == "[2336]");
  CHECK(masters.dtype == "f32");
  CHECK(masters.role == "master");
  CHECK(masters.where == "layers 0-1");
  CHECK(by_name.at("layer.weights").bytes == 2 * 2 * 2336);
}

}  // namespace orrery
