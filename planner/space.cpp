// Long: the space is made, counted and numbered here, by the same order of its dimensions.
#include "planner/space.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/layer_bytes.hpp"
#include "planner/gradient_bucket.hpp"
#include "sim/bound/coverage.hpp"

namespace orrery {
namespace {

/// Larger batches have microbatch sizes that no plan may have.
constexpr std::uint64_t batch_limit = plan_size_limit * plan_size_limit;

std::vector<std::uint32_t> divisors(std::uint64_t n) {
  std::vector<std::uint32_t> low;
  std::vector<std::uint32_t> high;
  for (std::uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(static_cast<std::uint32_t>(d));
    if (d != n / d) high.push_back(static_cast<std::uint32_t>(n / d));
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Members of each axis inside a unit of each level; cluster files have at most 8 levels.
struct Layout {
  std::array<std::uint64_t, 8 * axis_count> members;
  std::size_t count = 0;
  friend bool operator==(const Layout& a, const Layout& b) {
    return std::equal(a.members.begin(), a.members.begin() + static_cast<std::ptrdiff_t>(a.count), b.members.begin(),
                      b.members.begin() + static_cast<std::ptrdiff_t>(b.count));
  }
};

// How an order of axes lies on the network: for every level and axis, how many
// of the axis' members share one unit of the level.  Two orders with the same
// answer differ by a renumbering of devices that keeps every unit together, so
// every group and every pair of neighbours reaches over the same levels.  That
// holds where the units nest with the strides; empty where they do not.
std::optional<Layout> layout(const Mesh& mesh, const std::vector<std::uint64_t>& level_units) {
  std::array<std::uint64_t, axis_count> sizes{}, strides{};
  std::uint64_t inner = 1;
  for (auto a = mesh.axes.rbegin(); a != mesh.axes.rend(); ++a) {
    sizes[index(a->axis)] = a->size;
    strides[index(a->axis)] = inner;
    inner *= a->size;
  }
  ORRERY_ASSERT(level_units.size() <= 8, level_units.size());
  Layout lies;
  const auto put = [&](std::uint64_t members) { lies.members[lies.count++] = members; };
  for (const std::uint64_t unit : level_units) {
    for (std::size_t axis = 0; axis < axis_count; ++axis) {
      const std::uint64_t size = sizes[axis], stride = strides[axis];
      if (size <= 1) continue;
      if (unit <= stride) {
        if (stride % unit != 0) return std::nullopt;
        put(1);
      } else {
        if (unit % stride != 0) return std::nullopt;
        const std::uint64_t inside = unit / stride;
        if (inside < size ? size % inside != 0 : inside % size != 0) return std::nullopt;
        put(std::min(inside, size));
      }
    }
  }
  return lies;
}

bool lie_alike(const Mesh& a, const Mesh& b, const std::vector<std::uint64_t>& level_units) {
  if (a == b) return true;
  const auto on_a = layout(a, level_units);
  return on_a && on_a == layout(b, level_units);
}

bool by_axis(const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; }

Mesh mesh_of(const std::array<std::uint32_t, axis_count>& sizes) {
  Mesh mesh;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (sizes[a] > 1) mesh.axes.push_back({static_cast<Axis>(a), sizes[a]});
  }
  return mesh;
}

/// Calls visit(mesh) for every order, from the axes' own order on.
template <class Visit>
void for_each_order(const ShapeSpace& shape, Visit&& visit) {
  Mesh mesh = mesh_of(shape.sizes);
  do visit(mesh);
  while (std::next_permutation(mesh.axes.begin(), mesh.axes.end(), by_axis));
}

bool is_valid(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster) {
  Diagnostics wrong;
  check(plan, model, workload, &cluster, wrong);
  return wrong.empty();
}

/// Inner rings that a ring of so many ranks may have, and 0: those that some unit below the outermost level holds.
std::vector<std::uint32_t> inner_rings(std::uint32_t ranks, const std::vector<std::uint64_t>& level_units) {
  std::uint64_t most = 1;
  for (const std::uint64_t unit : level_units) most = unit < level_units.back() ? unit : most;
  std::vector<std::uint32_t> sizes = {0};
  for (const std::uint32_t w : divisors(ranks)) {
    if (w > 1 && w < ranks && w <= most) sizes.push_back(w);
  }
  return sizes;
}

std::vector<BlockChoice> block_choices(const ShapeSpace& shape, const SpaceLimits& limits, bool offload,
                                       const std::vector<std::uint64_t>& level_units) {
  const bool counts = limits.recompute_layers;
  struct Kernel {
    AttentionKernel attention;
    Recompute recompute;
    bool fewest;
    bool offload = false;
    std::uint32_t recomputed_eighths = 0;
  };
  // The fewest fully recomputed layers may be none.
  const Recompute least = counts ? Recompute::full : Recompute::none;
  std::vector<Kernel> kernels = {{AttentionKernel::unfused, least, counts},
                                 {AttentionKernel::unfused, Recompute::selective, false},
                                 {AttentionKernel::unfused, Recompute::full, false},
                                 {AttentionKernel::flash, least, counts},
                                 {AttentionKernel::flash, Recompute::full, false}};
  if (counts) kernels.push_back({AttentionKernel::unfused, Recompute::selective, true});
  if (offload) {
    for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full}) {
      kernels.push_back({AttentionKernel::unfused, r, false, true});
      if (r != Recompute::selective) kernels.push_back({AttentionKernel::flash, r, false, true});
    }
    for (std::uint32_t eighths = 1; counts && limits.offload_beside && eighths < 8; ++eighths) {
      kernels.push_back({AttentionKernel::unfused, Recompute::selective, false, true, eighths});
      kernels.push_back({AttentionKernel::unfused, Recompute::full, false, true, eighths});
      kernels.push_back({AttentionKernel::flash, Recompute::full, false, true, eighths});
    }
  }
  const std::uint32_t ranks = shape.sizes[index(Axis::context)];
  std::vector<BlockChoice> choices;
  const auto add = [&](ContextAlgorithm algorithm, bool zigzag, std::uint32_t inner_ring) {
    const bool copies = algorithm != ContextAlgorithm::ring_self_attention && inner_ring == 0;
    for (const bool sequence : {false, true}) {
      if (sequence && shape.sizes[index(Axis::tensor)] == 1) continue;
      for (const bool save : {false, true}) {
        if (save && shape.tensor != TensorAlgorithm::three_d) continue;
        for (const Kernel& k : kernels) {
          if (k.offload && !copies) continue;
          choices.push_back({k.attention, k.recompute, k.fewest, sequence, algorithm, zigzag, inner_ring, save,
                             k.offload, k.recomputed_eighths});
        }
      }
    }
  };
  if (ranks == 1) {
    add(ContextAlgorithm::all_gather, false, 0);
    return choices;
  }
  for (const ContextAlgorithm algorithm : limits.context_algorithms) {
    const bool ring = algorithm == ContextAlgorithm::ring && limits.inner_rings;
    for (const bool zigzag : {false, true}) {
      for (const std::uint32_t inner_ring : ring ? inner_rings(ranks, level_units) : std::vector<std::uint32_t>{0}) {
        add(algorithm, zigzag, inner_ring);
      }
    }
  }
  return choices;
}

/// The choices, each then with every eighth of states and parameters offloaded that the shape may have.
void add_offloaded(std::vector<StateChoice>& to, const std::vector<StateChoice>& choices, const ShapeSpace& shape) {
  to.insert(to.end(), choices.begin(), choices.end());
  if (!shape.offloads_states) return;
  for (StateChoice c : choices) {
    const std::uint32_t most = shape.offloads_parameters && c.zero_stage < 3 ? 8 : 0;
    for (c.offload_parameters = 0; c.offload_parameters <= most; ++c.offload_parameters) {
      for (c.offload_states = std::max(1U, c.offload_parameters); c.offload_states <= 8; ++c.offload_states)
        to.push_back(c);
    }
  }
}

/// Sets the shape's states; what it offloads is set.
void add_states(ShapeSpace& shape, const ModelSpec& model, const SpaceLimits& limits) {
  const auto size = [&](Axis axis) { return shape.sizes[index(axis)]; };
  const bool grid = shape.tensor != TensorAlgorithm::one_d;
  const bool shares = size(Axis::data) > 1 || size(Axis::context) > 1 || size(Axis::expert) > 1;
  const bool reduces = shares || grid;
  const bool two_kinds = mixes_kinds(model);
  const std::uint32_t most = model.prediction_modules > 0 ? 1 : 3;
  std::vector<StateChoice> plain, sharded, in_chunks;
  for (std::uint32_t zero = 0; zero <= 3; ++zero) {
    if (std::find(limits.zero.begin(), limits.zero.end(), zero) == limits.zero.end()) continue;
    if (zero > 0 && !shares) continue;
    if (zero > most) continue;
    for (const bool reshard : {true, false}) {
      for (const std::uint32_t prefetch : {1U, 0U}) {
        if (zero < 3 && (!reshard || prefetch == 0)) continue;
        if (zero == 3 && prefetch > 0 && two_kinds) continue;
        for (const bool overlap : {false, true}) {
          if (overlap && !reduces) continue;
          (zero < 2 ? plain : sharded).push_back({zero, reshard, prefetch, overlap, 0, 0, {}});
        }
      }
    }
  }
  if (shape.chunks_parameters()) {
    for (const StateChoice& c : sharded) {
      if (c.zero_stage != 3 || !c.reshard_after_forward) continue;
      in_chunks.push_back(c);
      in_chunks.back().parameter_chunk = shape.parameter_chunk;
    }
  }
  shape.chunks_shard = limits.zero_chunks;
  shape.splits_shard = limits.zero_split;
  shape.plain_on_device = plain.size();
  add_offloaded(shape.states, plain, shape);
  shape.plain_states = shape.states.size();
  add_offloaded(shape.states, sharded, shape);
  shape.states_without_chunks = shape.states.size();
  add_offloaded(shape.states, in_chunks, shape);
}

class Maker {
 public:
  Maker(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster, const SpaceLimits& limits)
      : model_(model), workload_(workload), cluster_(cluster), limits_(limits) {}

