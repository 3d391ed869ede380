#include "sim/bound/bound.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "core/base/diagnostics.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_memory.hpp"
#include "sim/bound/state_costs.hpp"

namespace orrery {
namespace {

/// What decides the shape of the blocks, packed: tensor and microbatch size are
/// below 2^20 in a checked plan.
std::uint64_t block_key(const Plan& plan) {
  std::uint64_t key = plan.mesh.size(Axis::tensor);
  key = key << 24 | plan.microbatch_size;
  key = key << 1 | static_cast<std::uint64_t>(plan.mesh.size(Axis::pipeline) > 1);
  key = key << 1 | static_cast<std::uint64_t>(plan.sequence_parallel);
  key = key << 2 | static_cast<std::uint64_t>(plan.recompute);
  key = key << 2 | static_cast<std::uint64_t>(*plan.attention);
  return key;
}

/// Gradients that travel as one message: the same cut as lowering's buckets.
struct BucketCosts {
  bool head = false;
  bool embedding = false;
  std::uint32_t layers = 0;
  Picoseconds sum_replicated = 0;
  Picoseconds reduce = 0;
  Picoseconds gather = 0;
};
constexpr std::uint32_t most_layers = 100;

}  // namespace

struct Bounder::State {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;
  std::unordered_map<std::uint64_t, BlockCosts> blocks;

  // Of the mesh looked at last.
  Plan on;
  std::optional<CostModel> costs;
  std::array<std::optional<StateCosts>, 2> states;  ///< by ZeRO stage
  std::unordered_map<std::uint64_t, PerBlock<Picoseconds>> spans;
  /// Buckets by what a stage holds; layers << 4, first, last, sequence parallel, ZeRO.
  std::unordered_map<std::uint64_t, std::vector<BucketCosts>> buckets;
  std::vector<std::uint32_t> boundary_levels;  ///< by stage: CostModel::pair_levels to the next
  double bucket_bytes = 0;

  void enter(const Plan& plan) {
    if (costs && plan.mesh == on.mesh && plan.placement == on.placement &&
        plan.collective_algorithm == on.collective_algorithm && plan.gradient_bucket->base() == bucket_bytes) {
      return;
    }
    on = Plan{};
    on.mesh = plan.mesh;
    on.placement = plan.placement;
    on.collective_algorithm = plan.collective_algorithm;
    bucket_bytes = plan.gradient_bucket->base();
    costs.emplace(cluster, calibration, plan.mesh, plan.placement, plan.collective_algorithm);
    states = {};
    spans.clear();
    buckets.clear();
    boundary_levels.clear();
  }

  /// Of messages between stage `i` and the next.
  std::uint32_t levels_after(std::uint32_t i) {
    while (boundary_levels.size() <= i) {
      const auto at = static_cast<std::uint32_t>(boundary_levels.size());
      const Rank here = on.mesh.moved(Rank{0}, Axis::pipeline, at);
      boundary_levels.push_back(
          costs->pair_levels({Axis::pipeline}, here, on.mesh.moved(here, Axis::pipeline, at + 1)));
    }
    return boundary_levels[i];
  }

  const BlockCosts& blocks_of(const Plan& plan) {
    const std::uint64_t key = block_key(plan);
    const auto known = blocks.find(key);
    if (known != blocks.end()) return known->second;
    return blocks.try_emplace(key, model, workload, plan, *costs).first->second;
  }

  const PerBlock<Picoseconds>& spans_of(const Plan& plan) {
    const std::uint64_t key = block_key(plan);
    const auto known = spans.find(key);
    if (known != spans.end()) return known->second;
    return spans.try_emplace(key, blocks_of(plan).spans(*costs)).first->second;
  }

  StateCosts& states_of(const Plan& plan) {
    auto& at = states[plan.zero_stage];
    if (!at) at.emplace(model, workload, plan, *costs);
    return *at;
  }

  const std::vector<BucketCosts>& buckets_of(const Plan& plan, StateCosts& state, std::uint32_t layers, bool first,
                                             bool last) {
    const std::uint64_t key = std::uint64_t{layers} << 4 | std::uint64_t{first} << 3 | std::uint64_t{last} << 2 |
                              std::uint64_t{plan.sequence_parallel} << 1 | plan.zero_stage;
    const auto known = buckets.find(key);
    if (known != buckets.end()) return known->second;
    std::vector<BucketCosts> list;
    BucketCosts current;
    double bytes = 0;
    const auto close = [&] {
      if (bytes > 0) list.push_back(current);
      current = {};
      bytes = 0;
    };
    const auto add = [&](const ModuleState& module) {
      bytes += static_cast<double>(module.gradient_bytes);
      if (bytes >= bucket_bytes || current.layers >= most_layers) close();
    };
    if (last) {
      current.head = true;
      add(state.head());
    }
    for (std::uint32_t l = 0; l < layers; ++l) {
      ++current.layers;
      add(state.layer());
    }
    if (first) {
      current.embedding = true;
      add(state.embedding());
    }
    close();
    for (BucketCosts& b : list) {
      const auto sum = [&](std::uint64_t ModuleState::*what) {
        return b.layers * (state.layer().*what) + (b.head ? state.head().*what : 0) +
               (b.embedding ? state.embedding().*what : 0);
      };
      if (plan.sequence_parallel) {
        b.sum_replicated = state.sum_replicated(sum(&ModuleState::replicated_gradient_bytes), *costs);
      }
      if (plan.mesh.size(Axis::data) > 1) {
        b.reduce = state.reduce_gradients(sum(&ModuleState::gradient_bytes), *costs);
        if (plan.zero_stage > 0) b.gather = state.gather_weights(sum(&ModuleState::weight_bytes), *costs);
      }
    }
    return buckets.try_emplace(key, std::move(list)).first->second;
  }

