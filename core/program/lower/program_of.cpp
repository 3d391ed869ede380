#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {
namespace {

/// The layer that a block of the chunk as a whole works at.
std::uint32_t layer_of(Phase phase, const Chunk& chunk) {
  switch (phase) {
    case Phase::receive_hidden:
    case Phase::send_gradient:
    case Phase::reduce:
    case Phase::reduce_first:
    case Phase::gather:
    case Phase::combine:
    case Phase::sum_pipes: return chunk.low_layer;
    case Phase::send_hidden:
    case Phase::receive_gradient: return chunk.low_layer + chunk.layers;
    case Phase::setup:
    case Phase::clear:
    case Phase::forward:
    case Phase::backward:
    case Phase::weight:
    case Phase::norm:
    case Phase::update:
    case Phase::first_weights:
    case Phase::forward_to_head:
    case Phase::forward_to_other:
    case Phase::forward_last:
    case Phase::forward_kept:
    case Phase::backward_last:
    case Phase::backward_to_other:
    case Phase::release:
    case Phase::scalars:
    case Phase::begin:
    case Phase::tied:
    case Phase::clear_norm:
    case Phase::reduce_norm:
    case Phase::advance:
    case Phase::mean_loss: return 0;
  }
  return 0;
}

BlockId block_of(const Stage& stage, const Chunk& chunk, Phase phase) {
  if (phase == Phase::reduce) return chunk.reduce;
  if (phase == Phase::reduce_first) return chunk.reduce_first;
  if (phase == Phase::gather) return chunk.gather;
  if (phase == Phase::combine) return chunk.combine;
  if (phase == Phase::sum_pipes) return chunk.sum_pipes;
  if (is_message(phase)) return chunk.transfers[message_index(phase)];
  return stage.blocks[static_cast<std::size_t>(phase)];
}

/// The block that a layer runs, in a chunk of place.
BlockId layer_block(const State& s, const Chunk& whole, Phase phase, std::uint32_t layer) {
  if (s.copying) {
    const LayerCopies copies = layer_copies(s, whole, phase, layer);
    if (copies.any()) {
      return s.copying->layer[static_cast<std::size_t>(phase)][block_case(s, layer)][copies.number()];
    }
  }
  return block_of_layer(s, s.blocks(phase), layer);
}

bool takes_gradient(Phase p) { return is_backward(p) || p == Phase::weight; }

/// How many receives before an action are for later actions: receives of one direction come in order, and a pass needs
/// its own and those of earlier passes.
class ReceivesAhead {
 public:
  ReceivesAhead(const StageMap& map, const Stage& stage, std::uint32_t microbatches)
      : map_(map), stage_(stage), microbatches_(microbatches) {
    for (Direction& d : directions_) d.place.resize(std::size_t{stage.own_chunks} * microbatches);
  }

  /// `whole` is the action's chunk, or the chunk that it is part of.
  std::uint32_t see(const Action& a, std::uint32_t whole) {
    if (a.phase == Phase::receive_hidden || a.phase == Phase::receive_gradient) {
      const bool hidden = a.phase == Phase::receive_hidden;
      Direction& d = directions_[hidden ? 0 : 1];
      ++d.issued;
      for (std::optional<std::uint32_t> taker = whole; taker; taker = behind(*taker, hidden)) {
        d.place[*taker * std::size_t{microbatches_} + a.microbatch] = d.issued;
      }
      return 0;
    }
    // A chunk without modules sends on what it receives.
    const bool up = is_forward(a.phase) || a.phase == Phase::send_hidden;
    if (!up && !takes_gradient(a.phase) && a.phase != Phase::send_gradient) return 0;
    Direction& d = directions_[up ? 0 : 1];
    d.needed = std::max(d.needed, d.place[whole * std::size_t{microbatches_} + a.microbatch]);
    return d.issued - d.needed;
  }

 private:
  /// The chunk of this rank that takes what one without layers has received.
  [[nodiscard]] std::optional<std::uint32_t> behind(std::uint32_t chunk, bool up) const {
    const std::uint32_t here = map_.stage(stage_.number, chunk), pipe = map_.pipe(chunk);
    if (stage_.chunks[chunk].layers > 0 || (up ? here + 1 == map_.stages() : here == 0)) return std::nullopt;
    const std::uint32_t next = up ? here + 1 : here - 1;
    if (map_.rank(next, pipe) != stage_.number) return std::nullopt;
    return map_.chunk(next, pipe);
  }