  Space make() {
    std::uint64_t unit = 1;
    for (const NetworkLevel& level : cluster_.levels) space_.level_units.push_back(unit *= level.size);
    space_.layers = model_.layers;
    space_.prediction_modules = model_.prediction_modules;
    space_.disks = limits_.disks && offloads() && cluster_.disk.has_value();
    const std::uint64_t devices = cluster_.devices();
    if (devices > plan_size_limit || workload_.global_batch > batch_limit) return std::move(space_);
    for (const TensorAlgorithm tensor :
         {TensorAlgorithm::one_d, TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
      if (std::find(limits_.tensor.begin(), limits_.tensor.end(), tensor) == limits_.tensor.end()) continue;
      ShapeSpace shape;
      shape.tensor = tensor;
      shape.sizes.fill(1);
      for (const std::uint32_t cut : divisors(devices)) {
        if (tensor == TensorAlgorithm::one_d) {
          shape.sizes[index(Axis::tensor)] = cut;
          if (cuts(cut)) others(shape, devices / cut);
          continue;
        }
        const std::uint64_t square = std::uint64_t{cut} * cut;
        if (cut < 2 || devices % square != 0 || !cuts(cut) || model_.hidden % cut != 0) continue;
        shape.sizes[index(Axis::row)] = shape.sizes[index(Axis::column)] = cut;
        for (const std::uint32_t depth : divisors(devices / square)) {
          const bool wanted = tensor == TensorAlgorithm::two_d        ? depth == 1
                              : tensor == TensorAlgorithm::two_half_d ? depth > 1
                                                                      : depth == cut;
          shape.sizes[index(Axis::depth)] = depth;
          if (wanted) others(shape, devices / square / depth);
        }
      }
    }
    return std::move(space_);
  }

 private:
  bool cuts(std::uint32_t parts) const {
    const bool experts =
        !model_.mixture || (model_.mixture->ffn % parts == 0 && model_.mixture->shared_ffn % parts == 0);
    return experts && model_.heads % parts == 0 && model_.kv_heads % parts == 0 && model_.ffn % parts == 0;
  }

  [[nodiscard]] bool is_wanted(const ShapeSpace& shape) const {
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (static_cast<Axis>(a) == Axis::tensor) continue;
      if (limits_.sizes[a] != 0 && limits_.sizes[a] != shape.sizes[a]) return false;
    }
    std::uint32_t cut = 1;
    for (const Axis a : {Axis::tensor, Axis::row, Axis::column, Axis::depth}) cut *= shape.sizes[index(a)];
    const std::uint32_t wanted = limits_.sizes[index(Axis::tensor)];
    return wanted == 0 || wanted == cut;
  }

