#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

// ZeRO-2 and 3 keep this rank's part of gradients, and of weights; compute works
// on whole copies that live for a while.
//
// Gradients: a copy begins, cleared, in the backward block that first adds to
// it, and ends with the reduce-scatter that adds it to the parts.
//
// Weights (Rajbhandari et al., SC '20, section 5.3): a copy is gathered before
// the block that reads it and freed after its last use there, forward and again
// backward; or kept from the step's first forward to its last backward pass.
// With prefetch, block l gathers what block l + 1 needs: its all-gather waits
// for the end of block l - 1, and block l waits for the gather before it, which
// is then the last on its lane.  The first block of a chunk has its own gathered
// in front of it, the last gathers nothing.

// In chunks (Fang et al., "PatrickStar", arXiv 2108.05818) each one
// is gathered and reduced by a message of its own, and a layer's gradients take
// over the memory of its weights: an element is cleared after the last op of the
// layer's backward pass that reads it as a weight, right before the first one
// that adds to it as a gradient.  The memory is freed with the gradients.

/// A whole copy, relative to the layer of the block's run.
struct Copy {
  const Module* module = nullptr;
  std::int8_t shift = 0;
};

/// What a block does with copies besides what it had.
struct Change {
  std::vector<Copy> gather;       ///< before its ops, in one message
  std::vector<Copy> clear;        ///< begin with zeros, before its ops
  std::vector<BufferId> free;     ///< after their last use
  bool after_gather = false;      ///< what it reads was gathered by the last op on the gather lane
  const Module* reuse = nullptr;  ///< its gradients take over the memory of its weights
};

bool uses(const Block& block, const Op& op, BufferId buffer) {
  bool found = false;
  for_each_view(block, op, [&](const View& v) { found = found || v.buffer == buffer; });
  return found;
}
bool uses(const Block& block, BufferId buffer) {
  return std::any_of(block.views.begin(), block.views.end(), [&](const View& v) { return v.buffer == buffer; });
}

/// The block with copies; everything else as it was.
class Editor {
 public:
  Editor(State& s, const Draft& from) : s_(s), from_(from) {
    out_.place = from.place;
    out_.block.name = from.block.name;
    out_.block.pass = from.block.pass;
    out_.block.kernels = from.block.kernels;
    out_.block.transfers = from.block.transfers;
  }

  Draft with(const Change& change) {
    gather(change.gather);
    clear(change.clear);
    bool awaited = !change.after_gather;
    for (std::uint32_t i = 0; i < from_.block.ops.size(); ++i) {
      const Op& op = from_.block.ops[i];
      if (change.reuse != nullptr) take_over(*change.reuse, i);
      for (const auto& [at, lane] : from_.tails) {
        if (at == i) tail(lane);
      }
      if (!is_memory(op)) enter();
      if (!awaited && reads_weights(op)) {
        tail({LaneKind::collective, gather_lane});
        awaited = true;
      }
      append(op, {from_.block.views.data() + op.views.first, op.views.count});
      for (const BufferId b : change.free) {
        if (i == last_use(b)) out_.block.ops.push_back({Free{b, 0}, {}, {}, {}});
      }
    }
    if (change.reuse != nullptr) clear_rest(*change.reuse);
    return std::move(out_);
  }

  /// A block of its own that frees them.
  Draft freeing(std::span<const BufferId> buffers) {
    for (const BufferId b : buffers) out_.block.ops.push_back({Free{b, 0}, {}, {}, {}});
    return std::move(out_);
  }

 private:
  /// The next op is the first that takes time.
  void enter() {
    if (entered_) return;
    for (const Lane lane : from_.entry_tails) tail(lane);
    entered_ = true;
  }
  void tail(Lane lane) { out_.tails.emplace_back(static_cast<std::uint32_t>(out_.block.ops.size()), lane); }

  void append(Op op, std::span<const View> views) {
    op.views = {static_cast<std::uint32_t>(out_.block.views.size()), static_cast<std::uint32_t>(views.size())};
    out_.block.views.insert(out_.block.views.end(), views.begin(), views.end());
    out_.block.ops.push_back(op);
  }

