#include <fmt/format.h>

#include "core/program/lower/base_weights.hpp"
#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

std::string before(const State& s) {
  if (!s.stages.empty() || !s.drafts.empty() || !s.program.buffers.empty()) return "the state is not new";
  if (s.plan.stage_layers->size() != s.map.stages()) return "the plan does not give every stage its layers";
  return {};
}

BlockId build_setup(State& s, const Module& m, Home home) {
  const bool host = home != Home::device;
  const std::string name = s.program.parameter_tables[m.table].module + ".setup";
  BlockBuilder b(s,
                 home == Home::all_on_host ? name + ".remote"
                 : host                    ? name + ".host"
                                           : name,
                 Pass::setup, Section::setup);
  const auto put = [&](BufferId buffer, KernelKind kind) {
    b.compute(s.kernel(kind, Pass::setup, 1, s.program[buffer].count), {write(buffer)});
  };
  if (home != Home::all_on_host) put(m.weights, KernelKind::initialize);
  if (&m == &s.layer) {
    for (const BaseMatrix& base : s.base) {
      put(base.forward, KernelKind::initialize);
      quantize_base(s, b, base);
    }
  }
  const Module* trained = s.trained(m);
  if (trained == nullptr) return b.finish(s);
  if (trained != &m) put(trained->weights, KernelKind::initialize);
  put(trained->gradients, KernelKind::fill);
  if (host) put(host_weights(s, m, home), KernelKind::initialize);
  if (has_master_weights(s.workload)) put(host ? m.host.masters : trained->masters, KernelKind::initialize);
  for (int i = 0; i < optimizer_moments(s.workload); ++i) {
    put(host ? m.host.moments[i] : trained->moments[i], KernelKind::fill);
  }
  if (has_factored_moments(s.workload)) put(host ? m.host.moments[0] : trained->moments[0], KernelKind::fill);
  if (has_scaled_moments(s.workload)) put(host ? m.host.scales : trained->scales, KernelKind::fill);
  if (const auto pairs = disk_pairs(s, m, home, false); !pairs.empty()) b.copy(Tier::host, Tier::disk, pairs);
  return b.finish(s);
}

BlockId build_scalars(State& s) {
  BlockBuilder b(s, "scalars.setup", Pass::setup, Section::setup);
  const auto put = [&](BufferId buffer) {
    b.compute(s.kernel(KernelKind::fill, Pass::setup, 1, s.program[buffer].count), {write(buffer)});
  };
  put(s.scalar.steps);
  put(s.scalar.loss);
  put(s.scalar.count);
  if (s.predictions > 0) {
    put(s.scalar.prediction_loss);
    put(s.scalar.prediction_count);
  }
  if (s.factor) {
    put(s.scalar.norm);
    put(s.scalar.factor);
  }
  if (s.scaled) {
    b.compute(s.kernel(KernelKind::initialize_scale, Pass::setup, 1, 2), {write(s.scalar.loss_scale)});
  }
  if (s.offloads_states()) {
    put(s.scalar.host_steps);
    if (s.factor) put(s.scalar.host_factor);
  }
  return b.finish(s);
}

void run(State& s) {
  declare_parameters(s);
  s.drafts.reserve(64 + 8 * std::size_t{s.pipeline});
  s.blocks(Phase::setup) = module_blocks(s, build_setup);
  const BlockId scalars = build_scalars(s);
  s.stages.reserve(s.pipeline);
  std::vector<std::uint32_t> first(s.map.stages());  // layer of each virtual stage
  for (std::size_t v = 1; v < first.size(); ++v) first[v] = first[v - 1] + (*s.plan.stage_layers)[v - 1];
  for (std::uint32_t i = 0; i < s.pipeline; ++i) {
    Stage stage;
    stage.number = i;
    stage.own_chunks = s.map.chunks;
    for (std::uint32_t c = 0; c < s.map.chunks; ++c) {
      const std::uint32_t number = s.map.stage(i, c);
      Chunk chunk;
      chunk.embedding = number == 0;
      chunk.low_layer = first[number];
      chunk.layers = (*s.plan.stage_layers)[number];
      chunk.head = number + 1 == s.map.stages();
      stage.chunks.push_back(chunk);
      stage.setup.push_back({Phase::setup, c, 0});
    }
    stage.setup.push_back({Phase::scalars, 0, 0});
    stage.blocks[static_cast<std::size_t>(Phase::scalars)] = scalars;
    s.stages.push_back(std::move(stage));
  }
}

/// In each pipe every layer lies on one virtual stage, in order. The embedding lies on the first stage, the head on the
/// last.
std::string after(const State& s) {
  for (std::uint32_t pipe = 0; pipe < s.map.pipes(); ++pipe) {
    std::uint32_t next = 0;
    for (std::uint32_t v = 0; v < s.map.stages(); ++v) {
      const Chunk& c = s.stages[s.map.rank(v, pipe)].chunks[s.map.chunk(v, pipe)];
      if (c.low_layer != next) return fmt::format("stage {} begins at layer {}, not {}", v, c.low_layer, next);
      next += c.layers;
      if (c.embedding != (v == 0)) return "the embedding is not on the first stage";
      if (c.head != (v + 1 == s.map.stages())) return "the head is not on the last stage";
    }
    if (next != s.model.layers) return fmt::format("{} of {} layers are placed", next, s.model.layers);
  }
  for (const Stage& stage : s.stages) {
    if (std::string wrong = covered(stage, Phase::setup, 0); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

LoweringPass place() { return {"place", before, run, after}; }

}  // namespace orrery::lowering
