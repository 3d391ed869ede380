#include "planner/space.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "planner/gradient_bucket.hpp"

namespace orrery {
namespace {

/// Orders of the axes that the space covers.
constexpr Axis orders[6][3] = {
    {Axis::pipeline, Axis::data, Axis::tensor}, {Axis::pipeline, Axis::tensor, Axis::data},
    {Axis::data, Axis::pipeline, Axis::tensor}, {Axis::data, Axis::tensor, Axis::pipeline},
    {Axis::tensor, Axis::pipeline, Axis::data}, {Axis::tensor, Axis::data, Axis::pipeline},
};

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

Mesh without_ones(const Mesh& mesh) {
  Mesh kept;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size > 1) kept.axes.push_back(a);
  }
  return kept;
}

// How an order of axes lies on the network: for every level and axis, how many
// of the axis' members share one unit of the level.  Two orders with the same
// answer differ by a renumbering of devices that keeps every unit together, so
// every group and every pair of neighbours reaches over the same levels.  That
// holds where the units nest with the strides; empty where they do not.
std::optional<std::vector<std::uint64_t>> layout(const Mesh& mesh, const std::vector<std::uint64_t>& level_units) {
  std::vector<std::uint64_t> members;
  for (const std::uint64_t unit : level_units) {
    for (const Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) {
      const std::uint64_t size = mesh.size(axis);
      const std::uint64_t stride = size > 1 ? mesh.stride(axis) : 1;
      if (size == 1 || unit <= stride) {
        if (size > 1 && stride % unit != 0) return std::nullopt;
        members.push_back(1);
      } else {
        if (unit % stride != 0) return std::nullopt;
        const std::uint64_t inside = unit / stride;
        if (inside < size ? size % inside != 0 : inside % size != 0) return std::nullopt;
        members.push_back(std::min(inside, size));
      }
    }
  }
  return members;
}

bool lie_alike(const Mesh& a, const Mesh& b, const std::vector<std::uint64_t>& level_units) {
  for (const Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) {
    if (a.size(axis) != b.size(axis)) return false;
  }
  if (a == b) return true;
  const auto on_a = layout(a, level_units);
  return on_a && on_a == layout(b, level_units);
}

/// The first plan on a mesh with one microbatch size: microbatch sizes are the
/// only choices that other limits than the space's own may forbid.
Plan plan_of(const MeshSpace& on, Bytes bucket, std::uint32_t microbatch) {
  Plan plan;
  plan.mesh = on.mesh;
  plan.microbatch_size = microbatch;
  plan.schedule = on.runs.front().schedule;
  plan.stage_layers = on.stage_layers.front();
  plan.gradient_bucket = bucket;
  plan.overlap_gradients = false;
  plan.attention = on.kernels.front().attention;
  return plan;
}

bool is_valid(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster) {
  Diagnostics wrong;
  check(plan, model, workload, &cluster, wrong);
  return wrong.empty();
}

std::vector<RunChoice> run_choices(const Mesh& mesh, const Workload& workload) {
  const std::uint32_t t = mesh.size(Axis::tensor);
  std::vector<RunChoice> choices;
  for (const ScheduleName schedule : {ScheduleName::gpipe, ScheduleName::one_f_one_b}) {
    if (schedule == ScheduleName::gpipe && mesh.size(Axis::pipeline) == 1) continue;
    for (const bool sequence : {false, true}) {
      if (sequence && (t == 1 || workload.sequence_length % t != 0)) continue;
      for (const std::uint32_t zero : {0U, 1U}) {
        if (zero == 1 && mesh.size(Axis::data) == 1) continue;
        for (const bool overlap : {false, true}) {
          if (overlap && mesh.size(Axis::data) == 1) continue;
          choices.push_back({schedule, sequence, zero, overlap});
        }
      }
    }
  }
  return choices;
}

