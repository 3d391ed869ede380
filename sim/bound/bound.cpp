#include "sim/bound/bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/base/diagnostics.hpp"
#include "core/plan/schedule_rules.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_memory.hpp"
#include "sim/bound/state_costs.hpp"
#include "sim/cost/group_shape.hpp"

namespace orrery {
namespace {

/// The pipelines whose windows backward_ends knows.
bool is_plain(const Plan& plan) {
  return plan.chunks == 1 && (plan.schedule == ScheduleName::gpipe || plan.schedule == ScheduleName::one_f_one_b);
}

/// What an op does on one mesh with one choice of blocks.
struct BlockTimes {
  PerBlock<Picoseconds> span;
  PerBlock<Picoseconds> arrival;
  PerBlock<LaneTimes> lanes;
};

/// What any_order needs of blocks once they are lowered.
struct BlockFacts {
  PerBlock<Picoseconds> span;  ///< with every collective at its best place
  Picoseconds between = 0;     ///< of a layer, at most
  std::uint64_t kept = 0;      ///< by a layer's forward pass
};

/// Of a layer's two passes, what its forward pass is at least in nearly all models.
constexpr double forward_share = 0.24;

struct LayerState {
  std::uint64_t bytes = 0;
  Picoseconds reduce = 0;  ///< of its gradients after every microbatch, at its best place
};

StageShare share_of(const Plan& plan, const StageMap& map, std::uint32_t stage) {
  const bool first = stage == 0, last = stage + 1 == map.stages();
  return {(*plan.stage_layers)[stage], first, last, !first && map.rank(stage - 1) == map.rank(stage),
          !last && map.rank(stage + 1) == map.rank(stage)};
}

}  // namespace

/// What Bounders of one search share.
struct Bounder::Facts {
  std::mutex mutex;
  std::unordered_map<BlockKey, BlockFacts, BlockKeyHash> blocks;
  std::map<std::array<std::uint32_t, 6>, LayerState> layer_states;
  std::map<std::array<std::uint64_t, 4>, Pipeline> pipelines;
};

struct Bounder::State {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;
  std::unordered_map<BlockKey, BlockCosts, BlockKeyHash> blocks;
  static constexpr std::size_t most_blocks = 1000;  ///< 20 to 50 kB each

  // Of the mesh looked at last.
  Plan on;
  std::optional<CostModel> costs;
  std::array<std::optional<StateCosts>, 16> states;  ///< by ZeRO stage, sequence parallelism and placement of stages
  std::unordered_map<BlockKey, BlockTimes, BlockKeyHash> times;
  std::vector<std::uint32_t> boundary_levels;  ///< by rank: CostModel::pair_levels to the next

  void enter(const Plan& plan) {
    if (costs && plan.mesh == on.mesh && plan.placement == on.placement && plan.tensor == on.tensor &&
        plan.collective_algorithm == on.collective_algorithm && plan.gradient_bucket == on.gradient_bucket) {
      return;
    }
    on = Plan{};
    on.mesh = plan.mesh;
    on.placement = plan.placement;
    on.tensor = plan.tensor;
    on.collective_algorithm = plan.collective_algorithm;
    on.gradient_bucket = plan.gradient_bucket;
    costs.emplace(cluster, calibration, plan.mesh, plan.placement, plan.collective_algorithm);
    states = {};
    times.clear();
    boundary_levels.clear();
  }

  std::shared_ptr<Facts> facts = std::make_shared<Facts>();
  std::map<std::uint32_t, std::vector<std::vector<GroupShape>>> places;  ///< of an axis of that size, wherever it lies

  /// Shapes of the groups over an axis at every stride that some mesh of all devices has.
  const std::vector<std::vector<GroupShape>>& places_of(std::uint32_t size) {
    const auto [at, fresh] = places.try_emplace(size);
    if (!fresh) return at->second;
    const std::uint64_t rest = cluster.devices() / size;
    for (std::uint64_t stride = 1; stride <= rest; ++stride) {
      if (rest % stride != 0) continue;
      Mesh mesh;
      mesh.axes = {{Axis::pipeline, static_cast<std::uint32_t>(rest / stride)},
                   {Axis::data, size},
                   {Axis::tensor, static_cast<std::uint32_t>(stride)}};
      std::vector<GroupShape> shapes = group_shapes(Group{{Axis::data}, {}}, mesh, {}, cluster);
      if (std::find(at->second.begin(), at->second.end(), shapes) == at->second.end()) {
        at->second.push_back(std::move(shapes));
      }
    }
    return at->second;
  }

