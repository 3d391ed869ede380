#include "core/program/lower/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/base/diagnostics.hpp"
#include "core/plan/head_shares.hpp"
#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {
namespace {

/// Marks layers of each stage from its first on, as many as the plan says.
std::vector<bool> recomputed_layers(const Plan& plan, std::uint64_t layers) {
  const bool any = plan.recompute == Recompute::full || modules_made_again(plan) != 0;
  if (!any || !plan.recompute_layers) return std::vector<bool>(layers, any);
  std::vector<bool> out;
  for (std::size_t s = 0; s < plan.stage_layers->size(); ++s) {
    for (std::uint32_t l = 0; l < (*plan.stage_layers)[s]; ++l) out.push_back(l < (*plan.recompute_layers)[s]);
  }
  return out;
}

/// Marks layers of each stage down from its last, as many eighths as the plan says, rounded up.
std::vector<bool> last_layers(const Plan& plan, std::uint32_t eighths) {
  std::vector<bool> out;
  for (const std::uint32_t layers : *plan.stage_layers) {
    const std::uint32_t kept = layers - (layers * eighths + 7) / 8;
    for (std::uint32_t l = 0; l < layers; ++l) out.push_back(l >= kept);
  }
  return out;
}

/// Marks layers of each stage up from its first.
std::vector<bool> first_layers(const Plan& plan, std::uint32_t eighths) {
  std::vector<bool> out;
  for (const std::uint32_t layers : *plan.stage_layers) {
    const std::uint32_t taken = (layers * eighths + 7) / 8;
    for (std::uint32_t l = 0; l < layers; ++l) out.push_back(l < taken);
  }
  return out;
}

/// Whether a local layer differs from others: it sees less, or rotates by other angles.
bool differs_as_local(const State& s, std::uint32_t layer) {
  if (!is_local(s.model, layer)) return false;
  return s.model.local->size < s.workload.sequence_length || s.model.local->rope_theta > 0.0;
}

}  // namespace

RecomputeModules modules_made_again(const Plan& plan) {
  if (plan.recompute != Recompute::selective) return 0;
  const bool scores = *plan.attention == AttentionKernel::unfused;
  const auto core = set_of(RecomputeModule::core_attn);
  return static_cast<RecomputeModules>(scores ? plan.recompute_modules : plan.recompute_modules & ~core);
}