  void gather(const std::vector<Copy>& copies) {
    std::vector<std::pair<AxisList, std::vector<View>>> parts;
    const auto views_over = [&](const AxisList& axes) -> std::vector<View>& {
      for (auto& [of, views] : parts) {
        if (of == axes) return views;
      }
      return parts.emplace_back(axes, std::vector<View>{}).second;
    };
    const auto send = [&] {
      for (const auto& [axes, views] : parts) {
        const Collective all{Collective::Kind::all_gather, Collective::Reduction::sum, share_group(s_, axes), Peer{0}};
        append({all, {}, {}, {}}, views);
      }
      parts.clear();
    };
    for (const Copy& c : copies) {
      out_.block.ops.push_back({Alloc{c.module->whole_weights, c.shift}, {}, {}, {}});
      const ParameterTable& table = s_.program.parameter_tables[c.module->table];
      for (const ParameterSegment& s : table.segments) {
        if (begins_chunk(s_, table, s)) send();
        const Operand part = own_part(s_, c.module->weights, s, View::Use::read, c.shift);
        std::vector<View>& views = views_over(own_axes(s_, table, s));
        views.push_back({part.buffer, part.offset, part.count, part.use, part.layer_shift, part.member_of});
        views.push_back({c.module->whole_weights, s.offset, s.count, View::Use::write, c.shift, {}});
      }
    }
    send();
  }

  void clear(const std::vector<Copy>& copies) {
    for (const Copy& c : copies) {
      const BufferId b = c.module->whole_gradients;
      out_.block.ops.push_back({Alloc{b, c.shift}, {}, {}, {}});
      out_.block.kernels.push_back(s_.kernel(KernelKind::fill, Pass::weight_gradient, 1, s_.program[b].count));
      const View whole{b, 0, s_.program[b].count, View::Use::write, c.shift, {}};
      append({Compute{static_cast<std::uint32_t>(out_.block.kernels.size() - 1)}, {}, {}, {}}, {&whole, 1});
    }
  }

  void fill(BufferId b, std::uint64_t low, std::uint64_t high) {
    enter();
    out_.block.kernels.push_back(s_.kernel(KernelKind::fill, Pass::weight_gradient, 1, high - low));
    const View view{b, low, high - low, View::Use::write, 0, {}};
    append({Compute{static_cast<std::uint32_t>(out_.block.kernels.size() - 1)}, {}, {}, {}}, {&view, 1});
    cleared_.emplace_back(low, high);
    std::sort(cleared_.begin(), cleared_.end());
  }
  /// Those of [low, high) that are not cleared yet.
  void clear_between(BufferId b, std::uint64_t low, std::uint64_t high) {
    const auto done = cleared_;
    for (const auto& [from, to] : done) {
      if (to <= low || high <= from) continue;
      if (low < from) fill(b, low, from);
      low = to;
    }
    if (low < high) fill(b, low, high);
  }
  /// What op i of the block adds to is cleared before it.
  void take_over(const Module& m, std::uint32_t i) {
    for_each_view(from_.block, from_.block.ops[i], [&](const View& v) {
      if (v.buffer == m.whole_weights) {
        for (const auto& [low, high] : cleared_) {
          // Authors of backward passes read a weight before they add to its gradient.
          ORRERY_ASSERT(high <= v.offset || v.offset + v.count <= low, from_.block.name, i, v.offset, v.count);
        }
      }
      if (v.buffer != m.whole_gradients) return;
      if (cleared_.empty()) out_.block.ops.push_back({Alloc{v.buffer, 0}, {}, {}, {}});
      clear_between(v.buffer, v.offset, v.offset + v.count);
    });
  }
  /// Padding, which messages take along.
  void clear_rest(const Module& m) { clear_between(m.whole_gradients, 0, s_.program[m.whole_gradients].count); }

  /// Or what gradients take over from them.
  [[nodiscard]] bool reads_weights(const Op& op) const {
    bool reads = false;
    for_each_view(from_.block, op, [&](const View& v) {
      const Buffer& b = s_.program[v.buffer];
      reads = reads || (b.role == Role::weight && is_copy(s_, v.buffer)) || b.reuses;
    });
    return reads;
  }

  [[nodiscard]] std::uint32_t last_use(BufferId b) const {
    for (auto i = static_cast<std::uint32_t>(from_.block.ops.size()); i-- > 0;) {
      if (uses(from_.block, from_.block.ops[i], b)) return i;
    }
    return ~std::uint32_t{0};
  }

