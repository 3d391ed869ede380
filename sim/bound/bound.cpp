#include "sim/bound/bound.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/diagnostics.hpp"
#include "core/plan/schedule_rules.hpp"
#include "sim/bound/after_passes.hpp"
#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pass_walk.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_memory.hpp"
#include "sim/bound/stage_times.hpp"

namespace orrery {
namespace {

/// How long each collective lane of a rank is busy in all its passes, at least: the busiest lane's time.
Picoseconds busiest_lane(const Plan& plan, const StageMap& map, std::uint32_t rank, const BlockTimes& times,
                         MeshCosts& mesh, StateCosts& state, Picoseconds m) {
  const PerBlock<LaneTimes>& lanes = times.lanes;
  LaneTimes sum{};
  for (std::uint32_t c = 0; c < map.chunks; ++c) {
    const StageShare share = share_of(plan, map, map.stage(rank, c));
    const auto layers = static_cast<Picoseconds>(share.layers);
    for (std::size_t l = 0; l < sum.size(); ++l) {
      sum[l] += layers * (lanes.layer_forward[l] + lanes.layer_backward[l] + lanes.layer_weight[l]);
      if (share.first) sum[l] += lanes.embedding_forward[l] + lanes.embedding_backward[l];
      if (share.last) sum[l] += lanes.head_forward[l] + lanes.head_backward[l];
    }
    if (state.zero() < 2) continue;
    for (const BucketCosts& b : state.buckets(share.layers, share.first, share.last, mesh.costs())) {
      for (const LanePrice& p : b.reduce) sum[p.lane] += p.price;
    }
    if (state.zero() >= 3 && plan.reshard_after_forward) {
      sum[gather_lane] += 2 * layers * state.layer().gather_weights;
    }
  }
  return m * *std::max_element(sum.begin(), sum.end());
}

/// Ranks that share cores: at least their compute work over the cores.
Picoseconds least_by_cores(const Plan& plan, const StageMap& map, MeshCosts& mesh, const StateCosts& state) {
  const auto sharing = mesh.costs().core_sharing();
  if (!sharing || sharing->ranks_per_node <= sharing->cores) return 0;
  const auto m = static_cast<Picoseconds>(microbatches(plan, mesh.workload)) / map.pipes();
  const PerBlock<Picoseconds>& busy = mesh.blocks_of(plan).busy();
  Picoseconds least = 0;
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    const auto once = [](const ModuleState& module) { return module.clear + module.norm + module.update; };
    Picoseconds work = 0;
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      const StageShare share = share_of(plan, map, map.stage(r, c));
      work += share.layers * (m * (busy.layer_forward + busy.layer_backward + busy.layer_weight) + once(state.layer()));
      if (share.first) work += m * (busy.embedding_forward + busy.embedding_backward) + once(state.embedding());
      if (share.last) work += m * (busy.head_forward + busy.head_backward) + once(state.head());
    }
    least = r == 0 ? work : std::min(least, work);
  }
  return least / sharing->cores * sharing->ranks_per_node;
}

/// Throws where all layers' passes of all microbatches, one after the other,
/// would not fit into whole picoseconds: below that no sum here overflows.
void refuse_long_steps(const PerBlock<Picoseconds>& span, StateCosts& state, std::uint64_t layers,
                       std::uint64_t passes) {
  const auto real = [](Picoseconds ps) { return static_cast<double>(ps); };
  const auto once = [&](const ModuleState& m) { return real(m.clear) + real(m.norm) + real(m.update); };
  const double layer = real(span.layer_forward) + real(span.layer_backward) + real(span.layer_weight);
  const double ends =
      real(span.embedding_forward) + real(span.embedding_backward) + real(span.head_forward) + real(span.head_backward);
  const double all = static_cast<double>(passes) * (static_cast<double>(layers) * layer + ends) +
                     static_cast<double>(layers) * once(state.layer()) + once(state.embedding()) + once(state.head());
  if (!(all < 2e18)) throw Error("a step takes more than 23 days; times are counted in whole picoseconds");
}

/// What a pipeline rank holds, and what its passes do on each chunk.
struct RankMemory {
  std::uint64_t held = 0;
  std::vector<PassMemory> chunks;
};

RankMemory rank_memory(const Plan& plan, const StageMap& map, std::uint32_t rank, const BlockCosts& blocks,
                       const StateCosts& state) {
  RankMemory memory{state.scalar_bytes(), {}};
  memory.chunks.reserve(map.chunks);
  for (std::uint32_t c = 0; c < map.chunks; ++c) {
    const StageShare share = share_of(plan, map, map.stage(rank, c));
    memory.chunks.push_back(pass_memory(blocks, state, share, plan));
    memory.held += persistent_bytes(state, share);
  }
  return memory;
}

