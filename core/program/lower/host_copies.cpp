#include <algorithm>
#include <array>
#include <vector>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

// Kept activations of some layers wait in host memory, or on the disk, between
// the forward and the backward pass (Rhu et al., "vDNN", MICRO 2016), weights of
// some live there (Pudipeddi et al., "L2L", 2020; Rajbhandari et al.,
// "ZeRO-Infinity", SC 2021).
//
// Copies run beside the compute of a neighbour, with two layers in flight. In the forward pass, block l takes down what
// layer l - 1 keeps, ends after that copy, and frees it. A block also brings up what the next layer of its pass needs,
// and begins after the copy that the block before has made for it. Where a pass begins or ends there is no neighbour,
// so those copies are blocks of their own.
//
// Data that waits on disk passes through host memory: it is written after the way down and read before the way up, and
// each direction has a lane of its own. A block ends after what the block before it has begun to write, so that at most
// two layers' activations are in host memory at a time.
//
// Ranks that ZeRO makes hold only a part in host memory bring up that part and gather the rest from each other, so that
// all links to hosts share the work.

/// The block that the layer runs without copies.
BlockId block_without(const State& s, Phase phase, std::uint32_t layer) {
  const LayerBlocks& blocks = s.blocks(phase)[s.kind_of(layer)];
  return s.recomputes[layer] && blocks.recomputed != no_block ? blocks.recomputed : blocks.plain;
}
std::string name_of_module(const State& s, const LayerKind& kind) {
  return s.program.parameter_tables[(s.*kind.module).table].module;
}

/// Buffers of a layer that live from its forward to its backward pass.
std::vector<BufferId> kept_by(const State& s, std::uint32_t layer) {
  const auto block = [&](Phase phase) -> const Block* {
    const BlockId id = block_without(s, phase, layer);
    return id == no_block ? nullptr : &s[id].block;
  };
  const auto frees = [](const Block* in, BufferId b) {
    return in != nullptr && std::any_of(in->ops.begin(), in->ops.end(), [&](const Op& op) {
             const auto* free = std::get_if<Free>(&op.action);
             return free != nullptr && free->what == b && free->layer_shift == 0;
           });
  };
  const Block* forward = block(Phase::forward);
  std::vector<BufferId> kept;
  for (const View& v : forward->views) {
    if (s.program[v.buffer].scope != Scope::layer_microbatch || v.layer_shift != 0) continue;
    if (std::find(kept.begin(), kept.end(), v.buffer) != kept.end() || frees(forward, v.buffer)) continue;
    if (frees(block(Phase::backward), v.buffer) || frees(block(Phase::weight), v.buffer)) kept.push_back(v.buffer);
  }
  return kept;
}

class Builder {
 public:
  explicit Builder(State& s) : s_(s), copying_(s.copying.emplace()) {
    for (auto& of_phase : copying_.layer) {
      for (auto& of_kind : of_phase) of_kind.fill(no_block);
    }
    copying_.last_down.fill(no_block);
    copying_.first_up.fill(no_block);
    copying_.first_weights.fill(no_block);
    for (std::uint32_t l = 0; l < s.model.layers && s.offloads_activations(); ++l) {
      std::vector<Kept>& kept = kept_[kept_case(s, l)];
      if (!kept.empty()) continue;
      for (const BufferId b : kept_by(s, l)) kept.push_back(below(b));
    }
  }

  void build() {
    for (const Stage& stage : s_.stages) {
      for (std::uint32_t c = 0; c < stage.own_chunks; ++c) chunk(stage.chunks[c]);
    }
  }

 private:
  struct Kept {
    BufferId device, host, disk;
  };

  Kept below(BufferId of) {
    for (const std::vector<Kept>& known : kept_) {  // cases share most
      for (const Kept& k : known) {
        if (k.device == of) return k;
      }
    }
    const auto in = [&](Tier tier, const char* suffix) {
      Buffer b = s_.program[of];
      b.name += suffix;
      b.shard.reset();
      b.tier = tier;
      return s_.declare(std::move(b));
    };
    const BufferId host = in(Tier::host, ".host");
    return {of, host, activations_on_disk_ ? in(Tier::disk, ".disk") : BufferId{}};
  }

