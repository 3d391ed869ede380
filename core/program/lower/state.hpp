#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "core/plan/plan.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/draft.hpp"
#include "core/program/lower/segment_share.hpp"
#include "core/program/program.hpp"

namespace orrery::lowering {

/// What an action does.  Those up to `release` run one block per module of
/// their chunk; the rest run one block.
enum class Phase : std::uint8_t {
  setup,
  clear,
  forward,
  backward,  ///< all of backward, or, where the schedule splits it, the part that the stage before waits for
  weight,    ///< the weight gradients of layers, where the schedule splits backward
  norm,
  update,
  // ZeRO-3 (gathered_weights): variants of forward and backward that differ in what they gather ahead and free.
  first_weights,     ///< gathers what the first module of a chunk needs
  forward_to_head,   ///< gathers the head's weights ahead
  forward_to_other,  ///< gathers ahead for a layer of another kind
  forward_last,      ///< gathers nothing ahead
  forward_kept,      ///< weights are there
  backward_last,     ///< gathers nothing ahead
  backward_to_other,
  release,  ///< frees weights that were kept
  receive_hidden,
  send_hidden,
  receive_gradient,
  send_gradient,
  reduce,
  reduce_first,  ///< reduces gradients that passes add to before their weight actions, where ZeRO cuts those of a split
                 ///< pass
  gather,        ///< of the chunk's gradients, and of its updated weights
  combine,       ///< of the gradients' parts once all microbatches are reduced
  sum_pipes,     ///< gradients over the two ranks that hold the chunk, where there are two pipes
  scalars,
  begin,
  tied,
  clear_norm,
  reduce_norm,
  advance,
  mean_loss,
};
inline constexpr std::size_t module_phases = static_cast<std::size_t>(Phase::release) + 1;
inline constexpr std::size_t phases = static_cast<std::size_t>(Phase::mean_loss) + 1;
[[nodiscard]] constexpr bool per_module(Phase p) { return p <= Phase::release; }
/// Messages between virtual stages, numbered from receive_hidden.
[[nodiscard]] constexpr bool is_message(Phase p) { return Phase::receive_hidden <= p && p <= Phase::send_gradient; }
[[nodiscard]] constexpr std::size_t message_index(Phase p) {
  return static_cast<std::size_t>(p) - static_cast<std::size_t>(Phase::receive_hidden);
}

/// Stands in place of a block where the phase does nothing for the module, or the chunk has no such message.
inline constexpr BlockId no_block{~std::uint32_t{0}};

/// One entry of a stage's list.
struct Action {
  Phase phase = Phase::forward;
  std::uint32_t chunk = 0;  ///< of Stage::chunks
  std::uint32_t microbatch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

/// Neighbouring modules of one pipeline rank that an action covers: the embedding, then layers, then the head, and with
/// it the prediction modules.
struct Chunk {
  bool embedding = false;
  std::uint32_t low_layer = 0;  ///< lowest of them
  std::uint32_t layers = 0;     ///< how many
  bool head = false;
  BlockId reduce{};  ///< of Phase::reduce, where that runs
  BlockId gather{};
  BlockId combine{};
  BlockId sum_pipes{};
  BlockId reduce_first = no_block;
  std::array<BlockId, 4> transfers{no_block, no_block, no_block, no_block};  ///< receive_hidden .. send_gradient
};

/// One rank of the pipeline: its chunks and its actions.
///
/// The first `chunks` are those that `place` made, one for each of its virtual stages from the lowest on. Behind them
/// stand parts of these (gradient buckets), which later passes refer to.
struct Stage {
  std::uint32_t number = 0;
  std::uint32_t own_chunks = 0;  ///< of place
  std::vector<Chunk> chunks;
  std::vector<Action> setup, step;
  std::array<BlockId, phases> blocks{};  ///< of phases that run one block for all chunks
};

/// Blocks of a kind of layers.
struct LayerBlocks {
  BlockId plain = no_block;
  BlockId recomputed = no_block;  ///< of recomputed layers, where other layers are not; no_block: the same as `plain`
  /// Blocks of layers whose states, or weights too, are in host memory, where those of other layers are not.
  BlockId on_host = no_block, remote = no_block;
};
struct LayerKind;
/// Transformer layers are dense or mixtures, see all keys or near ones, rotate or not.
inline constexpr std::size_t max_layer_kinds = 8;

/// A block for each kind of module.
struct ModuleBlocks {
  BlockId embedding = no_block, head = no_block;
  std::array<LayerBlocks, max_layer_kinds + max_prediction_modules> layers;  ///< by LayerKind::number
  std::array<BlockId, max_prediction_modules> prediction_heads = [] {        ///< the head behind each prediction module
    std::array<BlockId, max_prediction_modules> none;
    none.fill(no_block);
    return none;
  }();
  /// The transformer layer of each, where it differs from others of its kind.
  std::array<BlockId, max_prediction_modules> prediction_layers = prediction_heads;
  [[nodiscard]] LayerBlocks& operator[](const LayerKind&);
  [[nodiscard]] const LayerBlocks& operator[](const LayerKind&) const;
};
/// Where a module's states and weights live.
enum class Home : std::uint8_t { device, states_on_host, all_on_host };

/// What a layer's block does with copies of data in host memory: activations that wait there, and weights. A "case" is
/// a number from kept_case(), counted from 1; 0 is none.
struct LayerCopies {
  std::uint8_t down = 0;          ///< forward: beside its own work, the activations that the layer before keeps go down
  std::uint8_t up = 0;            ///< backward: what the next layer down kept comes up
  bool awaits = false;            ///< backward: what it kept itself has been brought up
  std::uint8_t next_weights = 0;  ///< the next layer's weights come up: LayerKind::weights of its kind, from 1
  bool awaits_weights = false;    ///< its own have
  static constexpr std::size_t cases = 8, kinds = 2;
  static constexpr std::size_t numbers = (cases + 1) * (cases + 1) * (kinds + 1) * 4;
  [[nodiscard]] bool any() const { return number() > 0; }
  [[nodiscard]] std::size_t number() const {
    return ((down * (cases + 1) + up) * (kinds + 1) + next_weights) * 4U + (awaits ? 2U : 0U) +
           (awaits_weights ? 1U : 0U);
  }
};
/// Blocks with such copies.
struct CopyingBlocks {
  /// By block_case() of the layer and LayerCopies::number.
  std::array<std::array<std::array<BlockId, LayerCopies::numbers>, 2 * max_layer_kinds>, module_phases> layer;
  /// Blocks for a chunk's top layer: its activations go down after its forward pass and come up before its backward
  /// pass.
  std::array<BlockId, LayerCopies::cases> last_down, first_up;  ///< by kept_case()
  std::array<BlockId, LayerCopies::kinds> first_weights;  ///< of the layer that a pass begins with: LayerKind::weights
};

/// No buffer of a Program.
inline constexpr BufferId no_buffer{~std::uint32_t{0}};

/// The part of a module in host memory, or on disk, where its states are offloaded.
struct HostStates {
  BufferId weights{};    ///< the source of the device's copy, after an update or for each use
  BufferId gradients{};  ///< while the host updates
  BufferId masters{};    ///< while the host updates, where states wait on the disk
  BufferId moments[2]{};
  BufferId scales{};           ///< of moments in fp8 and fp16
  BufferId passing_weights{};  ///< on their way from the disk, or back
  BufferId disk_weights{}, disk_masters{}, disk_moments[2]{}, disk_scales{};
};

/// Persistent buffers of one module ("embedding", "layer", "layer.dense", "prediction", "head").
struct Module {
  std::uint32_t table = 0;  ///< index into Program::parameter_tables
  BufferId weights{};
  BufferId gradients{};   ///< no_buffer, as those below, where the weights stay as they are
  BufferId masters{};     ///< only with has_master_weights
  BufferId moments[2]{};  ///< optimizer_moments of them; Adafactor: the first
  BufferId scales{};      ///< of moments in fp8 and fp16
  /// The buffers that compute reads and adds to: those above, or copies that live for a while where ZeRO keeps only
  /// this rank's part of gradients (2) or weights too (3).
  BufferId whole_weights{}, whole_gradients{};
  /// The gradients of GradientPart::first, where a split pass scatters them by themselves; otherwise all.
  BufferId first_gradients{};
  HostStates host;  ///< only where Plan::offload_states says so
};

/// A matrix of layers that is kept in few bits. It is a module of its own, which has weights in full for as long as
/// setup, or a product, needs them. All are of one rank.
struct BaseMatrix {
  std::uint32_t table = 0;  ///< index into Program::parameter_tables
  std::string_view weight;  ///< its slice: "attention.qkv.weight"
  std::uint64_t rows = 0, columns = 0;
  BufferId codes{}, scales{};
  BufferId forward{}, backward{};  ///< in full, for the product and for its input gradient
};

struct State;

/// Layers that have the same parameters and the same ops. Several kinds may have one module: their parameters are
/// alike, and so is all that is done with these outside the passes of layers.
struct LayerKind {
  Module State::*module = nullptr;
  std::uint8_t number = 0;            ///< its place in State::kinds
  std::uint8_t weights = 0;           ///< of a transformer layer: the number of its module among theirs
  std::uint8_t keeps = 0;             ///< the same for kinds whose layers keep the same buffers for backward
  bool mixture = false;               ///< instead of a dense feed-forward part
  bool local = false;                 ///< is_local(model, layer), where that makes a difference
  bool rotates = false;               ///< rotates(model, layer)
  std::uint32_t prediction = 0;       ///< from 1: brings the stream into the prediction module of that number; 0: a
                                      ///< transformer layer
  std::string name;                   ///< of its blocks: its module's, and what tells it from others with that module
  std::vector<std::uint32_t> layers;  ///< their numbers, ascending
};
inline LayerBlocks& ModuleBlocks::operator[](const LayerKind& kind) { return layers[kind.number]; }
inline const LayerBlocks& ModuleBlocks::operator[](const LayerKind& kind) const { return layers[kind.number]; }

struct Scalars {
  BufferId steps{}, loss_scale{}, loss{}, count{}, norm{}, factor{};
  BufferId prediction_loss{}, prediction_count{};  ///< of each prediction module
  BufferId host_steps{}, host_factor{};            ///< what updates on the host read
};

class TensorSharding;
class OrderMemo;
struct MadeOrders;

/// Says which mesh axes of a tensor-parallel algorithm cut which dimensions.
///
/// A layer is a chain of products that widen the residual stream (queries, keys
/// and values; feed-forward up) and narrow it again, so there are two layouts
/// of activations, and weights between them.
struct TensorLayout {
  AxisList stream_sequences, stream_features;  ///< of the residual stream; sequences: beside data
  AxisList wide_sequences, wide_features;      ///< of what lies between: heads, the feed-forward width, logits
  AxisList widen_in, widen_out;                ///< dimensions of a weight that widens,
  AxisList narrow_in, narrow_out;              ///< and of one that narrows
  AxisList vocabulary;                         ///< rows of the word table; its columns are cut as the stream's features
};

/// The state that the passes of one lowering refine: the input, sizes that follow from it, the declarations made so
/// far, blocks as drafts, and the actions of each stage.
///
/// program_of() turns it into a Program at any time.
struct State {
  /// Uses the tensor algorithm `own`, or the plan's.
  State(const ModelSpec& model, const Workload& workload, const Plan& plan, const TensorSharding* own = nullptr,
        OrderMemo* memo = nullptr);