State::State(const ModelSpec& m, const Workload& w, const Plan& p, const TensorSharding* own, OrderMemo* made)
    : model(m),
      workload(as_routed(w, p)),
      plan(p),
      memo(made),
      sharding(own != nullptr ? *own : tensor_sharding(p.tensor)),
      layout(sharding.layout()) {
  tensor = plan.mesh.size(Axis::tensor);
  data = plan.mesh.size(Axis::data);
  context = plan.mesh.size(Axis::context);
  pipeline = plan.mesh.size(Axis::pipeline);
  map = stage_map(plan);
  head_rank = map.rank(map.stages() - 1);
  split_backward = splits_backward(plan);
  predictions = static_cast<std::uint32_t>(model.prediction_modules);
  add_kinds();
  recomputes = recomputed_layers(plan, model.layers);
  // Lower bounds on plans take the blocks of one layer while stages are not split yet.
  states_on_host = plan.stage_layers ? last_layers(plan, *plan.offload_states)
                                     : std::vector<bool>(model.layers, plan.offload_states > 0U);
  bare_embedding = pipeline > 1 && plan.stage_layers && plan.stage_layers->front() == 0;
  bare_head = pipeline > 1 && plan.stage_layers && plan.stage_layers->back() == 0;
  ends_on_host = plan.offload_states == 8U;
  weights_on_host = plan.stage_layers ? last_layers(plan, *plan.offload_parameters)
                                      : std::vector<bool>(model.layers, plan.offload_parameters > 0U);
  activations_on_host = plan.stage_layers ? first_layers(plan, *plan.offload_activations)
                                          : std::vector<bool>(model.layers, plan.offload_activations > 0U);
  for (std::uint32_t k = 0; k < predictions; ++k) {
    recomputes.push_back(false);
    recomputes.push_back(!plan.recompute_layers && recomputes.front());
  }
  // Prediction modules go with the head.
  states_on_host.resize(numbered_layers(model), ends_on_host);
  weights_on_host.resize(numbered_layers(model), false);
  activations_on_host.resize(numbered_layers(model), false);
  two_way = map.two_way();
  // Otherwise each rank with a head has an embedding beside it.
  tied_apart = (model.tied_embeddings || predictions > 0) && head_rank != 0 && !two_way;
  sequence_parallel = plan.sequence_parallel && tensor > 1;
  sequences = plan.microbatch_size;
  positions = workload.sequence_length / context;
  tokens = sequences * positions;
  rows = sequence_parallel ? tokens / tensor : tokens;
  const std::uint64_t parts_of_wide = size(plan.mesh, layout.wide_features);
  grid = plan.tensor != TensorAlgorithm::one_d;
  hidden_width = model.hidden / size(plan.mesh, layout.stream_features);
  heads = static_cast<std::uint32_t>(model.heads / parts_of_wide);
  kv_heads = static_cast<std::uint32_t>(held_kv_heads(model, parts_of_wide) / parts_of_wide);
  shares_kv_heads = parts_of_wide > model.kv_heads;
  context_width = heads * value_width(model);
  const std::uint64_t pair = key_width(model) + value_width(model);
  qkv_width = heads * key_width(model) + kv_heads * pair;
  projected = (model.heads * key_width(model) + model.kv_heads * pair) / parts_of_wide;
  ffn = model.ffn / parts_of_wide;
  vocabulary = padded_vocabulary(plan, model) / parts_of_wide;
  expert_axes = orrery::expert_axes(plan);
  shard_axes = shard_axes_of(plan);
  zero = shard_axes.empty() ? 0 : plan.zero_stage;
  shard_states = zero >= 1;
  chunk = zero == 3 ? static_cast<std::uint64_t>(plan.parameter_chunk->base()) / size_of(weight_dtype(workload)) : 0;
  for (const Axis axis : batch_axes) {
    if (plan.mesh.size(axis) > 1) batch_split.axis[batch_split.count++] = axis;
  }
  if (batch_split.empty()) batch_split = {Axis::data};
  for (const Axis axis :
       {Axis::replica, Axis::data, Axis::context, Axis::expert, Axis::depth, Axis::row, Axis::column}) {
    const bool in_grid = axis == Axis::depth || axis == Axis::row || axis == Axis::column;
    if (in_grid && !contains(layout.stream_sequences, axis) && !contains(layout.wide_sequences, axis)) continue;
    if (plan.mesh.size(axis) > 1) token_axes.axis[token_axes.count++] = axis;
  }
  sums_over_tensor =
      sequence_parallel || (tensor > 1 && (!trains_weights() || model.query_key_norm == QueryKeyNorm::head ||
                                           (model.mixture && model.mixture->expert_bias)));
  reduce_gradients = !token_axes.empty() || sums_over_tensor || two_way;
  clip = workload.clip_norm.has_value();
  scaled = workload.precision == Precision::fp16;
  factor = clip || scaled;
  act = weight_dtype(workload);
  product = product_dtype(workload);
  grad = gradient_dtype(workload);
  state = wide_dtype(workload);
  logits = state;

  program.buffers.reserve(64);
  program.mesh = plan.mesh;
  program.layers = static_cast<std::uint32_t>(numbered_layers(model));
  program.microbatches = static_cast<std::uint32_t>(microbatches(plan, workload));
  if (pipeline > 1) program.class_axes = {Axis::pipeline};
  tensor_group = group({Axis::tensor});
  if (context > 1) context_group = group({Axis::context});
  pipeline_group = group({Axis::pipeline});
  // The norm is summed over ranks that hold different parts of the gradient.
  AxisList parts = {Axis::pipeline, Axis::tensor};
  for (const Axis axis : expert_axes) {
    if (plan.mesh.size(axis) > 1 && axis != Axis::tensor) parts.axis[parts.count++] = axis;
  }
  if (shard_states) {
    for (const Axis axis : shard_axes) {
      if (!contains(parts, axis)) parts.axis[parts.count++] = axis;
    }
  }
  if (grid) {
    row_group = group({Axis::row});
    column_group = group({Axis::column});
    if (plan.mesh.size(Axis::depth) > 1) depth_group = group({Axis::depth});
    for (const Axis axis : {Axis::depth, Axis::row, Axis::column}) {
      if (plan.mesh.size(axis) > 1) parts.axis[parts.count++] = axis;
    }
  }
  norm_group = group(parts);
  vocabulary_group = group(layout.wide_features);
  if (tied_apart) tied_group = group({Axis::pipeline}, {0, head_rank});
  if (two_way) heads_group = group({Axis::pipeline}, {0, head_rank});
  batch_group = group(batch_split);
  // Ranks that hold parts of one row of logits have the same loss.
  AxisList of_loss;
  for (const Axis axis : token_axes) {
    const bool same = contains(layout.wide_features, axis);
    if (!same) of_loss.axis[of_loss.count++] = axis;
  }
  token_group = of_loss.empty() ? batch_group : group(of_loss);
}

