#include "core/program/lower/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/program/lower/adafactor.hpp"
#include "core/program/lower/buckets.hpp"
#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor.hpp"
#include "core/program/moment_scales.hpp"

namespace orrery::lowering {

GroupId tensor_holders(State& c, bool one_expert) {
  AxisList axes;
  for (const Axis axis : AxisList(c.program[c.norm_group].axes)) {
    if (axis == Axis::pipeline || (one_expert && contains(c.expert_axes, axis))) continue;
    if (c.plan.mesh.size(axis) > 1) axes.axis[axes.count++] = axis;
  }
  if (!axes.empty()) return c.group(axes);
  return c.tensor == 1 ? c.tensor_group : c.group({Axis::depth});  // one rank
}

BufferId update_workspace(State& c, const std::string& name, Scope scope, std::uint64_t count, Tier tier) {
  const std::string full = tier == Tier::host ? name + ".host" : name;
  for (std::uint32_t i = 0; i < c.program.buffers.size(); ++i) {
    if (c.program.buffers[i].name == full) return BufferId{i};
  }
  const BufferId id = flat_buffer(c, full, Role::workspace, scope, DType::f64, count);
  c.program.buffers[index(id)].tier = tier;
  return id;
}

void sum_over_ranks(State& c, BlockBuilder& b, const std::vector<SumOverRanks>& parts) {
  const auto send = [&](const SumOverRanks& s, BufferId from) {
    Operand part = s.part;
    part.buffer = from;
    if (c.is_several(s.group)) b.collective(Collective::Kind::all_reduce, s.group, {part});
  };
  if (std::none_of(parts.begin(), parts.end(), [&](const SumOverRanks& s) { return c.is_several(s.group); })) return;
  const BufferId sums = parts.front().part.buffer;
  const Buffer of = c.program[sums];
  if (of.tier == Tier::device) {
    for (const SumOverRanks& s : parts) send(s, sums);
    return;
  }
  const BufferId up =
      update_workspace(c, of.name.substr(0, of.name.rfind('.')) + ".up", of.scope, of.count, Tier::device);
  const Operand rise[] = {read(sums), write(up)}, fall[] = {read(up), write(sums)};
  b.copy(Tier::host, Tier::device, rise);
  for (const SumOverRanks& s : parts) send(s, up);
  b.copy(Tier::device, Tier::host, fall);
}

namespace {

/// Gradients come from reductions on these lanes, so the op waits for them.
void after_reductions(const State& c, BlockBuilder& b) {
  for (const Lane lane : c.shares.gradient_sum_lanes) b.enter_after_tail(lane);
  for (const Lane lane : product_lanes(c)) b.enter_after_tail(lane);
  if (c.sums_over_tensor) b.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
  if (c.tied_apart || c.two_way) {
    b.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::pipeline)});
  }
}

BlockId build_norm(State& c, const Module& of) {
  const Module* trained = c.trained(of);
  if (trained == nullptr) return no_block;
  const Module& m = *trained;
  BlockBuilder b(c, c.program.parameter_tables[m.table].module + ".norm", Pass::optimizer, Section::optimizer);
  after_reductions(c, b);
  for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
    if (!s.counted) continue;
    const Operand gradient = own_part(c, m.gradients, s, View::Use::read);
    Kernel k = c.kernel(KernelKind::sum_squares, Pass::optimizer, 1, gradient.count);
    // Every rank that holds a parameter adds its share, so that it counts once in the sum.
    const std::uint64_t alike = size(c.plan.mesh, share_of(c, c.program.parameter_tables[m.table], s).alike);
    k.parameter = 1.0 / static_cast<double>(alike * c.map.pipes());
    b.compute(k, {gradient, update(c.scalar.norm)});
  }
  return b.finish(c);
}

/// Parameter tensors of a segment.
std::uint64_t tensors_of(const ParameterTable& table, const ParameterSegment& s) {
  return static_cast<std::uint64_t>(std::count_if(table.slices.begin(), table.slices.end(), [&](const auto& slice) {
    return s.offset <= slice.offset && slice.offset < s.offset + s.count;
  }));
}