  const ModelSpec& model;
  const Workload workload;  ///< as_routed
  const Plan& plan;
  OrderMemo* memo;  ///< orders that were made before; null: none

  const TensorSharding& sharding;  ///< of the plan's tensor algorithm
  TensorLayout layout;
  bool grid;  ///< tensor parallelism over more than one axis

  // Sizes on one rank.
  std::uint32_t tensor, data, context, pipeline;
  AxisList batch_split;     ///< axes that cut the sequences, except those of tensor parallelism
  AxisList token_axes;      ///< axes that cut tokens: gradients are summed over those that do not cut the parameter
  StageMap map;             ///< virtual stages on pipeline ranks
  std::uint32_t head_rank;  ///< pipeline rank of the last virtual stage (of pipe 0); the first is on rank 0
  bool two_way;             ///< two pipes: every stage is on two ranks
  bool split_backward;      ///< weight gradients are actions of their own
  std::vector<bool> recomputes;      ///< by layer: whether its backward pass makes activations again
  std::vector<bool> states_on_host;  ///< by layer; the embedding's and the head's states too where all eighths are
                                     ///< offloaded
  bool ends_on_host;
  std::vector<bool> weights_on_host;      ///< by layer; its states are then, too
  std::vector<bool> activations_on_host;  ///< by layer, between its passes
  bool bare_embedding, bare_head;         ///< no layer is on the first, or the last, virtual stage
  bool tied_apart;                        ///< the head's rank keeps its own copy of the word table
  std::uint32_t sequences;                ///< of one microbatch
  std::uint64_t positions;                ///< of a sequence on one rank: its length / context
  std::uint64_t tokens;                   ///< of one microbatch on one rank, sequence parallelism apart
  std::uint64_t rows;             ///< tokens of the residual stream: tokens, or tokens / tensor with sequence parallel
  std::uint64_t hidden_width;     ///< of the residual stream
  std::uint32_t heads, kv_heads;  ///< local; key-value heads as attention takes them, a copy where ranks share one
  bool shares_kv_heads;           ///< more tensor ranks than key-value heads: projections are gathered
  std::uint64_t qkv_width, context_width, ffn, vocabulary;  ///< local
  std::uint64_t projected;  ///< width of the product that makes queries, keys and values; else qkv_width
  bool sequence_parallel;
  bool sums_over_tensor;  ///< tensor ranks have parts of gradients of parameters that are the same on all of them
  AxisList expert_axes;   ///< expert_axes(plan)
  AxisList shard_axes;    ///< shard_axes_of(plan)
  bool shard_states;      ///< ZeRO over more than one rank
  std::uint32_t zero;     ///< ZeRO stage; 0 where no two ranks share states
  std::uint64_t chunk;    ///< elements of a chunk of a layer's weights; 0: they are not packed
  bool reduce_gradients;  ///< between ranks of a stage
  bool clip, scaled;      ///< global-norm clipping; fp16 loss scale
  bool factor;            ///< updates take a factor