/// The step of a plan whose ranks end their passes then.
Picoseconds step_after(const Plan& plan, const StageMap& map, MeshCosts& mesh, StateCosts& state,
                       const std::vector<StageTimes>& stages, const std::vector<Picoseconds>& ends) {
  const std::uint64_t count = microbatches(plan, mesh.workload);
  const bool concurrent = mesh.cluster.device.concurrent_lanes;
  const BlockTimes& times = mesh.times_of(plan);
  // With a norm, no rank updates before every rank has reduced.
  Picoseconds reduced = 0;
  Picoseconds updated = 0;
  Picoseconds by_lane = 0;
  ChunkBuckets buckets(map.chunks);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    Picoseconds norm = 0;
    bool tied = false;
    Picoseconds backward = 0;
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      const StageShare share = share_of(plan, map, map.stage(r, c));
      buckets[map.chunks - 1 - c] = &state.buckets(share.layers, share.first, share.last, mesh.costs());
      norm += share.layers * state.layer().norm + (share.first ? state.embedding().norm : 0) +
              (share.last ? state.head().norm : 0);
      tied = tied || share.first || share.last;
      backward += stages[map.stage(r, c)].backward;
    }
    const Picoseconds ready = ends[r] + exposed_reduction(plan, buckets, times, state, concurrent, backward,
                                                          tied ? state.tied_reduction() : 0);
    const Picoseconds update = update_time(buckets, state, concurrent);
    if (concurrent) {
      by_lane = std::max(by_lane,
                         busiest_lane(plan, map, r, times, mesh, state, static_cast<Picoseconds>(count) / map.pipes()));
    }
    if (state.factor()) {
      reduced = std::max(reduced, ready + norm);
      updated = std::max(updated, update);
    } else {
      updated = std::max(updated, ready + update);
    }
  }
  const Picoseconds by_compute = state.factor() ? reduced + state.norm_reduction() + updated : updated;
  return std::max({by_compute, by_lane, least_by_cores(plan, map, mesh, state)});
}

}  // namespace

struct Bounder::State {
  MeshCosts mesh;
  FamilyBounds families;
  PassWalk walk;
  explicit State(MeshCosts of) : mesh(std::move(of)), families(mesh) {}

  /// Compute order of the plan, remembered.
  const lowering::Orders& orders_of(const Plan& plan, std::uint32_t microbatches) {
    const ActionTimes& t = plan.action_times;
    const std::array<std::uint32_t, 8> key = {static_cast<std::uint32_t>(plan.schedule),
                                              plan.mesh.size(Axis::pipeline),
                                              plan.chunks,
                                              microbatches,
                                              t.forward,
                                              t.input_gradient,
                                              t.weight_gradient,
                                              t.message};
    const auto known = orders.find(key);
    if (known != orders.end()) return known->second;
    const std::size_t actions = std::size_t{key[1]} * plan.chunks * microbatches * 3;
    if (remembered + actions > most_actions) orders.clear(), remembered = 0;
    remembered += actions;
    return orders.try_emplace(key, lowering::orders_of(plan, microbatches)).first->second;
  }

 private:
  static constexpr std::size_t most_actions = 4'000'000;  ///< 12 bytes each
  std::map<std::array<std::uint32_t, 8>, lowering::Orders> orders;
  std::size_t remembered = 0;
};

Bounder::Bounder(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                 const Calibration& calibration)
    : state_(std::make_unique<State>(MeshCosts(model, workload, cluster, calibration))) {}
Bounder Bounder::beside() const {
  const MeshCosts& mesh = state_->mesh;
  Bounder other(mesh.model, mesh.workload, mesh.cluster, mesh.calibration);
  other.state_->families = state_->families.beside(other.state_->mesh);
  return other;
}
Bounder::~Bounder() = default;
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;

std::vector<std::uint64_t> Bounder::stage_peaks(const Plan& plan) {
  MeshCosts& mesh = state_->mesh;
  ORRERY_ASSERT(bound_covers(plan, mesh.model), plan.name);
  mesh.enter(plan);
  const StageMap map = stage_map(plan);
  const std::uint64_t m = microbatches(plan, mesh.workload);
  const BlockCosts& blocks = mesh.blocks_of(plan);
  const StateCosts& state = mesh.states_of(plan);
  std::vector<std::uint64_t> peaks(map.ranks);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    const RankMemory rank = rank_memory(plan, map, r, blocks, state);
    const std::vector<std::uint64_t> in_flight = microbatches_in_flight(plan, r, m);
    peaks[r] = rank.held;
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      // The first backward pass is one of the last chunk.
      peaks[r] += c + 1 == map.chunks ? activation_peak(rank.chunks[c], in_flight[c])
                                      : in_flight[c] * static_cast<std::uint64_t>(rank.chunks[c].forward.net);
    }
  }
  return peaks;
}