  /// All sizes of the axes that are not of tensor parallelism.
  void others(ShapeSpace& shape, std::uint64_t devices) {
    const bool may_cut = limits_.context && (limits_.grid_context || shape.tensor == TensorAlgorithm::one_d);
    for (const std::uint32_t pipeline : divisors(devices)) {
      if (pipeline > std::min<std::uint64_t>(model_.layers, stage_limit)) break;
      for (const std::uint32_t context : divisors(devices / pipeline)) {
        if (context > 1 && (!may_cut || workload_.sequence_length % context != 0)) continue;
        for (const std::uint32_t replica : divisors(devices / pipeline / context)) {
          for (const std::uint32_t expert : divisors(devices / pipeline / context / replica)) {
            const auto data = static_cast<std::uint32_t>(devices / pipeline / context / replica / expert);
            if (replica > 1 && (!limits_.replicas || data == 1)) continue;
            if (expert > 1 && (!limits_.expert || !model_.mixture || model_.mixture->experts % expert != 0)) continue;
            ShapeSpace full = shape;
            full.sizes[index(Axis::pipeline)] = pipeline;
            full.sizes[index(Axis::context)] = context;
            full.sizes[index(Axis::replica)] = replica;
            full.sizes[index(Axis::data)] = data;
            full.sizes[index(Axis::expert)] = expert;
            if (is_wanted(full)) add(std::move(full));
          }
        }
      }
    }
  }

