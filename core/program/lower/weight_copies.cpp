#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/copies.hpp"

// ZeRO-3 keeps this rank's part of weights; compute reads whole copies (Rajbhandari et al., SC '20, section 5.3). A
// copy is gathered before the block that reads it and freed after its last use there, in the forward and again in the
// backward pass. Or it is kept from the step's first forward to its last backward pass. Weight gradients need none.
//
// With prefetch, block l gathers what block l + 1 needs: its all-gather waits
// for the end of block l - 1, and block l waits for the gather before it, which
// is then the last on its lane.  The first block of a chunk has its own gathered
// in front of it, the last gathers nothing.
//
// In the head's part of a pass, which prediction modules share, a copy lives from the first to the last block that
// reads it, because they use the same table for embedding and head. What only prediction modules read is not gathered
// ahead.

namespace orrery::lowering {
namespace {

void add_copy(std::vector<Copy>& to, const Copy& copy) {
  if (std::find(to.begin(), to.end(), copy) == to.end()) to.push_back(copy);
}

/// Copies that a block reads.
std::vector<Copy> needs_of(const State& s, BlockId block) {
  std::vector<Copy> out;
  for (const Module* m : s.all_modules()) {
    for (const View& v : s[block].block.views) {
      if (v.buffer == m->whole_weights) add_copy(out, {m, v.layer_shift});
    }
  }
  return out;
}

std::vector<Copy> shifted(std::vector<Copy> copies, std::int8_t shift) {
  for (Copy& c : copies) c.shift = shift;
  return copies;
}

/// The weights that each block reads, and the variants of blocks that are made.
class Weights {
 public:
  explicit Weights(State& s)
      : s_(s),
        layers_(static_cast<std::uint32_t>(s.model.layers)),
        keep_(!s.plan.reshard_after_forward),
        ahead_(s.plan.prefetch > 0) {
    const ModuleBlocks& forward = s.blocks(Phase::forward);
    embedding_ = needs_of(s, forward.embedding);
    head_ = needs_of_end(forward.head);
    // Products that keep what they gathered (3D) read no weights on the way back.
    head_backward_ = needs_of_end(s.blocks(Phase::backward).head);
  }

  void build() {
    ModuleBlocks& forward = s_.blocks(Phase::forward);
    ModuleBlocks& backward = s_.blocks(Phase::backward);
    if (keep_) keep(forward);
    if (ahead_) {
      ModuleBlocks& first = s_.blocks(Phase::first_weights);
      first.embedding = opening(embedding_, "embedding");
      for (const LayerKind& kind : s_.kinds) {
        if (kind.prediction > 0) continue;
        first[kind].plain = s_.is_first_with_module(kind) ? opening(own(kind), table_of(kind).module)
                                                          : first[s_.first_with_module(kind)].plain;
      }
      first.head = opening(head_backward_, "head");
      variants(forward, Phase::forward_last, ".last", {}, false);
      variants(forward, Phase::forward_to_head, ".to-head", head_, false);
    }
    add_copies(s_, forward.embedding, ahead_ ? ahead(embedding_, own(s_.kind_of(0))) : alone(embedding_));
    ends(forward, Phase::forward);
    layers(forward, Phase::forward_to_other, 1);
    if (keep_) return;
    if (ahead_) {
      s_.blocks(Phase::backward_last).embedding = backward.embedding;
      variants(backward, Phase::backward_last, ".last", {}, true);
    }
    // The embedding's backward pass reads weights only where a norm follows the tables.
    if (const std::vector<Copy> read = needs_of(s_, backward.embedding); !read.empty()) {
      add_copies(s_, backward.embedding, alone(read));
    }
    ends(backward, Phase::backward);
    layers(backward, Phase::backward_to_other, -1);
  }

  /// Rewrites the actions in terms of the variants.
  void rewrite(Stage& stage) {
    std::vector<Action> out;
    out.reserve(3 * stage.step.size());
    std::vector<bool> gathered(stage.own_chunks, false);
    std::vector<std::uint32_t> left(stage.own_chunks, 0);  ///< backward actions
    for (const Action& a : stage.step) {
      if (a.phase == Phase::backward) ++left[whole_chunk(stage, a.chunk)];
    }
    for (const Action& a : stage.step) {
      const std::uint32_t own =
          a.phase == Phase::forward || a.phase == Phase::backward ? whole_chunk(stage, a.chunk) : 0;
      if (a.phase == Phase::forward && keep_ && gathered[own]) {
        out.push_back({Phase::forward_kept, a.chunk, a.microbatch});
      } else if (a.phase == Phase::forward) {
        gathered[own] = true;
        go_forward(stage, a, out);
      } else if (a.phase == Phase::backward && !keep_) {
        go_backward(stage, a, own, out);
      } else {
        out.push_back(a);
      }
      if (a.phase == Phase::backward && --left[own] == 0 && keep_) out.push_back({Phase::release, own, 0});
    }
    stage.step = std::move(out);
  }

