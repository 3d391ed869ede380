#include "core/program/lower/buckets.hpp"

#include <algorithm>

namespace orrery::lowering {
namespace {

/// A view reaches other layers of a bucket by an 8-bit shift.
constexpr std::uint32_t most_layers = 100;

std::uint64_t gradient_bytes(const State& c, const Module& m) { return size_of(c.program[m.whole_gradients]); }

Operand whole(BufferId buffer, const ParameterSegment& s, View::Use use, std::int8_t shift) {
  return {buffer, use, shift, s.offset, s.count, {}};
}

/// The sums that are left once ZeRO has scattered: for each segment the rank's own part, over the axes of left_to_sum.
/// Without ZeRO all of the segment is summed, over all axes.
OperandsByAxes sums_of(const State& c, const Chunk& bucket) {
  OperandsByAxes sums;
  for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
    const ParameterTable& table = c.program.parameter_tables[m.table];
    const std::vector<SegmentShare>& shares = c.shares.of_table[m.table];
    const AxisList& all = shares.front().sum;
    const bool alike = std::all_of(shares.begin(), shares.end(), [&](const SegmentShare& s) { return s.sum == all; });
    if (alike && !c.shard_states) {
      if (!all.empty()) sums.over(all).push_back(update(m.gradients, shift));
      return;
    }
    for (const ParameterSegment& s : table.segments) {
      const AxisList& axes = share_of(c, table, s).left;
      if (!axes.empty()) sums.over(axes).push_back(own_part(c, m.gradients, s, View::Use::accumulate, shift));
    }
  });
  return sums;
}

/// Tensor ranks hold parts of the sum for parameters that are the same on all of them: with sequence parallelism for
/// all, otherwise for those of summed segments.
std::vector<Operand> replicated_of(const State& c, const Chunk& bucket) {
  std::vector<Operand> operands;
  for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
    for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
      if (!s.replicated || !(c.sequence_parallel || s.summed)) continue;
      operands.push_back(c.zero >= 2 ? own_part(c, m.gradients, s, View::Use::accumulate, shift)
                                     : whole(m.gradients, s, View::Use::accumulate, shift));
    }
  });
  return operands;
}

BlockId build_reduce(State& c, std::uint32_t stage, const Chunk& bucket, GradientPart part) {
  BlockBuilder b(c, part == GradientPart::first ? "gradients.reduce.first" : "gradients.reduce", Pass::optimizer,
                 Section::reductions, stage);
  const bool each_microbatch = c.zero >= 2;
  // Weight gradients that are sums of products run beside compute.
  const auto after_products = [&] {
    for (const Lane lane : product_lanes(c)) b.after_tail(lane);
  };
  if (c.sums_over_tensor && !each_microbatch) {
    const std::vector<Operand> operands = replicated_of(c, bucket);
    if (!operands.empty()) b.collective(Collective::Kind::all_reduce, c.tensor_group, operands);
  }
  // Everything before this block must be done, also ops that conflict with nothing inside it.
  b.after_tail({LaneKind::compute, 0});
  if (c.shard_states) {
    OperandsByAxes parts;
    const auto send = [&] {
      for (const auto& [axes, operands] : parts.all) {
        b.collective(Collective::Kind::reduce_scatter, share_group(c, axes), operands);
      }
      parts.all.clear();
    };
    after_products();
    const Module* last = nullptr;
    std::int8_t last_shift = 0;
    for_each_scattered(c, bucket, part, [&](const Module& m, std::int8_t shift, const ParameterSegment& s) {
      const ParameterTable& table = c.program.parameter_tables[m.table];
      const bool fresh = &m != last || shift != last_shift;
      if ((c.chunk > 0 && fresh) || begins_chunk(c, table, s)) send();
      last = &m, last_shift = shift;
      const AxisList& axes = own_axes(c, table, s);
      if (axes.empty() && !each_microbatch) return;  // what the rank has is its own part
      std::vector<Operand>& operands = parts.over(axes);
      operands.push_back(whole(copy_of(m, part), s, View::Use::read, shift));
      operands.push_back(
          own_part(c, m.gradients, s, each_microbatch ? View::Use::accumulate : View::Use::write, shift));
    });
    send();
    if (each_microbatch && b.draft().block.ops.empty()) return no_block;  // of ends, or of layers without vectors
  }
  if (each_microbatch) return b.finish(c);
  for (const auto& [axes, operands] : sums_of(c, bucket).all) {
    after_products();
    b.collective(Collective::Kind::all_reduce, c.group(axes), operands);
  }
  return b.finish(c);
}

BlockId build_combine(State& c, std::uint32_t stage, const Chunk& bucket) {
  BlockBuilder b(c, "gradients.combine", Pass::optimizer, Section::reductions, stage);
  const auto after_scatters = [&] {
    for (const Lane lane : c.shares.scatter_lanes) b.after_tail(lane);
  };
  if (c.sums_over_tensor) {
    const std::vector<Operand> operands = replicated_of(c, bucket);
    after_scatters();
    if (!operands.empty()) b.collective(Collective::Kind::all_reduce, c.tensor_group, operands);
  }
  for (const auto& [axes, operands] : sums_of(c, bucket).all) {
    after_scatters();
    b.collective(Collective::Kind::all_reduce, c.group(axes), operands);
  }
  return b.finish(c);
}