  /// Valid choices depend on the axes that cut layers alone.
  const std::vector<BlockChoice>& blocks_of(const ShapeSpace& shape, Plan plan) {
    std::vector<std::uint32_t> key = {static_cast<std::uint32_t>(shape.tensor)};
    for (const Axis a : {Axis::context, Axis::tensor, Axis::expert, Axis::row, Axis::depth})
      key.push_back(shape.sizes[index(a)]);
    const auto at = blocks_.try_emplace(key).first;
    if (!at->second.empty()) return at->second;
    for (const BlockChoice& choice : block_choices(shape, limits_, offloads(), space_.level_units)) {
      choose(plan, choice);
      start_fewest(plan, choice);
      if (is_valid(plan, model_, workload_, cluster_)) at->second.push_back(choice);
    }
    return at->second;
  }

  /// A cluster file that says nothing of its hosts says nothing of what they could hold.
  bool offloads() const {
    return limits_.offload && hosts_are_known(cluster_) && bound_covers_offload(model_, workload_);
  }

  /// A chunk for each layer, where check() accepts that of a plan of the shape; else 0.
  Bytes parameter_chunk(const ShapeSpace& shape, Plan plan) {
    const bool wanted =
        limits_.parameter_chunks && std::find(limits_.zero.begin(), limits_.zero.end(), 3U) != limits_.zero.end();
    if (!wanted || gradient_dtype(workload_) != weight_dtype(workload_) || shard_axes_of(plan).empty()) return {};
    // Layers are cut by these, and shared out among those.
    std::vector<std::uint32_t> key = {static_cast<std::uint32_t>(shape.tensor)};
    for (const Axis a : {Axis::tensor, Axis::row, Axis::depth, Axis::data, Axis::context, Axis::expert})
      key.push_back(shape.sizes[index(a)]);
    const auto [at, fresh] = layer_bytes_.try_emplace(key);
    if (fresh) at->second = whole_layer_bytes(plan, model_, workload_);
    plan.zero_stage = 3;
    plan.parameter_chunk = at->second;
    return is_valid(plan, model_, workload_, cluster_) ? at->second : Bytes();
  }

  const std::vector<std::vector<std::uint32_t>>& splits(std::uint32_t stages) {
    const auto [at, fresh] = space_.stage_layers.try_emplace(stages);
    if (fresh) at->second = uneven_stages(model_.layers, stages, stage_reach(model_));
    return at->second;
  }