  /// A collective where its axis lies best.
  Picoseconds best_price(const Program& program, const Block& block, const Op& op) {
    const auto* c = std::get_if<Collective>(&op.action);
    const Group& group = program[c->group];
    if (group.axes.count != 1 || !group.members.empty()) return 0;
    return best_price(c->kind, Bytes::of(static_cast<double>(payload_bytes(program, block, op))),
                      program.mesh.size(group.axes.axis[0]));
  }

  Picoseconds best_price(Collective::Kind kind, Bytes payload, std::uint32_t members) {
    std::optional<Seconds> best;
    for (const std::vector<GroupShape>& shapes : places_of(members)) {
      Seconds slowest;
      for (const GroupShape& g : shapes) {
        slowest = std::max(slowest, costs->collectives().choose(kind, payload, g, std::nullopt).time);
      }
      if (!best || slowest < *best) best = slowest;
    }
    return best ? picoseconds(*best) : 0;
  }

  BlockFacts facts_of(const Plan& plan) {
    const BlockKey key = block_key(plan);
    {
      const std::lock_guard<std::mutex> lock(facts->mutex);
      const auto known = facts->blocks.find(key);
      if (known != facts->blocks.end()) return known->second;
    }
    // Prices of kernels depend on no mesh.
    if (!costs) enter(plan);
    const BlockCosts of(model, workload, plan, *costs);
    const BlockCosts::Price price = [&](const Program& program, const Block& block, const Op& op) {
      return best_price(program, block, op);
    };
    BlockFacts found;
    found.span = of.spans(price, cluster.device.concurrent_lanes);
    found.between = std::max<Picoseconds>(
        0, found.span.layer_forward - of.busy().layer_forward + found.span.layer_backward - of.busy().layer_backward);
    found.kept = static_cast<std::uint64_t>(std::max<std::int64_t>(0, of.memory().layer_forward.net));
    const std::lock_guard<std::mutex> lock(facts->mutex);
    facts->blocks.try_emplace(key, found);
    return found;
  }

  /// Bytes of a layer's states on a rank; tensor and data axes and ZeRO decide them.
  LayerState layer_state(Plan plan, std::uint32_t zero_stage) {
    const std::array<std::uint32_t, 6> key = {static_cast<std::uint32_t>(plan.tensor),
                                              plan.mesh.size(Axis::tensor),
                                              plan.mesh.size(Axis::row),
                                              plan.mesh.size(Axis::depth),
                                              plan.mesh.size(Axis::data),
                                              zero_stage};
    {
      const std::lock_guard<std::mutex> lock(facts->mutex);
      const auto known = facts->layer_states.find(key);
      if (known != facts->layer_states.end()) return known->second;
    }
    plan.zero_stage = zero_stage;
    plan.sequence_parallel = false;
    enter(plan);
    const ModuleState layer = StateCosts(model, workload, plan, *costs).layer();
    LayerState found{layer.persistent_bytes, 0};
    // Layers as large as a bucket are reduced one by one.
    if (zero_stage >= 2 && static_cast<double>(layer.whole_gradient_bytes) >= plan.gradient_bucket->base()) {
      found.reduce = best_price(Collective::Kind::reduce_scatter,
                                Bytes::of(static_cast<double>(layer.whole_gradient_bytes)), plan.mesh.size(Axis::data));
    }
    const std::lock_guard<std::mutex> lock(facts->mutex);
    return facts->layer_states.try_emplace(key, found).first->second;
  }