void State::add_kinds() {
  const bool mixed = mixes_kinds(model);
  const auto layers = static_cast<std::uint32_t>(model.layers);
  // The order of kinds: dense before mixtures, all keys before near ones, rotating before not.
  using Traits = std::array<bool, 3>;
  const auto traits_of = [&](std::uint32_t l) {
    return Traits{model.mixture && is_mixture(model, l), differs_as_local(*this, l), !rotates(model, l)};
  };
  std::set<Traits> all;
  for (std::uint32_t l = 0; l < layers; ++l) all.insert(traits_of(l));
  const auto add_kind = [&](LayerKind kind) {
    kind.number = static_cast<std::uint8_t>(kinds.size());
    kinds.push_back(std::move(kind));
  };
  const auto some = [&](std::size_t trait) {
    return std::any_of(all.begin(), all.end(), [&](const Traits& t) { return t[trait] != (*all.begin())[trait]; });
  };
  for (const Traits& t : all) {
    LayerKind kind;
    const bool dense_among_mixtures = mixed && !t[0];
    kind.module = dense_among_mixtures ? &State::dense_layer : &State::layer;
    kind.weights = mixed && t[0] ? 1 : 0;
    kind.mixture = t[0], kind.local = t[1], kind.rotates = !t[2];
    // Norms without weights are those of layers that rotate; the others have no statistics of them.
    const bool no_norms = model.query_key_norm == QueryKeyNorm::unweighted && t[2];
    kind.keeps = static_cast<std::uint8_t>(kind.weights + (no_norms ? 2 : 0));
    kind.name = dense_among_mixtures ? "layer.dense" : "layer";
    if (t[1] && some(1)) kind.name += ".local";
    if (t[2] && some(2)) kind.name += ".unrotated";
    add_kind(std::move(kind));
  }
  const auto add = [&](std::uint32_t number, std::size_t kind) {
    kinds[kind].layers.push_back(number);
    kind_numbers.push_back(static_cast<std::uint8_t>(kind));
  };
  const auto transformer = [&](std::uint32_t number) {
    add(number,
        static_cast<std::size_t>(std::distance(all.begin(), all.find(traits_of(std::min(number, layers - 1))))));
  };
  for (std::uint32_t l = 0; l < layers; ++l) transformer(l);
  for (std::uint32_t k = 1; k <= predictions; ++k) {
    LayerKind kind;
    kind.module = &State::prediction;
    kind.prediction = k;
    kind.name = "prediction";
    add_kind(std::move(kind));
    add(layers + 2 * k - 2, kinds.size() - 1);
    transformer(layers + 2 * k - 1);
  }
}

const LayerKind& State::first_with_module(const LayerKind& kind) const {
  return *std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return k.module == kind.module; });
}

std::vector<std::uint32_t> State::layers_with_module(const LayerKind& kind) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t l = 0; l < kind_numbers.size(); ++l) {
    if (kind_of(l).module == kind.module) out.push_back(l);
  }
  return out;
}

bool State::offloads_states() const {
  return std::find(states_on_host.begin(), states_on_host.end(), true) != states_on_host.end();
}

bool State::offloads_parameters() const {
  return std::find(weights_on_host.begin(), weights_on_host.end(), true) != weights_on_host.end();
}

Home State::home_of(std::uint32_t l) const {
  return weights_on_host[l] ? Home::all_on_host : states_on_host[l] ? Home::states_on_host : Home::device;
}

bool State::offloads_activations() const {
  return std::find(activations_on_host.begin(), activations_on_host.end(), true) != activations_on_host.end();
}

std::vector<const Module*> State::all_modules() const {
  std::vector<const Module*> all = {&embedding};
  for (const LayerKind& kind : kinds) {
    if (is_first_with_module(kind)) all.push_back(&(this->*kind.module));
  }
  if (!trains_weights()) all.push_back(&adapters);
  all.push_back(&head);
  return all;
}