std::vector<KernelChoice> kernel_choices(const Workload& workload) {
  std::vector<KernelChoice> choices = {{AttentionKernel::unfused, Recompute::none},
                                       {AttentionKernel::unfused, Recompute::selective},
                                       {AttentionKernel::unfused, Recompute::full}};
  if (workload.attention_dropout > 0.0) return choices;
  choices.push_back({AttentionKernel::flash, Recompute::none});
  choices.push_back({AttentionKernel::flash, Recompute::full});
  return choices;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> uneven_stages(std::uint64_t layers, std::uint32_t stages, std::uint32_t reach) {
  ORRERY_ASSERT(stages >= 1 && stages <= layers, stages, layers);
  const std::uint64_t q = layers / stages;
  const std::uint64_t r = layers % stages;
  const std::uint64_t least = q > reach ? q - reach : 1;
  std::vector<std::vector<std::uint32_t>> splits;
  if (stages == 1) return {{static_cast<std::uint32_t>(layers)}};
  if (stages == 2) {
    for (std::uint64_t first = least; first <= std::min(q + r + reach, layers - 1); ++first) {
      splits.push_back({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(layers - first)});
    }
    return splits;
  }
  const std::uint64_t most = q + std::min<std::uint64_t>(1, r);
  const std::uint64_t between = stages - 2;
  for (std::uint64_t first = least; first <= most; ++first) {
    for (std::uint64_t last = least; last <= most; ++last) {
      if (first + last + between > layers) continue;
      const std::uint64_t rest = layers - first - last;
      std::vector<std::uint32_t> split = {static_cast<std::uint32_t>(first)};
      for (std::uint64_t i = 0; i < between; ++i) {
        split.push_back(static_cast<std::uint32_t>(rest / between + (i < rest % between ? 1 : 0)));
      }
      split.push_back(static_cast<std::uint32_t>(last));
      splits.push_back(std::move(split));
    }
  }
  return splits;
}

std::uint32_t stage_reach(const ModelSpec& model) {
  const std::uint64_t table = model.vocabulary * model.hidden;
  const std::uint64_t layer = std::max<std::uint64_t>(1, layer_parameter_count(model));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((table + layer - 1) / layer, stage_reach_limit));
}

Space make_space(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster) {
  Space space;
  std::uint64_t unit = 1;
  for (const NetworkLevel& level : cluster.levels) space.level_units.push_back(unit *= level.size);
  const std::uint64_t devices = cluster.devices();
  if (devices > plan_size_limit || workload.global_batch > batch_limit) return space;
  const std::uint64_t cut = std::gcd(std::gcd(model.heads, model.kv_heads), model.ffn);
  const std::uint32_t reach = stage_reach(model);
  const std::vector<KernelChoice> kernels = kernel_choices(workload);
  for (const std::uint32_t tensor : divisors(devices)) {
    if (cut % tensor != 0) continue;
    for (const std::uint32_t pipeline : divisors(devices / tensor)) {
      const auto data = static_cast<std::uint32_t>(devices / tensor / pipeline);
      if (pipeline > model.layers || workload.global_batch % data != 0) continue;
      const auto splits = uneven_stages(model.layers, pipeline, reach);
      const std::size_t first_order = space.meshes.size();
      std::vector<Mesh> tried;
      for (const auto& order : orders) {
        Mesh mesh;
        for (const Axis axis : order) {
          const std::uint32_t size = axis == Axis::pipeline ? pipeline : axis == Axis::data ? data : tensor;
          if (size > 1) mesh.axes.push_back({axis, size});
        }
        if (std::find(tried.begin(), tried.end(), mesh) != tried.end()) continue;
        tried.push_back(mesh);
        const bool listed =
            std::any_of(space.meshes.begin() + static_cast<std::ptrdiff_t>(first_order), space.meshes.end(),
                        [&](const MeshSpace& other) { return lie_alike(other.mesh, mesh, space.level_units); });
        if (listed) {
          ++space.orders_left_out;
          continue;
        }
        MeshSpace on{mesh, {}, splits, run_choices(mesh, workload), kernels};
        const Bytes bucket = default_gradient_bucket(workload, data);
        // Sizes beyond check()'s limits, and workloads that it refuses, leave nothing here.
        for (const std::uint32_t size : divisors(workload.global_batch / data)) {
          if (is_valid(plan_of(on, bucket, size), model, workload, cluster)) on.microbatch_sizes.push_back(size);
        }
        if (on.microbatch_sizes.empty()) continue;
        space.first.push_back(space.count);
        space.gradient_bucket.push_back(bucket);
        space.meshes.push_back(std::move(on));
        space.count += space.meshes.back().count();
      }
    }
  }
  return space;
}