  /// What the family needs with these spans of blocks.
  FamilyBound family(const Plan& plan, std::uint32_t plain_zero, const std::vector<Pipeline>& pipelines,
                     std::uint64_t capacity, const PerBlock<Picoseconds>& span, Picoseconds between,
                     std::uint64_t kept) {
    const auto p = static_cast<double>(plan.mesh.size(Axis::pipeline));
    const auto layers = static_cast<double>(model.layers);
    const double most = std::ceil(layers / p);
    const auto m = static_cast<double>(microbatches(plan, workload));
    const auto layer = static_cast<double>(span.layer_forward + span.layer_backward);
    const auto ends =
        static_cast<double>(span.embedding_forward + span.embedding_backward + span.head_forward + span.head_backward);
    const double work = m * std::max(most * layer, (layers * layer + ends) / p);
    const bool forward_counts = static_cast<double>(span.layer_forward) >= forward_share * layer;
    const LayerState plain = layer_state(plan, plain_zero);
    FamilyBound best{~std::uint64_t{0}, 0};
    double least = -1;
    const auto consider = [&](const Pipeline& with, const LayerState& state, double lane) {
      const double peak =
          std::max(most * static_cast<double>(state.bytes + kept),
                   with.layers * static_cast<double>(state.bytes) + with.kept * static_cast<double>(kept));
      best.peak = std::min(best.peak, static_cast<std::uint64_t>(peak));
      if (peak > static_cast<double>(capacity)) return;
      const double passes = forward_counts ? std::max(with.passes, with.entered) : with.passes;
      const double step = std::max({passes * layer, work, lane}) - most * static_cast<double>(between);
      least = least < 0 ? step : std::min(least, step);
    };
    for (const Pipeline& with : pipelines) {
      consider(with, plain, 0);
      if (!with.shards) continue;
      const LayerState sharded = layer_state(plan, 3);
      consider(with, sharded, m * most * static_cast<double>(sharded.reduce));
    }
    // Rounded down, and a little more than doubles may have rounded up.
    best.step = static_cast<Picoseconds>(std::max(0.0, least) * (1.0 - 1e-12));
    return best;
  }

  /// Of messages between pipeline rank `i` and the next, or from the last to the first.
  std::uint32_t levels_after(std::uint32_t i) {
    const std::uint32_t p = on.mesh.size(Axis::pipeline);
    while (boundary_levels.size() <= i) {
      const auto at = static_cast<std::uint32_t>(boundary_levels.size());
      const Rank here = on.mesh.moved(Rank{0}, Axis::pipeline, at);
      boundary_levels.push_back(
          costs->pair_levels({Axis::pipeline}, here, on.mesh.moved(here, Axis::pipeline, (at + 1) % p)));
    }
    return boundary_levels[i];
  }

  const BlockCosts& blocks_of(const Plan& plan) {
    const BlockKey key = block_key(plan);
    const auto known = blocks.find(key);
    if (known != blocks.end()) return known->second;
    if (blocks.size() >= most_blocks) blocks.clear();
    return blocks.try_emplace(key, model, workload, plan, *costs).first->second;
  }

  const BlockTimes& times_of(const Plan& plan) {
    const BlockKey key = block_key(plan);
    const auto known = times.find(key);
    if (known != times.end()) return known->second;
    const BlockCosts& of = blocks_of(plan);
    return times.try_emplace(key, BlockTimes{of.spans(*costs), of.arrival_spans(*costs), of.lanes(*costs)})
        .first->second;
  }

  StateCosts& states_of(const Plan& plan) {
    const bool turned = stage_map(plan).rank(stage_map(plan).stages() - 1) == 0;  // tables are tied on one rank
    auto& at = states[std::size_t{plan.zero_stage} * 4 + (plan.sequence_parallel ? 2U : 0U) + (turned ? 1U : 0U)];
    if (!at) at.emplace(model, workload, plan, *costs);
    return *at;
  }

  Picoseconds transfer(std::uint64_t bytes, std::uint32_t levels) const {
    return picoseconds(costs->transfer(Bytes::of(static_cast<double>(bytes)), levels));
  }

