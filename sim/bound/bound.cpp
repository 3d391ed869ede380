#include "sim/bound/bound.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "sim/bound/known_orders.hpp"
#include "sim/bound/known_walks.hpp"
#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pass_walk.hpp"
#include "sim/bound/recompute_counts.hpp"
#include "sim/bound/shared_stages.hpp"

namespace orrery {
namespace {

/// Throws where all layers' passes of all microbatches, one after the other,
/// would not fit into whole picoseconds: below that no sum here overflows.
void refuse_long_steps(const LayerCosts& costs, StateCosts& state, std::uint64_t layers, std::uint64_t passes) {
  const auto real = [](Picoseconds ps) { return static_cast<double>(ps); };
  const auto once = [&](const ModuleState& m) { return real(m.clear) + real(m.norm) + real(m.update); };
  double layer = 0;
  for (const BlockTimes* times : costs.times) {
    const PerBlock<Picoseconds>& span = times->span;
    layer = std::max(layer, real(span.layer_forward) + real(span.layer_backward) + real(span.layer_weight));
  }
  const PerBlock<Picoseconds>& span = costs.plain_times().span;
  const double ends =
      real(span.embedding_forward) + real(span.embedding_backward) + real(span.head_forward) + real(span.head_backward);
  const double all = static_cast<double>(passes) * (static_cast<double>(layers) * layer + ends) +
                     static_cast<double>(layers) * (once(state.layer()) + once(state.layer(LayerCase::dense))) +
                     once(state.embedding()) + once(state.head());
  if (!(all < 2e18)) throw Error("a step takes more than 23 days; times are counted in whole picoseconds");
}

}  // namespace

struct Bounder::State {
  MeshCosts mesh;
  FamilyBounds families;
  SharedStages shared;
  std::shared_ptr<KnownOrders> orders = std::make_shared<KnownOrders>();
  KnownWalks walks;
  std::vector<PassMemory> memory;       ///< of a rank's chunks
  std::vector<std::uint64_t> in_hosts;  ///< held by those of pipeline ranks
  static constexpr std::size_t most_shares = 16;
  std::vector<std::pair<StageShare, PassMemory>> known_shares;
  explicit State(MeshCosts of) : mesh(std::move(of)), families(mesh) {}