  struct Direction {
    std::vector<std::uint32_t> place;  ///< place of a pass's message among all, from 1; 0: not received, or from this
                                       ///< rank
    std::uint32_t issued = 0;
    std::uint32_t needed = 0;
  };
  const StageMap& map_;
  const Stage& stage_;
  std::uint32_t microbatches_;
  std::array<Direction, 2> directions_;  ///< hidden states, gradients
};

bool waits_for_receives(const Block& block) {
  return std::any_of(block.waits.begin(), block.waits.end(),
                     [](const Wait& w) { return w.kind == Wait::Kind::tail && is_receive(w.lane); });
}

/// What the actions of a stage run, with blocks numbered as in the Program.  An action runs the same slots for each
/// microbatch, so they are found once for each phase of each chunk.
class StageSlots {
 public:
  StageSlots(const State& state, const Stage& stage, const std::vector<BlockId>& number,
             const std::vector<bool>& waits_for_receives)
      : state_(state),
        stage_(stage),
        number_(number),
        waits_for_receives_(waits_for_receives),
        patterns_(phases * stage.chunks.size()) {}

  std::vector<Slot> of(const std::vector<Action>& actions) {
    std::size_t count = 0;
    for (const Action& a : actions) count += pattern(a).slots.count;
    std::vector<Slot> slots;
    slots.reserve(count);
    ReceivesAhead receives(state_.map, stage_, state_.program.microbatches);
    for (const Action& a : actions) {
      const Pattern& p = pattern(a);
      const std::uint32_t ahead = receives.see(a, p.whole);
      for (std::uint32_t i = p.slots.first; i < p.slots.first + p.slots.count; ++i) {
        Slot& slot = slots.emplace_back(slots_[i]);
        slot.microbatch = a.microbatch;
        if (ahead > 0 && waits_for_receives_[index(slot.block)]) slot.receives_ahead = ahead;
      }
    }
    return slots;
  }

 private:
  struct Pattern {
    bool found = false;
    std::uint32_t whole = 0;  ///< chunk of `place`
    Range slots;              ///< in `slots_`
  };

  const Pattern& pattern(const Action& a) {
    Pattern& p = patterns_[phases * a.chunk + static_cast<std::size_t>(a.phase)];
    if (p.found) return p;
    p.found = true;
    p.whole = whole_chunk(stage_, a.chunk);
    p.slots.first = static_cast<std::uint32_t>(slots_.size());
    add_slots(state_, stage_, a, slots_);
    p.slots.count = static_cast<std::uint32_t>(slots_.size()) - p.slots.first;
    for (std::uint32_t i = p.slots.first; i < slots_.size(); ++i) slots_[i].block = number_[index(slots_[i].block)];
    return p;
  }

  const State& state_;
  const Stage& stage_;
  const std::vector<BlockId>& number_;
  const std::vector<bool>& waits_for_receives_;
  std::vector<Pattern> patterns_;  ///< by chunk and phase
  std::vector<Slot> slots_;
};

}  // namespace