  /// Times of every virtual stage.
  std::vector<StageTimes> stage_times(const Plan& plan, const StageMap& map, StateCosts& state) {
    const BlockCosts& of = blocks_of(plan);
    const PerBlock<Picoseconds>& span = times_of(plan).span;
    const PerBlock<Picoseconds>& arrival = times_of(plan).arrival;
    std::vector<StageTimes> stages(map.stages());
    for (std::uint32_t i = 0; i < stages.size(); ++i) {
      const StageShare share = share_of(plan, map, i);
      const auto layers = static_cast<Picoseconds>(share.layers);
      StageTimes& t = stages[i];
      const auto all = [&](Picoseconds layer, Picoseconds embedding, Picoseconds head) {
        return layers * layer + (share.first ? embedding : 0) + (share.last ? head : 0);
      };
      t.forward = all(span.layer_forward, span.embedding_forward, span.head_forward);
      t.backward = all(span.layer_backward, span.embedding_backward, span.head_backward);
      const auto move_between = [&](Picoseconds& pass, Picoseconds whole, Picoseconds since_arrival) {
        pass -= whole - since_arrival;
        t.between += whole - since_arrival;
      };
      if (!share.first) move_between(t.forward, span.layer_forward, arrival.layer_forward);
      if (!share.last) move_between(t.backward, span.layer_backward, arrival.layer_backward);
      t.weight = layers * span.layer_weight;
      t.clear = all(state.layer().clear, state.embedding().clear, state.head().clear);
      add_sharding(plan, map, state, share, of, t);
      if (share.last || share.to_here) continue;
      const bool turns = map.placement == StagePlacement::v;
      const std::uint32_t levels = levels_after(turns ? std::min(map.rank(i), map.rank(i + 1)) : map.rank(i));
      t.send_hidden = transfer(of.hidden_bytes(), levels);
      t.send_gradient = transfer(of.gradient_bytes(), levels);
    }
    return stages;
  }

  /// What ZeRO-2 and 3 add to the passes of a stage where compute waits for it.
  /// In front of a block stand a gather, a clear and, without overlap, the
  /// reduction of the block before, beside each other.  Those of a pass's first
  /// block may run before its message arrives.
  void add_sharding(const Plan& plan, const StageMap& map, StateCosts& state, const StageShare& share,
                    const BlockCosts& of, StageTimes& t) {
    if (state.zero() < 2) return;
    const bool gathers = state.zero() >= 3 && plan.reshard_after_forward;  // kept weights come once a step: not counted
    const auto others = static_cast<Picoseconds>(share.layers) - 1;
    const Picoseconds layer = gathers ? state.layer().gather_weights : 0;
    const Picoseconds embedding = gathers && share.first ? state.embedding().gather_weights : 0;
    const Picoseconds clear = state.layer().clear_copy;
    const Picoseconds clear_embedding = share.first ? state.embedding().clear_copy : 0;
    const std::vector<BucketCosts>& buckets = state.buckets(share.layers, share.first, share.last, *costs);
    // The sum of reductions, each less what other collectives leave compute idle anyway.
    const auto reductions = [&](std::size_t count, Picoseconds idle) {
      Picoseconds sum = 0;
      for (std::size_t b = 0; b < count; ++b) {
        Picoseconds reduce = 0;
        for (const LanePrice& p : buckets[b].reduce) reduce += p.price;
        sum += std::max<Picoseconds>(0, reduce - idle);
      }
      return sum;
    };
    if (!cluster.device.concurrent_lanes) {
      // A table tied on one rank begins its copy once, for the embedding or the head.
      const bool tied_here = model.tied_embeddings && map.ranks == 1;
      const Picoseconds head = gathers && share.last && !tied_here ? state.head().gather_weights : 0;
      t.forward += (others + 1) * layer + embedding + head;
      t.backward += (others + 1) * (layer + clear) + clear_embedding + head + reductions(buckets.size(), 0);
      return;
    }
    // What stands in front of a block delays its compute at most: collectives of the block may run beside it.
    const PerBlock<BlockCosts::Beginning>& begins = of.beginning();
    const PerBlock<Picoseconds>& span = times_of(plan).span;
    const PerBlock<Picoseconds>& busy = of.busy();
    const auto delay = [](Picoseconds in_front, Picoseconds idle) { return std::max<Picoseconds>(0, in_front - idle); };
    const Picoseconds idle_forward = span.layer_forward - busy.layer_forward;
    const Picoseconds idle_backward = span.layer_backward - busy.layer_backward;
    const Picoseconds idle_embedding = span.embedding_backward - busy.embedding_backward;
    const Picoseconds before_forward = begins.layer_forward.reads_weights ? delay(layer, idle_forward) : 0;
    const Picoseconds gather_backward = begins.layer_backward.reads_weights ? layer : 0;
    const bool waits = !*plan.overlap_gradients && begins.layer_backward.computes && begins.embedding_backward.computes;
    const bool ahead = plan.prefetch > 0;
    if (!ahead) t.forward += others * before_forward;
    // After the last reduction of a pass a message may leave before it ends.
    t.backward += std::max(
        {others * delay(std::max(clear, ahead ? 0 : gather_backward), idle_backward) +
             delay(clear_embedding, idle_embedding),
         waits ? reductions(buckets.size() - 1, std::max(idle_backward, share.first ? idle_embedding : 0)) : 0});
    if (ahead && share.first) {
      t.between += begins.embedding_forward.reads_weights
                       ? delay(embedding, span.embedding_forward - busy.embedding_forward)
                       : 0;
    } else {
      t.between += before_forward;
    }
    t.between += delay(std::max(clear, ahead && share.last ? 0 : gather_backward), idle_backward);
  }

