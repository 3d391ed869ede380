#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"
#include "core/plan/mesh.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Compute order of a pipeline (docs/schedules.md); the rules of each are in schedule_rules.hpp.
enum class ScheduleName : std::uint8_t {
  gpipe,
  one_f_one_b,
  eager_one_f_one_b,
  interleaved,  ///< 1F1B on several model chunks per rank
  breadth_first,
  zb_h1,  ///< zero bubble: input and weight gradients apart
  zb_h2,
  zb_v,
  custom,  ///< Plan::order, from a file
  v_half,  ///< on a V, with half of ZB-V's activations
  v_min,   ///< on a V, with a third
  dualpipe_v,
  chimera,   ///< two pipelines in opposite directions: each rank has a stage of each
  dualpipe,  ///< the same, zero bubble
};
/// How virtual stages lie on pipeline ranks, p ranks with c chunks each.
///   loop  stage s on rank s mod p: chunk s / p
///   v     down the ranks and up again: stages p - 1 and p are neighbours on one rank
///   two_way  p stages, each on two ranks: stage s on rank s for one half of the microbatches (pipe 0, chunk 0),
///            on rank p - 1 - s for the other (pipe 1, chunk 1)
enum class StagePlacement : std::uint8_t { loop, v, two_way };
/// How the tensor axes cut a matrix product.
///   one_d        Megatron's columns and rows, axis `tensor`
///   two_d        SUMMA on row x column, both of size q
///   two_half_d   SUMMA on row x column in each of `depth` layers (Tesseract)
///   three_d      row x column x depth, all of size q
enum class TensorAlgorithm : std::uint8_t { one_d, two_d, two_half_d, three_d };
/// How the context axis cuts attention.
///   all_gather      every rank gathers keys and values of the whole sequence
///   ulysses         all-to-all from positions to heads and back
///   ring            keys and values go around, online softmax
///   ring_self_attention  scores of the whole row are kept; keys, then values go around (Li et al., 2021)
enum class ContextAlgorithm : std::uint8_t { all_gather, ulysses, ring, ring_self_attention };
/// Axes that cut experts beside `expert`, so that each of their ranks holds other experts and not the same ones
/// (context) or slices of them (tensor): Megatron's folding, with an expert-tensor size of 1 where tensor is among
/// them.
enum class ExpertFolding : std::uint8_t { none, context, tensor, context_and_tensor };
/// The folding over these axes.
[[nodiscard]] constexpr ExpertFolding folding_over(bool context, bool tensor) {
  if (context) return tensor ? ExpertFolding::context_and_tensor : ExpertFolding::context;
  return tensor ? ExpertFolding::tensor : ExpertFolding::none;
}
/// Whether the folding is over the axis.
[[nodiscard]] constexpr bool folds(ExpertFolding folding, Axis axis) {
  const bool both = folding == ExpertFolding::context_and_tensor;
  if (axis == Axis::context) return both || folding == ExpertFolding::context;
  return axis == Axis::tensor && (both || folding == ExpertFolding::tensor);
}
/// How tokens come to the ranks that hold their experts.
///   all_to_all  each rank sends each other one the rows for its experts
///   all_gather  every rank gets all tokens, takes those for its experts, and what experts give is summed and scattered
enum class ExpertDispatch : std::uint8_t { all_to_all, all_gather };
enum class Recompute : std::uint8_t { none, selective, full };
/// Parts of a layer that selective recomputation may make again, by the names and the meaning that Megatron Core gives
/// them. A set of them has a bit for each (RecomputeModules).
///   core_attn       scores and probabilities of unfused attention
///   layernorm       outputs and statistics of the norms in front of the branches
///   moe_act         what the activation function of experts gives
///   mla_up_proj     queries, keys and values of latent attention, from their latents
///   mlp             the dense feed-forward part; its input is kept
///   moe             the part of a mixture, router and messages included; its input is kept
///   shared_experts  the shared experts of a mixture; their input is kept
enum class RecomputeModule : std::uint8_t { core_attn, layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts };
inline constexpr std::uint8_t recompute_module_count = 7;
using RecomputeModules = std::uint8_t;
[[nodiscard]] constexpr RecomputeModules set_of(RecomputeModule m) {
  return static_cast<RecomputeModules>(1U << static_cast<unsigned>(m));
}
[[nodiscard]] constexpr bool has_module(RecomputeModules set, RecomputeModule m) { return (set & set_of(m)) != 0; }
/// Where offloaded data waits between uses: in host memory, or on disk, from which it passes through host memory.
enum class OffloadTier : std::uint8_t { host, disk };
enum class AttentionKernel : std::uint8_t { unfused, flash };
/// Times of one chunk's actions and of a message, as whole numbers in any unit; an order is searched for them.
struct ActionTimes {
  std::uint32_t forward = 1, input_gradient = 1, weight_gradient = 1, message = 0;
  friend auto operator<=>(const ActionTimes&, const ActionTimes&) = default;
};
/// One action of a schedule given by its user.
struct OrderedAction {
  enum class Kind : std::uint8_t { forward, backward, weight };
  Kind kind = Kind::forward;
  std::uint32_t chunk = 0;
  std::uint32_t microbatch = 0;
  friend bool operator==(const OrderedAction&, const OrderedAction&) = default;
};
/// Algorithms of a collective; a Plan may override the choice that pricing makes.
enum class CollectiveAlgorithm : std::uint8_t {
  ring,
  tree,
  recursive,
  in_network  ///< switches add and copy, on clusters whose levels say so
};