  std::vector<ScheduleChoice> schedules(const ShapeSpace& shape, std::uint64_t count) const {
    const std::uint32_t p = shape.sizes[index(Axis::pipeline)];
    if (p == 1) return {{}};
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(model_.layers, stage_limit) / p);
    std::vector<ScheduleChoice> out;
    for (const ScheduleName name : limits_.schedules) {
      const ScheduleRules& rules = rules_of(name);
      if ((rules.whole_rounds && count % p != 0) || count < std::uint64_t{rules.least_rounds} * p) continue;
      const bool two_way = rules.placement == StagePlacement::two_way;
      if (two_way && (p % 2 != 0 || count % 2 != 0 || model_.prediction_modules > 0)) continue;
      const std::uint32_t end = rules.most_chunks == 0 ? most : std::min(most, rules.most_chunks);
      for (std::uint32_t chunks = rules.least_chunks; chunks <= end; ++chunks) {
        if (limits_.most_chunks > 0 && chunks > limits_.most_chunks) break;
        if (count * p * chunks <= stage_microbatch_limit) out.push_back({name, chunks});
      }
    }
    return out;
  }

  /// Orders that lie apart: as many for the same sizes of whatever axes.
  std::uint64_t orders(const ShapeSpace& shape) {
    std::vector<std::uint32_t> key;
    for (const std::uint32_t n : shape.sizes) {
      if (n > 1) key.push_back(n);
    }
    std::sort(key.begin(), key.end());
    const auto [at, fresh] = orders_.try_emplace(key, 0);
    if (fresh) at->second = orders_of(space_, shape).size();
    return at->second;
  }

  void add(ShapeSpace shape) {
    Plan plan;
    plan.tensor = shape.tensor;
    plan.mesh = mesh_of(shape.sizes);
    const std::uint64_t cut = size(plan.mesh, sequence_axes(plan));
    if (workload_.global_batch % cut != 0) return;
    const std::uint32_t p = shape.sizes[index(Axis::pipeline)];
    shape.gradient_bucket = default_gradient_bucket(workload_, static_cast<std::uint32_t>(size(plan.mesh, batch_axes)));
    plan.gradient_bucket = shape.gradient_bucket;
    plan.overlap_gradients = false;
    plan.attention = AttentionKernel::flash;
    plan.stage_layers = splits(p).front();
    // Sizes beyond check()'s limits, and workloads that it refuses, leave nothing here.
    const std::vector<std::uint32_t> sizes = divisors(workload_.global_batch / cut);
    plan.microbatch_size = sizes[sizes.size() / 2];
    for (const std::uint32_t any : sizes) {
      if (workload_.global_batch / cut / any <= stage_microbatch_limit / p) {
        plan.microbatch_size = any;
        break;
      }
    }
    shape.blocks = blocks_of(shape, plan);
    if (shape.blocks.empty()) return;
    choose(plan, shape.blocks.front());
    plan.recompute_layers.reset();
    plan.offload_activations = 0;
    if (offloads()) {
      Plan away = plan;
      away.offload_states = 8;
      shape.offloads_states = is_valid(away, model_, workload_, cluster_);
      away.offload_parameters = 8;
      shape.offloads_parameters = is_valid(away, model_, workload_, cluster_);
    }
    shape.parameter_chunk = parameter_chunk(shape, plan);
    add_states(shape, model_, limits_);
    if (shape.states.empty()) return;
    for (const std::uint32_t microbatch : sizes) {
      if (limits_.microbatch_size != 0 && limits_.microbatch_size != microbatch) continue;
      plan.microbatch_size = microbatch;
      if (!is_valid(plan, model_, workload_, cluster_)) continue;
      MicrobatchSpace with{microbatch, schedules(shape, workload_.global_batch / cut / microbatch), 0};
      for (const ScheduleChoice& s : with.schedules) {
        with.plans += std::uint64_t{splits(p * s.chunks).size()} * states_with(shape, s);
      }
      if (with.plans > 0) shape.microbatches.push_back(std::move(with));
    }
    if (shape.microbatches.empty()) return;
    shape.orders = orders(shape);
    std::uint64_t all = 1;
    for (std::uint64_t n = 2; n <= plan.mesh.axes.size(); ++n) all *= n;
    space_.orders_left_out += all - shape.orders;
    for (const MicrobatchSpace& m : shape.microbatches) shape.count += m.plans * shape.orders * shape.blocks.size();
    shape.first = space_.count;
    space_.count += shape.count;
    space_.shapes.push_back(std::move(shape));
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const ClusterSpec& cluster_;
  const SpaceLimits& limits_;
  Space space_;
  std::map<std::vector<std::uint32_t>, std::vector<BlockChoice>> blocks_;
  std::map<std::vector<std::uint32_t>, std::uint64_t> orders_;
  std::map<std::vector<std::uint32_t>, Bytes> layer_bytes_;
};

/// The fewest eighths of a plan's layers that make its counts beside activations in host memory; 0 without such counts,
/// none where no eighths do.
std::optional<std::uint32_t> recomputed_eighths(const Plan& plan) {
  if (!plan.recompute_layers || has_open_counts(plan)) return 0;
  Plan other = plan;
  for (std::uint32_t eighths = 1; eighths < 8; ++eighths) {
    BlockChoice choice;
    choice.recomputed_eighths = eighths;
    start_fewest(other, choice);
    if (other.recompute_layers == plan.recompute_layers) return eighths;
  }
  return std::nullopt;
}

}  // namespace

