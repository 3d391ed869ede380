#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/stage_split.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// What a rank computes in a layer.  Selective recomputation drops the scores,
/// which the flash kernel never keeps, so that pair is not in the space.
struct BlockChoice {
  AttentionKernel attention = AttentionKernel::flash;
  Recompute recompute = Recompute::none;
  /// Of as few layers of each stage as let the plan fit, not of all.
  bool fewest = false;
  bool sequence_parallel = false;
  ContextAlgorithm context = ContextAlgorithm::all_gather;
  bool zigzag = false;
  std::uint32_t inner_ring = 0;  ///< of a double ring
  bool save_gathered = false;
  /// Activations of as few eighths of each stage's layers as let the plan fit wait in host memory, at least one.
  bool offload = false;
  /// With those: so many eighths of each stage's layers are recomputed, rounded up, the others not; 0: all alike.
  std::uint32_t recomputed_eighths = 0;
  friend bool operator==(const BlockChoice&, const BlockChoice&) = default;
};

struct ScheduleChoice {
  ScheduleName schedule = ScheduleName::one_f_one_b;
  std::uint32_t chunks = 1;
  friend bool operator==(const ScheduleChoice&, const ScheduleChoice&) = default;
};

/// How states are sharded, where they live, and how gradients are reduced.
struct StateChoice {
  std::uint32_t zero_stage = 0;
  bool reshard_after_forward = true;
  std::uint32_t prefetch = 1;
  bool overlap_gradients = false;
  std::uint32_t offload_states = 0;
  std::uint32_t offload_parameters = 0;
  Bytes parameter_chunk;  ///< of ZeRO-3 that gathers again: one for each layer of the shape (whole_layer_bytes), or 0
  friend bool operator==(const StateChoice&, const StateChoice&) = default;
};

/// All plans of one shape with one microbatch size.
struct MicrobatchSpace {
  std::uint32_t size = 1;
  std::vector<ScheduleChoice> schedules;
  std::uint64_t plans = 0;  ///< with one block choice on one order of axes: schedules x stages x states
  friend bool operator==(const MicrobatchSpace&, const MicrobatchSpace&) = default;
};

/// All plans whose axes have given sizes, whatever their order.
struct ShapeSpace {
  TensorAlgorithm tensor = TensorAlgorithm::one_d;
  std::array<std::uint32_t, axis_count> sizes{};  ///< by Axis
  Bytes gradient_bucket;
  std::uint64_t orders = 0;  ///< of axes, those that lie alike counted once
  std::vector<MicrobatchSpace> microbatches;
  std::vector<BlockChoice> blocks;
  /// ZeRO 0 and 1 first, then others, then those with chunks of parameters; of each those on the device first.
  std::vector<StateChoice> states;
  std::size_t plain_states = 0;  ///< so many of them; with others, where limits do not leave them out, go:
  bool chunks_shard = false;     ///< several chunks of a loop
  bool splits_shard = false;     ///< split backward passes and two directions
  std::size_t states_without_chunks = 0;
  std::size_t plain_on_device = 0;  ///< so many with ZeRO 0 and 1 and nothing offloaded, at most 32
  bool offloads_states = false;     ///< some of them do
  bool offloads_parameters = false;
  Bytes parameter_chunk;    ///< that states may have, or 0
  std::uint64_t first = 0;  ///< number of its first plan
  std::uint64_t count = 0;
  [[nodiscard]] bool chunks_parameters() const { return parameter_chunk > Bytes(); }
};

