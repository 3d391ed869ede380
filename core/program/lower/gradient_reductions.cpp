#include "core/program/lower/gradient_reductions.hpp"

namespace orrery::lowering {
namespace {

constexpr auto data_lane = static_cast<std::uint8_t>(Axis::data);
constexpr auto tensor_lane = static_cast<std::uint8_t>(Axis::tensor);
/// A view reaches other layers of a bucket by an 8-bit shift.
constexpr std::uint32_t most_layers = 100;

/// Calls visit(module, layer shift) for every module of the bucket.
template <class Visit>
void for_each_module(const Context& c, const Bucket& bucket, Visit&& visit) {
  if (bucket.head) visit(c.head, std::int8_t{0});
  for (std::uint32_t l = bucket.layers; l-- > 0;) visit(c.layer, static_cast<std::int8_t>(l));
  if (bucket.embedding) visit(c.embedding, std::int8_t{0});
}

std::uint64_t gradient_bytes(const Context& c, const Module& m) { return bytes_of(c.program[m.gradients]); }

Operand whole(BufferId buffer, const ParameterSegment& s, View::Use use, std::int8_t shift) {
  return {buffer, use, shift, s.offset, s.count, {}};
}

BlockId build_reduce(Context& c, const Bucket& bucket) {
  BlockBuilder b(c.program, "gradients.reduce", Pass::optimizer);
  std::vector<Operand> operands;
  if (c.sequence_parallel) {
    for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
      for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
        if (s.replicated) operands.push_back(whole(m.gradients, s, View::Use::accumulate, shift));
      }
    });
    if (!operands.empty()) b.collective(Collective::Kind::all_reduce, c.tensor_group, tensor_lane, operands);
  }
  if (c.data > 1) {
    operands.clear();
    for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
      if (!c.shard_states) {
        operands.push_back(update(m.gradients, shift));
        return;
      }
      for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
        operands.push_back(whole(m.gradients, s, View::Use::read, shift));
        operands.push_back(own_part(c, m.gradients, s, View::Use::write, shift));
      }
    });
    // Everything before this block must be done, not only what conflicts inside it.
    b.after_tail({LaneKind::compute, 0});
    b.collective(c.shard_states ? Collective::Kind::reduce_scatter : Collective::Kind::all_reduce, c.data_group,
                 data_lane, operands);
  }
  return b.finish();
}

BlockId build_gather(Context& c, const Bucket& bucket) {
  BlockBuilder b(c.program, "weights.gather", Pass::optimizer);
  std::vector<Operand> operands;
  for_each_module(c, bucket, [&](const Module& m, std::int8_t shift) {
    for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
      operands.push_back(own_part(c, m.weights, s, View::Use::read, shift));
      operands.push_back(whole(m.weights, s, View::Use::write, shift));
    }
  });
  b.collective(Collective::Kind::all_gather, c.data_group, data_lane, operands);
  return b.finish();
}

}  // namespace

bool needs_reduction(const Context& c) { return c.data > 1 || c.sequence_parallel; }

Operand own_part(const Context& c, BufferId buffer, const ParameterSegment& s, View::Use use,
                 std::int8_t layer_shift) {
  if (!c.shard_states) return {buffer, use, layer_shift, s.offset, s.count, {}};
  const std::uint64_t part = s.count / c.data;
  // States that are stored sharded hold only this rank's part of every segment.
  if (!c.program[buffer].flat_split.empty()) return {buffer, use, layer_shift, s.offset / c.data, part, {}};
  return {buffer, use, layer_shift, s.offset, part, {Axis::data}};
}

std::vector<Bucket> build_buckets(Context& c, std::uint32_t stage) {
  const std::uint32_t low = first_layer(c.plan, stage);
  const std::uint32_t high = low + (*c.plan.stage_layers)[stage];
  const double least = c.plan.gradient_bucket->base();
  std::vector<Bucket> buckets;
  Bucket current;
  double bytes = 0;
  const auto close = [&] {
    if (bytes > 0) buckets.push_back(current);
    current = {};
    bytes = 0;
  };
  const auto add = [&](const Module& m) {
    bytes += static_cast<double>(gradient_bytes(c, m));
    if (bytes >= least || current.layers >= most_layers) close();
  };
  if (stage + 1 == c.stages) {
    current.head = true;
    add(c.head);
  }
  for (std::uint32_t l = high; l-- > low;) {
    ++current.layers;
    current.low_layer = l;
    add(c.layer);
  }
  if (stage == 0) {
    current.embedding = true;
    add(c.embedding);
  }
  close();
  if (!needs_reduction(c)) return buckets;
  for (Bucket& bucket : buckets) {
    // Buckets of the same modules share their blocks.
    const Bucket* same = nullptr;
    for (const Bucket& other : buckets) {
      if (&other == &bucket) break;
      if (other.head == bucket.head && other.layers == bucket.layers && other.embedding == bucket.embedding) {
        same = &other;
      }
    }
    bucket.reduce = same != nullptr ? same->reduce : build_reduce(c, bucket);
    if (c.shard_states) bucket.gather = same != nullptr ? same->gather : build_gather(c, bucket);
  }
  return buckets;
}

BlockId build_tied_reduction(Context& c, bool first_stage) {
  BlockBuilder b(c.program, first_stage ? "gradients.tied.first" : "gradients.tied.last", Pass::optimizer);
  const Module& m = first_stage ? c.embedding : c.head;
  // The word table is the first segment of both modules.
  const ParameterSegment& s = c.program.parameter_tables[m.table].segments.front();
  if (c.data > 1) b.after_tail({LaneKind::collective, data_lane});
  b.collective(Collective::Kind::all_reduce, c.tied_group, static_cast<std::uint8_t>(Axis::pipeline),
               {own_part(c, m.gradients, s, View::Use::accumulate)});
  return b.finish();
}

}  // namespace orrery::lowering
