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

std::vector<Part> parts_of(State& c, const Module& m) {
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
  const BufferId sums = flat_buffer(c, name + ".sums", Role::workspace, scope, DType::f64, statistics);
  const BufferId norms = flat_buffer(c, name + ".norms", Role::workspace, scope, DType::f64, matrices);
  std::uint64_t at = 0, matrix = 0;
  for (Part& p : parts) {
    p.sums = {sums, View::Use::accumulate, 0, at, p.statistics, {}};
    p.moments = {m.moments[0], View::Use::accumulate, 0, at, p.statistics, {}};
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

void build_adafactor(State& c, BlockBuilder& b, const Module& m) {
  const std::vector<Part> parts = parts_of(c, m);
  const auto kernel = [&](KernelKind kind, const Part& p) {
    Kernel k =
        c.kernel(kind, Pass::optimizer, 1, own_part(c, m.gradients, p.segment, View::Use::read).count, p.statistics);
    k.options.factor = c.factor;
    return k;
  };
  const auto shared = [&](Kernel k, const Part& p) {
    k.parameter =
        1.0 / static_cast<double>(size(c.plan.mesh, held_alike(c, c.program.parameter_tables[m.table], p.segment)));
    return k;
  };
  const auto gradient = [&](const Part& p) { return own_part(c, m.gradients, p.segment, View::Use::read); };
  const auto sum = [&](const Part& p, const Operand& of) {
    const GroupId group = tensor_holders(c, p.experts);
    if (c.is_several(group)) b.collective(Collective::Kind::all_reduce, group, {of});
  };
  const auto clear = [&](const Operand& first) {
    b.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, c.program[first.buffer].count), {write(first.buffer)});
  };
  clear(parts.front().sums);
  for (const Part& p : parts) {
    std::vector<Operand> operands = {gradient(p)};
    if (c.factor) operands.push_back(read(c.scalar.factor));
    operands.push_back(p.sums);
    b.compute(shared(kernel(KernelKind::adafactor_squares, p), p), operands);
  }
  for (const Part& p : parts) sum(p, p.sums);
  clear(parts.front().norms);
  for (const Part& p : parts) {
    std::vector<Operand> operands = {gradient(p), reading(p.sums), read(c.scalar.steps)};
    if (c.factor) operands.push_back(read(c.scalar.factor));
    operands.push_back(p.moments);
    operands.push_back(p.norms);
    Kernel k = shared(kernel(KernelKind::adafactor_moments, p), p);
    k.batch = static_cast<std::uint32_t>(p.matrices);
    b.compute(k, operands);
  }
  for (const Part& p : parts) sum(p, p.norms);
  for (const Part& p : parts) {
    Kernel k = kernel(KernelKind::adafactor_update, p);
    k.batch = static_cast<std::uint32_t>(p.matrices);
    k.options.decay = p.segment.decay;
    k.options.master = has_master_weights(c.workload);
    std::vector<Operand> operands = {gradient(p), read(c.scalar.steps)};
    if (c.factor) operands.push_back(read(c.scalar.factor));
    operands.push_back(own_part(c, m.weights, p.segment, View::Use::accumulate));
    if (k.options.master) operands.push_back(own_part(c, m.masters, p.segment, View::Use::accumulate));
    operands.push_back(reading(p.moments));
    operands.push_back(reading(p.norms));
    b.compute(k, operands);
  }
}

}  // namespace orrery::lowering