 private:
  [[nodiscard]] std::vector<Copy> own(const LayerKind& kind) const {
    if (!s_.trains_weights()) return {{&(s_.*kind.module), 0}, {&s_.adapters, 0}};
    return {{&(s_.*kind.module), 0}};
  }
  [[nodiscard]] const ParameterTable& table_of(const LayerKind& kind) const {
    return s_.program.parameter_tables[(s_.*kind.module).table];
  }
  /// The copies that the head's part of a pass reads. A copy that the embedding gathered and keeps need not be gathered
  /// again.
  [[nodiscard]] std::vector<Copy> needs_of_end(BlockId block) const {
    std::vector<Copy> out = needs_of(s_, block);
    // With loss chunks the backward pass alone reads the head's matrix, but kept copies come before the forward pass.
    if (keep_ && block == s_.blocks(Phase::forward).head) {
      for (const Copy& c : needs_of(s_, s_.blocks(Phase::backward).head)) add_copy(out, c);
    }
    if (keep_) std::erase_if(out, [&](const Copy& c) { return c.module == &s_.embedding; });
    return out;
  }

  // Kept copies are gathered in front of the first pass by blocks of its own.
  void keep(ModuleBlocks& forward) {
    s_.blocks(Phase::forward_kept) = forward;
    const auto first = [&](BlockId& b) {
      if (b != no_block) b = variant_with_copies(s_, b, ".first", {});
    };
    first(forward.embedding);
    for (const LayerKind& kind : s_.kinds) for_layers(forward, kind, first);
    first(forward.head);
    for (BlockId& b : forward.prediction_heads) first(b);
    ModuleBlocks& releases = s_.blocks(Phase::release);
    releases.embedding = release(embedding_, "embedding");
    for (const LayerKind& kind : s_.kinds) {
      releases[kind].plain = s_.is_first_with_module(kind) ? release(own(kind), table_of(kind).module)
                                                           : releases[s_.first_with_module(kind)].plain;
    }
    releases.head = release(head_, "head");
  }

  /// The head's blocks and those of prediction modules, in the order of a pass.
  void ends(ModuleBlocks& blocks, Phase phase) {
    struct Run {
      BlockId block;
      std::uint32_t layer;
      std::uint32_t module = 0;  ///< from 1: that module's transformer layer
    };
    std::vector<Run> way = {{blocks.head, layers_}};
    for (std::uint32_t k = 0; k < s_.predictions; ++k) {
      way.push_back({block_of_layer(s_, blocks, layers_ + 2 * k), layers_ + 2 * k});
      way.push_back({block_of_layer(s_, blocks, layers_ + 2 * k + 1), layers_ + 2 * k + 1, k + 1});
      way.push_back({blocks.prediction_heads[k], layers_ + 2 * k + 2});
    }
    const bool back = phase == Phase::backward;
    if (back) std::reverse(way.begin(), way.end());
    // Instances of copies, by the module and its layer.
    struct Life {
      Copy of;
      std::uint32_t layer;
      std::size_t first, last;
    };
    std::vector<Life> lives;
    for (std::size_t i = 0; i < way.size(); ++i) {
      if (way[i].module > 0) continue;
      for (const Copy& c : needs_of_end(way[i].block)) {
        const bool of_layer = per_layer(s_.program[c.module->whole_weights].scope);
        const std::uint32_t layer = of_layer ? way[i].layer + static_cast<std::uint32_t>(c.shift) : 0;
        const auto known = std::find_if(lives.begin(), lives.end(),
                                        [&](const Life& l) { return l.of.module == c.module && l.layer == layer; });
        if (known != lives.end()) {
          known->last = i;
        } else {
          lives.push_back({c, layer, i, i});
        }
      }
    }
    // The copies that the head itself reads were gathered before the first of these blocks.
    const auto is_opened = [&](const Copy& c) {
      const std::vector<Copy>& opened = back ? head_backward_ : head_;
      return ahead_ && std::find(opened.begin(), opened.end(), c) != opened.end();
    };
    for (std::size_t i = 0; i < way.size(); ++i) {
      const Run& run = way[i];
      CopyChange change;
      change.after_gather = ahead_ && i == 0;
      const auto shift = [&](const Life& l) {
        const bool of_layer = per_layer(s_.program[l.of.module->whole_weights].scope);
        return static_cast<std::int8_t>(of_layer ? l.layer - run.layer : 0);
      };
      if (run.module > 0) {
        // Other layers of its kind gather ahead.
        const LayerKind& kind = s_.kind_of(run.layer);
        if (ahead_) prediction_layer(blocks, run.module - 1, run.block, released(alone(own(kind)), back));
        continue;
      }
      for (const Life& l : lives) {
        if (l.first == i && !is_opened(l.of)) change.gather.push_back({l.of.module, shift(l)});
        if (l.last == i && !keep_) change.free.push_back({l.of.module, shift(l)});
      }
      if (back && ahead_ && run.layer == layers_ && i + 1 == way.size()) {
        for (const Copy& c : shifted(own(s_.kind_of(layers_ - 1)), -1)) change.gather.push_back(c);
      }
      add_copies(s_, run.block, change);
    }
  }
  void prediction_layer(ModuleBlocks& blocks, std::uint32_t module, BlockId of, const CopyChange& change) {
    for (std::uint32_t k = 0; k < s_.predictions; ++k) {
      if (block_of_layer(s_, blocks, layers_ + 2 * k + 1) == of && blocks.prediction_layers[k] != no_block) {
        blocks.prediction_layers[module] = blocks.prediction_layers[k];
        return;
      }
    }
    blocks.prediction_layers[module] = variant_with_copies(s_, of, ".alone", change);
  }