  DType act, grad, logits;
  DType state;    ///< masters, statistics and sums (wide_dtype)
  DType product;  ///< arithmetic of the layers' products

  GroupId tensor_group{}, context_group{}, pipeline_group{}, norm_group{}, tied_group{};
  GroupId batch_group{};  ///< ranks with other sequences: the count of targets is summed over them
  GroupId heads_group{};  ///< the two ranks with a head, where there are two pipes
  GroupId token_group{};  ///< ranks with other tokens in the end: the loss is summed over them
  GroupId row_group{}, column_group{}, depth_group{};  ///< ranks that differ in that axis; only with a grid
  GroupId vocabulary_group{};                          ///< holds the parts of a row of logits
  Module embedding, layer, head;
  Module adapters;            ///< of layers, where the workload trains adapters in place of the weights
  Module dense_layer;         ///< of dense layers where others are mixtures, which are `layer` then
  Module prediction;          ///< brings the stream into a prediction module
  std::uint32_t predictions;  ///< prediction modules
  Scalars scalar;
  BufferId hidden{}, hidden_gradient{};  ///< the residual stream and its gradient
  BufferId recomputed{};                 ///< a layer's output made again, used by nobody

  Program program;            ///< declarations alone; blocks and classes follow from the rest
  SegmentShares shares;       ///< of its parameter tables
  std::vector<Draft> drafts;  ///< by BlockId
  std::array<ModuleBlocks, module_phases> modules{};
  std::vector<Stage> stages;
  std::shared_ptr<const MadeOrders> orders;  ///< of the stages, from the pass `schedule` on
  std::optional<CopyingBlocks> copying;      ///< of the pass host_copies, where it has work