std::uint64_t Bounder::peak_memory(const Plan& plan) {
  const std::vector<std::uint64_t> peaks = stage_peaks(plan);
  return *std::max_element(peaks.begin(), peaks.end());
}

Picoseconds Bounder::step_time(const Plan& plan) {
  MeshCosts& mesh = state_->mesh;
  ORRERY_ASSERT(bound_covers(plan, mesh.model), plan.name);
  mesh.enter(plan);
  StateCosts& state = mesh.states_of(plan);
  const StageMap map = stage_map(plan);
  const std::uint64_t count = microbatches(plan, mesh.workload);
  refuse_long_steps(mesh.times_of(plan).span, state, mesh.model.layers, count + map.stages());
  const std::vector<StageTimes> stages = stage_times(plan, map, mesh, state);
  const bool concurrent = mesh.cluster.device.concurrent_lanes;
  return step_after(plan, map, mesh, state, stages,
                    is_plain(plan) ? backward_ends(stages, plan.schedule, count, concurrent)
                                   : rank_ends(stages, map, count, concurrent, !splits_backward(plan)));
}

Bounder::Look Bounder::closer(const Plan& plan) {
  Look look{step_time(plan), peak_memory(plan)};
  MeshCosts& mesh = state_->mesh;
  const StageMap map = stage_map(plan);
  const auto count = static_cast<std::uint32_t>(microbatches(plan, mesh.workload));
  const lowering::Orders& orders = state_->orders_of(plan, count);
  const BlockCosts& blocks = mesh.blocks_of(plan);
  StateCosts& state = mesh.states_of(plan);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    const RankMemory rank = rank_memory(plan, map, r, blocks, state);
    look.peak = std::max(look.peak, walked_peak(orders[r], rank.chunks, rank.held));
  }
  if (!mesh.cluster.device.concurrent_lanes) return look;
  const std::vector<StageTimes> stages = stage_times(plan, map, mesh, state);
  const std::vector<Picoseconds>& ends = state_->walk.ends(orders, map, stages, count);
  look.step = std::max(look.step, step_after(plan, map, mesh, state, stages, ends));
  return look;
}

void Bounder::weigh(std::vector<FamilyPipeline>& pipelines, const Plan& plan) {
  state_->families.weigh(pipelines, plan);
}

FamilyBound Bounder::any_order(const Plan& plan, std::uint32_t plain_zero, const std::vector<FamilyPipeline>& pipelines,
                               std::uint64_t capacity) {
  return state_->families.any_order(plan, plain_zero, pipelines, capacity);
}

FamilyBound Bounder::any_block(const Plan& plan, std::uint32_t plain_zero, const std::vector<FamilyPipeline>& pipelines,
                               std::uint64_t capacity) {
  return state_->families.any_block(plan, plain_zero, pipelines, capacity);
}

FamilyBound Bounder::any_schedule(const Plan& plan, std::uint32_t plain_zero,
                                  const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity) {
  return state_->families.any_schedule(plan, plain_zero, pipelines, capacity);
}

Picoseconds Bounder::any_state(const Plan& plan) {
  MeshCosts& mesh = state_->mesh;
  mesh.enter(plan);
  const BlockTimes& times = mesh.times_of(plan);
  const PerBlock<Picoseconds>& span = times.span;
  const PerBlock<Picoseconds>& arrival = times.arrival;
  const StageMap map = stage_map(plan);
  std::vector<StageTimes> stages(map.stages());
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    const auto layers = static_cast<Picoseconds>((*plan.stage_layers)[i]);
    const bool first = i == 0, last = i + 1 == stages.size();
    StageTimes& t = stages[i];
    t.forward = layers * span.layer_forward +
                (first ? span.embedding_forward : arrival.layer_forward - span.layer_forward) +
                (last ? span.head_forward : 0);
    t.backward = layers * span.layer_backward + (first ? span.embedding_backward : 0) +
                 (last ? span.head_backward : arrival.layer_backward - span.layer_backward);
    t.weight = layers * span.layer_weight;
  }
  const std::vector<Picoseconds> ends = rank_ends(stages, map, microbatches(plan, mesh.workload),
                                                  mesh.cluster.device.concurrent_lanes, !splits_backward(plan));
  return *std::max_element(ends.begin(), ends.end());
}

Seconds bound(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
              const Calibration& calibration) {
  return Seconds::of(static_cast<double>(Bounder(model, workload, cluster, calibration).step_time(plan)) * 1e-12);
}

}  // namespace orrery