/// Sums gradients over the two ranks that hold a stage: each has the sum over its half of the microbatches.
BlockId build_sum_pipes(State& c, std::uint32_t stage, const Chunk& bucket) {
  BlockBuilder b(c, "gradients.sum_pipes", Pass::optimizer, Section::reductions, stage);
  for (const Lane lane : c.shares.gradient_sum_lanes) b.after_tail(lane);
  for (const Lane lane : product_lanes(c)) b.after_tail(lane);
  if (c.sums_over_tensor) b.after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
  b.after_tail({LaneKind::compute, 0});
  std::vector<Operand> operands;
  for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
    for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
      operands.push_back(own_part(c, m.gradients, s, View::Use::accumulate, shift));
    }
  });
  const std::uint32_t partner = c.pipeline - 1 - stage;
  const GroupId pair = c.group({Axis::pipeline}, {std::min(stage, partner), std::max(stage, partner)});
  b.collective(Collective::Kind::all_reduce, pair, operands);
  return b.finish(c);
}

BlockId build_gather(State& c, std::uint32_t stage, const Chunk& bucket) {
  BlockBuilder b(c, "weights.gather", Pass::optimizer, Section::reductions, stage);
  OperandsByAxes parts;
  for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
    const ParameterTable& table = c.program.parameter_tables[m.table];
    if (of_layers(table) && c.weights_on_host[bucket.low_layer + static_cast<std::uint32_t>(shift)]) return;
    for (const ParameterSegment& s : table.segments) {
      const AxisList& axes = own_axes(c, table, s);
      if (axes.empty()) continue;
      std::vector<Operand>& operands = parts.over(axes);
      operands.push_back(own_part(c, m.weights, s, View::Use::read, shift));
      operands.push_back(whole(m.weights, s, View::Use::write, shift));
    }
  });
  if (parts.all.empty()) return no_block;  // all of them are gathered where they are used
  for (const auto& [axes, operands] : parts.all) {
    if (c.offloads_states()) b.after_tail(copy_lane(Tier::host, Tier::device));
    b.collective(Collective::Kind::all_gather, c.group(axes), operands);
  }
  return b.finish(c);
}

/// Whether two buckets' blocks are the same, relative to their lowest layers.
bool alike(const State& c, const Chunk& a, const Chunk& b) {
  if (a.head != b.head || a.layers != b.layers || a.embedding != b.embedding) return false;
  for (std::uint32_t l = 0; l < a.layers; ++l) {
    const std::uint32_t of_a = a.low_layer + l, of_b = b.low_layer + l;
    if (&c.module_of(of_a) != &c.module_of(of_b) || c.weights_on_host[of_a] != c.weights_on_host[of_b]) return false;
  }
  return true;
}

}  // namespace

bool gathers_updated(const State& c) { return c.zero == 1 || c.zero == 2; }

bool combines(const State& c) { return c.zero >= 2 && (c.sums_over_tensor || c.shares.left_to_sum); }

std::vector<Chunk> build_buckets(State& c, std::uint32_t stage, const Chunk& chunk) {
  const double least = c.plan.gradient_bucket->base();
  std::vector<Chunk> buckets;
  Chunk current;
  double bytes = 0;
  const auto close = [&] {
    if (bytes > 0) buckets.push_back(current);
    current = {};
    bytes = 0;
  };
  const auto add = [&](const Module& of) {
    const Module* m = c.trained(of);
    if (m == nullptr) return;
    bytes += static_cast<double>(gradient_bytes(c, *m));
    if (bytes >= least || current.layers >= most_layers) close();
  };
  if (chunk.head) {
    current.head = true;
    if (c.predictions > 0) current.low_layer = static_cast<std::uint32_t>(c.model.layers);
    for (std::uint32_t l = c.program.layers; l-- > c.model.layers;) {
      bytes += static_cast<double>(gradient_bytes(c, c.module_of(l)));
    }
    add(c.head);
  }
  for (std::uint32_t l = chunk.low_layer + chunk.layers; l-- > chunk.low_layer;) {
    ++current.layers;
    current.low_layer = l;
    add(c.module_of(l));
  }
  // What is not trained goes with its neighbours.
  if (chunk.embedding && c.trained(c.embedding) == nullptr && bytes == 0 && !buckets.empty()) {
    buckets.back().embedding = true;
  } else if (chunk.embedding) {
    current.embedding = true;
    add(c.embedding);
  }
  close();
  for (Chunk& bucket : buckets) {
    // Buckets of the same modules share their blocks.
    const Chunk* same = nullptr;
    for (const Chunk& other : buckets) {
      if (&other == &bucket) break;
      if (alike(c, other, bucket)) {
        same = &other;
      }
    }
    const bool apart = splits_copies(c);
    const GradientPart part = apart ? GradientPart::products : GradientPart::all;
    if (apart) {
      bucket.reduce_first = same != nullptr ? same->reduce_first : build_reduce(c, stage, bucket, GradientPart::first);
    }
    bucket.reduce = same != nullptr ? same->reduce : build_reduce(c, stage, bucket, part);
    if (gathers_updated(c)) bucket.gather = same != nullptr ? same->gather : build_gather(c, stage, bucket);
    if (c.two_way) bucket.sum_pipes = same != nullptr ? same->sum_pipes : build_sum_pipes(c, stage, bucket);
    if (combines(c)) bucket.combine = same != nullptr ? same->combine : build_combine(c, stage, bucket);
  }
  return buckets;
}

}  // namespace orrery::lowering