  /// The plan's mesh, and what it shares with the plan before.
  StateCosts& enter(const Plan& plan) {
    ORRERY_ASSERT(bound_covers(plan, mesh.model, mesh.workload), plan.name);
    mesh.enter(plan);
    StateCosts& state = mesh.states_of(plan);
    shared.enter(plan, mesh);
    return state;
  }
  /// Bytes that a rank holds besides those of its passes, whose memory is put into `memory`.
  std::uint64_t held_memory(const Plan& plan, std::uint32_t rank, const StateCosts& state) {
    std::uint64_t held = state.scalar_bytes();
    memory.clear();
    for (std::uint32_t c = 0; c < shared.map().chunks; ++c) {
      memory.push_back(
          pass_memory(shared.layers().blocks, state, shared.share(rank, c), plan, shared.microbatch_count()));
      held += persistent_bytes(state, shared.share(rank, c), plan);
    }
    return held;
  }
  /// pass_memory of a stage, which neighbouring ranks have in common; known_shares are of the same plan but for its
  /// counts.
  const PassMemory& known_memory(const Plan& plan, const StageShare& share, const StateCosts& state) {
    const auto known =
        std::find_if(known_shares.rbegin(), known_shares.rend(), [&](const auto& k) { return k.first == share; });
    if (known != known_shares.rend()) return known->second;
    if (known_shares.size() == most_shares) known_shares.clear();
    return known_shares
        .emplace_back(share, pass_memory(shared.layers().blocks, state, share, plan, shared.microbatch_count()))
        .second;
  }
  /// The same with other counts of recomputed layers, and its passes: in closed form, or in their order.
  std::uint64_t rank_peak(const Plan& plan, std::uint32_t rank, const StateCosts& state,
                          const std::vector<std::uint32_t>& counts, const lowering::Orders* order) {
    std::uint64_t held = state.scalar_bytes();
    memory.clear();
    for (std::uint32_t c = 0; c < shared.map().chunks; ++c) {
      StageShare share = shared.share(rank, c);
      set_recomputed(share, counts[shared.map().stage(rank, c)]);
      memory.push_back(known_memory(plan, share, state));
      held += persistent_bytes(state, share, plan);
    }
    return order != nullptr ? walked_peak((*order)[rank], memory, held)
                            : held + activation_bytes(memory.data(), shared.in_flight(rank));
  }
  /// Raises the counts of a rank's stages until what it keeps before its first backward pass fits in the capacity,
  /// whatever a pass needs besides; false where it does not even with all.
  bool recompute_kept(const Plan& plan, std::uint32_t rank, const StateCosts& state, std::uint64_t capacity,
                      std::vector<std::uint32_t>& counts) {
    const StageMap& map = shared.map();
    const PerCase<const BlockCosts*>& blocks = shared.layers().blocks;
    const auto signed_bytes = [](std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); };
    std::int64_t over = signed_bytes(state.scalar_bytes()) - signed_bytes(capacity);
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      StageShare share = shared.share(rank, c);
      set_recomputed(share, counts[map.stage(rank, c)]);
      over += signed_bytes(persistent_bytes(state, share, plan));
      over += signed_bytes(shared.in_flight(rank)[c]) * known_memory(plan, share, state).forward.net;
    }
    while (over > 0) {
      const std::optional<std::uint32_t> raised = recompute_one_more(counts, *plan.stage_layers, map, rank);
      if (!raised) return false;
      for (std::uint32_t c = 0; c < map.chunks; ++c) {
        if (map.stage(rank, c) != *raised) continue;
        const bool dense = shared.share(rank, c).is_dense(counts[*raised] - 1);
        const auto kept = [&](LayerCase of) { return blocks[index(of)]->memory().layer_forward.net; };
        over -= signed_bytes(shared.in_flight(rank)[c]) *
                (dense ? kept(LayerCase::dense) - kept(LayerCase::recomputed_dense)
                       : kept(LayerCase::plain) - kept(LayerCase::recomputed));
      }
    }
    return true;
  }
  /// The largest of what ranks hold, rank after rank until one exceeds the capacity.
  std::uint64_t walked_memory(const Plan& plan, const lowering::Orders& order, const StateCosts& state,
                              std::uint64_t capacity) {
    const bool plain = state.zero() < 2;
    if (plain) walk_plain();
    std::vector<std::uint64_t>& known_peaks = plain_peaks[copied_kind(state, plan, shared.microbatch_count())];
    std::uint64_t peak = 0;
    for (const SharedStages::Run& run : shared.runs()) {
      const std::uint64_t held = held_memory(plan, run.begin, state);
      for (std::uint32_t r = run.begin; r < run.end; ++r) {
        std::uint64_t passes = plain ? known_peaks[r] : 0;
        if (passes == 0) passes = walked_peak(order[r], memory, 0);
        if (plain) known_peaks[r] = passes;
        peak = std::max(peak, held + passes);
        if (peak > capacity) return peak;
      }
    }
    return peak;
  }
  /// When ranks end their passes; `stages` are those of `shared`.
  const std::vector<Picoseconds>& walked_ends(const KnownOrders::Key& key, const PassOrders& order,
                                              const std::vector<StageTimes>& stages, const StateCosts& state) {
    if (state.zero() >= 2) return walks.ends(key, order, shared.map(), stages);
    walk_plain();
    if (plain_ends.empty()) plain_ends = walks.ends(key, order, shared.map(), stages);
    return plain_ends;
  }

 private:
  void walk_plain() {
    if (plain_entered == shared.entered()) return;
    plain_entered = shared.entered();
    for (auto& of : plain_peaks) of.assign(shared.map().ranks, 0);
    plain_ends.clear();
  }

  // Of plans with ZeRO 0 and 1 that share their stages, as far as known:
  std::uint64_t plain_entered = 0;
  std::array<std::vector<std::uint64_t>, copied_kinds> plain_peaks;  ///< by copied_kind, by rank; 0: not yet
  std::vector<Picoseconds> plain_ends;                               ///< empty: not yet
};

Bounder::Bounder(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                 const Calibration& calibration)
    : state_(std::make_unique<State>(MeshCosts(model, workload, cluster, calibration))) {}
Bounder Bounder::beside() const {
  const MeshCosts& mesh = state_->mesh;
  Bounder other(mesh.model, mesh.workload, mesh.cluster, mesh.calibration);
  other.state_ = std::make_unique<State>(mesh.beside());
  other.state_->orders = state_->orders;
  other.state_->families = state_->families.beside(other.state_->mesh);
  return other;
}
Bounder::~Bounder() = default;
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;