  /// How long after the end of the last backward pass the last reduction ends.
  /// A tied table is summed over the pipeline after its sum over data, beside
  /// the sums over the tensor axis.
  Picoseconds exposed_reduction(const std::vector<BucketCosts>& list, const PerBlock<Picoseconds>& span, bool overlap,
                                Picoseconds backward, Picoseconds tied) const {
    if (!cluster.device.concurrent_lanes) {
      Picoseconds sum = tied;
      for (const BucketCosts& b : list) sum += b.sum_replicated + b.reduce;
      return sum;
    }
    Picoseconds compute = overlap ? 0 : backward;
    Picoseconds tensor = 0;
    Picoseconds data = 0;
    for (const BucketCosts& b : list) {
      if (overlap) {
        compute += b.layers * span.layer_backward + (b.head ? span.head_backward : 0) +
                   (b.embedding ? span.embedding_backward : 0);
      }
      if (b.sum_replicated > 0) tensor = std::max(tensor, compute) + b.sum_replicated;
      if (b.reduce > 0) data = std::max(data, compute) + b.reduce;
    }
    return std::max(tensor, std::max(data, backward) + tied) - backward;
  }

  /// Update of a stage's modules, and under ZeRO-1 the gathers beside it, upwards.
  Picoseconds update_time(const std::vector<BucketCosts>& list, const StateCosts& state) const {
    Picoseconds compute = 0;
    Picoseconds gather = 0;
    for (auto b = list.rbegin(); b != list.rend(); ++b) {
      compute += b->layers * state.layer().update + (b->head ? state.head().update : 0) +
                 (b->embedding ? state.embedding().update : 0);
      if (b->gather == 0) continue;
      if (cluster.device.concurrent_lanes) {
        gather = std::max(gather, compute) + b->gather;
      } else {
        compute += b->gather;
      }
    }
    return std::max(compute, gather);
  }