  void chunk(const Chunk& whole) {
    for (std::uint32_t l = whole.low_layer; l < whole.low_layer + whole.layers; ++l) {
      const LayerCopies forward = layer_copies(s_, whole, Phase::forward, l);
      const LayerCopies backward = layer_copies(s_, whole, Phase::backward, l);
      for (std::size_t p = 0; p < module_phases; ++p) {
        const auto phase = static_cast<Phase>(p);
        if (!is_forward(phase) && !is_backward(phase)) continue;
        const LayerCopies& copies = is_forward(phase) ? forward : backward;
        if (!copies.any()) continue;
        BlockId& block = copying_.layer[p][block_case(s_, l)][copies.number()];
        const BlockId base = block == no_block ? block_without(s_, phase, l) : no_block;
        if (base != no_block) block = with_copies(base, phase, l, copies);
      }
    }
    if (whole.layers == 0) return;
    const std::uint32_t top = whole.low_layer + whole.layers - 1;
    for (const std::uint32_t l : {whole.low_layer, top}) begin_weights(s_.kind_of(l));
    const std::size_t of = kept_case(s_, top);
    if (!s_.activations_on_host[top] || copying_.last_down[of] != no_block) return;
    const std::string name = name_of_module(s_, s_.kind_of(top));
    BlockBuilder down(s_, name + ".down", Pass::forward, Section::model);
    go_down(down, of, 0);
    free_device(down, of, 0);
    copying_.last_down[of] = down.finish(s_);
    BlockBuilder up(s_, name + ".up", Pass::input_gradient, Section::model);
    if (!activations_on_disk_) {
      up.after_tail(copy_lane(Tier::device, Tier::host));  // nothing else waits for the top layer's way down
    }
    come_up(up, of, 0, true);
    copying_.first_up[of] = up.finish(s_);
  }

  void begin_weights(const LayerKind& kind) {
    const std::vector<std::uint32_t> layers = s_.layers_with_module(kind);
    const bool any = std::any_of(layers.begin(), layers.end(), [&](std::uint32_t l) { return s_.weights_on_host[l]; });
    if (!any || copying_.first_weights[kind.weights] != no_block) return;
    BlockBuilder first(s_, name_of_module(s_, kind) + ".weights", Pass::forward, Section::model);
    bring_weights(first, kind, 0);
    copying_.first_weights[kind.weights] = first.finish(s_);
  }

  void memory(BlockBuilder& b, bool alloc, BufferId what, std::int8_t shift) {
    Op op;
    if (alloc) {
      op.action = Alloc{what, shift};
    } else {
      op.action = Free{what, shift};
    }
    b.draft().block.ops.push_back(op);
  }

  /// Copies what a layer keeps from one tier into fresh buffers of another.
  void move(BlockBuilder& b, std::size_t of, std::int8_t shift, Tier from, Tier to) {
    const auto in = [](const Kept& k, Tier tier) {
      return tier == Tier::device ? k.device : tier == Tier::host ? k.host : k.disk;
    };
    std::vector<Operand> pairs;
    for (const Kept& k : kept_[of]) {
      memory(b, true, in(k, to), shift);
      pairs.push_back(read(in(k, from), shift));
      pairs.push_back(write(in(k, to), shift));
    }
    b.copy(from, to, pairs);
  }

  /// The op that takes it off the device.
  std::uint32_t go_down(BlockBuilder& b, std::size_t of, std::int8_t shift) {
    move(b, of, shift, Tier::device, Tier::host);
    const auto down = static_cast<std::uint32_t>(b.draft().block.ops.size() - 1);
    if (activations_on_disk_) {
      move(b, of, shift, Tier::host, Tier::disk);
      for (const Kept& k : kept_[of]) memory(b, false, k.host, shift);
    }
    return down;
  }

  /// `first`: whether this is the first read of its pass, which waits for the writes; later reads queue behind it.
  void come_up(BlockBuilder& b, std::size_t of, std::int8_t shift, bool first) {
    if (activations_on_disk_) {
      if (first) b.after_tail(copy_lane(Tier::host, Tier::disk));
      move(b, of, shift, Tier::disk, Tier::host);
    }
    move(b, of, shift, Tier::host, Tier::device);
  }