/// Sums of squares for the trust ratios of a module's matrices, which are in the part of each segment with decay, in
/// the order of the table. The other segments are vectors, which LAMB's and LARS' authors leave out.
///
/// Each segment has a message of its own. Both copies of a tied table then have the same message, so its sums are made
/// in the same order and the copies stay alike to the bit.
///
/// Where states live in host memory the host makes its sums there, and they come up only for the message.
BufferId sum_tensor_norms(State& c, BlockBuilder& b, const Module& m, Home home) {
  const bool host = home != Home::device;
  const std::vector<ParameterSegment> segments = c.program.parameter_tables[m.table].segments;
  const auto table = [&]() -> const ParameterTable& { return c.program.parameter_tables[m.table]; };
  std::uint64_t count = 0;
  for (const ParameterSegment& s : segments) count += s.decay ? 2 * tensors_of(table(), s) : 0;
  if (count == 0) return {};
  const Scope scope = of_layers(table()) ? Scope::layer : Scope::stage;
  const BufferId norms = update_workspace(c, table().module + ".norms", scope, count, host ? Tier::host : Tier::device);
  b.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, count), {write(norms)});
  const bool lamb = c.workload.optimizer.kind == OptimizerKind::lamb;
  const GroupId group = tensor_holders(c, false);
  std::vector<SumOverRanks> sums;
  std::uint64_t first = 0;
  for (const ParameterSegment& s : segments) {
    if (!s.decay) continue;
    const Operand gradient = own_part(c, host ? m.host.gradients : m.gradients, s, View::Use::read);
    Kernel k = c.kernel(lamb ? KernelKind::lamb_moments : KernelKind::lars_norms, Pass::optimizer, 1, gradient.count,
                        tensors_of(table(), s));
    k.options.decay = true;
    k.options.factor = c.factor;
    k.options.master = has_master_weights(c.workload);
    k.parameter = 1.0 / static_cast<double>(size(c.plan.mesh, share_of(c, table(), s).alike));
    std::vector<Operand> operands = {gradient};
    if (lamb) operands.push_back(read(host ? c.scalar.host_steps : c.scalar.steps));
    if (c.factor) operands.push_back(read(host ? c.scalar.host_factor : c.scalar.factor));
    const BufferId weights = host ? host_weights(c, m, home) : m.weights;
    operands.push_back(
        own_part(c, k.options.master ? (host ? m.host.masters : m.masters) : weights, s, View::Use::read));
    for (int i = 0; lamb && i < 2; ++i) {
      operands.push_back(own_part(c, host ? m.host.moments[i] : m.moments[i], s, View::Use::accumulate));
    }
    sums.push_back({group, {norms, View::Use::accumulate, 0, first, 2 * k.depth, {}}});
    operands.push_back(sums.back().part);
    b.compute(k, operands);
    first += 2 * k.depth;
  }
  sum_over_ranks(c, b, sums);
  return norms;
}

KernelKind update_kind(OptimizerKind kind, bool decay) {
  switch (kind) {
    case OptimizerKind::sgd: return KernelKind::sgd_update;
    case OptimizerKind::adam: return KernelKind::adam_update;
    // Without decay and trust ratio LAMB is Adam.
    case OptimizerKind::lamb: return decay ? KernelKind::lamb_update : KernelKind::adam_update;
    case OptimizerKind::lars: return KernelKind::lars_update;
    case OptimizerKind::adafactor: break;  // build_adafactor
  }
  ORRERY_ASSERT(false, kind);
  return KernelKind::adam_update;
}