std::vector<std::uint64_t> Bounder::stage_peaks(const Plan& plan) {
  const StateCosts& state = state_->enter(plan);
  const std::uint64_t m = microbatches(plan, state_->mesh.workload);
  std::vector<std::uint64_t> peaks(state_->shared.map().ranks);
  for (std::uint32_t r = 0; r < peaks.size(); ++r) {
    peaks[r] = state_->held_memory(plan, r, state);
    peaks[r] += activation_bytes(state_->memory.data(), microbatches_in_flight(plan, r, m));
  }
  return peaks;
}

std::uint64_t Bounder::peak_memory(const Plan& plan) {
  const StateCosts& state = state_->enter(plan);
  return state_->shared.peak(plan, state);
}

std::uint64_t Bounder::host_memory(const Plan& plan, HostHeld what) {
  StateCosts& state = state_->enter(plan);
  held_by_hosts(state_->in_hosts, what, plan, state_->shared, state, state_->mesh.costs());
  return fullest_node(state_->in_hosts, plan, state_->mesh.cluster.devices_per_node);
}

Picoseconds Bounder::step_time(const Plan& plan) {
  StateCosts& state = state_->enter(plan);
  MeshCosts& mesh = state_->mesh;
  SharedStages& shared = state_->shared;
  refuse_long_steps(shared.layers(), state, mesh.model.layers,
                    microbatches(plan, mesh.workload) + shared.map().stages());
  return shared.step(plan, mesh, state);
}

Picoseconds Bounder::time_before_update(const Plan& plan) {
  StateCosts& state = state_->enter(plan);
  return state_->shared.step_of(SharedStages::Counts::before_update, plan, state_->mesh, state);
}

Picoseconds Bounder::any_sharded(const Plan& plan) {
  ORRERY_ASSERT(plan.zero_stage >= 2 && *plan.overlap_gradients, plan.zero_stage);
  ORRERY_ASSERT(plan.zero_stage == 2 || !plan.reshard_after_forward, plan.name);
  StateCosts& state = state_->enter(plan);
  return state_->shared.step_of(SharedStages::Counts::sharded, plan, state_->mesh, state);
}

Picoseconds Bounder::more_offloaded(const Plan& plan) {
  StateCosts& state = state_->enter(plan);
  return state_->shared.step_of(SharedStages::Counts::more_offloaded, plan, state_->mesh, state);
}

Picoseconds Bounder::closer_more_offloaded(const Plan& plan) {
  const Picoseconds step = more_offloaded(plan);
  StateCosts& state = state_->enter(plan);
  MeshCosts& mesh = state_->mesh;
  SharedStages& shared = state_->shared;
  if (!mesh.cluster.device.concurrent_lanes) return step;
  const auto count = static_cast<std::uint32_t>(microbatches(plan, mesh.workload));
  const std::vector<StageTimes>& stages = shared.stages(plan, mesh, state);
  const std::vector<Picoseconds>& ends =
      state_->walked_ends(KnownOrders::key_of(plan, count), *state_->orders->of(plan, count), stages, state);
  return std::max(step, shared.step_after(ends, stages, plan, mesh, state, SharedStages::Counts::more_offloaded));
}

Bounder::Look Bounder::closer(const Plan& plan, std::uint64_t capacity) {
  Look look{step_time(plan), peak_memory(plan)};
  StateCosts& state = state_->enter(plan);
  MeshCosts& mesh = state_->mesh;
  SharedStages& shared = state_->shared;
  const auto count = static_cast<std::uint32_t>(microbatches(plan, mesh.workload));
  const auto known = state_->orders->of(plan, count);
  look.peak = std::max(look.peak, state_->walked_memory(plan, known->passes, state, capacity));
  if (look.peak > capacity) return look;
  if (!mesh.cluster.device.concurrent_lanes) return look;
  const std::vector<StageTimes>& stages = shared.stages(plan, mesh, state);
  const std::vector<Picoseconds>& ends = state_->walked_ends(KnownOrders::key_of(plan, count), *known, stages, state);
  look.step = std::max(look.step, shared.step_after(ends, stages, plan, mesh, state));
  return look;
}

bool Bounder::recompute_fewest(Plan& plan, std::uint64_t capacity, Memory by) {
  const StateCosts& state = state_->enter(plan);
  const SharedStages& shared = state_->shared;
  std::shared_ptr<const PassOrders> known;
  if (by == Memory::passes) {
    known = state_->orders->of(plan, static_cast<std::uint32_t>(microbatches(plan, state_->mesh.workload)));
  } else if (state_->shared.peak(plan, state) <= capacity) {
    return true;
  }
  const lowering::Orders* order = known ? &known->passes : nullptr;
  state_->known_shares.clear();
  std::vector<std::uint32_t> counts = *plan.recompute_layers;
  for (std::uint32_t r = 0; r < shared.map().ranks; ++r) {
    if (order == nullptr && !state_->recompute_kept(plan, r, state, capacity, counts)) return false;
    while (state_->rank_peak(plan, r, state, counts, order) > capacity) {
      if (!recompute_one_more(counts, *plan.stage_layers, shared.map(), r)) return false;
    }
  }
  plan.recompute_layers = std::move(counts);
  return true;
}