void add_slots(const State& state, const Stage& stage, const Action& a, std::vector<Slot>& slots) {
  const auto run = [&](BlockId block, std::uint32_t layer, std::uint32_t repeat = 1, std::int32_t step = 1) {
    if (block == no_block) return;
    slots.push_back({block, layer, a.microbatch, repeat, step, 0});
  };
  const auto layers =
      static_cast<std::uint32_t>(state.model.layers);  // the head takes the number of a layer behind the last one
  const Chunk& chunk = stage.chunks[a.chunk];
  if (!per_module(a.phase)) {
    run(block_of(stage, chunk, a.phase), layer_of(a.phase, chunk));
    return;
  }
  const ModuleBlocks& blocks = state.blocks(a.phase);
  const std::uint32_t end = chunk.low_layer + chunk.layers;
  const Chunk& whole = stage.chunks[whole_chunk(stage, a.chunk)];
  const auto all = [](std::uint32_t) { return true; };
  // Neighbours that run the same block are one slot.
  const auto run_layers = [&](bool up, auto&& wanted) {
    for (std::uint32_t i = 0; i < chunk.layers;) {
      const auto at = [&](std::uint32_t n) { return up ? chunk.low_layer + n : end - 1 - n; };
      const auto block = [&](std::uint32_t n) {
        return wanted(at(n)) ? layer_block(state, whole, a.phase, at(n)) : no_block;
      };
      const std::uint32_t first = i++;
      const BlockId same = block(first);
      while (i < chunk.layers && block(i) == same) ++i;
      run(same, at(first), i - first, up ? 1 : -1);
    }
  };
  // The top layer of a chunk has no neighbour beside which its activations could go down or come up.
  const std::uint32_t top = whole.low_layer + whole.layers - 1;
  const bool has_top = chunk.layers > 0 && end - 1 == top;
  const bool copies_top = state.copying && has_top && state.activations_on_host[top];
  const std::size_t of_top = copies_top ? kept_case(state, top) : 0;
  if (is_backward(a.phase) || a.phase == Phase::weight) {
    if (is_backward(a.phase) && state.copying && has_top && state.weights_on_host[top])
      run(state.copying->first_weights[state.kind_of(top).weights], top);
    if (copies_top && is_backward(a.phase)) run(state.copying->first_up[of_top], top);
    if (chunk.head) {
      for (std::uint32_t k = state.predictions; k-- > 0;) {
        run(blocks.prediction_heads[k], layers + 2 * k + 2);
        run(block_of_prediction(state, blocks, k), layers + 2 * k + 1);
        run(block_of_layer(state, blocks, layers + 2 * k), layers + 2 * k);
      }
      run(blocks.head, layers);
    }
    run_layers(false, all);
    if (chunk.embedding) run(blocks.embedding, 0);
    return;
  }
  if (is_forward(a.phase) && state.copying && chunk.layers > 0 && state.weights_on_host[whole.low_layer] &&
      chunk.low_layer == whole.low_layer) {
    run(state.copying->first_weights[state.kind_of(whole.low_layer).weights], whole.low_layer);
  }
  if (chunk.embedding) run(blocks.embedding, 0);
  if (a.phase == Phase::update && state.offloads_states()) {
    // The host's updates are issued before the device's, beside which they run.
    run_layers(true, [&](std::uint32_t l) { return state.states_on_host[l]; });
    run_layers(true, [&](std::uint32_t l) { return !state.states_on_host[l]; });
  } else {
    run_layers(true, all);
  }
  if (copies_top && is_forward(a.phase)) run(state.copying->last_down[of_top], top);
  if (!chunk.head) return;
  run(blocks.head, is_forward(a.phase) ? layers : 0);
  if (a.phase == Phase::first_weights) return;  // prediction modules gather in front of themselves
  for (std::uint32_t k = 0; k < state.predictions; ++k) {
    run(block_of_layer(state, blocks, layers + 2 * k), layers + 2 * k);
    run(block_of_prediction(state, blocks, k), layers + 2 * k + 1);
    run(blocks.prediction_heads[k], layers + 2 * k + 2);
  }
}

Program program_of(State&& state) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order(state.drafts.size());  // place, then as built
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = {state.drafts[i].place, i};
  std::sort(order.begin(), order.end());
  std::vector<BlockId> number(order.size());
  std::vector<Block> blocks;
  blocks.reserve(order.size());
  for (const auto& [place, i] : order) {
    number[i] = BlockId{static_cast<std::uint32_t>(blocks.size())};
    blocks.push_back(std::move(state.drafts[i].block));
  }
  std::vector<bool> waits(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) waits[b] = waits_for_receives(blocks[b]);
  std::vector<RankClass> classes;
  classes.reserve(state.stages.size());
  for (const Stage& stage : state.stages) {
    StageSlots slots(state, stage, number, waits);
    classes.push_back({slots.of(stage.setup), slots.of(stage.step)});
  }
  Program program = std::move(state.program);
  program.blocks = std::move(blocks);
  program.classes = std::move(classes);
  return program;
}

}  // namespace orrery::lowering