  [[nodiscard]] ModuleBlocks& blocks(Phase p) { return modules[static_cast<std::size_t>(p)]; }
  [[nodiscard]] const ModuleBlocks& blocks(Phase p) const { return modules[static_cast<std::size_t>(p)]; }
  [[nodiscard]] const Draft& operator[](BlockId id) const { return drafts[index(id)]; }
  [[nodiscard]] Draft& operator[](BlockId id) { return drafts[index(id)]; }
  /// Whether any module's states are in host memory.
  [[nodiscard]] bool offloads_states() const;
  /// Whether any layer's weights are in host memory.
  [[nodiscard]] bool offloads_parameters() const;
  [[nodiscard]] Home home_of(std::uint32_t layer) const;
  /// Whether any layer's activations wait in host memory.
  [[nodiscard]] bool offloads_activations() const;
  /// Kinds of layers: dense ones, then mixtures. Behind them comes what brings the stream into each prediction module.
  std::vector<LayerKind> kinds;
  std::vector<std::uint8_t> kind_numbers;  ///< by layer
  std::vector<BaseMatrix> base;            ///< where the workload keeps the layers' matrices in few bits
  [[nodiscard]] const LayerKind& kind_of(std::uint32_t number) const { return kinds[kind_numbers[number]]; }
  /// The first kind with the same module, which what is made once for a module is made for.
  [[nodiscard]] const LayerKind& first_with_module(const LayerKind&) const;
  [[nodiscard]] bool is_first_with_module(const LayerKind& kind) const { return &first_with_module(kind) == &kind; }
  [[nodiscard]] const Module& module_of(std::uint32_t number) const { return this->*kind_of(number).module; }
  [[nodiscard]] std::vector<std::uint32_t> layers_with_module(const LayerKind&) const;  ///< ascending
  void add_kinds();                                                                     ///< of the constructor
  /// Embedding, layers of each kind with their adapters, head.
  [[nodiscard]] std::vector<const Module*> all_modules() const;
  /// Whether weights have gradients; otherwise adapters alone are trained.
  [[nodiscard]] bool trains_weights() const { return !workload.adapters.has_value(); }
  /// Whether the matrices of layers are kept in few bits, apart from the layers' modules.
  [[nodiscard]] bool quantizes() const {
    return workload.adapters && workload.adapters->base != BaseWeights::unquantized;
  }
  /// What is trained of a module: all of it, the adapters of a layer, or nothing (null).
  [[nodiscard]] const Module* trained(const Module& of) const {
    return trains_weights() ? &of : &of == &layer ? &adapters : nullptr;
  }

