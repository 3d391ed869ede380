#include <algorithm>
#include <vector>

#include "core/program/lower/copies.hpp"

// ZeRO-2 and 3 keep this rank's part of gradients; compute adds to whole copies. A copy begins, cleared, in the
// backward block that first adds to it, and ends with the reduce-scatter that adds it to the parts. Where the backward
// pass is split it does so twice: once for the gradients that the first part makes on its way (vectors, and everything
// outside of layers), and once for the products of weight actions.
//
// In chunks (Fang et al., "PatrickStar", arXiv 2108.05818) a layer's gradients
// take over the memory of its weights: an element is cleared after the last op
// of the layer's backward pass that reads it as a weight, right before the first
// one that adds to it as a gradient.  The memory is freed with the gradients.

namespace orrery::lowering {
namespace {

/// The blocks that run backward through a layer of a kind, or another module, and its layer.
struct Back {
  std::vector<BlockId> blocks;
  std::uint32_t layer = 0;
};

/// The blocks in the order of a backward pass, with one layer of each kind.
std::vector<Back> way_back(State& s, Phase phase) {
  ModuleBlocks& blocks = s.blocks(phase);
  const auto layers = static_cast<std::uint32_t>(s.model.layers);
  std::vector<Back> way;
  const auto add = [&](std::vector<BlockId> of, std::uint32_t layer) {
    if (of.front() != no_block) way.push_back({std::move(of), layer});
  };
  for (std::uint32_t k = s.predictions; k-- > 0;) {
    add({blocks.prediction_heads[k]}, layers + 2 * k + 2);
    add({block_of_layer(s, blocks, layers + 2 * k)}, layers + 2 * k);
  }
  add({blocks.head}, layers);
  for (auto kind = s.kinds.rbegin(); kind != s.kinds.rend(); ++kind) {
    if (kind->prediction > 0 || blocks[*kind].plain == no_block) continue;
    std::vector<BlockId> of;
    for_layers(blocks, *kind, [&](BlockId block) { of.push_back(block); });
    add(std::move(of), kind->layers.front());
  }
  add({blocks.embedding}, 0);
  return way;
}

/// The elements of a table whose gradients belong to the part.
std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_of(const ParameterTable& table, GradientPart part) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const ParameterSegment& segment : table.segments) {
    if (!is_in(part, table, segment)) continue;
    if (ranges.empty() || ranges.back().second != segment.offset) ranges.emplace_back(segment.offset, segment.offset);
    ranges.back().second = segment.offset + segment.count;
  }
  return ranges;
}

void begin_copies(State& s, Phase phase, GradientPart part) {
  struct Begun {
    const Module* module;
    std::uint32_t layer;
  };
  std::vector<Begun> begun;
  for (const Back& back : way_back(s, phase)) {
    const bool embedding = back.blocks.front() == s.blocks(phase).embedding;
    // The copy begins at the head where the head adds to it, and is then scattered once if both are in one chunk.
    if (embedding && tied_between_chunks(s))
      std::erase_if(begun, [&](const Begun& b) { return b.module == &s.embedding; });
    CopyChange change;
    const Block& block = s[back.blocks.front()].block;
    std::vector<const Module*> downwards = s.all_modules();
    std::reverse(downwards.begin(), downwards.end());
    for (const Module* m : downwards) {
      for (const View& v : block.views) {
        if (v.buffer != copy_of(*m, part)) continue;
        const bool of_layer = per_layer(s.program[v.buffer].scope);
        const std::uint32_t layer = of_layer ? back.layer + static_cast<std::uint32_t>(v.layer_shift) : 0;
        const bool known =
            std::any_of(begun.begin(), begun.end(), [&](const Begun& b) { return b.module == m && b.layer == layer; });
        if (known) continue;
        begun.push_back({m, layer});
        if (s.program[v.buffer].reuses) {
          change.reuse = m;
          continue;
        }
        const ParameterTable& table = s.program.parameter_tables[m->table];
        ClearedCopy cleared{v.buffer, v.layer_shift, ranges_of(table, part)};
        if (m == &s.embedding && !embedding && tied_between_chunks(s)) {
          cleared.ranges = {{table.segments.front().offset, table.segments.front().count}};
        }
        change.clear.push_back(std::move(cleared));
      }
    }
    for (const BlockId id : back.blocks) add_copies(s, id, change);
  }
}

/// The copies end with the reduce-scatter.
void end_copies(State& s, BlockId reduce, const Chunk& bucket, GradientPart part) {
  const Module* last = nullptr;
  std::int8_t last_shift = 0;
  for_each_scattered(s, bucket, part, [&](const Module& m, std::int8_t shift, const ParameterSegment&) {
    if (&m == last && shift == last_shift) return;
    last = &m, last_shift = shift;
    s[reduce].block.ops.push_back({Free{copy_of(m, part), shift}, {}, {}, {}});
    if (const auto& memory = s.program[copy_of(m, part)].reuses) {
      s[reduce].block.ops.push_back({Free{*memory, shift}, {}, {}, {}});
    }
  });
}

}  // namespace

void add_gradient_copies(State& s) {
  begin_copies(s, Phase::backward, s.split_backward ? GradientPart::first : GradientPart::all);
  if (s.split_backward) begin_copies(s, Phase::weight, GradientPart::products);
  std::vector<BlockId> done;  // buckets of the same modules share their blocks
  for (const Stage& stage : s.stages) {
    for (std::size_t c = stage.own_chunks; c < stage.chunks.size(); ++c) {
      const Chunk& bucket = stage.chunks[c];
      const auto end = [&](BlockId reduce, GradientPart part) {
        if (reduce == no_block || std::find(done.begin(), done.end(), reduce) != done.end()) return;
        done.push_back(reduce);
        end_copies(s, reduce, bucket, part);
      };
      end(bucket.reduce_first, GradientPart::first);
      end(bucket.reduce, s.split_backward ? GradientPart::products : GradientPart::all);
    }
  }
  if (*s.plan.overlap_gradients) return;
  // Without overlap compute goes on only when the reduction has ended.
  std::vector<BlockId> entered;
  const auto enter = [&](BlockId b) {
    if (b == no_block || std::find(entered.begin(), entered.end(), b) != entered.end()) return;
    entered.push_back(b);
    for (const Lane lane : s.shares.scatter_lanes) s[b].entry_tails.push_back(lane);
  };
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight}) {
    ModuleBlocks& blocks = s.blocks(phase);
    enter(blocks.embedding);
    for (const LayerKind& kind : s.kinds) for_layers(blocks, kind, enter);
    enter(blocks.head);
    for (const BlockId b : blocks.prediction_heads) enter(b);
  }
}

}  // namespace orrery::lowering