  /// Layers gather what they need, or with prefetch what the one after them needs.
  void layers(ModuleBlocks& blocks, Phase to_other, std::int8_t next) {
    const bool back = next < 0;
    if (ahead_ && mixes_kinds(s_.model)) {
      for (const LayerKind& kind : s_.kinds) {
        if (kind.prediction > 0) continue;
        const Module& other = kind.mixture ? s_.dense_layer : s_.layer;
        make_variants(blocks, to_other, kind, ".to-other", released(ahead(own(kind), {{&other, next}}), back));
      }
    }
    for (const LayerKind& kind : s_.kinds) {
      if (kind.prediction > 0) continue;
      for_layers(blocks, kind, [&](BlockId b) {
        add_copies(s_, b, released(ahead_ ? ahead(own(kind), shifted(own(kind), next)) : alone(own(kind)), back));
      });
    }
  }
  /// The layers' blocks of another phase, as changes of those of `from`.
  void variants(ModuleBlocks& from, Phase phase, const char* suffix, const std::vector<Copy>& next, bool back) {
    for (const LayerKind& kind : s_.kinds) {
      if (kind.prediction == 0) make_variants(from, phase, kind, suffix, released(ahead(own(kind), next), back));
    }
  }
  void make_variants(const ModuleBlocks& from, Phase phase, const LayerKind& kind, const char* suffix,
                     const CopyChange& change) {
    LayerBlocks& of_phase = s_.blocks(phase)[kind];
    of_phase.plain = variant_with_copies(s_, from[kind].plain, suffix, change);
    if (from[kind].recomputed != no_block) {
      of_phase.recomputed = variant_with_copies(s_, from[kind].recomputed, suffix, change);
    }
  }
  [[nodiscard]] std::vector<Copy> freed(const std::vector<Copy>& own) const {
    return keep_ ? std::vector<Copy>{} : own;
  }
  [[nodiscard]] CopyChange alone(const std::vector<Copy>& own) const { return {own, {}, freed(own), false}; }
  [[nodiscard]] CopyChange ahead(const std::vector<Copy>& own, std::vector<Copy> next) const {
    return {std::move(next), {}, freed(own), true};
  }

  /// The change for one layer; on the way back, memory that gradients take over is freed with them.
  [[nodiscard]] CopyChange released(CopyChange change, bool back) const {
    if (back && s_.trains_weights() && s_.program[s_.layer.whole_gradients].reuses) change.free.clear();
    return change;
  }

  BlockId opening(const std::vector<Copy>& copies, const std::string& module) {
    BlockBuilder b(s_, fmt::format("{}.weights", module), Pass::forward, Section::model);
    const Draft empty = std::move(b.draft());
    s_.drafts.push_back(with_copies(s_, empty, {copies, {}, {}, false}));
    return BlockId{static_cast<std::uint32_t>(s_.drafts.size() - 1)};
  }
  BlockId release(const std::vector<Copy>& copies, const std::string& module) {
    BlockBuilder b(s_, fmt::format("{}.release", module), Pass::weight_gradient, Section::model);
    for (const Copy& c : copies) b.draft().block.ops.push_back({Free{c.module->whole_weights, 0}, {}, {}, {}});
    return b.finish(s_);
  }