  /// The group of ranks that differ in these axes alone.
  GroupId group(const AxisList& axes, std::vector<std::uint32_t> members = {});
  [[nodiscard]] bool is_several(GroupId id) const { return group_size(program[id], program.mesh) > 1; }
  BufferId declare(Buffer buffer);
  /// A buffer of a microbatch's tokens: shape {positions, sequences, features}.
  BufferId activation(std::string name, Role role, Scope scope, DType dtype, ShardDim feature, bool sharded_rows);
  /// A kernel with this workload's arithmetic type.
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass, std::uint64_t rows, std::uint64_t columns,
                              std::uint64_t depth = 0) const;
  /// The local elements of a parameter, as an operand of the module's weights or gradients.
  struct Parameter {
    std::uint64_t offset, count;
  };
  [[nodiscard]] Parameter parameter(const Module&, std::string_view slice) const;
};

/// Where the LM head's matrix lives: the head module, or the embedding's when
/// tied on one rank.
struct HeadMatrix {
  const Module* module;
  const char* slice;
};
[[nodiscard]] HeadMatrix head_matrix(const State&);

/// Pairs of a module's buffer on disk and its buffer in host memory, up or down; none where it has nothing there.
[[nodiscard]] std::vector<Operand> disk_pairs(const State&, const Module&, Home, bool up);
/// The weights that the host updates.
[[nodiscard]] BufferId host_weights(const State&, const Module&, Home);

/// Whether the segment is the first of a chunk; all segments of one chunk travel as one message.
[[nodiscard]] inline bool begins_chunk(const State& s, const ParameterTable& table, const ParameterSegment& segment) {
  return s.chunk > 0 && of_layers(table) && segment.offset % s.chunk == 0;
}

[[nodiscard]] inline Lane receive_lane(TransferLane lane) {
  return {LaneKind::transfer, static_cast<std::uint8_t>(lane)};
}
/// Copies queue by direction: lane 0 to the device, 1 from it, 2 from the disk, 3 to it.
[[nodiscard]] Lane copy_lane(Tier from, Tier to);
/// Collectives of a group queue on the lane of its axis, or on the lane of groups over several axes.
[[nodiscard]] Lane collective_lane(const Program&, GroupId);
/// Lanes on which the tensor algorithm adds products to weight gradients.
[[nodiscard]] std::vector<Lane> product_lanes(const State&);

/// The sequences of a microbatch as a dimension of an activation, in the stream or between products.
[[nodiscard]] ShardDim stream_sequences(const State&);
[[nodiscard]] ShardDim wide_sequences(const State&);

/// Positions of a microbatch, the first dimension of every activation; `whole` is not cut along the context axis.
enum class Rows : std::uint8_t { sequence_parallel, context, whole };
[[nodiscard]] ShardDim position_dim(const State&, Rows);

/// Where the word table lives whose rows the last stage reads: the embedding's, or its own copy.
[[nodiscard]] HeadMatrix last_word_table(const State&);

/// Which gradients of a module a microbatch's pass has completed. ZeRO-2 and 3 keep whole gradients no longer than
/// that, so a split backward pass scatters twice: the gradients of products (of layers' matrices) behind its weight
/// action, all others before it.
enum class GradientPart : std::uint8_t { all, first, products };
[[nodiscard]] bool is_in(GradientPart, const ParameterTable&, const ParameterSegment&);
[[nodiscard]] inline bool splits_copies(const State& s) { return s.zero >= 2 && s.split_backward; }
/// The copy that holds the part.
[[nodiscard]] inline BufferId copy_of(const Module& m, GradientPart part) {
  return part == GradientPart::first ? m.first_gradients : m.whole_gradients;
}
/// Whether ZeRO-2 or 3 scatters gradients of the word table twice: once behind the embedding's chunk, and once behind
/// the chunk of the head (or of prediction modules), which adds to them too.
[[nodiscard]] bool tied_between_chunks(const State&);

/// Whether the buffer is a whole copy of weights or gradients of which the rank keeps a part.
[[nodiscard]] bool is_copy(const State&, BufferId);

/// How many of a kind's layers are marked.
enum class Share : std::uint8_t { none, some, all };
[[nodiscard]] Share share_of(const std::vector<bool>& marks, const LayerKind&);

/// The block of the layer in a phase.
[[nodiscard]] BlockId block_of_layer(const State&, const ModuleBlocks&, std::uint32_t layer);
/// The block of a prediction module's transformer layer; modules count from 0.
[[nodiscard]] BlockId block_of_prediction(const State&, const ModuleBlocks&, std::uint32_t module);
/// One layer of each kind except those of prediction modules. Where some layers of a kind are recomputed and others are
/// not, there are two, the recomputed one first.
[[nodiscard]] std::vector<std::uint32_t> one_of_each_kind(const State&);

/// Calls visit(module, layer shift) for every module of the chunk that is trained. The head and the prediction modules
/// come first, at the layer of the chunk's lowest.
template <class Visit>
void for_each_module(const State& s, const Chunk& chunk, Visit&& visit) {
  const auto trained = [&](const Module& of, std::uint32_t shift) {
    if (const Module* m = s.trained(of); m != nullptr) visit(*m, static_cast<std::int8_t>(shift));
  };
  if (chunk.head) {
    trained(s.head, 0);
    for (std::uint32_t l = s.program.layers; l-- > s.model.layers;) trained(s.module_of(l), l - chunk.low_layer);
  }
  for (std::uint32_t l = chunk.layers; l-- > 0;) trained(s.module_of(chunk.low_layer + l), l);
  if (chunk.embedding) trained(s.embedding, 0);
}

/// Calls visit(module, layer shift, segment) for the gradients of a bucket that are scattered together.
template <class Visit>
void for_each_scattered(const State& s, const Chunk& bucket, GradientPart part, Visit&& visit) {
  for_each_module(s, bucket, [&](const Module& m, std::int8_t shift) {
    const ParameterTable& table = s.program.parameter_tables[m.table];
    for (const ParameterSegment& segment : table.segments) {
      if (is_in(part, table, segment)) visit(m, shift, segment);
    }
  });
  if (!bucket.head || part == GradientPart::products || !tied_between_chunks(s)) return;
  visit(s.embedding, std::int8_t{0}, s.program.parameter_tables[s.embedding.table].segments.front());
}

/// The blocks of each module that build(state, module, home) makes, one for each home that layers of a kind have.
template <class Build>
ModuleBlocks module_blocks(State& s, Build&& build) {
  const Home ends = s.ends_on_host ? Home::states_on_host : Home::device;
  ModuleBlocks out;
  out.embedding = build(s, s.embedding, ends);
  for (const LayerKind& kind : s.kinds) {
    if (!s.is_first_with_module(kind)) {
      out[kind] = out[s.first_with_module(kind)];
      continue;
    }
    bool has[3] = {};
    for (const std::uint32_t l : s.layers_with_module(kind)) has[static_cast<std::size_t>(s.home_of(l))] = true;
    const Home least = has[0] ? Home::device : has[1] ? Home::states_on_host : Home::all_on_host;
    out[kind].plain = build(s, s.*kind.module, least);
    if (has[1] && least != Home::states_on_host) out[kind].on_host = build(s, s.*kind.module, Home::states_on_host);
    if (has[2] && least != Home::all_on_host) out[kind].remote = build(s, s.*kind.module, Home::all_on_host);
  }
  out.head = build(s, s.head, ends);
  return out;
}

/// The same where the home of states makes no difference.
template <class Build>
ModuleBlocks same_module_blocks(State& s, Build&& build) {
  ModuleBlocks out;
  out.embedding = build(s, s.embedding);
  for (const LayerKind& kind : s.kinds) {
    out[kind].plain = s.is_first_with_module(kind) ? build(s, s.*kind.module) : out[s.first_with_module(kind)].plain;
  }
  out.head = build(s, s.head);
  return out;
}

/// The chunk of `place` that a chunk of the stage is part of.
[[nodiscard]] std::uint32_t whole_chunk(const Stage&, std::uint32_t chunk);

/// Whether the phase takes layers forward, or backward, and reads what they compute with.
[[nodiscard]] constexpr bool is_forward(Phase p) {
  return p == Phase::forward || p == Phase::forward_to_head || p == Phase::forward_to_other ||
         p == Phase::forward_last || p == Phase::forward_kept;
}
[[nodiscard]] constexpr bool is_backward(Phase p) {
  return p == Phase::backward || p == Phase::backward_to_other || p == Phase::backward_last;
}
/// A number for layers that keep the same activations: with one module, recomputed or not.
[[nodiscard]] std::size_t kept_case(const State&, std::uint32_t layer);
/// A number for layers that run the same blocks: of one kind, recomputed or not.
[[nodiscard]] std::size_t block_case(const State&, std::uint32_t layer);
/// What the layer's run in a phase copies, in a chunk of `place`.
[[nodiscard]] LayerCopies layer_copies(const State&, const Chunk& whole, Phase, std::uint32_t layer);

/// What is wrong with the lives of the buffers that `watched` names, in the order of every stage's step: they are used
/// only between their beginning and their end, and none is left.
[[nodiscard]] std::string wrong_lives(const State&, const std::function<bool(BufferId)>& watched);

/// What selective recomputation makes again. Flash attention keeps no scores that could be made again.
[[nodiscard]] RecomputeModules modules_made_again(const Plan&);

/// Whether the buffer lives from setup on, through every step.
[[nodiscard]] bool is_persistent(const Buffer&);

/// Declares parameter tables, persistent buffers and scalars.
void declare_parameters(State&);

/// Appends the slots that the action runs, with blocks numbered as drafts.
void add_slots(const State&, const Stage&, const Action&, std::vector<Slot>& slots);

/// The Program that the state stands for; moves its parts out.
[[nodiscard]] Program program_of(State&&);

}  // namespace orrery::lowering