  /// Ranks that share cores: at least their compute work over the cores.
  Picoseconds least_by_cores(const Plan& plan, const PerBlock<Picoseconds>& busy, const StateCosts& state) const {
    const auto sharing = costs->core_sharing();
    if (!sharing || sharing->ranks_per_node <= sharing->cores) return 0;
    const auto m = static_cast<Picoseconds>(microbatches(plan, workload));
    const std::size_t p = plan.stage_layers->size();
    Picoseconds least = 0;
    for (std::size_t i = 0; i < p; ++i) {
      const auto once = [](const ModuleState& module) { return module.clear + module.norm + module.update; };
      Picoseconds work =
          (*plan.stage_layers)[i] * (m * (busy.layer_forward + busy.layer_backward) + once(state.layer()));
      if (i == 0) work += m * (busy.embedding_forward + busy.embedding_backward) + once(state.embedding());
      if (i + 1 == p) work += m * (busy.head_forward + busy.head_backward) + once(state.head());
      least = i == 0 ? work : std::min(least, work);
    }
    return least / sharing->cores * sharing->ranks_per_node;
  }
};

namespace {

/// Throws where all layers' passes of all microbatches, one after the other,
/// would not fit into whole picoseconds: below that no sum here overflows.
void refuse_long_steps(const PerBlock<Picoseconds>& span, StateCosts& state, std::uint64_t layers,
                       std::uint64_t passes) {
  const auto real = [](Picoseconds ps) { return static_cast<double>(ps); };
  const auto once = [&](const ModuleState& m) { return real(m.clear) + real(m.norm) + real(m.update); };
  const double layer = real(span.layer_forward) + real(span.layer_backward);
  const double ends =
      real(span.embedding_forward) + real(span.embedding_backward) + real(span.head_forward) + real(span.head_backward);
  const double all = static_cast<double>(passes) * (static_cast<double>(layers) * layer + ends) +
                     static_cast<double>(layers) * once(state.layer()) + once(state.embedding()) + once(state.head());
  if (!(all < 2e18)) throw Error("a step takes more than 23 days; times are counted in whole picoseconds");
}

}  // namespace

Bounder::Bounder(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                 const Calibration& calibration)
    : state_(std::make_unique<State>()) {
  state_->model = model;
  state_->workload = workload;
  state_->cluster = cluster;
  state_->calibration = calibration;
}
Bounder::~Bounder() = default;
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;

std::vector<std::uint64_t> Bounder::stage_peaks(const Plan& plan) {
  ORRERY_ASSERT(bound_covers(plan), plan.name);
  State& s = *state_;
  s.enter(plan);
  const BlockCosts& blocks = s.blocks_of(plan);
  const StateCosts& state = s.states_of(plan);
  const auto p = static_cast<std::uint32_t>(plan.stage_layers->size());
  const std::uint64_t m = microbatches(plan, s.workload);
  std::vector<std::uint64_t> peaks(p);
  for (std::uint32_t i = 0; i < p; ++i) {
    const StageShare share{(*plan.stage_layers)[i], i == 0, i + 1 == p};
    peaks[i] = persistent_bytes(state, share) +
               activation_peak(pass_memory(blocks, share), microbatches_in_flight(plan.schedule, i, p, m));
  }
  return peaks;
}

std::uint64_t Bounder::peak_memory(const Plan& plan) {
  const std::vector<std::uint64_t> peaks = stage_peaks(plan);
  return *std::max_element(peaks.begin(), peaks.end());
}

Picoseconds Bounder::step_time(const Plan& plan) {
  ORRERY_ASSERT(bound_covers(plan), plan.name);
  State& s = *state_;
  s.enter(plan);
  const BlockCosts& blocks = s.blocks_of(plan);
  const PerBlock<Picoseconds>& span = s.spans_of(plan);
  StateCosts& state = s.states_of(plan);
  const auto p = static_cast<std::uint32_t>(plan.stage_layers->size());
  std::vector<StageTimes> stages(p);
  refuse_long_steps(span, state, s.model.layers, microbatches(plan, s.workload) + p);
  for (std::uint32_t i = 0; i < p; ++i) {
    const bool first = i == 0;
    const bool last = i + 1 == p;
    const auto layers = static_cast<Picoseconds>((*plan.stage_layers)[i]);
    StageTimes& t = stages[i];
    t.forward = layers * span.layer_forward + (first ? span.embedding_forward : 0) + (last ? span.head_forward : 0);
    t.backward = layers * span.layer_backward + (first ? span.embedding_backward : 0) + (last ? span.head_backward : 0);
    t.clear = layers * state.layer().clear + (first ? state.embedding().clear : 0) + (last ? state.head().clear : 0);
    if (last) continue;
    const std::uint32_t levels = s.levels_after(i);
    t.send_hidden = picoseconds(s.costs->transfer(Bytes::of(static_cast<double>(blocks.hidden_bytes())), levels));
    t.send_gradient = picoseconds(s.costs->transfer(Bytes::of(static_cast<double>(blocks.gradient_bytes())), levels));
  }
  const std::vector<Picoseconds> ends =
      backward_ends(stages, plan.schedule, microbatches(plan, s.workload), s.cluster.device.concurrent_lanes);
  // With a norm, no rank updates before every rank has reduced.
  Picoseconds reduced = 0;
  Picoseconds updated = 0;
  for (std::uint32_t i = 0; i < p; ++i) {
    const bool first = i == 0;
    const bool last = i + 1 == p;
    const std::uint32_t layers = (*plan.stage_layers)[i];
    const std::vector<BucketCosts>& buckets = s.buckets_of(plan, state, layers, first, last);
    const Picoseconds ready = ends[i] + s.exposed_reduction(buckets, span, *plan.overlap_gradients, stages[i].backward,
                                                            first || last ? state.tied_reduction() : 0);
    const Picoseconds update = s.update_time(buckets, state);
    if (state.factor()) {
      reduced = std::max(reduced, ready + layers * state.layer().norm + (first ? state.embedding().norm : 0) +
                                      (last ? state.head().norm : 0));
      updated = std::max(updated, update);
    } else {
      updated = std::max(updated, ready + update);
    }
  }
  const Picoseconds by_lanes = state.factor() ? reduced + state.norm_reduction() + updated : updated;
  return std::max(by_lanes, s.least_by_cores(plan, blocks.busy(), state));
}

bool bound_covers(const Plan& plan) {
  const auto known = [](const MeshAxis& a) {
    return a.size == 1 || a.axis == Axis::pipeline || a.axis == Axis::data || a.axis == Axis::tensor;
  };
  const bool plain = plan.schedule == ScheduleName::gpipe || plan.schedule == ScheduleName::one_f_one_b;
  return plain && plan.chunks == 1 && plan.zero_stage <= 1 && !plan.recompute_layers &&
         std::all_of(plan.mesh.axes.begin(), plan.mesh.axes.end(), known);
}

Seconds bound(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
              const Calibration& calibration) {
  return Seconds::of(static_cast<double>(Bounder(model, workload, cluster, calibration).step_time(plan)) * 1e-12);
}

}  // namespace orrery