  /// How long each collective lane of a rank is busy in all its passes, at least: the busiest lane's time.
  Picoseconds busiest_lane(const Plan& plan, const StageMap& map, std::uint32_t rank, StateCosts& state,
                           Picoseconds m) {
    const PerBlock<LaneTimes>& lanes = times_of(plan).lanes;
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
      for (const BucketCosts& b : state.buckets(share.layers, share.first, share.last, *costs)) {
        for (const LanePrice& p : b.reduce) sum[p.lane] += p.price;
      }
      if (state.zero() >= 3 && plan.reshard_after_forward) {
        sum[gather_lane] += 2 * layers * state.layer().gather_weights;
      }
    }
    return m * *std::max_element(sum.begin(), sum.end());
  }

  /// When the sum over the pipeline has ended, which begins behind those over
  /// data, beside those over the tensor axis alone.
  static Picoseconds after_sums(const LaneTimes& lane, Picoseconds tied) {
    constexpr auto tensor = static_cast<std::size_t>(Axis::tensor);
    Picoseconds data = 0;
    for (std::size_t l = 0; l < lane.size(); ++l) data = l == tensor ? data : std::max(data, lane[l]);
    return std::max(lane[tensor], data + tied);
  }

  /// How long after the end of the last pass of a chunk's rank the last reduction
  /// ends.  A tied table is summed over the pipeline after the other sums.
  /// Lanes are taken to wait for compute alone, not for each other.
  Picoseconds exposed_reduction(const Plan& plan, const std::vector<const std::vector<BucketCosts>*>& chunks,
                                const StateCosts& state, Picoseconds backward, Picoseconds tied) {
    const PerBlock<Picoseconds>& span = times_of(plan).span;
    LaneTimes lane{};
    if (!cluster.device.concurrent_lanes) {
      Picoseconds sum = tied;
      for (const auto* list : chunks) {
        for (const BucketCosts& b : *list) {
          if (state.zero() < 2) {
            for (const LanePrice& p : b.reduce) sum += p.price;
          }
          for (const LanePrice& p : b.combine) sum += p.price;
        }
      }
      return sum;
    }
    if (state.zero() >= 2) {
      // One chunk.  Its last bucket is reduced after its last pass, and without overlap all parts are combined behind.
      const std::vector<BucketCosts>& list = *chunks.front();
      Picoseconds reduced = 0;
      for (const LanePrice& p : list.back().reduce) reduced = std::max(reduced, p.price);
      for (const BucketCosts& b : list) {
        if (*plan.overlap_gradients && &b != &list.back()) continue;
        for (const LanePrice& p : b.combine) lane[p.lane] += p.price;
      }
      return reduced + after_sums(lane, tied);
    }
    const bool in_turn = chunks.size() == 1 && !splits_backward(plan);
    if (*plan.overlap_gradients && !in_turn) {
      // Whichever bucket is done last, its sums are still to come.
      Picoseconds least = 0;
      bool any = false;
      for (const auto* list : chunks) {
        for (const BucketCosts& b : *list) {
          Picoseconds most = 0;
          for (const LanePrice& p : b.reduce) most = std::max(most, p.price);
          least = any ? std::min(least, most) : most;
          any = true;
        }
      }
      return std::max(least, tied);
    }
    // With overlap buckets are done one after the other, the last one at the end of the pass.
    Picoseconds compute = backward;
    const auto duration = [&](const BucketCosts& b) {
      return b.layers * span.layer_backward + (b.head ? span.head_backward : 0) +
             (b.embedding ? span.embedding_backward : 0);
    };
    if (*plan.overlap_gradients) {
      for (const BucketCosts& b : *chunks.front()) compute -= duration(b);
    }
    for (const auto* list : chunks) {
      for (const BucketCosts& b : *list) {
        if (*plan.overlap_gradients) compute += duration(b);
        for (const LanePrice& p : b.reduce) lane[p.lane] = std::max(lane[p.lane], compute) + p.price;
      }
    }
    for (Picoseconds& l : lane) l = std::max(l, backward);
    return after_sums(lane, tied) - backward;
  }