Share share_of(const std::vector<bool>& marks, const LayerKind& kind) {
  const auto n = std::count_if(kind.layers.begin(), kind.layers.end(), [&](std::uint32_t l) { return marks[l]; });
  return n == 0 ? Share::none : static_cast<std::size_t>(n) < kind.layers.size() ? Share::some : Share::all;
}

BlockId block_of_layer(const State& s, const ModuleBlocks& blocks, std::uint32_t layer) {
  const LayerKind& kind = s.kind_of(layer);
  const Home home = s.home_of(layer);
  if (s.recomputes[layer] && blocks[kind].recomputed != no_block) return blocks[kind].recomputed;
  if (home == Home::states_on_host && blocks[kind].on_host != no_block) return blocks[kind].on_host;
  if (home == Home::all_on_host && blocks[kind].remote != no_block) return blocks[kind].remote;
  return blocks[kind].plain;
}

BlockId block_of_prediction(const State& s, const ModuleBlocks& blocks, std::uint32_t module) {
  if (blocks.prediction_layers[module] != no_block) return blocks.prediction_layers[module];
  return block_of_layer(s, blocks, static_cast<std::uint32_t>(s.model.layers) + 2 * module + 1);
}

std::vector<std::uint32_t> one_of_each_kind(const State& s) {
  std::vector<std::uint32_t> layers;
  for (const LayerKind& kind : s.kinds) {
    for (const bool recomputed : {true, false}) {
      const auto found = std::find_if(kind.layers.begin(), kind.layers.end(),
                                      [&](std::uint32_t l) { return s.recomputes[l] == recomputed; });
      if (kind.prediction == 0 && found != kind.layers.end()) layers.push_back(*found);
    }
  }
  return layers;
}

GroupId State::group(const AxisList& axes, std::vector<std::uint32_t> members) {
  const Group wanted{axes, std::move(members)};
  for (std::uint32_t i = 0; i < program.groups.size(); ++i) {
    if (program.groups[i] == wanted) return GroupId{i};
  }
  program.groups.push_back(wanted);
  return GroupId{static_cast<std::uint32_t>(program.groups.size() - 1)};
}

BufferId State::declare(Buffer buffer) {
  program.buffers.push_back(std::move(buffer));
  return BufferId{static_cast<std::uint32_t>(program.buffers.size() - 1)};
}

BufferId State::activation(std::string name, Role role, Scope scope, DType dtype, ShardDim feature, bool sharded_rows) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.role = role;
  buffer.scope = scope;
  buffer.dtype = dtype;
  buffer.shard = Shard{position_dim(*this, sharded_rows ? Rows::sequence_parallel : Rows::context),
                       stream_sequences(*this), feature};
  buffer.count = local_count(*buffer.shard, program.mesh, program.microbatches);
  return declare(std::move(buffer));
}

Kernel State::kernel(KernelKind kind, Pass pass, std::uint64_t r, std::uint64_t c, std::uint64_t depth) const {
  Kernel k;
  k.kind = kind;
  k.pass = pass;
  k.compute = act;
  k.rows = r;
  k.columns = c;
  k.depth = depth;
  return k;
}

State::Parameter State::parameter(const Module& module, std::string_view slice) const {
  for (const ParameterSlice& s : program.parameter_tables[module.table].slices) {
    if (s.name == slice) return {s.offset, local_count(s.shard, program.mesh)};
  }
  ORRERY_ASSERT(false, std::string(slice));
  return {};
}

HeadMatrix head_matrix(const State& c) {
  if (!c.model.tied_embeddings) return {&c.head, "output.weight"};
  if (c.tied_apart) return {&c.head, "embedding.word.weight"};
  return {&c.embedding, "word.weight"};
}

HeadMatrix last_word_table(const State& c) {
  if (c.tied_apart) return {&c.head, "embedding.word.weight"};
  return {&c.embedding, "word.weight"};
}

BufferId host_weights(const State& s, const Module& m, Home home) {
  const bool pass = home == Home::all_on_host && s.plan.parameters_tier == OffloadTier::disk;
  return pass ? m.host.passing_weights : m.host.weights;
}

