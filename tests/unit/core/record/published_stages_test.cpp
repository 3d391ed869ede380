// Memory of a pipeline's first stage as Korthikanti et al., MLSys 2023, figure 1, has it: their bars, as Calculon's
// table of validation (calculon-ai/calculon, llm/validation.py) states them to the last bit, in GiB of each GPU.
#include <catch2/catch.hpp>

#include <algorithm>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/support/shipped_model.hpp"

using namespace orrery;
using test::shipped_model;

namespace {

struct Row {
  const char* model;
  std::uint32_t stages, chunks;
  std::uint64_t batch;
  std::uint32_t microbatch;
  double states, activations, selective;  ///< GiB: weights to moments; nothing recomputed; attention's core recomputed,
                                          ///< with SP
};

// Table 3 there has 8 tensor ranks each; 175B and 530B are interleaved with three chunks.
constexpr Row rows[] = {{"korthikanti-22b", 1, 1, 4, 4, 45.5625, 59.25, 9.5625},
                        {"korthikanti-175b", 8, 3, 64, 1, 45.5625, 66.84375, 12.3515625},
                        {"korthikanti-530b", 35, 3, 280, 1, 31.640625, 114.0234375, 23.076171875},
                        {"korthikanti-1t", 64, 1, 512, 1, 32.958984375, 131.25, 26.5625}};

constexpr std::uint64_t tensor = 8, sequence = 2048;

Program lowered(const Row& row, bool sequence_parallel, Recompute recompute) {
  const ModelSpec m = shipped_model(row.model);
  Workload w;
  w.global_batch = row.batch;
  w.sequence_length = sequence;
  w.precision = Precision::fp16;
  w.gradient_dtype = DType::f32;
  w.hidden_dropout = w.attention_dropout = 0.1;
  Plan plan;
  plan.mesh.axes = {{Axis::pipeline, row.stages}, {Axis::tensor, tensor}};
  plan.microbatch_size = row.microbatch;
  plan.schedule = row.chunks > 1 ? ScheduleName::interleaved : ScheduleName::one_f_one_b;
  plan.chunks = row.chunks;
  const auto parts = row.stages * row.chunks;
  plan.stage_layers = std::vector<std::uint32_t>(parts, static_cast<std::uint32_t>(m.layers) / parts);
  plan.attention = AttentionKernel::unfused;
  plan.overlap_gradients = false;
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  plan.gradient_bucket = gigabyte;
  plan.sequence_parallel = sequence_parallel;
  plan.recompute = recompute;
  return lower(m, w, plan);
}

/// Most pairs of layer and microbatch that the first stage keeps activations of at once: inputs of its own layers.
std::uint64_t most_kept(const Program& program, const Row& row, std::uint64_t layers) {
  const std::uint64_t part = layers / (row.stages * row.chunks);
  std::uint64_t live = 0, most = 0;
  for_each_op(program, program.classes[0].step, [&](const OpRun& r) {
    const auto* alloc = std::get_if<Alloc>(&r.op->action);
    const auto* free = std::get_if<Free>(&r.op->action);
    if (alloc == nullptr && free == nullptr) return;
    const BufferId id = alloc != nullptr ? alloc->what : free->what;
    if (program[id].name != "hidden") return;
    const std::int8_t shift = alloc != nullptr ? alloc->layer_shift : free->layer_shift;
    const std::uint64_t layer = instance_of(program, id, shift, r.layer, r.microbatch).layer;
    if (layer >= layers || layer / part % row.stages != 0) return;  // another stage's input
    live += alloc != nullptr ? 1 : std::uint64_t(-1);
    most = std::max(most, live);
  });
  return most;
}

double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / gibibyte.base(); }

}  // namespace

// 18 bytes of every element of a layer's matrices, 12 L h^2 / (t p) on a rank.  Vectors (7 h / t of biases of columns,
// 6 h of the rest) and tables are held beside that; figure 1 neglects them.
TEST_CASE("weights, gradients and states of a stage are those of Korthikanti's figure 1", "[unit][record]") {
  for (const Row& row : rows) {
    CAPTURE(row.model);
    const ModelSpec m = shipped_model(row.model);
    const RoleBytes state = totals_of(lowered(row, false, Recompute::none), 0).state;
    std::uint64_t held = 0;
    for (const Role role : {Role::weight, Role::gradient, Role::master, Role::moment}) {
      held += state[static_cast<std::size_t>(role)];
    }
    const std::uint64_t layers = m.layers / row.stages, h = m.hidden;
    const std::uint64_t tables = m.vocabulary / tensor * h + m.max_positions * h + (row.stages == 1 ? 2 * h : 0);
    const std::uint64_t beside = 18 * (layers * (7 * h / tensor + 6 * h) + tables);
    CHECK(gib(held - beside) == row.states);
  }
}

// Table 2 there times the layers kept: sbh (10 + 24/t + 5as/ht) or 34 sbh/t, for L layers, or where interleaved for L
// (1 + (p - 1) / p v).
TEST_CASE("activations of a first stage are those of Korthikanti's figure 1", "[unit][record]") {
  for (const Row& row : rows) {
    CAPTURE(row.model);
    const std::uint64_t layers = shipped_model(row.model).layers;
    const Program all = lowered(row, false, Recompute::none);
    const std::uint64_t kept = most_kept(all, row, layers);
    const std::uint64_t ahead = row.chunks > 1 ? layers * (row.stages - 1) / (row.stages * row.chunks) : 0;
    CHECK(kept == layers + ahead);
    CHECK(gib(kept * totals_of(all, 0).saved[0].activations) == row.activations);
    const Program some = lowered(row, true, Recompute::selective);
    CHECK(gib(most_kept(some, row, layers) * totals_of(some, 0).saved[0].activations) == row.selective);
  }
}