  State& s_;
  const Draft& from_;
  Draft out_;
  bool entered_ = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> cleared_;  ///< of gradients that take over memory
};

void edit(State& s, BlockId block, const Change& change) { s[block] = Editor(s, s[block]).with(change); }

BlockId variant(State& s, BlockId of, const char* suffix, const Change& change) {
  Draft draft = Editor(s, s[of]).with(change);
  draft.block.name += suffix;
  s.drafts.push_back(std::move(draft));
  return BlockId{static_cast<std::uint32_t>(s.drafts.size() - 1)};
}

/// Calls visit(block id) for the blocks of layers of a kind, recomputed and not.
template <class Visit>
void for_layers(ModuleBlocks& blocks, const LayerKind& kind, Visit&& visit) {
  visit(blocks[kind].plain);
  if (blocks[kind].recomputed != no_block) visit(blocks[kind].recomputed);
}

// --- gradients ---------------------------------------------------------------

void add_gradient_copies(State& s) {
  // On the way back; the embedding's copy begins at the head where that has its table too.
  std::vector<const Module*> downwards = s.all_modules();
  std::reverse(downwards.begin(), downwards.end());
  std::vector<BufferId> begun;
  ModuleBlocks& backward = s.blocks(Phase::backward);
  const auto clears = [&](BlockId block) {
    Change change;
    for (const Module* m : downwards) {
      if (!uses(s[block].block, m->whole_gradients)) continue;
      if (std::find(begun.begin(), begun.end(), m->whole_gradients) != begun.end()) continue;
      begun.push_back(m->whole_gradients);
      if (s.program[m->whole_gradients].reuses) {
        change.reuse = m;
      } else {
        change.clear.push_back({m, 0});
      }
    }
    return change;
  };
  edit(s, backward.head, clears(backward.head));
  for (auto kind = s.kinds.rbegin(); kind != s.kinds.rend(); ++kind) {
    const Change change = clears(backward[*kind].plain);
    for_layers(backward, *kind, [&](BlockId block) { edit(s, block, change); });
  }
  edit(s, backward.embedding, clears(backward.embedding));
  std::vector<BlockId> done;  // buckets of the same modules share their blocks
  for (const Stage& stage : s.stages) {
    for (std::size_t c = stage.own_chunks; c < stage.chunks.size(); ++c) {
      const BlockId reduce = stage.chunks[c].reduce;
      if (std::find(done.begin(), done.end(), reduce) != done.end()) continue;
      done.push_back(reduce);
      for_each_module(s, stage.chunks[c], [&](const Module& m, std::int8_t shift) {
        s[reduce].block.ops.push_back({Free{m.whole_gradients, shift}, {}, {}, {}});
        if (const auto& memory = s.program[m.whole_gradients].reuses) {
          s[reduce].block.ops.push_back({Free{*memory, shift}, {}, {}, {}});
        }
      });
    }
  }
  if (*s.plan.overlap_gradients) return;
  // Without overlap compute goes on when the reduction has ended.
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    ModuleBlocks& blocks = s.blocks(phase);
    const auto enter = [&](BlockId b) {
      for (const Lane lane : scatter_lanes(s)) s[b].entry_tails.push_back(lane);
    };
    enter(blocks.embedding);
    for (const LayerKind& kind : s.kinds) for_layers(blocks, kind, enter);
    enter(blocks.head);
  }
}

// --- weights -----------------------------------------------------------------

/// Copies that a block reads.
std::vector<Copy> needs_of(const State& s, BlockId block, std::int8_t shift = 0) {
  std::vector<Copy> out;
  for (const Module* m : s.all_modules()) {
    if (uses(s[block].block, m->whole_weights)) out.push_back({m, shift});
  }
  return out;
}

std::vector<BufferId> buffers_of(const std::vector<Copy>& copies) {
  std::vector<BufferId> out;
  for (const Copy& c : copies) out.push_back(c.module->whole_weights);
  return out;
}

/// What each block reads, and the variants of it that are made.
class Weights {
 public:
  explicit Weights(State& s) : s_(s), keep_(!s.plan.reshard_after_forward), ahead_(s.plan.prefetch > 0) {
    const ModuleBlocks& forward = s.blocks(Phase::forward);
    ORRERY_ASSERT(!ahead_ || s.kinds.size() == 1, s.kinds.size());  // check refuses it
    embedding_ = needs_of(s, forward.embedding);
    layer_ = needs_of(s, forward[s.main_kind()].plain);
    head_ = needs_of(s, forward.head);
    // What the embedding gathered and keeps need not be gathered for the head.
    if (keep_) std::erase_if(head_, [&](const Copy& c) { return c.module == &s_.embedding; });
  }