std::vector<Operand> disk_pairs(const State& s, const Module& m, Home home, bool up) {
  std::vector<Operand> pairs;
  const auto add = [&](BufferId disk, BufferId host) {
    pairs.push_back(read(up ? disk : host));
    pairs.push_back(write(up ? host : disk));
  };
  if (home == Home::all_on_host && s.plan.parameters_tier == OffloadTier::disk) {
    add(m.host.disk_weights, m.host.passing_weights);
  }
  if (home == Home::device || s.plan.states_tier != OffloadTier::disk) return pairs;
  if (has_master_weights(s.workload)) add(m.host.disk_masters, m.host.masters);
  for (int i = 0; i < optimizer_moments(s.workload); ++i) add(m.host.disk_moments[i], m.host.moments[i]);
  if (has_factored_moments(s.workload)) add(m.host.disk_moments[0], m.host.moments[0]);
  if (has_scaled_moments(s.workload)) add(m.host.disk_scales, m.host.scales);
  return pairs;
}

Lane copy_lane(Tier from, Tier to) {
  const std::uint8_t index = to == Tier::device ? 0 : from == Tier::device ? 1 : from == Tier::disk ? 2 : 3;
  return {LaneKind::copy, index};
}

Lane collective_lane(const Program& program, GroupId group) { return lane_over(program[group].axes); }

ShardDim position_dim(const State& s, Rows rows) {
  ShardDim d{s.workload.sequence_length, s.workload.sequence_length, {}, false};
  if (s.context > 1) {
    if (s.plan.zigzag) d.zigzag = s.context;
    if (rows != Rows::whole) d.split.axis[d.split.count++] = Axis::context;
  }
  if (rows == Rows::sequence_parallel) d.split.axis[d.split.count++] = Axis::tensor;
  return d;
}

bool is_in(GradientPart part, const ParameterTable& table, const ParameterSegment& segment) {
  // The authors of split passes leave the products of layers to weight actions.
  const bool product = of_layers(table) && table.module != "prediction" && segment.decay;
  switch (part) {
    case GradientPart::all: return true;
    case GradientPart::first: return !product;
    case GradientPart::products: return product;
  }
  return true;
}

bool tied_between_chunks(const State& c) {
  return c.zero >= 2 && c.trains_weights() && (c.model.tied_embeddings || c.predictions > 0) && !c.tied_apart &&
         c.map.chunks > 1;
}

bool is_copy(const State& c, BufferId b) {
  const auto of = [&](const Module& m) {
    return (c.zero >= 2 && (b == m.whole_gradients || b == m.first_gradients)) || (c.zero >= 3 && b == m.whole_weights);
  };
  return of(c.embedding) || of(c.head) || (!c.trains_weights() && of(c.adapters)) ||
         std::any_of(c.kinds.begin(), c.kinds.end(), [&](const LayerKind& kind) { return of(c.*kind.module); });
}

std::vector<Lane> product_lanes(const State& c) {
  if (!c.grid) return {};
  return {collective_lane(c.program, c.plan.tensor == TensorAlgorithm::three_d ? c.depth_group : c.row_group)};
}

namespace {

ShardDim sequences_by(const State& s, const AxisList& axes) {
  ShardDim d{s.workload.global_batch, s.workload.global_batch, s.batch_split, true};
  for (const Axis axis : axes) d.split.axis[d.split.count++] = axis;
  return d;
}

}  // namespace

ShardDim stream_sequences(const State& s) { return sequences_by(s, s.layout.stream_sequences); }
ShardDim wide_sequences(const State& s) { return sequences_by(s, s.layout.wide_sequences); }

std::uint32_t whole_chunk(const Stage& stage, std::uint32_t chunk) {
  if (chunk < stage.own_chunks) return chunk;
  const Chunk& part = stage.chunks[chunk];
  for (std::uint32_t c = 0; c < stage.own_chunks; ++c) {
    const Chunk& whole = stage.chunks[c];
    const bool inside =
        part.layers > 0 && whole.low_layer <= part.low_layer && part.low_layer < whole.low_layer + whole.layers;
    if (inside || (part.head && whole.head) || (part.embedding && whole.embedding)) return c;
  }
  ORRERY_ASSERT(false, stage.number, chunk);
  return 0;
}

std::size_t kept_case(const State& s, std::uint32_t layer) {
  return 2 * std::size_t{s.kind_of(layer).keeps} + (s.recomputes[layer] ? 1 : 0);
}

std::size_t block_case(const State& s, std::uint32_t layer) {
  return 2 * std::size_t{s.kind_of(layer).number} + (s.recomputes[layer] ? 1 : 0);
}