bool hosts_are_known(const ClusterSpec& cluster) {
  return cluster.host_memory.base() > 0 && cluster.host_link && cluster.host_bandwidth;
}

SpaceLimits basic_limits() {
  SpaceLimits limits;
  limits.tensor = {TensorAlgorithm::one_d};
  limits.schedules = {ScheduleName::gpipe, ScheduleName::one_f_one_b};
  limits.zero = {0, 1};
  limits.most_chunks = 1;
  limits.replicas = limits.context = limits.recompute_layers = limits.offload = false;
  return limits;
}

std::uint32_t stage_reach(const ModelSpec& model) {
  const std::uint64_t table = model.vocabulary * model.hidden;
  const std::uint64_t layer = std::max<std::uint64_t>(1, layer_parameter_count(model));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((table + layer - 1) / layer, stage_reach_limit));
}

Space make_space(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                 const SpaceLimits& limits) {
  return Maker(model, workload, cluster, limits).make();
}

std::vector<Mesh> orders_of(const Space& space, const ShapeSpace& shape) {
  std::vector<Mesh> meshes;
  std::vector<Layout> listed;
  for_each_order(shape, [&](const Mesh& mesh) {
    const auto lies = layout(mesh, space.level_units);
    if (lies && std::find(listed.begin(), listed.end(), *lies) != listed.end()) return;
    if (lies) listed.push_back(*lies);
    meshes.push_back(mesh);
  });
  return meshes;
}

std::size_t states_with(const ShapeSpace& shape, const ScheduleChoice& choice) {
  const ScheduleRules& rules = rules_of(choice.schedule);
  const bool split = rules.splits_backward || rules.placement == StagePlacement::two_way;
  const bool any = split ? shape.splits_shard : choice.chunks == 1 || shape.chunks_shard;
  if (!any) return shape.plain_states;
  // In chunks of parameters weights are gone before the second part of a backward pass.
  return rules.splits_backward ? shape.states_without_chunks : shape.states.size();
}

const std::vector<std::vector<std::uint32_t>>& splits_of(const Space& space, const ShapeSpace& shape,
                                                         const ScheduleChoice& choice) {
  return space.stage_layers.at(shape.sizes[index(Axis::pipeline)] * choice.chunks);
}

Plan plan_at(const Space& space, std::uint64_t number) {
  ORRERY_ASSERT(number < space.count, number, space.count);
  const auto behind = std::upper_bound(space.shapes.begin(), space.shapes.end(), number,
                                       [](std::uint64_t n, const ShapeSpace& s) { return n < s.first; });
  const ShapeSpace& shape = *(behind - 1);
  std::uint64_t rest = number - shape.first;
  Plan plan;
  plan.tensor = shape.tensor;
  plan.gradient_bucket = shape.gradient_bucket;
  for (const MicrobatchSpace& m : shape.microbatches) {
    const std::uint64_t plans = m.plans * shape.orders * shape.blocks.size();
    if (rest >= plans) {
      rest -= plans;
      continue;
    }
    plan.microbatch_size = m.size;
    const BlockChoice& block = shape.blocks[rest / (m.plans * shape.orders)];
    choose(plan, block);
    rest %= m.plans * shape.orders;
    plan.mesh = orders_of(space, shape)[rest / m.plans];
    rest %= m.plans;
    for (const ScheduleChoice& s : m.schedules) {
      const auto& splits = splits_of(space, shape, s);
      const std::size_t states = states_with(shape, s);
      if (rest >= splits.size() * states) {
        rest -= splits.size() * states;
        continue;
      }
      choose(plan, s);
      plan.stage_layers = splits[rest / states];
      choose(plan, shape.states[rest % states]);
      start_fewest(plan, block);
      return plan;
    }
  }
  ORRERY_ASSERT(false, number);
  return plan;
}