/// What to leave out of the space.
struct SpaceLimits {
  std::vector<TensorAlgorithm> tensor{TensorAlgorithm::one_d, TensorAlgorithm::two_d, TensorAlgorithm::two_half_d,
                                      TensorAlgorithm::three_d};
  std::vector<ScheduleName> schedules{
      ScheduleName::gpipe,       ScheduleName::one_f_one_b,   ScheduleName::eager_one_f_one_b,
      ScheduleName::interleaved, ScheduleName::breadth_first, ScheduleName::zb_h1,
      ScheduleName::zb_h2,       ScheduleName::zb_v,          ScheduleName::v_half,
      ScheduleName::v_min,       ScheduleName::dualpipe_v,    ScheduleName::chimera,
      ScheduleName::dualpipe};
  std::vector<std::uint32_t> zero{0, 1, 2, 3};
  /// By Axis; 0: any size.  That of tensor is of all axes that cut matrices together.
  std::array<std::uint32_t, axis_count> sizes{};
  std::uint32_t microbatch_size = 0;  ///< 0: any
  std::uint32_t most_chunks = 0;      ///< 0: any
  bool replicas = true;               ///< the axis replica
  bool context = true;                ///< the axis context
  std::vector<ContextAlgorithm> context_algorithms{ContextAlgorithm::all_gather, ContextAlgorithm::ulysses,
                                                   ContextAlgorithm::ring, ContextAlgorithm::ring_self_attention};
  bool inner_rings = true;       ///< double rings
  bool expert = true;            ///< the axis expert, of models that have experts
  bool recompute_layers = true;  ///< as few recomputed layers as fit, beside none and all
  bool offload = true;           ///< states, parameters and activations in host memory, where the cluster has some
  bool disks = true;             ///< and behind hosts that are too small on their disks, where the cluster has them
  bool offload_beside = true;    ///< counts of recomputed layers beside activations in host memory
  bool grid_context = true;      ///< the axis context beside grids of tensor axes
  bool zero_chunks = true;       ///< ZeRO-2 and 3 with several chunks on a rank
  bool parameter_chunks = true;  ///< ZeRO-3 with chunks of parameters
  bool zero_split = true;        ///< ZeRO-2 and 3 with split backward passes and with two directions
};
/// Pipeline, data and 1D tensor axes, with experts that axis too, ZeRO 0 and 1, GPipe and 1F1B.
[[nodiscard]] SpaceLimits basic_limits();
/// Reads "tensor=1d,2d tensor=8 pp=2 mbs=1 zero=0,1 schedule=1f1b chunks=2 replica=off context=off expert=off
/// recompute_layers=off
/// offload=off disks=off offload_beside=off grid_context=off zero_chunks=off parameter_chunks=off zero_split=off";
/// context may name its algorithms instead, "context=ulysses,ring inner_ring=off".  What is wrong is in the
/// diagnostics.
[[nodiscard]] SpaceLimits limits_of(std::string_view text, Diagnostics&);

/// Every plan that the planner considers: finite, ordered, countable.
///
/// Numbers run over these dimensions, outermost first:
///  * shape: sizes of the axes pipeline, replica, data, context, expert, and tensor (1D) or row, column, depth (grids),
///  whose
///    product is the number of devices, with the tensor algorithm.  Tensor parallelism cuts the model as check() asks,
///    pipeline is at most the number of layers, sequences divide the batch, a replica axis stands beside a data axis,
///    an expert axis divides the experts;
///  * microbatch size: every divisor of the sequences of a rank;
///  * blocks: attention unfused, flash (unfused only with attention dropout) with recomputation none, selective
///    (unfused only), full, of all layers or of the fewest (below); sequence parallelism off, on; with a context axis
///    its algorithm, zigzag and the inner rings of a ring (of no more ranks than a unit of a level below
///    the outermost has devices); with 3D whether gathered operands are saved; with all layers recomputed alike also
///    the fewest activations in host memory, but beside ring self-attention and inner rings, and then with full and
///    selective recomputation also of one eighth to seven eighths of each stage's layers, rounded up;
///  * order of axes, of which those that lay every communication group alike on the cluster's levels are listed once;
///  * schedule, and chunks per rank up to layers / pipeline (1F1B alone without pipeline);
///  * stages: `uneven_stages` (core/plan/stage_split.hpp);
///  * states: ZeRO 0 to 3 (2 and 3 not with prediction modules),
///    ZeRO-3 with and without reshard and prefetch (not ahead where some layers are dense and others mixtures) and,
///    where it gathers again and gradients are of the weights' type, with a chunk of parameters for each layer; overlap
///    of gradient reduction off, on where replicas have something to reduce;
///    eighths of each stage's layers whose states, and of those whose weights too (not with ZeRO-3), live in host
///    memory.
///
/// Something is offloaded only where the cluster says how much its hosts hold and how they are linked to devices, and
/// of models that bound_covers knows with it.
///
/// The gradient bucket is no dimension: `resolve` gives it by rule.
///
/// A plan with the fewest recomputed layers stands for all counts of them (Plan::recompute_layers) in the order of
/// recompute_one_more (sim/bound/recompute_counts.hpp) on every pipeline rank: full recomputation from none on, which
/// takes the place of a plan with none; selective from one layer on.  Which counts it has follows from the capacity of
/// a device: the first that fit on each rank (Bounder::recompute_fewest).  Counts that make all layers are those of
/// another plan of the space.  A plan whose activations wait in host memory stands for all eighths of them, of which it
/// has the first that fit (FewestOffloaded); what it recomputes is fixed.  With disks a plan that offloads something
/// stands for all tiers of it (planner/nearest_tiers.hpp).
struct Space {
  std::uint64_t layers = 0;
  std::uint64_t prediction_modules = 0;
  bool disks = false;                      ///< what the host does not hold may be on a disk
  std::vector<std::uint64_t> level_units;  ///< devices in one unit of each network level, innermost first
  std::vector<ShapeSpace> shapes;
  std::map<std::uint32_t, std::vector<std::vector<std::uint32_t>>> stage_layers;  ///< by number of virtual stages
  std::uint64_t count = 0;
  std::uint64_t orders_left_out = 0;  ///< meshes that differ from a listed one in the order of axes only
};