LayerCopies layer_copies(const State& s, const Chunk& whole, Phase phase, std::uint32_t layer) {
  LayerCopies out;
  if (!is_forward(phase) && !is_backward(phase)) return out;
  if (layer > whole.low_layer && s.activations_on_host[layer - 1]) {
    (is_forward(phase) ? out.down : out.up) = static_cast<std::uint8_t>(kept_case(s, layer - 1) + 1);
  }
  out.awaits = is_backward(phase) && s.activations_on_host[layer];
  out.awaits_weights = s.weights_on_host[layer];
  const std::uint32_t end = whole.low_layer + whole.layers;
  const bool goes_on = is_forward(phase) ? layer + 1 < end : layer > whole.low_layer;
  const std::uint32_t next = is_forward(phase) ? layer + 1 : layer - 1;
  if (goes_on && s.weights_on_host[next]) out.next_weights = static_cast<std::uint8_t>(s.kind_of(next).weights + 1);
  return out;
}

namespace {

/// The ops of a block that begin, end or use what is watched.
struct WatchedOp {
  BufferId what;
  std::int8_t layer_shift = 0;
  enum class Kind : std::uint8_t { begin, end, use } kind = Kind::use;
};

std::vector<WatchedOp> watched_ops(const Block& block, const std::vector<bool>& is_watched) {
  std::vector<WatchedOp> out;
  const auto add = [&](BufferId b, std::int8_t shift, WatchedOp::Kind kind) {
    if (is_watched[index(b)]) out.push_back({b, shift, kind});
  };
  for (const Op& op : block.ops) {
    if (const auto* alloc = std::get_if<Alloc>(&op.action)) {
      add(alloc->what, alloc->layer_shift, WatchedOp::Kind::begin);
    } else if (const auto* free = std::get_if<Free>(&op.action)) {
      add(free->what, free->layer_shift, WatchedOp::Kind::end);
    }
    for_each_view(block, op, [&](const View& v) { add(v.buffer, v.layer_shift, WatchedOp::Kind::use); });
  }
  return out;
}

}  // namespace

std::string wrong_lives(const State& s, const std::function<bool(BufferId)>& watched) {
  std::vector<bool> is_watched;
  for (std::uint32_t b = 0; b < s.program.buffers.size(); ++b) is_watched.push_back(watched(BufferId{b}));
  if (std::find(is_watched.begin(), is_watched.end(), true) == is_watched.end()) return {};
  std::map<std::uint32_t, std::vector<WatchedOp>> ops_of;  // by block
  for (const Stage& stage : s.stages) {
    std::set<Instance> live;
    std::string wrong;
    const auto walk = [&](BlockId id, std::uint32_t layer, std::uint32_t microbatch) {
      const auto [at, fresh] = ops_of.try_emplace(index(id));
      if (fresh) at->second = watched_ops(s[id].block, is_watched);
      for (const WatchedOp& op : at->second) {
        const Instance i = instance_of(s.program, op.what, op.layer_shift, layer, microbatch);
        const bool begins = op.kind == WatchedOp::Kind::begin, ends = op.kind == WatchedOp::Kind::end;
        if (live.contains(i) == begins) {
          wrong = fmt::format("stage {}: {} of layer {} {} in {}", stage.number, s.program[op.what].name, i.layer,
                              begins ? "begins twice"
                              : ends ? "ends while it does not live"
                                     : "is used while it does not live",
                              s[id].block.name);
        }
        if (begins) live.insert(i);
        if (ends) live.erase(i);
      }
    };
    std::vector<Slot> slots;
    for (const Action& a : stage.step) add_slots(s, stage, a, slots);
    for (const Slot& slot : slots) {
      for (std::uint32_t r = 0; r < slot.repeat && wrong.empty(); ++r) {
        walk(slot.block, static_cast<std::uint32_t>(slot.layer + static_cast<std::int64_t>(r) * slot.layer_step),
             slot.microbatch);
      }
      if (!wrong.empty()) return wrong;
    }
    if (!live.empty())
      return fmt::format("stage {} never frees {}", stage.number, s.program[live.begin()->buffer].name);
  }
  return {};
}

bool is_persistent(const Buffer& b) {
  return b.role == Role::weight || b.role == Role::gradient || b.role == Role::master || b.role == Role::moment ||
         b.role == Role::scalar;
}

}  // namespace orrery::lowering
