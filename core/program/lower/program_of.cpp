#include <algorithm>
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
    case Phase::forward_last:
    case Phase::forward_kept:
    case Phase::backward_last:
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

bool is_forward(Phase p) {
  return p == Phase::forward || p == Phase::forward_to_head || p == Phase::forward_last || p == Phase::forward_kept;
}

BlockId block_of(const Stage& stage, const Chunk& chunk, Phase phase) {
  if (phase == Phase::reduce) return chunk.reduce;
  if (phase == Phase::gather) return chunk.gather;
  if (phase == Phase::combine) return chunk.combine;
  if (phase == Phase::sum_pipes) return chunk.sum_pipes;
  if (is_message(phase)) return chunk.transfers[message_index(phase)];
  return stage.blocks[static_cast<std::size_t>(phase)];
}

std::vector<Slot> slots_of(const State& state, const Stage& stage, const std::vector<Action>& actions,
                           const std::vector<BlockId>& number) {
  std::vector<Slot> slots;
  slots.reserve(2 * actions.size() + 2);
  for (const Action& a : actions) add_slots(state, stage, a, slots);
  for (Slot& slot : slots) slot.block = number[index(slot.block)];
  return slots;
}

}  // namespace

void add_slots(const State& state, const Stage& stage, const Action& a, std::vector<Slot>& slots) {
  const auto run = [&](BlockId block, std::uint32_t layer, std::uint32_t repeat = 1, std::int32_t step = 1) {
    if (block == no_block) return;
    slots.push_back({block, layer, a.microbatch, repeat, step});
  };
  const std::uint32_t layers = state.program.layers;  // the head takes what a layer behind the last would
  const Chunk& chunk = stage.chunks[a.chunk];
  if (!per_module(a.phase)) {
    run(block_of(stage, chunk, a.phase), layer_of(a.phase, chunk));
    return;
  }
  const ModuleBlocks& blocks = state.blocks(a.phase);
  const std::uint32_t end = chunk.low_layer + chunk.layers;
  // Layers [low, split) run one block and [split, end) the other.
  BlockId below = blocks.layer, above = blocks.layer;
  std::uint32_t split = chunk.low_layer;
  if (blocks.recomputed_layer != no_block) {
    below = blocks.recomputed_layer;
    while (split < end && state.recomputes[split]) ++split;
  } else if (blocks.host_layer != no_block) {
    above = blocks.host_layer;
    while (split < end && !state.states_on_host[split]) ++split;
  }
  const auto run_below = [&](bool up) {
    const std::uint32_t n = split - chunk.low_layer;
    if (n > 0) run(below, up ? chunk.low_layer : split - 1, n, up ? 1 : -1);
  };
  const auto run_above = [&](bool up) {
    if (end > split) run(above, up ? split : end - 1, end - split, up ? 1 : -1);
  };
  if (a.phase == Phase::backward || a.phase == Phase::backward_last || a.phase == Phase::weight) {
    if (chunk.head) run(blocks.head, layers);
    run_above(false);
    run_below(false);
    if (chunk.embedding) run(blocks.embedding, 0);
    return;
  }
  // The host's updates are issued before the device's, beside which they run.
  const bool host_first = a.phase == Phase::update && state.offloads_states();
  if (chunk.embedding) run(blocks.embedding, 0);
  if (host_first) run_above(true);
  run_below(true);
  if (!host_first) run_above(true);
  if (chunk.head) run(blocks.head, is_forward(a.phase) ? layers : 0);
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
  std::vector<RankClass> classes;
  classes.reserve(state.stages.size());
  for (const Stage& stage : state.stages) {
    classes.push_back({slots_of(state, stage, stage.setup, number), slots_of(state, stage, stage.step, number)});
  }
  Program program = std::move(state.program);
  program.blocks = std::move(blocks);
  program.classes = std::move(classes);
  return program;
}

}  // namespace orrery::lowering