  void put(Stage& stage, Phase phase, const Chunk& part, std::uint32_t microbatch, std::vector<Action>& out) {
    if (!part.embedding && part.layers == 0 && !part.head) return;
    // Every microbatch has the same parts.
    const auto same = std::find_if(stage.chunks.begin() + stage.own_chunks, stage.chunks.end(), [&](const Chunk& c) {
      return c.embedding == part.embedding && c.layers == part.layers && c.head == part.head &&
             (part.layers == 0 || c.low_layer == part.low_layer);
    });
    const auto number = static_cast<std::uint32_t>(same - stage.chunks.begin());
    if (same == stage.chunks.end()) stage.chunks.push_back(part);
    out.push_back({phase, number, microbatch});
  }

  static Chunk part(bool embedding, std::uint32_t low, std::uint32_t layers, bool head) {
    return {embedding, low, layers, head, {}, {}, {}};
  }
  [[nodiscard]] bool alike(std::uint32_t a, std::uint32_t b) const { return &s_.module_of(a) == &s_.module_of(b); }

  void go_forward(Stage& stage, const Action& a, std::vector<Action>& out) {
    if (!ahead_) {
      out.push_back(a);
      return;
    }
    const Chunk c = stage.chunks[a.chunk];
    ORRERY_ASSERT(c.layers > 0 || (!c.embedding && !c.head), stage.number, a.chunk);  // check refuses such ends
    if (c.layers == 0) return;
    const std::uint32_t top = c.low_layer + c.layers - 1;
    put(stage, Phase::first_weights, c.embedding ? part(true, 0, 0, false) : part(false, c.low_layer, 1, false),
        a.microbatch, out);
    Chunk run = part(c.embedding, c.low_layer, 0, false);
    for (std::uint32_t l = c.low_layer; l < top; ++l) {
      if (alike(l, l + 1)) {
        ++run.layers;
        continue;
      }
      put(stage, Phase::forward, run, a.microbatch, out);
      put(stage, Phase::forward_to_other, part(false, l, 1, false), a.microbatch, out);
      run = part(false, l + 1, 0, false);
    }
    put(stage, Phase::forward, run, a.microbatch, out);
    put(stage, c.head ? Phase::forward_to_head : Phase::forward_last, part(false, top, 1, false), a.microbatch, out);
    if (c.head) put(stage, Phase::forward, part(false, top + 1, 0, true), a.microbatch, out);
  }

  /// The part of a chunk in one bucket, or all of it.
  void go_backward(Stage& stage, const Action& a, std::uint32_t own, std::vector<Action>& out) {
    if (!ahead_) {
      out.push_back(a);
      return;
    }
    const Chunk c = stage.chunks[a.chunk];
    const Chunk whole = stage.chunks[own];
    ORRERY_ASSERT(whole.layers > 0 || (!whole.embedding && !whole.head), stage.number, own);
    if (whole.layers == 0) return;
    const std::uint32_t top = whole.low_layer + whole.layers - 1;
    if (c.head) {
      put(stage, Phase::first_weights, part(false, top + 1, 0, true), a.microbatch, out);
    } else if (c.layers > 0 && !whole.head && c.low_layer + c.layers - 1 == top) {
      put(stage, Phase::first_weights, part(false, top, 1, false), a.microbatch, out);
    }
    Chunk run = part(false, c.low_layer + c.layers, 0, c.head);
    for (std::uint32_t l = c.low_layer + c.layers; l-- > c.low_layer;) {
      const bool last = l == whole.low_layer;
      if (!last && alike(l, l - 1)) {
        ++run.layers;
        --run.low_layer;
        continue;
      }
      put(stage, Phase::backward, run, a.microbatch, out);
      put(stage, last ? Phase::backward_last : Phase::backward_to_other, part(last && c.embedding, l, 1, false),
          a.microbatch, out);
      if (last) return;
      run = part(false, l, 0, false);
    }
    run.embedding = c.embedding;
    put(stage, Phase::backward, run, a.microbatch, out);
  }

  State& s_;
  std::uint32_t layers_;
  bool keep_, ahead_;
  std::vector<Copy> embedding_, head_, head_backward_;
};

}  // namespace

void add_weight_copies(State& s) {
  Weights weights(s);
  weights.build();
  for (Stage& stage : s.stages) weights.rewrite(stage);
}

}  // namespace orrery::lowering
