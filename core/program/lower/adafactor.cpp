#include "core/program/lower/adafactor.hpp"

#include <vector>

#include "core/program/factored.hpp"
#include "core/program/lower/optimizer.hpp"
#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {
namespace {

/// A segment, and where its part of each buffer lies.
struct Part {
  ParameterSegment segment;
  std::uint64_t statistics, matrices;
  bool experts;
  Operand sums, moments, norms;
};

std::vector<Part> parts_of(State& c, const Module& m, bool host) {
  const ParameterTable& table = c.program.parameter_tables[m.table];
  std::vector<Part> parts;
  std::uint64_t statistics = 0, matrices = 0;
  for (const ParameterSegment& s : table.segments) {
    const FactoredSegment f = factored(table, s, c.program.mesh);
    parts.push_back({s, f.count, f.matrices, f.experts, {}, {}, {}});
    statistics += f.count;
    matrices += f.matrices;
  }
  const Scope scope = of_layers(table) ? Scope::layer : Scope::stage;
  const std::string name = table.module;
  const Tier tier = host ? Tier::host : Tier::device;
  const BufferId sums = update_workspace(c, name + ".sums", scope, statistics, tier);
  const BufferId norms = update_workspace(c, name + ".norms", scope, matrices, tier);
  std::uint64_t at = 0, matrix = 0;
  for (Part& p : parts) {
    p.sums = {sums, View::Use::accumulate, 0, at, p.statistics, {}};
    p.moments = {host ? m.host.moments[0] : m.moments[0], View::Use::accumulate, 0, at, p.statistics, {}};
    p.norms = {norms, View::Use::accumulate, 0, matrix, p.matrices, {}};
    at += p.statistics;
    matrix += p.matrices;
  }
  return parts;
}

Operand reading(Operand o) {
  o.use = View::Use::read;
  return o;
}

}  // namespace

void build_adafactor(State& c, BlockBuilder& b, const Module& m, Home home) {
  const bool host = home != Home::device;
  const std::vector<Part> parts = parts_of(c, m, host);
  const BufferId gradients = host ? m.host.gradients : m.gradients;
  const BufferId steps = host ? c.scalar.host_steps : c.scalar.steps;
  const BufferId factor = host ? c.scalar.host_factor : c.scalar.factor;
  const auto kernel = [&](KernelKind kind, const Part& p) {
    Kernel k =
        c.kernel(kind, Pass::optimizer, 1, own_part(c, gradients, p.segment, View::Use::read).count, p.statistics);
    k.options.factor = c.factor;
    return k;
  };
  const auto shared = [&](Kernel k, const Part& p) {
    k.parameter =
        1.0 / static_cast<double>(size(c.plan.mesh, share_of(c, c.program.parameter_tables[m.table], p.segment).alike));
    return k;
  };
  const auto gradient = [&](const Part& p) { return own_part(c, gradients, p.segment, View::Use::read); };
  const auto sum = [&](Operand Part::*of) {
    std::vector<SumOverRanks> sums;
    for (const Part& p : parts) sums.push_back({tensor_holders(c, p.experts), p.*of});
    sum_over_ranks(c, b, sums);
  };
  const auto clear = [&](const Operand& first) {
    b.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, c.program[first.buffer].count), {write(first.buffer)});
  };
  clear(parts.front().sums);
  for (const Part& p : parts) {
    std::vector<Operand> operands = {gradient(p)};
    if (c.factor) operands.push_back(read(factor));
    operands.push_back(p.sums);
    b.compute(shared(kernel(KernelKind::adafactor_squares, p), p), operands);
  }
  sum(&Part::sums);
  clear(parts.front().norms);
  for (const Part& p : parts) {
    std::vector<Operand> operands = {gradient(p), reading(p.sums), read(steps)};
    if (c.factor) operands.push_back(read(factor));
    operands.push_back(p.moments);
    operands.push_back(p.norms);
    Kernel k = shared(kernel(KernelKind::adafactor_moments, p), p);
    k.batch = static_cast<std::uint32_t>(p.matrices);
    b.compute(k, operands);
  }
  sum(&Part::norms);
  for (const Part& p : parts) {
    Kernel k = kernel(KernelKind::adafactor_update, p);
    k.batch = static_cast<std::uint32_t>(p.matrices);
    k.options.decay = p.segment.decay;
    k.options.master = has_master_weights(c.workload);
    std::vector<Operand> operands = {gradient(p), read(steps)};
    if (c.factor) operands.push_back(read(factor));
    operands.push_back(own_part(c, host ? host_weights(c, m, home) : m.weights, p.segment, View::Use::accumulate));
    if (k.options.master)
      operands.push_back(own_part(c, host ? m.host.masters : m.masters, p.segment, View::Use::accumulate));
    operands.push_back(reading(p.moments));
    operands.push_back(reading(p.norms));
    b.compute(k, operands);
  }
}

}  // namespace orrery::lowering