  void build() {
    ModuleBlocks& forward = s_.blocks(Phase::forward);
    ModuleBlocks& backward = s_.blocks(Phase::backward);
    if (keep_) {
      s_.blocks(Phase::forward_kept) = forward;
      forward.embedding = variant(s_, forward.embedding, ".first", {});
      for (const LayerKind& kind : s_.kinds) {
        for_layers(forward, kind, [&](BlockId& b) { b = variant(s_, b, ".first", {}); });
      }
      forward.head = variant(s_, forward.head, ".first", {});
      ModuleBlocks& releases = s_.blocks(Phase::release);
      releases.embedding = release(embedding_, "embedding");
      for (const LayerKind& kind : s_.kinds) releases[kind].plain = release(own(kind), table_of(kind).module);
      releases.head = release(head_, "head");
    }
    if (ahead_) {
      ModuleBlocks& first = s_.blocks(Phase::first_weights);
      first.embedding = opening(embedding_, "embedding");
      first[s_.main_kind()].plain = opening(layer_, "layer");
      first.head = opening(head_, "head");
      variants(forward, Phase::forward_last, ".last", ahead(layer_, {}));
      variants(forward, Phase::forward_to_head, ".to-head", ahead(layer_, head_));
    }
    edit(s_, forward.embedding, ahead_ ? ahead(embedding_, layer_) : alone(embedding_));
    layers_ahead(forward, 1);
    edit(s_, forward.head, ahead_ ? ahead(head_, {}) : alone(head_));
    if (keep_) return;
    if (ahead_) {
      s_.blocks(Phase::backward_last).embedding = backward.embedding;
      variants(backward, Phase::backward_last, ".last", released(ahead(layer_, {}), true));
    }
    // Its backward pass reads weights only where a norm follows the tables.
    if (const std::vector<Copy> read = needs_of(s_, backward.embedding); !read.empty()) {
      edit(s_, backward.embedding, alone(read));
    }
    edit(s_, backward.head, ahead_ ? ahead(head_, shifted(-1)) : alone(head_));
    layers_ahead(backward, -1);
  }

  /// The actions in terms of the variants.
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
  [[nodiscard]] std::vector<Copy> own(const LayerKind& kind) const { return {{&(s_.*kind.module), 0}}; }
  [[nodiscard]] const ParameterTable& table_of(const LayerKind& kind) const {
    return s_.program.parameter_tables[(s_.*kind.module).table];
  }
  /// Layers gather what they need, or with prefetch what the one after them needs.
  void layers_ahead(ModuleBlocks& blocks, std::int8_t next) {
    for (const LayerKind& kind : s_.kinds) {
      for_layers(blocks, kind, [&](BlockId b) {
        edit(s_, b, released(ahead_ ? ahead(layer_, shifted(next)) : alone(own(kind)), next < 0));
      });
    }
  }
  /// The layers' blocks of another phase, as changes of those of `from`.
  void variants(const ModuleBlocks& from, Phase phase, const char* suffix, const Change& change) {
    ModuleBlocks blocks = from;
    for_layers(blocks, s_.main_kind(), [&](BlockId& b) { b = variant(s_, b, suffix, change); });
    LayerBlocks& of_phase = s_.blocks(phase)[s_.main_kind()];
    of_phase.plain = blocks[s_.main_kind()].plain;
    of_phase.recomputed = blocks[s_.main_kind()].recomputed;
  }
  [[nodiscard]] std::vector<Copy> shifted(std::int8_t shift) const {
    std::vector<Copy> out = layer_;
    for (Copy& c : out) c.shift = shift;
    return out;
  }
  [[nodiscard]] std::vector<BufferId> freed(const std::vector<Copy>& own) const {
    return keep_ ? std::vector<BufferId>{} : buffers_of(own);
  }
  [[nodiscard]] Change alone(const std::vector<Copy>& own) const { return {own, {}, freed(own), false}; }
  [[nodiscard]] Change ahead(const std::vector<Copy>& own, std::vector<Copy> next) const {
    return {std::move(next), {}, freed(own), true};
  }

