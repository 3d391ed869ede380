#include "core/program/lower/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/program/lower/buckets.hpp"
#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

/// Gradients come from reductions on these lanes.
void after_reductions(const State& c, BlockBuilder& b) {
  for (const Lane lane : gradient_sum_lanes(c)) b.enter_after_tail(lane);
  for (const Lane lane : product_lanes(c)) b.enter_after_tail(lane);
  if (c.sequence_parallel) b.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
  if (c.tied_apart) {
    b.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::pipeline)});
  }
}

BlockId build_norm(State& c, const Module& m) {
  BlockBuilder b(c, c.program.parameter_tables[m.table].module + ".norm", Pass::optimizer, Section::optimizer);
  after_reductions(c, b);
  for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
    if (!s.counted) continue;
    const Operand gradient = own_part(c, m.gradients, s, View::Use::read);
    Kernel k = c.kernel(KernelKind::sum_squares, Pass::optimizer, 1, gradient.count);
    // Every rank that holds a parameter adds its share, so that it counts once in the sum.
    k.parameter = 1.0 / static_cast<double>(size(c.plan.mesh, held_alike(c, c.program.parameter_tables[m.table], s)));
    b.compute(k, {gradient, update(c.scalar.norm)});
  }
  return b.finish(c);
}

/// Where the states live in host memory the gradient goes down, the host
/// updates, and the weights come up (Ren et al., "ZeRO-Offload", ATC 2021).
BlockId build_update(State& c, const Module& m, bool host) {
  const ParameterTable& table = c.program.parameter_tables[m.table];
  BlockBuilder b(c, table.module + (host ? ".update.host" : ".update"), Pass::optimizer, Section::optimizer);
  if (!c.factor) after_reductions(c, b);
  const bool adam = c.workload.optimizer.kind == OptimizerKind::adam;
  const int moments = optimizer_moments(c.workload);
  std::vector<Operand> down, up;
  for (const ParameterSegment& s : table.segments) {
    if (!host) break;
    down.push_back(own_part(c, m.gradients, s, View::Use::read));
    down.push_back(own_part(c, m.host.gradients, s, View::Use::write));
    up.push_back(own_part(c, m.host.weights, s, View::Use::read));
    up.push_back(own_part(c, m.weights, s, View::Use::write));
  }
  if (host) b.copy(Tier::device, Tier::host, down);
  for (const ParameterSegment& s : table.segments) {
    const Operand gradient = own_part(c, host ? m.host.gradients : m.gradients, s, View::Use::read);
    Kernel k = c.kernel(adam ? KernelKind::adam_update : KernelKind::sgd_update, Pass::optimizer, 1, gradient.count);
    k.options.decay = s.decay;
    Operand operands[7];
    std::size_t n = 0;
    operands[n++] = gradient;
    operands[n++] = read(host ? c.scalar.host_steps : c.scalar.steps);
    if (c.factor) {
      k.options.factor = true;
      operands[n++] = read(host ? c.scalar.host_factor : c.scalar.factor);
    }
    operands[n++] = own_part(c, host ? m.host.weights : m.weights, s, View::Use::accumulate);
    if (has_master_weights(c.workload)) {
      k.options.master = true;
      operands[n++] = own_part(c, host ? m.host.masters : m.masters, s, View::Use::accumulate);
    }
    for (int i = 0; i < moments; ++i) {
      operands[n++] = own_part(c, host ? m.host.moments[i] : m.moments[i], s, View::Use::accumulate);
    }
    if (!adam) k.options.momentum = moments > 0;
    b.compute(k, std::span<const Operand>(operands, n));
  }
  if (host) b.copy(Tier::host, Tier::device, up);
  return b.finish(c);
}

}  // namespace

OptimizerBlocks build_optimizer(State& c) {
  OptimizerBlocks out;
  if (c.factor) {
    BlockBuilder clear(c, "norm.clear", Pass::optimizer, Section::optimizer);
    clear.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, 1), {write(c.scalar.norm)});
    out.clear_norm = clear.finish(c);
    c.blocks(Phase::norm) = {build_norm(c, c.embedding), build_norm(c, c.layer), build_norm(c, c.head)};
    BlockBuilder reduce(c, "norm.reduce", Pass::optimizer, Section::optimizer);
    if (group_size(c.program[c.norm_group], c.program.mesh) > 1) {
      reduce.collective(Collective::Kind::all_reduce, c.norm_group, {update(c.scalar.norm)});
    }
    Kernel k = c.kernel(KernelKind::clip_factor, Pass::optimizer, 1, 1);
    k.parameter = c.workload.clip_norm.value_or(0.0);
    k.options.scaled = c.scaled;
    if (c.scaled) {
      reduce.compute(k, {read(c.scalar.norm), update(c.scalar.loss_scale), write(c.scalar.factor)});
    } else {
      reduce.compute(k, {read(c.scalar.norm), write(c.scalar.factor)});
    }
    out.reduce_norm = reduce.finish(c);
  }
  BlockBuilder advance(c, "step.advance", Pass::optimizer, Section::optimizer);
  Kernel k = c.kernel(KernelKind::advance_step, Pass::optimizer, 1, 1);
  k.options.factor = c.factor;
  if (c.factor) {
    advance.compute(k, {update(c.scalar.steps), read(c.scalar.factor)});
  } else {
    advance.compute(k, {update(c.scalar.steps)});
  }
  if (c.offloads_states()) {
    std::vector<Operand> down = {read(c.scalar.steps), write(c.scalar.host_steps)};
    if (c.factor) {
      down.push_back(read(c.scalar.factor));
      down.push_back(write(c.scalar.host_factor));
    }
    advance.copy(Tier::device, Tier::host, down);
  }
  out.advance = advance.finish(c);
  c.blocks(Phase::update) = module_blocks(c, build_update);
  return out;
}