  /// Update of a rank's modules, and the gathers of updated weights beside it, upwards.
  Picoseconds update_time(const std::vector<const std::vector<BucketCosts>*>& chunks, const StateCosts& state) const {
    Picoseconds compute = 0;
    Picoseconds gather = 0;
    // The lowest chunk, which comes last in the list, is updated first.
    for (auto list = chunks.rbegin(); list != chunks.rend(); ++list) {
      for (auto b = (*list)->rbegin(); b != (*list)->rend(); ++b) {
        compute += b->layers * state.layer().update + (b->head ? state.head().update : 0) +
                   (b->embedding ? state.embedding().update : 0);
        if (b->gather == 0) continue;
        if (cluster.device.concurrent_lanes) {
          gather = std::max(gather, compute) + b->gather;
        } else {
          compute += b->gather;
        }
      }
    }
    return std::max(compute, gather);
  }

  /// Ranks that share cores: at least their compute work over the cores.
  Picoseconds least_by_cores(const Plan& plan, const StageMap& map, const PerBlock<Picoseconds>& busy,
                             const StateCosts& state) const {
    const auto sharing = costs->core_sharing();
    if (!sharing || sharing->ranks_per_node <= sharing->cores) return 0;
    const auto m = static_cast<Picoseconds>(microbatches(plan, workload));
    Picoseconds least = 0;
    for (std::uint32_t r = 0; r < map.ranks; ++r) {
      const auto once = [](const ModuleState& module) { return module.clear + module.norm + module.update; };
      Picoseconds work = 0;
      for (std::uint32_t c = 0; c < map.chunks; ++c) {
        const StageShare share = share_of(plan, map, map.stage(r, c));
        work +=
            share.layers * (m * (busy.layer_forward + busy.layer_backward + busy.layer_weight) + once(state.layer()));
        if (share.first) work += m * (busy.embedding_forward + busy.embedding_backward) + once(state.embedding());
        if (share.last) work += m * (busy.head_forward + busy.head_backward) + once(state.head());
      }
      least = r == 0 ? work : std::min(least, work);
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
  const double layer = real(span.layer_forward) + real(span.layer_backward) + real(span.layer_weight);
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
Bounder Bounder::beside() const {
  Bounder other(state_->model, state_->workload, state_->cluster, state_->calibration);
  other.state_->facts = state_->facts;
  return other;
}
Bounder::~Bounder() = default;
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;

std::vector<std::uint64_t> Bounder::stage_peaks(const Plan& plan) {
  State& s = *state_;
  ORRERY_ASSERT(bound_covers(plan, s.model), plan.name);
  s.enter(plan);
  const BlockCosts& blocks = s.blocks_of(plan);
  const StateCosts& state = s.states_of(plan);
  const StageMap map = stage_map(plan);
  const std::uint64_t m = microbatches(plan, s.workload);
  std::vector<std::uint64_t> peaks(map.ranks);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    const std::vector<std::uint64_t> in_flight = microbatches_in_flight(plan, r, m);
    std::uint64_t held = state.scalar_bytes();
    std::uint64_t above = 0;
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      const StageShare share = share_of(plan, map, map.stage(r, c));
      const PassMemory pass = pass_memory(blocks, state, share, plan);
      held += persistent_bytes(state, share);
      // The first backward pass is one of the last chunk.
      if (c + 1 == map.chunks) {
        above = activation_peak(pass, in_flight[c]);
      } else {
        held += in_flight[c] * pass.kept;
      }
    }
    peaks[r] = held + above;
  }
  return peaks;
}

std::uint64_t Bounder::peak_memory(const Plan& plan) {
  const std::vector<std::uint64_t> peaks = stage_peaks(plan);
  return *std::max_element(peaks.begin(), peaks.end());
}

Picoseconds Bounder::step_time(const Plan& plan) {
  State& s = *state_;
  ORRERY_ASSERT(bound_covers(plan, s.model), plan.name);
  s.enter(plan);
  StateCosts& state = s.states_of(plan);
  const StageMap map = stage_map(plan);
  const std::uint64_t count = microbatches(plan, s.workload);
  const bool concurrent = s.cluster.device.concurrent_lanes;
  refuse_long_steps(s.times_of(plan).span, state, s.model.layers, count + map.stages());
  const std::vector<StageTimes> stages = s.stage_times(plan, map, state);
  const std::vector<Picoseconds> ends = is_plain(plan)
                                            ? backward_ends(stages, plan.schedule, count, concurrent)
                                            : rank_ends(stages, map, count, concurrent, !splits_backward(plan));
  // With a norm, no rank updates before every rank has reduced.
  Picoseconds reduced = 0;
  Picoseconds updated = 0;
  Picoseconds by_lane = 0;
  std::vector<const std::vector<BucketCosts>*> buckets(map.chunks);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    Picoseconds norm = 0;
    bool tied = false;
    Picoseconds backward = 0;
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      const StageShare share = share_of(plan, map, map.stage(r, c));
      buckets[map.chunks - 1 - c] = &state.buckets(share.layers, share.first, share.last, *s.costs);
      norm += share.layers * state.layer().norm + (share.first ? state.embedding().norm : 0) +
              (share.last ? state.head().norm : 0);
      tied = tied || share.first || share.last;
      backward += stages[map.stage(r, c)].backward;
    }
    const Picoseconds ready =
        ends[r] + s.exposed_reduction(plan, buckets, state, backward, tied ? state.tied_reduction() : 0);
    const Picoseconds update = s.update_time(buckets, state);
    if (concurrent) {
      by_lane = std::max(by_lane, s.busiest_lane(plan, map, r, state, static_cast<Picoseconds>(count)));
    }
    if (state.factor()) {
      reduced = std::max(reduced, ready + norm);
      updated = std::max(updated, update);
    } else {
      updated = std::max(updated, ready + update);
    }
  }
  const Picoseconds by_compute = state.factor() ? reduced + state.norm_reduction() + updated : updated;
  return std::max({by_compute, by_lane, s.least_by_cores(plan, map, s.blocks_of(plan).busy(), state)});
}