/// The decisions of one parallel run.  Small, hand-writable, printable; fixes
/// no times.  An unset optional is `auto`: `resolve` (planner/) puts a concrete
/// value in its place, and `lower` accepts only resolved plans.
struct Plan {
  std::string name;
  Mesh mesh;
  /// placement[rank] is the device (node-major) that runs the rank. When empty, rank i runs on device i.
  std::vector<std::uint32_t> placement;
  std::uint32_t microbatch_size = 1;  ///< sequences
  TensorAlgorithm tensor = TensorAlgorithm::one_d;
  bool save_gathered = false;  ///< 3D: keep gathered operands for the backward pass instead of gathering again
  ContextAlgorithm context = ContextAlgorithm::all_gather;
  bool zigzag = false;  ///< all_gather and ring: each rank holds an early and a late chunk of the sequence
  ExpertFolding expert_folding = ExpertFolding::none;
  ExpertDispatch expert_dispatch = ExpertDispatch::all_to_all;
  std::uint32_t inner_ring = 0;  ///< ring: members of an inner ring of a double ring; 0: one ring
  std::uint32_t chunks = 1;      ///< model chunks on each pipeline rank (virtual stages)
  ScheduleName schedule = ScheduleName::one_f_one_b;
  std::optional<std::vector<std::uint32_t>> stage_layers;  ///< layers of each (virtual) pipeline stage, in model order
  bool sequence_parallel = false;                          ///< Megatron's, along the tensor axis
  Recompute recompute = Recompute::none;
  /// What selective recomputation makes again; of no meaning with another `recompute`.
  RecomputeModules recompute_modules = set_of(RecomputeModule::core_attn);
  /// How many layers of each pipeline stage are recomputed, counted from its first; unset means all.
  std::optional<std::vector<std::uint32_t>> recompute_layers;
  /// Pieces, along the positions of a microbatch, in which the head's product, the loss and their gradients are made;
  /// with 2 or more, all of it is in the backward pass, and logits of one piece alone live at a time.
  std::uint32_t loss_chunks = 1;
  /// How many eighths of each stage's layers, from its last down, keep their master weights and optimizer moments in
  /// host memory, where the host updates them; 8 takes the embedding and the head too.
  std::optional<std::uint32_t> offload_states = 0;
  OffloadTier states_tier = OffloadTier::host;
  /// How many eighths of each stage's layers, from its last down, keep their weights in host memory too, from which
  /// they come in for each use.
  std::optional<std::uint32_t> offload_parameters = 0;
  OffloadTier parameters_tier = OffloadTier::host;
  /// How many eighths of each stage's layers, from its first up, keep their activations in host memory between the
  /// forward and the backward pass. The first layers' activations are needed last.
  std::optional<std::uint32_t> offload_activations = 0;
  OffloadTier activations_tier = OffloadTier::host;
  std::string order_file;                                 ///< of ScheduleName::custom, as the plan file names it
  std::vector<std::vector<OrderedAction>> order;          ///< what it says for each pipeline rank
  StagePlacement order_placement = StagePlacement::loop;  ///< of the stages that it names
  ActionTimes action_times;                               ///< of zb_v
  std::uint32_t zero_stage = 0;       ///< 0 to 3: shard_axes_of share out states, then gradients, then weights too
  bool reshard_after_forward = true;  ///< ZeRO-3: gather a layer's weights again for the backward pass
  std::uint32_t prefetch = 1;         ///< ZeRO-3: layers gathered ahead, 0 or 1
  /// ZeRO-3: bytes of the chunks that a layer's weights are packed into. Chunks are gathered and reduced one by one,
  /// and gradients then take over the memory of gathered weights. With 0, layers are gathered whole, and gradients have
  /// memory of their own.
  std::optional<Bytes> parameter_chunk = Bytes();
  std::optional<Bytes> gradient_bucket;                     ///< least bytes of one gradient reduction
  std::optional<bool> overlap_gradients;                    ///< reduce buckets beside the last backward pass
  std::optional<AttentionKernel> attention;                 ///< kernel set
  std::optional<CollectiveAlgorithm> collective_algorithm;  ///< override only: stays unset in a resolved plan
  Origin origin;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Whether every `auto` has a value (the collective override may stay unset).
[[nodiscard]] bool is_resolved(const Plan&);

/// Microbatches of one step on one data-parallel replica. Requires a checked plan (sequence_axes x microbatch_size
/// divides the batch).
[[nodiscard]] std::uint64_t microbatches(const Plan&, const Workload&);

/// First (global) layer of `stage` in a resolved plan.
[[nodiscard]] std::uint32_t first_layer(const Plan&, std::uint32_t stage);

/// Axes that cut the sequences of the batch, outermost first; ranks take sequences in this order.
[[nodiscard]] AxisList sequence_axes(const Plan&);
/// The axes longer than 1 along which ZeRO shards states: data, context and expert. All of their ranks hold the same
/// weights, except for experts, which the expert axis cuts anyway.
[[nodiscard]] AxisList shard_axes_of(const Plan&);

/// Axes along which ranks hold other experts, outermost first: expert, and those of the folding that are longer than 1.
[[nodiscard]] AxisList expert_axes(const Plan&);
/// Whether each tensor rank holds whole experts and sends its own tokens to them.
[[nodiscard]] bool folds_tensor(const Plan&);

/// Equal pieces of a sequence that ranks route apart: of context ranks (with zigzag each has two), and of tensor ranks
/// that hold whole experts.
[[nodiscard]] std::uint64_t routed_pieces(const Plan&);
/// The workload with the routing group that the plan gives it where it names none: a piece of the sequence, where that
/// is a whole number of positions.
[[nodiscard]] Workload as_routed(const Workload&, const Plan&);

/// Whether something of the plan is kept off the device, or may be.
[[nodiscard]] bool offloads(const Plan&);

/// Vocabulary padded to a multiple of the parts that tensor parallelism cuts it into.
[[nodiscard]] std::uint64_t padded_vocabulary(const Plan&, const ModelSpec&);

/// A plan with everything it names: what `orrery estimate plan.toml` reads.
struct PlannedRun {
  ModelSpec model;
  Workload workload;
  std::optional<ClusterSpec> cluster;
  Plan plan;
  std::string model_reference;    ///< as the file names it: a built-in name or a path
  std::string cluster_reference;  ///< empty when the file names none
  /// The training program that the plan is for ("megatron-core"), by the name of its room in framework/; empty: any.
  /// Prices and limits of a search follow from it; lowering never reads it.
  std::string framework = {};
};

}  // namespace orrery