/// Where the states live in host memory the gradient goes down, the host updates, and the weights come up (Ren et al.,
/// "ZeRO-Offload", ATC 2021), or stay until they are used where they live there too. States that wait on disk come in
/// before the update and go back after it (Rajbhandari et al., "ZeRO-Infinity", SC 2021).
BlockId build_update(State& c, const Module& of, Home home) {
  const Module* trained = c.trained(of);
  if (trained == nullptr) return no_block;
  const Module& m = *trained;
  const bool host = home != Home::device;
  const ParameterTable& table = c.program.parameter_tables[m.table];
  BlockBuilder b(c,
                 table.module + (home == Home::all_on_host ? ".update.remote"
                                 : host                    ? ".update.host"
                                                           : ".update"),
                 Pass::optimizer, Section::optimizer);
  if (!c.factor) after_reductions(c, b);
  const OptimizerKind optimizer = c.workload.optimizer.kind;
  const bool trusts = has_trust_ratio(c.workload);
  const int moments = optimizer_moments(c.workload);
  std::vector<Operand> down, up;
  for (const ParameterSegment& s : table.segments) {
    if (!host) break;
    down.push_back(own_part(c, m.gradients, s, View::Use::read));
    down.push_back(own_part(c, m.host.gradients, s, View::Use::write));
    if (home != Home::states_on_host) continue;
    up.push_back(own_part(c, m.host.weights, s, View::Use::read));
    up.push_back(own_part(c, m.weights, s, View::Use::write));
  }
  if (host) b.copy(Tier::device, Tier::host, down);
  const std::vector<Operand> from_disk = disk_pairs(c, m, home, true);
  if (!from_disk.empty()) {
    b.after_tail({LaneKind::host, 0});  // host memory holds those of at most two modules
    b.copy(Tier::disk, Tier::host, from_disk);
  }
  const auto end = [&] {
    if (!from_disk.empty()) b.copy(Tier::host, Tier::disk, disk_pairs(c, m, home, false));
    if (home == Home::states_on_host) b.copy(Tier::host, Tier::device, up);
    return b.finish(c);
  };
  if (has_factored_moments(c.workload)) {
    build_adafactor(c, b, m, home);
    return end();
  }
  BufferId norms{};
  if (trusts) norms = sum_tensor_norms(c, b, m, home);
  std::uint64_t first = 0, first_scale = 0;
  for (const ParameterSegment& s : table.segments) {
    const Operand gradient = own_part(c, host ? m.host.gradients : m.gradients, s, View::Use::read);
    const KernelKind kind = update_kind(optimizer, s.decay);
    const bool lamb = kind == KernelKind::lamb_update;
    Kernel k = c.kernel(kind, Pass::optimizer, 1, gradient.count);
    k.options.decay = s.decay;
    if (trusts && s.decay) k.depth = tensors_of(table, s);
    const Operand of_tensors{norms, View::Use::read, 0, first, 2 * k.depth, {}};
    first += 2 * k.depth;
    Operand operands[9];
    std::size_t n = 0;
    operands[n++] = lamb ? of_tensors : gradient;
    operands[n++] = read(host ? c.scalar.host_steps : c.scalar.steps);
    if (c.factor) {
      k.options.factor = true;
      operands[n++] = read(host ? c.scalar.host_factor : c.scalar.factor);
    }
    operands[n++] = own_part(c, host ? host_weights(c, m, home) : m.weights, s, View::Use::accumulate);
    if (has_master_weights(c.workload)) {
      k.options.master = true;
      operands[n++] = own_part(c, host ? m.host.masters : m.masters, s, View::Use::accumulate);
    }
    const View::Use use = lamb ? View::Use::read : View::Use::accumulate;
    for (int i = 0; i < moments; ++i) operands[n++] = own_part(c, host ? m.host.moments[i] : m.moments[i], s, use);
    if (has_scaled_moments(c.workload)) {
      k.options.scaled = true;
      k.depth = moment_block(moment_dtype(c.workload));
      const std::uint64_t scales = moment_scales(gradient.count, k.depth);
      operands[n++] = {host ? m.host.scales : m.scales, use, 0, first_scale, scales, {}};
      first_scale += scales;
    }
    if (kind == KernelKind::sgd_update) k.options.momentum = moments > 0;
    if (kind == KernelKind::lars_update && k.depth > 0) operands[n++] = of_tensors;
    b.compute(k, std::span<const Operand>(operands, n));
  }
  return end();
}

}  // namespace

OptimizerBlocks build_optimizer(State& c) {
  OptimizerBlocks out;
  if (c.factor) {
    BlockBuilder clear(c, "norm.clear", Pass::optimizer, Section::optimizer);
    clear.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, 1), {write(c.scalar.norm)});
    out.clear_norm = clear.finish(c);
    c.blocks(Phase::norm) = same_module_blocks(c, build_norm);
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
  for (const Lane lane : c.shares.gradient_sum_lanes) b.enter_after_tail(lane);
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
    if (s.tied_apart && s.trains_weights() && (stage.number == 0 || stage.number == s.head_rank)) {
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
                                   a.phase == Phase::reduce_first || a.phase == Phase::combine ||
                                   a.phase == Phase::sum_pipes || a.phase == Phase::tied;
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