BlockId build_tied_reduction(State& c, std::uint32_t stage) {
  const bool first = stage == 0;
  BlockBuilder b(c, first ? "gradients.tied.first" : "gradients.tied.last", Pass::optimizer, Section::tied, stage);
  const Module& m = first ? c.embedding : c.head;
  // The word table is the first segment of both modules.
  const ParameterSegment& s = c.program.parameter_tables[m.table].segments.front();
  for (const Lane lane : gradient_sum_lanes(c)) b.enter_after_tail(lane);
  for (const Lane lane : product_lanes(c)) b.enter_after_tail(lane);
  b.collective(Collective::Kind::all_reduce, c.tied_group, {own_part(c, m.gradients, s, View::Use::accumulate)});
  return b.finish(c);
}

namespace {

bool is_end(const Action& a) { return a.phase == Phase::gather || a.phase == Phase::mean_loss; }

std::string before(const State& s) {
  if (s.stages.empty()) return "there is no schedule";
  for (const Stage& stage : s.stages) {
    if (count(stage.step, Phase::clear) == 0) return fmt::format("stage {} clears no gradients", stage.number);
    if (count(stage.step, Phase::update) != 0) return fmt::format("stage {} already updates", stage.number);
    const auto end = std::find_if(stage.step.begin(), stage.step.end(), is_end);
    if (!std::all_of(end, stage.step.end(), is_end)) {
      return fmt::format("stage {} works on after it gathers weights", stage.number);
    }
  }
  return {};
}

void run(State& s) {
  const OptimizerBlocks blocks = build_optimizer(s);
  for (Stage& stage : s.stages) {
    const auto at = std::find_if(stage.step.begin(), stage.step.end(), is_end);
    const std::vector<Action> end(at, stage.step.end());
    stage.step.erase(at, stage.step.end());
    const auto add = [&](Phase phase, BlockId block) {
      stage.blocks[static_cast<std::size_t>(phase)] = block;
      stage.step.push_back({phase, 0, 0});
    };
    const auto each_chunk = [&](Phase phase) {
      for (std::uint32_t c = 0; c < stage.own_chunks; ++c) stage.step.push_back({phase, c, 0});
    };
    if (s.tied_apart && (stage.number == 0 || stage.number == s.head_rank)) {
      add(Phase::tied, build_tied_reduction(s, stage.number));
    }
    if (s.factor) {
      add(Phase::clear_norm, blocks.clear_norm);
      each_chunk(Phase::norm);
      add(Phase::reduce_norm, blocks.reduce_norm);
    }
    add(Phase::advance, blocks.advance);
    if (!gathers_updated(s)) each_chunk(Phase::update);
    for (const Action& a : end) {
      if (a.phase == Phase::gather) stage.step.push_back({Phase::update, a.chunk, 0});
      stage.step.push_back(a);
    }
  }
}

/// Every module is counted in the norm and updated once, after all gradients
/// are there, and its weights are gathered after that.
std::string after(const State& s) {
  for (const Stage& stage : s.stages) {
    std::string wrong = covered(stage, Phase::update, 0);
    if (wrong.empty()) wrong = covered(stage, Phase::norm, 0, s.factor ? 1 : 0);
    if (!wrong.empty()) return wrong;
    std::vector<bool> updated(stage.chunks.size());
    bool updating = false;
    for (const Action& a : stage.step) {
      if (a.phase == Phase::update) updating = updated[a.chunk] = true;
      const bool makes_gradients = a.phase == Phase::backward || a.phase == Phase::weight || a.phase == Phase::reduce ||
                                   a.phase == Phase::combine || a.phase == Phase::tied;
      if (makes_gradients && updating) return fmt::format("stage {} updates before gradients are there", stage.number);
      if (a.phase == Phase::gather && !updated[a.chunk]) {
        return fmt::format("stage {} gathers weights before their update", stage.number);
      }
    }
  }
  return {};
}

}  // namespace

LoweringPass optimizer() { return {"optimizer", before, run, after}; }

}  // namespace orrery::lowering