  void bring_weights(BlockBuilder& b, const LayerKind& kind, std::int8_t shift) {
    const Module& m = s_.*kind.module;
    memory(b, true, m.weights, shift);
    const BufferId source = host_weights(s_, m, Home::all_on_host);
    if (weights_on_disk_) {
      memory(b, true, source, shift);
      const Operand pair[] = {read(m.host.disk_weights, shift), write(source, shift)};
      b.copy(Tier::disk, Tier::host, pair);
    }
    if (!s_.shard_states) {
      const Operand pair[] = {read(source, shift), write(m.weights, shift)};
      b.copy(Tier::host, Tier::device, pair);
      return;
    }
    std::vector<Operand> parts;
    OperandsByAxes wholes;
    for (const ParameterSegment& segment : s_.program.parameter_tables[m.table].segments) {
      parts.push_back(own_part(s_, source, segment, View::Use::read, shift));
      parts.push_back(own_part(s_, m.weights, segment, View::Use::write, shift));
      const AxisList axes = own_axes(s_, s_.program.parameter_tables[m.table], segment);
      if (axes.empty()) continue;
      std::vector<Operand>& of = wholes.over(axes);
      of.push_back(own_part(s_, m.weights, segment, View::Use::read, shift));
      of.push_back({m.weights, View::Use::write, shift, segment.offset, segment.count, {}});
    }
    b.copy(Tier::host, Tier::device, parts);
    for (const auto& [axes, of] : wholes.all) b.collective(Collective::Kind::all_gather, s_.group(axes), of);
  }

  void free_device(BlockBuilder& b, std::size_t of, std::int8_t shift) {
    for (const Kept& k : kept_[of]) memory(b, false, k.device, shift);
  }

  [[nodiscard]] static bool uses_weights(const Module& m, const Draft& draft, const Op& op) {
    bool found = false;
    for_each_view(draft.block, op, [&](const View& v) { found = found || v.buffer == m.weights; });
    return found;
  }
  /// Whether the op uses what this layer kept.
  [[nodiscard]] bool uses_kept(const Draft& draft, const Op& op, std::size_t of) const {
    bool found = false;
    for_each_view(draft.block, op, [&](const View& v) {
      found = found || (v.layer_shift == 0 && std::any_of(kept_[of].begin(), kept_[of].end(),
                                                          [&](const Kept& k) { return k.device == v.buffer; }));
    });
    return found;
  }

  /// The first kind whose weights have the number.
  [[nodiscard]] const LayerKind& kind_with_weights(std::size_t weights) const {
    return *std::find_if(s_.kinds.begin(), s_.kinds.end(), [&](const LayerKind& k) { return k.weights == weights; });
  }

  /// What tells a block of the kind, which copies what layers of another case keep, from one that copies its own's.
  [[nodiscard]] std::string of_other(const LayerKind& kind, std::size_t keeps) const {
    if (keeps == kind.keeps) return "";
    const auto kept_so = [&](const LayerKind& k) { return k.prediction == 0 && k.keeps == keeps; };
    const bool two = std::all_of(s_.kinds.begin(), s_.kinds.end(), [](const LayerKind& k) { return k.keeps < 2; });
    return two ? "-of-other" : "-of-" + std::find_if(s_.kinds.begin(), s_.kinds.end(), kept_so)->name;
  }