void Bounder::weigh(std::vector<Pipeline>& pipelines, const Plan& plan) {
  State& s = *state_;
  const std::uint64_t m = microbatches(plan, s.workload);
  for (Pipeline& with : pipelines) {
    const std::array<std::uint64_t, 4> key = {static_cast<std::uint64_t>(with.schedule), with.chunks,
                                              plan.mesh.size(Axis::pipeline), m};
    const std::lock_guard<std::mutex> lock(s.facts->mutex);
    const auto [at, fresh] = s.facts->pipelines.try_emplace(key, with);
    if (fresh) {
      Plan on = plan;
      on.schedule = with.schedule;
      on.chunks = with.chunks;
      const StageMap map = stage_map(on);
      const bool whole = !splits_backward(on);
      Pipeline& known = at->second;
      bool first = true;
      for (const std::vector<std::uint32_t>& split : *with.splits) {
        // Where backward is whole a microbatch takes a pass of all layers.
        double passes = whole ? static_cast<double>(s.model.layers) : 0, entered = passes, kept = 0;
        std::uint32_t fewest = ~std::uint32_t{0};
        double entry = 0;  // layers before the rank's lowest stage
        for (std::uint32_t r = 0; r < map.ranks; ++r) {
          const std::vector<std::uint64_t> in_flight = microbatches_in_flight(on, r, m);
          std::uint32_t layers = 0;
          double held = 0;
          for (std::uint32_t c = 0; c < map.chunks; ++c) {
            const std::uint32_t n = split[map.stage(r, c)];
            layers += n;
            held += static_cast<double>(in_flight[c]) * n;
          }
          // A rank enters after a forward pass of those layers, and where backward is whole their backward follows it.
          passes = std::max(passes, static_cast<double>(m) * layers + (whole ? entry : 0.0));
          entered = std::max(entered, static_cast<double>(m) * layers + forward_share * entry);
          kept = std::max(kept, held);
          fewest = std::min(fewest, layers);
          entry += split[r];
        }
        known.passes = first ? passes : std::min(known.passes, passes);
        known.entered = first ? entered : std::min(known.entered, entered);
        known.kept = first ? kept : std::min(known.kept, kept);
        known.layers = first ? fewest : std::min(known.layers, fewest);
        first = false;
      }
    }
    with.passes = at->second.passes;
    with.entered = at->second.entered;
    with.kept = at->second.kept;
    with.layers = at->second.layers;
  }
}