std::uint64_t number_of(const Space& space, const Plan& plan) {
  ORRERY_ASSERT(is_resolved(plan));
  if (!plan.placement.empty() || plan.collective_algorithm) return space.count;
  const bool on_disk = plan.states_tier == OffloadTier::disk || plan.parameters_tier == OffloadTier::disk ||
                       plan.activations_tier == OffloadTier::disk;
  if (on_disk && !space.disks) return space.count;
  std::array<std::uint32_t, axis_count> sizes{};
  sizes.fill(1);
  Mesh mesh;
  for (const MeshAxis& a : plan.mesh.axes) {
    sizes[index(a.axis)] = a.size;
    if (a.size > 1) mesh.axes.push_back(a);
  }
  const auto shape = std::find_if(space.shapes.begin(), space.shapes.end(),
                                  [&](const ShapeSpace& s) { return s.tensor == plan.tensor && s.sizes == sizes; });
  if (shape == space.shapes.end()) return space.count;
  const auto place = [](const auto& list, const auto& value) {
    return static_cast<std::uint64_t>(std::find(list.begin(), list.end(), value) - list.begin());
  };
  // Choices that make no difference are listed once: bring them to that form.
  ScheduleChoice schedule{plan.schedule, plan.chunks};
  if (sizes[index(Axis::pipeline)] == 1) schedule = {};
  StateChoice state{plan.zero_stage,      plan.reshard_after_forward, plan.prefetch,        *plan.overlap_gradients,
                    *plan.offload_states, *plan.offload_parameters,   *plan.parameter_chunk};
  if (shard_axes_of(plan).empty()) {
    state.zero_stage = 0, state.reshard_after_forward = true, state.prefetch = 1;
    state.overlap_gradients = state.overlap_gradients && shape->plain_on_device > 1;
  }
  // None recomputed are the fewest that are recomputed in full, where those are in the space.
  const bool counts = std::any_of(shape->blocks.begin(), shape->blocks.end(), [](const auto& b) { return b.fewest; });
  const bool offload = plan.offload_activations != 0U;
  const bool none = plan.recompute == Recompute::none && counts && !offload;
  const bool fewest = none || has_open_counts(plan);
  const std::optional<std::uint32_t> recomputed = recomputed_eighths(plan);
  if (!recomputed) return space.count;
  const Recompute recompute = none ? Recompute::full : plan.recompute;
  std::uint64_t number = shape->first;
  for (const MicrobatchSpace& m : shape->microbatches) {
    if (m.size != plan.microbatch_size) {
      number += m.plans * shape->orders * shape->blocks.size();
      continue;
    }
    const std::uint64_t block =
        place(shape->blocks, BlockChoice{*plan.attention, recompute, fewest, plan.sequence_parallel, plan.context,
                                         plan.zigzag, plan.inner_ring, plan.save_gathered, offload, *recomputed});
    std::uint64_t order = 0;
    for (const Mesh& listed : orders_of(space, *shape)) {
      if (lie_alike(listed, mesh, space.level_units)) break;
      ++order;
    }
    if (block == shape->blocks.size() || order == shape->orders) return space.count;
    number += (block * shape->orders + order) * m.plans;
    for (const ScheduleChoice& s : m.schedules) {
      const auto& splits = splits_of(space, *shape, s);
      const std::size_t states = states_with(*shape, s);
      if (s != schedule) {
        number += splits.size() * states;
        continue;
      }
      const std::uint64_t split = place(splits, *plan.stage_layers);
      const std::uint64_t at = place(shape->states, state);
      return split == splits.size() || at >= states ? space.count : number + split * states + at;
    }
  }
  return space.count;
}

}  // namespace orrery