  BlockId with_copies(BlockId block, Phase phase, std::uint32_t layer, const LayerCopies& copies) {
    const Draft& base = s_[block];  // until finish() adds another
    const LayerKind& kind = s_.kind_of(layer);
    const Module& module = s_.*kind.module;
    const std::size_t of = kept_case(s_, layer);
    BlockBuilder b(s_, base);
    Draft& draft = b.draft();
    draft.entry_tails = LaneList();
    if (copies.awaits) draft.block.name += ".awaits";
    const auto way = [&](const char* name, std::uint8_t which) {
      if (which == 0) return;
      draft.block.name += name + of_other(kind, (which - 1U) / 2U) + (which % 2 == 0 ? "-recomputed" : "");
    };
    way(".down", copies.down);
    way(".up", copies.up);
    if (copies.awaits_weights) draft.block.name += ".awaits-weights";
    if (copies.next_weights > 0) {
      draft.block.name += copies.next_weights - 1U == kind.weights ? ".weights" : ".weights-of-other";
    }
    const bool backward = is_backward(phase);
    std::uint32_t down = 0;
    if (copies.down > 0) down = go_down(b, copies.down - 1U, -1);
    if (copies.up > 0) come_up(b, copies.up - 1U, -1, !copies.awaits);
    if (copies.next_weights > 0) bring_weights(b, kind_with_weights(copies.next_weights - 1U), backward ? -1 : 1);
    bool entered = false, computed = false;
    std::uint32_t last_compute = 0;
    for (std::uint32_t i = 0; i < base.block.ops.size(); ++i) {
      const Op& op = base.block.ops[i];
      const bool computes = std::holds_alternative<Compute>(op.action);
      if (!is_memory(op)) {
        // The waits at the block's entry, which the neighbour's copy does not share.
        if (!entered || (computes && !computed)) {
          for (const Lane lane : base.entry_tails) b.after_tail(lane);
        }
        // What other lanes take from earlier blocks; compute, once it has begun, goes on in order.
        const bool takes = computes ? !computed : uses_kept(base, op, of);
        const bool takes_weights = computes ? !computed : uses_weights(module, base, op);
        const bool gathers = copies.awaits_weights && takes_weights && s_.shard_states;
        if ((copies.awaits && takes) || (copies.awaits_weights && takes_weights && !s_.shard_states)) {
          b.after_tail(copy_lane(Tier::host, Tier::device));
        }
        if (gathers) b.after_tail({LaneKind::collective, gather_lane});
        entered = true;
        computed = computed || computes;
      }
      if (computes) last_compute = static_cast<std::uint32_t>(draft.block.ops.size());
      b.copy_op(base, i);
    }
    if (copies.down > 0) {
      draft.after.emplace_back(last_compute, down);
      if (activations_on_disk_) draft.tails.emplace_back(last_compute, copy_lane(Tier::host, Tier::disk));
      free_device(b, copies.down - 1U, -1);
    }
    if (copies.awaits) {
      for (const Kept& k : kept_[of]) {
        memory(b, false, k.host, 0);
        if (activations_on_disk_) memory(b, false, k.disk, 0);
      }
    }
    if (copies.awaits_weights) {
      memory(b, false, module.weights, 0);
      if (weights_on_disk_) memory(b, false, module.host.passing_weights, 0);
    }
    return b.finish(s_);
  }

  State& s_;
  CopyingBlocks& copying_;
  bool activations_on_disk_ = s_.plan.activations_tier == OffloadTier::disk;
  bool weights_on_disk_ = s_.plan.parameters_tier == OffloadTier::disk;
  std::array<std::vector<Kept>, LayerCopies::cases> kept_;  ///< by case of layers
};

std::string before(const State& s) {
  if (s.drafts.empty()) return "there are no blocks";
  if (s.copying) return "copies are there already";
  const auto allocates = [](const Draft& d) { return std::any_of(d.block.ops.begin(), d.block.ops.end(), is_memory); };
  if (!allocates(s[s.blocks(Phase::forward)[s.kinds.front()].plain])) return "lifetimes are not known";
  if (std::any_of(s.drafts.begin(), s.drafts.end(), [](const Draft& d) { return !d.block.waits.empty(); })) {
    return "lanes are settled";
  }
  return {};
}

void run(State& s) {
  if (s.offloads_activations() || s.offloads_parameters()) Builder(s).build();
}

/// Activations, their copies in host memory and weights that live there are used only between their beginning and
/// their end, and none is left.
std::string after(const State& s) {
  if (s.copying.has_value() != (s.offloads_activations() || s.offloads_parameters())) return "no copies are made";
  if (!s.copying) return {};
  const bool all = std::find(s.weights_on_host.begin(), s.weights_on_host.end(), false) == s.weights_on_host.end();
  return wrong_lives(s, [&](BufferId b) {
    const auto of_kind = [&](const LayerKind& kind) { return b == (s.*kind.module).weights; };
    return s.program[b].scope == Scope::layer_microbatch ||
           (all && std::any_of(s.kinds.begin(), s.kinds.end(), of_kind));
  });
}

}  // namespace

LoweringPass host_copies() { return {"host_copies", before, run, after}; }

}  // namespace orrery::lowering
