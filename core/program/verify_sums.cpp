#include "core/program/verify_sums.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/program/flat_parts.hpp"

namespace orrery::verifying {

// A value is *partial* over a mesh axis when the true value is the sum over the ranks of that axis. Examples are a
// product whose inner dimension the axis cuts, an embedding of one part of the vocabulary, and a gradient from one part
// of the tokens. The shards of operands decide which kernels make such values.

bool takes_partial(const Kernel& k, std::uint32_t i) {
  switch (k.kind) {
    case KernelKind::dispatch_backward: return i == 0 || (k.options.residual && i == 2);
    case KernelKind::combine_forward: return i == 0 || (k.options.residual && i == 3);
    case KernelKind::combine_backward: return i == 1;
    case KernelKind::swap_blocks:
    case KernelKind::mean_rows_backward:
    case KernelKind::gate_forward: return i == 0;
    case KernelKind::gate_backward: return i == 1;
    default: return false;
  }
}

bool gathers_parts(const Kernel& k) {
  return k.pass == Pass::weight_gradient || k.kind == KernelKind::sum_squares || k.kind == KernelKind::lamb_moments ||
         k.kind == KernelKind::lars_norms || k.kind == KernelKind::adafactor_squares ||
         k.kind == KernelKind::adafactor_moments || k.kind == KernelKind::cross_entropy_loss;
}

namespace {

/// Whether the view has parameters of adapters, or gradients of them.
bool is_of_adapters(const Program& p, const View& v) {
  const auto& table = p[v.buffer].parameters;
  return table && of_adapters(p.parameter_tables[*table]);
}

}  // namespace

bool is_narrow_part(const Program& p, const OpRun& run, const Kernel& k, std::uint32_t i) {
  switch (k.kind) {
    case KernelKind::adapter_forward:
    case KernelKind::adapter_backward_weight: return i == 0;
    case KernelKind::gemm:
      if (k.pass == Pass::input_gradient) return i == 0 && is_of_adapters(p, view(run, 1));
      return k.pass == Pass::weight_gradient && i == 1 && is_of_adapters(p, view(run, 2));
    default: return false;
  }
}

namespace {

bool is_factored(KernelKind kind) {
  return kind == KernelKind::adafactor_squares || kind == KernelKind::adafactor_moments;
}

/// Axes along which ranks hold other parts of the parameters that a view of a gradient covers.
AxisBits parts_of_segment(const Program& p, const View& g, bool each_expert = false) {
  AxisBits out = bits(p.mesh, g.member_of);
  if (!p[g.buffer].parameters) return out;
  const ParameterTable& table = p.parameter_tables[*p[g.buffer].parameters];
  for (const FlatPart& part : flat_parts(table, p.mesh, p[g.buffer].flat_split)) {
    if (part.first + part.count <= g.offset || g.offset + g.count <= part.first) continue;
    out = static_cast<AxisBits>(out | bits(p.mesh, part.axes));
    const std::uint64_t low = part.segment->offset + (std::max(g.offset, part.first) - part.first) * part.parts;
    const std::uint64_t high =
        part.segment->offset + (std::min(g.offset + g.count, part.first + part.count) - part.first) * part.parts;
    for (const ParameterSlice& s : table.slices) {
      if (s.offset < low || high <= s.offset) continue;
      out = static_cast<AxisBits>(out | (cuts(p, s.shard) & ~(each_expert ? cuts_of_experts(p, s) : 0)));
    }
  }
  return out;
}

}  // namespace

namespace {

AxisBits made_partial(Regions& regions, const OpRun& run, const Kernel& k, std::uint32_t i) {
  const Program& p = regions.program();
  const View& target = view(run, i);
  switch (k.kind) {
    case KernelKind::gemm:
      if (const ParameterSlice* s = slice_of(p, view(run, 1)); s != nullptr && holds_weights(p[view(run, 1).buffer])) {
        return k.options.transpose_b ? sums(p, s->shard, 1, Shard::max_dims) : sums(p, s->shard, 0, 1);
      }
      break;
    case KernelKind::adapter_backward_input:
      if (const ParameterSlice* s = slice_of(p, view(run, 1))) return sums(p, s->shard, 1, Shard::max_dims);
      break;
    case KernelKind::expert_gemm:  // the first dimension counts experts
      if (const ParameterSlice* s = slice_of(p, view(run, 1));
          s != nullptr && p[view(run, 1).buffer].role == Role::weight) {
        return k.options.transpose_b ? sums(p, s->shard, 2, Shard::max_dims) : sums(p, s->shard, 1, 2);
      }
      break;
    case KernelKind::dispatch_backward:
    case KernelKind::combine_forward:
    case KernelKind::combine_backward: {
      // The last kernel has several results; only the gates' gradients are made from operands that may be partial.
      AxisBits out = 0;
      for (std::uint32_t j = 0; j < run.op->views.count; ++j) {
        if (takes_partial(k, j) && (k.kind != KernelKind::combine_backward || i == 5)) {
          out = static_cast<AxisBits>(out | regions.partial_of(run, view(run, j)));
        }
      }
      // Ranks that gathered the same tokens have the rows of other experts.
      const std::uint32_t rows = k.kind == KernelKind::combine_backward ? 1 : 0;
      const auto &of_rows = p[view(run, rows).buffer].shard, &of_tokens = p[target.buffer].shard;
      if (of_rows && of_tokens && (k.kind != KernelKind::combine_backward || i == 5)) {
        out = static_cast<AxisBits>(out | (cuts(p, *of_rows, 0, 1) & ~cuts(p, *of_tokens, 0, 2)));
      }
      return out;
    }
    case KernelKind::residual_forward: return regions.partial_of(run, view(run, 0));
    case KernelKind::swap_blocks:
    case KernelKind::mean_rows_backward:
    case KernelKind::gate_forward: return regions.partial_of(run, view(run, 0));
    case KernelKind::gate_backward: return i == 4 ? regions.partial_of(run, view(run, 1)) : AxisBits{0};
    case KernelKind::embed_forward:
      if (const ParameterSlice* s = slice_of(p, view(run, 1))) return sums(p, s->shard, 0, 1);
      break;
    case KernelKind::cross_entropy_max:
    case KernelKind::cross_entropy_sum:
      if (const auto& s = p[view(run, 0).buffer].shard) return sums(p, *s, s->rank - 1U, s->rank);
      break;
    case KernelKind::norm_sums:
    case KernelKind::norm_squares:
      if (const auto& s = p[view(run, 0).buffer].shard) return sums(p, *s, s->rank - 1U, s->rank);
      break;
    case KernelKind::norm_gradient_sums:
      if (const auto& s = p[view(run, 1).buffer].shard) return sums(p, *s, s->rank - 1U, s->rank);
      break;
    case KernelKind::query_key_squares:  // over the heads
      if (const auto& s = p[view(run, 0).buffer].shard) return sums(p, *s, 2, 3);
      break;
    case KernelKind::query_key_gradient_sums:
      if (const auto& s = p[view(run, 1).buffer].shard) return sums(p, *s, 2, 3);
      break;
    case KernelKind::share_heads_backward:
      // Each rank has what its own heads add to the gradient of all.
      if (const auto& s = p[view(run, 0).buffer].shard; s && k.depth > 1) return sums(p, *s, 2, 3);
      break;
    case KernelKind::latent_heads_backward:
      // All heads share one key: its gradient is a sum over ranks that have others.
      if (const auto& s = p[view(run, 0).buffer].shard; s && i == 3) return sums(p, *s, 2, 3);
      break;
    case KernelKind::count_targets: return bits(p.mesh, batch_axes);
    case KernelKind::cross_entropy_loss:  // over whatever cuts the targets
      if (const auto& s = p[view(run, 3).buffer].shard) return cuts(p, *s);
      break;
    case KernelKind::attention_part_backward:
      // Keys of the whole sequence get a part of their gradient from each rank's queries.
      if (const auto& own = p[view(run, 1).buffer].shard, &brought = p[view(run, 2).buffer].shard;
          i == 6 && own && brought) {
        return static_cast<AxisBits>(cuts(p, *own, 0, 1) & ~cuts(p, *brought, 0, 1));
      }
      break;
    case KernelKind::attention_pairs_backward:
      if (const auto& own = p[view(run, 1).buffer].shard, &all = p[target.buffer].shard; own && all) {
        return static_cast<AxisBits>(cuts(p, *own, 0, 1) & ~cuts(p, *all, 0, 1));
      }
      break;
    case KernelKind::sum_squares:
      // Other ranks hold other parameters, other parts of them, or their own share of the weight.
      return static_cast<AxisBits>(bits(p.mesh, p.class_axes) | parts_of_segment(p, view(run, 0)));
    case KernelKind::lamb_moments:
    case KernelKind::lars_norms:
    case KernelKind::adafactor_squares:
    case KernelKind::adafactor_moments:
      if (i + 1 == run.op->views.count) {
        // Each of the ranks that hold the same adds a share.
        const AxisBits alike =
            k.parameter < 1.0 ? bits(p.mesh, {Axis::tensor, Axis::depth, Axis::row, Axis::column}) : AxisBits{0};
        // Adafactor has statistics of each expert.
        return static_cast<AxisBits>(parts_of_segment(p, view(run, 0), is_factored(k.kind)) | alike);
      }
      break;
    default: break;
  }
  // A weight's gradient made in a workspace: its operands' shards say from which tokens.
  if ((k.kind == KernelKind::gemm || k.kind == KernelKind::embed_backward) && k.pass == Pass::weight_gradient &&
      p[target.buffer].role != Role::gradient) {
    AxisBits tokens = 0;
    for (std::uint32_t j = 0; j < 2; ++j) {
      if (const auto& shard = p[view(run, j).buffer].shard) {
        tokens = static_cast<AxisBits>(tokens | cuts(p, *shard));
      }
    }
    return tokens;
  }
  // A parameter's gradient, made from operands that an axis cuts although it does not cut the parameter.
  if (p[target.buffer].role == Role::gradient && k.kind != KernelKind::fill) {
    const ParameterSlice* s = slice_of(p, target);
    const AxisBits own = s != nullptr ? cuts(p, s->shard) : AxisBits{0};
    AxisBits tokens = 0;
    for (std::uint32_t j = 0; j < run.op->views.count; ++j) {
      const auto& shard = p[view(run, j).buffer].shard;
      if (view(run, j).use == View::Use::read && shard) {
        tokens = static_cast<AxisBits>(tokens | cuts(p, *shard));
      }
    }
    // Tensor ranks each add a part of an expert's bias.
    if (k.kind == KernelKind::expert_bias_backward && k.scale != 0.0) {
      tokens = static_cast<AxisBits>(tokens | bit(Axis::tensor));
    }
    if (s != nullptr) return static_cast<AxisBits>(tokens & ~own);
  }
  return 0;
}

}  // namespace

AxisBits new_partial(Regions& regions, const OpRun& run, const Kernel& k, std::uint32_t i) {
  AxisBits partial = made_partial(regions, run, k, i);
  for (std::uint32_t j = 0; j < run.op->views.count; ++j) {
    if (is_narrow_part(regions.program(), run, k, j)) {
      partial = static_cast<AxisBits>(partial | regions.partial_of(run, view(run, j)));
    }
  }
  return partial;
}

AxisBits reduced(Regions& regions, const OpRun& run, const View& from, const View& to, AxisBits group) {
  const Program& p = regions.program();
  auto left = static_cast<AxisBits>(regions.partial_of(run, from) & ~group);
  // A weight's gradient made in a workspace: the axes that cut the weight gave each rank its own part.
  if (p[to.buffer].role == Role::gradient && p[from.buffer].role != Role::gradient) {
    if (const ParameterSlice* s = slice_of(p, to)) left = static_cast<AxisBits>(left & ~cuts(p, s->shard));
  }
  if (to.use == View::Use::accumulate) left = static_cast<AxisBits>(left | regions.partial_of(run, to));
  return left;
}

}  // namespace orrery::verifying