/// Whether a cluster says how much its hosts hold and how they are linked to its devices.
[[nodiscard]] bool hosts_are_known(const ClusterSpec&);

/// How many layers weigh as much as the embedding or the head, rounded up:
/// vocabulary x hidden over the matrix elements of a layer.  The reach of the
/// space's stage splits, at most `stage_reach_limit`.
[[nodiscard]] std::uint32_t stage_reach(const ModelSpec&);
inline constexpr std::uint32_t stage_reach_limit = 4;

/// The space of a model on all devices of a cluster, within the limits.  Every
/// plan in it passes check().  Empty (count 0) where no factorisation is possible.
[[nodiscard]] Space make_space(const ModelSpec&, const Workload&, const ClusterSpec&, const SpaceLimits& = {});

/// The meshes of a shape, one for each order of axes that is listed.
[[nodiscard]] std::vector<Mesh> orders_of(const Space&, const ShapeSpace&);
/// How many of the shape's states go with a schedule.
[[nodiscard]] std::size_t states_with(const ShapeSpace&, const ScheduleChoice&);
/// Stage splits of the shape with a schedule.
[[nodiscard]] const std::vector<std::vector<std::uint32_t>>& splits_of(const Space&, const ShapeSpace&,
                                                                       const ScheduleChoice&);
/// Sets the block, schedule or state choices of a plan.  Of the fewest recomputed layers, or eighths of them:
/// recompute_layers, empty; of the fewest activations in host memory: offload_activations, open.
void choose(Plan&, const BlockChoice&);
void choose(Plan&, const ScheduleChoice&);
void choose(Plan&, const StateChoice&);
/// Of a plan with the fewest recomputed layers: none yet; with the fewest activations in host memory: an eighth, beside
/// as many recomputed layers as the choice says.
void start_fewest(Plan&, const BlockChoice&);
/// Whether a plan of the space has the fewest recomputed layers that fit: beside activations in host memory its counts
/// are fixed.
[[nodiscard]] inline bool has_open_counts(const Plan& plan) {
  return plan.recompute_layers && plan.offload_activations == 0U;
}

/// Plan number `number`, resolved, of the space (0 <= number < space.count).  One with the fewest recomputed layers
/// has recompute_layers, all 0; one with the fewest activations in host memory offload_activations 1.
[[nodiscard]] Plan plan_at(const Space&, std::uint64_t number);

/// Whether a plan that recomputes as many layers as it counts recomputes all: prediction modules have layers that no
/// count speaks of, which then are not recomputed.
[[nodiscard]] bool counts_are_all(const Space&, const Plan&);
/// Gives a plan with the fewest recomputed layers the form that a person would write: none of them is recomputation
/// none, all of them need no counts.
void tidy_counts(const Space&, Plan&);

/// Whether a plan of which so many eighths are recomputed (at least one) is that with an eighth less, or with all.
[[nodiscard]] bool repeats_other_counts(const std::vector<std::uint32_t>& stage_layers, std::uint32_t eighths);

/// Whether the plan is that with an eighth less of states or parameters offloaded: on every stage it has as many
/// layers.
[[nodiscard]] bool repeats_less_offloaded(const Plan&);

/// Number of the plan in the space, or space.count when it is not in it.  The
/// plan must be resolved; name, origin and gradient bucket do not matter.
[[nodiscard]] std::uint64_t number_of(const Space&, const Plan&);

/// What the space holds, dimension by dimension, for a person.
[[nodiscard]] std::string describe(const Space&);

/// One line naming every decision of a plan:
/// "data 8 x pipeline 4 x tensor 8, microbatch 1, 1f1b, layers 20 20 20 20, ...".
[[nodiscard]] std::string describe(const Plan&);

}  // namespace orrery