Plan plan_at(const Space& space, std::uint64_t number) {
  ORRERY_ASSERT(number < space.count, number, space.count);
  const auto at = std::upper_bound(space.first.begin(), space.first.end(), number) - space.first.begin() - 1;
  const MeshSpace& on = space.meshes[static_cast<std::size_t>(at)];
  std::uint64_t rest = number - space.first[static_cast<std::size_t>(at)];
  const auto digit = [&](std::size_t size) {
    const std::uint64_t d = rest % size;
    rest /= size;
    return static_cast<std::size_t>(d);
  };
  const KernelChoice& kernel = on.kernels[digit(on.kernels.size())];
  const RunChoice& run = on.runs[digit(on.runs.size())];
  const std::vector<std::uint32_t>& stages = on.stage_layers[digit(on.stage_layers.size())];
  Plan plan;
  plan.mesh = on.mesh;
  plan.microbatch_size = on.microbatch_sizes[digit(on.microbatch_sizes.size())];
  plan.schedule = run.schedule;
  plan.stage_layers = stages;
  plan.sequence_parallel = run.sequence_parallel;
  plan.recompute = kernel.recompute;
  plan.zero_stage = run.zero_stage;
  plan.gradient_bucket = space.gradient_bucket[static_cast<std::size_t>(at)];
  plan.overlap_gradients = run.overlap_gradients;
  plan.attention = kernel.attention;
  return plan;
}

std::uint64_t number_of(const Space& space, const Plan& plan) {
  ORRERY_ASSERT(is_resolved(plan));
  if (!plan.placement.empty() || plan.collective_algorithm) return space.count;
  const Mesh mesh = without_ones(plan.mesh);
  // Choices that make no difference are listed once: bring them to that form.
  RunChoice wanted{plan.schedule, plan.sequence_parallel, plan.zero_stage, *plan.overlap_gradients};
  if (mesh.size(Axis::pipeline) == 1) wanted.schedule = ScheduleName::one_f_one_b;
  if (mesh.size(Axis::data) == 1) {
    wanted.zero_stage = 0;
    wanted.overlap_gradients = false;
  }
  for (std::size_t i = 0; i < space.meshes.size(); ++i) {
    const MeshSpace& on = space.meshes[i];
    if (!lie_alike(on.mesh, mesh, space.level_units)) continue;
    const auto place = [](const auto& list, const auto& value) {
      return static_cast<std::uint64_t>(std::find(list.begin(), list.end(), value) - list.begin());
    };
    const std::uint64_t microbatch = place(on.microbatch_sizes, plan.microbatch_size);
    const std::uint64_t stages = place(on.stage_layers, *plan.stage_layers);
    const std::uint64_t run = place(on.runs, wanted);
    const std::uint64_t kernel = place(on.kernels, KernelChoice{*plan.attention, plan.recompute});
    if (microbatch == on.microbatch_sizes.size() || stages == on.stage_layers.size() || run == on.runs.size() ||
        kernel == on.kernels.size()) {
      return space.count;
    }
    return space.first[i] +
           ((microbatch * on.stage_layers.size() + stages) * on.runs.size() + run) * on.kernels.size() + kernel;
  }
  return space.count;
}

}  // namespace orrery