  /// Of a layer; on the way back what gradients take over is freed with them.
  [[nodiscard]] Change released(Change change, bool backward) const {
    if (backward && s_.chunk > 0) change.free.clear();
    return change;
  }

  BlockId opening(const std::vector<Copy>& copies, const char* module) {
    BlockBuilder b(s_, fmt::format("{}.weights", module), Pass::forward, Section::model);
    const Draft empty = std::move(b.draft());
    s_.drafts.push_back(Editor(s_, empty).with({copies, {}, {}, false}));
    return BlockId{static_cast<std::uint32_t>(s_.drafts.size() - 1)};
  }
  BlockId release(const std::vector<Copy>& copies, const std::string& module) {
    BlockBuilder b(s_, fmt::format("{}.release", module), Pass::weight_gradient, Section::model);
    const Draft empty = std::move(b.draft());
    s_.drafts.push_back(Editor(s_, empty).freeing(buffers_of(copies)));
    return BlockId{static_cast<std::uint32_t>(s_.drafts.size() - 1)};
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

  void go_forward(Stage& stage, const Action& a, std::vector<Action>& out) {
    if (!ahead_) {
      out.push_back(a);
      return;
    }
    const Chunk c = stage.chunks[a.chunk];
    ORRERY_ASSERT(c.layers > 0, stage.number, a.chunk);
    const std::uint32_t top = c.low_layer + c.layers - 1;
    put(stage, Phase::first_weights, c.embedding ? part(true, 0, 0, false) : part(false, c.low_layer, 1, false),
        a.microbatch, out);
    put(stage, Phase::forward, part(c.embedding, c.low_layer, c.layers - 1, false), a.microbatch, out);
    put(stage, c.head ? Phase::forward_to_head : Phase::forward_last, part(false, top, 1, false), a.microbatch, out);
    if (c.head) put(stage, Phase::forward, part(false, top + 1, 0, true), a.microbatch, out);
  }

  /// A bucket's part of a chunk, or all of it.
  void go_backward(Stage& stage, const Action& a, std::uint32_t own, std::vector<Action>& out) {
    if (!ahead_) {
      out.push_back(a);
      return;
    }
    const Chunk c = stage.chunks[a.chunk];
    const Chunk whole = stage.chunks[own];
    const std::uint32_t top = whole.low_layer + whole.layers - 1;
    if (c.head) {
      put(stage, Phase::first_weights, part(false, top + 1, 0, true), a.microbatch, out);
    } else if (c.layers > 0 && !whole.head && c.low_layer + c.layers - 1 == top) {
      put(stage, Phase::first_weights, part(false, top, 1, false), a.microbatch, out);
    }
    const bool lowest = c.layers > 0 && c.low_layer == whole.low_layer;
    if (!lowest) {
      put(stage, Phase::backward, part(c.embedding, c.low_layer, c.layers, c.head), a.microbatch, out);
      return;
    }
    put(stage, Phase::backward, part(false, c.low_layer + 1, c.layers - 1, c.head), a.microbatch, out);
    put(stage, Phase::backward_last, part(c.embedding, c.low_layer, 1, false), a.microbatch, out);
  }

  State& s_;
  bool keep_, ahead_;
  std::vector<Copy> embedding_, layer_, head_;
};

// --- the pass ------------------------------------------------------------------

std::string before(const State& s) {
  if (s.drafts.empty()) return "there are no blocks";
  for (const Draft& d : s.drafts) {
    for (const Op& op : d.block.ops) {
      const auto* alloc = std::get_if<Alloc>(&op.action);
      if (alloc != nullptr && is_copy(s, alloc->what)) return d.block.name + " already has copies";
    }
  }
  return {};
}

void run(State& s) {
  if (s.zero >= 2) add_gradient_copies(s);
  if (s.zero < 3) return;
  Weights weights(s);
  weights.build();
  for (Stage& stage : s.stages) weights.rewrite(stage);
}

/// In the order of every stage's step a copy is used between its beginning and
/// its end only, and none is left.
std::string after(const State& s) {
  if (s.zero < 2) return {};
  return wrong_lives(s, [&](BufferId b) { return is_copy(s, b); });
}

}  // namespace

LoweringPass parameter_copies() { return {"parameter_copies", before, run, after}; }

}  // namespace orrery::lowering