Bounder::FamilyBound Bounder::any_order(const Plan& plan, std::uint32_t plain_zero,
                                        const std::vector<Pipeline>& pipelines, std::uint64_t capacity) {
  State& s = *state_;
  const BlockFacts known = s.facts_of(plan);
  return s.family(plan, plain_zero, pipelines, capacity, known.span, known.between, known.kept);
}

Bounder::FamilyBound Bounder::any_schedule(const Plan& plan, std::uint32_t plain_zero,
                                           const std::vector<Pipeline>& pipelines, std::uint64_t capacity) {
  State& s = *state_;
  const std::uint64_t kept = s.facts_of(plan).kept;
  static_cast<void>(s.layer_state(plan, plain_zero));  // both remember; this mesh is entered last
  static_cast<void>(s.layer_state(plan, 3));
  s.enter(plan);
  const BlockTimes& times = s.times_of(plan);
  const Picoseconds between =
      times.span.layer_forward - times.arrival.layer_forward + times.span.layer_backward - times.arrival.layer_backward;
  return s.family(plan, plain_zero, pipelines, capacity, times.span, between, kept);
}

Picoseconds Bounder::any_state(const Plan& plan) {
  State& s = *state_;
  s.enter(plan);
  const BlockTimes& times = s.times_of(plan);
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
  const std::vector<Picoseconds> ends =
      rank_ends(stages, map, microbatches(plan, s.workload), s.cluster.device.concurrent_lanes, !splits_backward(plan));
  return *std::max_element(ends.begin(), ends.end());
}

bool memory_is_exact(const Plan& plan) {
  return is_plain(plan) && (plan.zero_stage <= 1 || plan.mesh.size(Axis::data) == 1);
}

bool bound_covers(const ModelSpec& m) { return m.architecture == Architecture::decoder && !m.latent; }

bool bound_covers(const Plan& plan) {
  const auto known = [](const MeshAxis& a) { return a.size == 1 || a.axis != Axis::expert; };
  const Plan plain;
  switch (plan.schedule) {
    case ScheduleName::gpipe:
    case ScheduleName::one_f_one_b:
    case ScheduleName::eager_one_f_one_b:
    case ScheduleName::interleaved:
    case ScheduleName::breadth_first:
    case ScheduleName::zb_h1:
    case ScheduleName::zb_h2:
    case ScheduleName::zb_v:
    case ScheduleName::v_half:
    case ScheduleName::v_min: break;
    case ScheduleName::dualpipe_v:
    case ScheduleName::chimera:
    case ScheduleName::dualpipe:
    case ScheduleName::custom: return false;
  }
  return std::all_of(plan.mesh.axes.begin(), plan.mesh.axes.end(), known) && plan.inner_ring == 0 &&
         plan.context != ContextAlgorithm::ring_self_attention && !plan.recompute_layers &&
         plan.offload.value_or(Offload{}) == Offload{} && plan.expert_tensor == plain.expert_tensor;
}

bool bound_covers(const Plan& plan, const ModelSpec& model) {
  return !model.mixture && bound_covers(model) && bound_covers(plan);
}

Seconds bound(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
              const Calibration& calibration) {
  return Seconds::of(static_cast<double>(Bounder(model, workload, cluster, calibration).step_time(plan)) * 1e-12);
}

}  // namespace orrery