bool Bounder::offload_fewest(Plan& plan, std::uint64_t capacity, Memory by) {
  // Most plans that fit with no eighths do not even without their passes, whose memory takes longest to know.
  const StateCosts& states = state_->enter(plan);
  if (state_->shared.held(plan, states) > capacity) return false;
  for (; *plan.offload_activations <= 8; ++*plan.offload_activations) {
    if (peak_memory(plan) > capacity) continue;
    if (by == Memory::closed_form) return true;
    const StateCosts& state = state_->enter(plan);
    const auto order = state_->orders->of(plan, static_cast<std::uint32_t>(microbatches(plan, state_->mesh.workload)));
    if (state_->walked_memory(plan, order->passes, state, capacity) <= capacity) return true;
  }
  return false;
}

bool Bounder::host_is_slower(const Plan& plan) {
  StateCosts& state = state_->enter(plan);
  const CostModel& costs = state_->mesh.costs();
  // Where ranks share cores what a rank computes counts for others too.
  const auto sharing = costs.core_sharing();
  if (sharing && sharing->ranks_per_node > sharing->cores) return false;
  return state_->shared.host_is_slower(plan, state, costs);
}

bool Bounder::knows_memory(const Plan& plan) const { return memory_is_exact(plan, state_->mesh.workload); }

BlockLayout Bounder::block_layout(const Plan& plan) {
  state_->mesh.enter(plan);
  return state_->mesh.block_layout();
}

void Bounder::weigh(std::vector<FamilyPipeline>& pipelines, const Plan& plan) {
  state_->families.weigh(pipelines, plan);
}

FamilyBound Bounder::any_order(const Plan& plan, std::uint32_t plain_zero, const std::vector<FamilyPipeline>& pipelines,
                               std::uint64_t capacity, Picoseconds enough) {
  return state_->families.any_order(plan, plain_zero, pipelines, capacity, enough);
}

FamilyBound Bounder::any_block(const Plan& plan, std::uint32_t plain_zero, const std::vector<FamilyPipeline>& pipelines,
                               std::uint64_t capacity, Picoseconds enough) {
  return state_->families.any_block(plan, plain_zero, pipelines, capacity, enough);
}

FamilyBound Bounder::any_attention(const Plan& plan, std::uint32_t plain_zero,
                                   const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                   Picoseconds enough) {
  return state_->families.any_attention(plan, plain_zero, pipelines, capacity, enough);
}

FamilyBound Bounder::any_recompute(const Plan& plan, std::uint32_t plain_zero,
                                   const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                   Picoseconds enough) {
  return state_->families.any_recompute(plan, plain_zero, pipelines, capacity, enough);
}

FamilyBound Bounder::any_recompute_on_mesh(const Plan& plan, std::uint32_t plain_zero,
                                           const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                           Picoseconds enough) {
  return state_->families.any_recompute_on_mesh(plan, plain_zero, pipelines, capacity, enough);
}

FamilyBound Bounder::any_schedule(const Plan& plan, std::uint32_t plain_zero,
                                  const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                  Picoseconds enough) {
  return state_->families.any_schedule(plan, plain_zero, pipelines, capacity, enough);
}

std::vector<FamilyBounds::ByKeeping> Bounder::each_keeping(const Plan& plan, std::uint32_t plain_zero,
                                                           std::span<const FamilyPipeline> pipelines,
                                                           const ShardPrices& prices, std::uint64_t capacity,
                                                           Picoseconds enough) {
  return state_->families.each_keeping(plan, plain_zero, pipelines, prices, capacity, enough);
}

ShardPrices Bounder::shard_prices(const Plan& plan) { return state_->families.shard_prices(plan); }

Picoseconds Bounder::any_state(const Plan& plan) {
  state_->mesh.enter(plan);
  return state_->shared.passes(plan, state_->mesh);
}

Seconds bound(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
              const Calibration& calibration) {
  return Seconds::of(static_cast<double>(Bounder(model, workload, cluster, calibration).step_time(plan)) * 1e-12);
}

}  // namespace orrery
