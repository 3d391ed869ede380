#include "planner/openings.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/plan/axis_sizes.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/plan/stage_split.hpp"
#include "planner/priced_plans.hpp"

namespace orrery {
namespace {

std::vector<std::uint32_t> divisors(std::uint64_t n) {
  std::vector<std::uint32_t> low, high;
  for (std::uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(static_cast<std::uint32_t>(d));
    if (d != n / d) high.push_back(static_cast<std::uint32_t>(n / d));
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Sizes of an axis that divide `ranks` and are allowed; 1 alone where it is `usual`ly left out and nothing is said.
std::vector<std::uint32_t> sizes_of(const char* key, std::uint64_t ranks, const SearchLimits& limits,
                                    bool usual = true) {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t n : divisors(ranks)) {
    if (limits.allow(key, n) && (usual || n == 1 || limits.only.contains(key))) out.push_back(n);
  }
  return out;
}

}  // namespace

void put_within(PlannedRun& run, const SearchLimits& limits, Dimensions table) {
  for (const Dimension& d : table) {
    if (d.table() != "plan" || !applies(d, run) || limits.allow(d.key, d.get(run))) continue;
    if (d.key == "plan.recompute_layers" && !run.plan.recompute_layers) continue;
    std::string reason;
    static_cast<void>(put(run, d, limits.only.find(d.key)->second.front(), reason));
  }
}

namespace {

/// Makes the plan what the limits ask for and check() accepts, as near to the usual choices as it goes: of cuts of
/// attention the one that costs least first, and of schedules 1F1B.  False where nothing near is valid.
bool keep_within(PlannedRun& run, Appraiser& appraiser, const SearchLimits& limits, Dimensions table) {
  put_within(run, limits, table);
  const Plan kept = run.plan;
  const auto is_good = [&] {
    Plan valid = run.plan;
    return appraiser.is_valid(valid) && limits.allow(run, table);
  };
  std::vector<std::pair<ContextAlgorithm, bool>> cuts{{kept.context, kept.zigzag}};
  if (kept.mesh.size(Axis::context) > 1) {
    cuts = {{ContextAlgorithm::ulysses, false},    {ContextAlgorithm::all_gather, true},
            {ContextAlgorithm::all_gather, false}, {ContextAlgorithm::ring, false},
            {ContextAlgorithm::ring, true},        {ContextAlgorithm::ring_self_attention, false}};
  }
  std::vector<ScheduleName> schedules{kept.schedule};
  if (kept.mesh.size(Axis::pipeline) > 1) {
    for (const ScheduleName s :
         {ScheduleName::gpipe, ScheduleName::zb_h1, ScheduleName::interleaved, ScheduleName::zb_v}) {
      schedules.push_back(s);
    }
  }
  // Rules may ask for another ZeRO stage on this mesh.
  std::vector<std::uint32_t> stages{kept.zero_stage};
  if (!limits.rules.empty() && !shard_axes_of(kept).empty()) {
    for (const std::uint32_t stage : {0U, 1U, 2U, 3U}) {
      if (stage != kept.zero_stage && limits.allow("plan.zero_stage", stage)) stages.push_back(stage);
    }
  }
  for (const std::uint32_t stage : stages) {
    for (const ScheduleName schedule : schedules) {
      for (const auto& [cut, zigzag] : cuts) {
        run.plan = kept;
        run.plan.zero_stage = stage;
        run.plan.schedule = schedule;
        run.plan.chunks = std::max(kept.chunks, rules_of(schedule).least_chunks);
        run.plan.context = cut;
        run.plan.zigzag = zigzag;
        if (is_good()) return true;
      }
    }
  }
  return false;
}

}  // namespace

bool hosts_are_known(const ClusterSpec& cluster) {
  return cluster.host_memory.base() > 0 && cluster.host_link && cluster.host_bandwidth;
}

std::vector<std::uint32_t> microbatch_sizes(const Plan& plan, const Workload& workload) {
  std::vector<std::uint32_t> out = divisors(workload.global_batch / size(plan.mesh, sequence_axes(plan)));
  std::erase_if(out, [](std::uint32_t n) { return n > plan_size_limit; });
  return out;
}

namespace {

/// The shapes whose context ranks have at least so many tokens of a sequence each.
std::vector<Plan> shapes_from(std::uint64_t least_part, Appraiser& appraiser, const SearchLimits& limits,
                              Dimensions table) {
  PlannedRun run = appraiser.run({});
  const std::uint64_t devices = run.cluster->devices();
  std::vector<Plan> out;
  if (devices > plan_size_limit) return out;
  const auto offer = [&](TensorAlgorithm algorithm, const std::vector<MeshAxis>& axes, std::uint32_t tensor) {
    if (!limits.allow("plan.tensor", static_cast<std::uint64_t>(algorithm))) return false;
    Plan plan;
    plan.mesh.axes = axes;
    if (!set_tensor(plan, algorithm, tensor)) return false;
    std::erase_if(plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
    const std::uint64_t cut = size(plan.mesh, sequence_axes(plan));
    if (run.workload.global_batch % cut != 0) return false;
    plan.sequence_parallel = algorithm == TensorAlgorithm::one_d && tensor > 1;
    plan.zero_stage = shard_axes_of(plan).empty() ? 0 : 1;
    // Some four microbatches for each stage first: the bubble is short, and a look takes little time.
    const std::uint64_t each = run.workload.global_batch / cut, stages = plan.mesh.size(Axis::pipeline);
    std::vector<std::uint32_t> sizes = microbatch_sizes(plan, run.workload);
    const auto from_four = [&](std::uint32_t n) {
      return std::max(each / n, 4 * stages) - std::min(each / n, 4 * stages);
    };
    std::stable_sort(sizes.begin(), sizes.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return from_four(a) < from_four(b); });
    for (const std::uint32_t n : sizes) {
      const std::uint64_t passes = each / n * stages;
      if (!limits.allow("plan.microbatch_size", n) || passes > stage_microbatch_limit) continue;
      for (const bool sequence : {plan.sequence_parallel, false}) {
        run.plan = plan;
        run.plan.microbatch_size = n;
        run.plan.sequence_parallel = sequence;
        if (keep_within(run, appraiser, limits, table)) return out.push_back(run.plan), true;
        if (!plan.sequence_parallel) break;
      }
      if (plan.mesh.size(Axis::pipeline) == 1) return false;  // other sizes change nothing of what is valid
    }
    return false;
  };
  const bool mixture = run.model.mixture.has_value();
  for (const std::uint32_t pipeline : sizes_of("mesh.pipeline", devices, limits)) {
    if (pipeline > run.model.layers) break;
    for (const std::uint32_t tensor : sizes_of("mesh.tensor", devices / pipeline, limits)) {
      for (const std::uint32_t context : sizes_of("mesh.context", devices / pipeline / tensor, limits)) {
        if (run.workload.sequence_length % context != 0) continue;
        // Shorter parts only where they are asked for, or as changes of what is found.
        if (context > 1 && run.workload.sequence_length / context < least_part &&
            !limits.only.contains("mesh.context")) {
          break;
        }
        const std::uint64_t rest = devices / pipeline / tensor / context;
        for (const std::uint32_t expert : sizes_of("mesh.expert", rest, limits, mixture)) {
          const bool replicas = limits.only.contains("mesh.data");
          for (const std::uint32_t replica : sizes_of("mesh.replica", rest / expert, limits, replicas)) {
            const auto data = static_cast<std::uint32_t>(rest / expert / replica);
            if (!limits.allow("mesh.data", data)) continue;
            const std::vector<MeshAxis> axes{{Axis::pipeline, pipeline},
                                             {Axis::replica, replica},
                                             {Axis::data, data},
                                             {Axis::context, context},
                                             {Axis::expert, expert}};
            const bool cut = offer(TensorAlgorithm::one_d, axes, tensor);
            if (tensor == 1) continue;
            // Grids where one dimension cuts no such model; and beside it where nothing else is cut in the layer.
            if (cut && context * expert * replica > 1) continue;
            for (const TensorAlgorithm grid :
                 {TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
              offer(grid, axes, tensor);
            }
          }
        }
      }
    }
  }
  return out;
}

/// Tokens of a context rank's part of a sequence from which on a coarse plan is worth a look: kernels of fewer rows no
/// longer fill a device. A short sequence is cut in at most four.
std::uint64_t usual_part(const Workload& workload) {
  return std::min<std::uint64_t>(512, workload.sequence_length / 4);
}

}  // namespace

std::vector<Plan> coarse_shapes(Appraiser& appraiser, const SearchLimits& limits, Dimensions table) {
  std::vector<Plan> out = shapes_from(usual_part(appraiser.run({}).workload), appraiser, limits, table);
  if (out.empty()) out = shapes_from(1, appraiser, limits, table);
  return out;
}

std::vector<Plan> orders_of(const Plan& plan) {
  std::vector<Plan> out{plan};
  for (const Axis inner : {Axis::tensor, Axis::expert, Axis::context, Axis::data}) {
    Plan other = plan;
    auto& axes = other.mesh.axes;
    const auto at = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& a) { return a.axis == inner; });
    if (at == axes.end() || at + 1 == axes.end()) continue;
    std::rotate(at, at + 1, axes.end());
    out.push_back(std::move(other));
  }
  return out;
}

std::vector<Plan> cuts_of(const Plan& plan) {
  std::vector<Plan> out;
  if (plan.mesh.size(Axis::context) == 1) return out;
  for (const ContextAlgorithm cut : {ContextAlgorithm::ulysses, ContextAlgorithm::all_gather}) {
    if (plan.context == cut) continue;
    out.push_back(plan);
    out.back().context = cut;
    out.back().zigzag = cut == ContextAlgorithm::all_gather;
  }
  return out;
}

std::vector<Plan> sequence_cuts_of(const Plan& plan) {
  if (plan.mesh.size(Axis::tensor) == 1) return {};
  Plan other = plan;
  other.sequence_parallel = !plan.sequence_parallel;
  return {other};
}

std::vector<Plan> grids_of(const Plan& plan) {
  std::vector<Plan> out;
  const std::uint64_t ranks = plan.mesh.size(Axis::tensor);
  for (const TensorAlgorithm grid : {TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
    Plan other = plan;
    if (ranks == 1 || !set_tensor(other, grid, ranks)) continue;
    std::erase_if(other.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
    other.sequence_parallel = false;
    out.push_back(std::move(other));
  }
  return out;
}

namespace {

/// Some eight chunks of a rank's layers, of equal size where that goes.
std::uint32_t many_chunks(const ModelSpec& model, std::uint32_t ranks) {
  constexpr std::uint64_t many = 10;
  const std::uint64_t layers = model.layers / ranks;
  std::uint64_t out = std::min<std::uint64_t>(layers, 8);
  if (model.layers % ranks != 0) return static_cast<std::uint32_t>(out);
  for (const std::uint32_t n : divisors(layers)) {
    if (n <= many && 2 * n >= std::min(layers, many)) out = n;
  }
  return static_cast<std::uint32_t>(out);
}

}  // namespace

std::vector<Plan> schedules_of(const Plan& plan, const ModelSpec& model) {
  std::vector<Plan> out;
  const std::uint32_t ranks = plan.mesh.size(Axis::pipeline);
  if (ranks == 1) return out;
  const std::uint64_t most = model.layers / ranks;
  const auto add = [&](ScheduleName schedule, std::uint32_t chunks) {
    if (chunks > most) return;
    out.push_back(plan);
    out.back().schedule = schedule;
    out.back().chunks = chunks;
    out.back().stage_layers.reset();
  };
  for (const ScheduleName s : {ScheduleName::zb_h2, ScheduleName::zb_v}) add(s, rules_of(s).least_chunks);
  // A few of many chunks: more of them shorten the bubble and lengthen what is sent.
  add(ScheduleName::interleaved, 2);
  if (const std::uint32_t many = many_chunks(model, ranks); many > 2) add(ScheduleName::interleaved, many);
  return out;
}

std::optional<Plan> breadth_first_of(const Plan& plan, const ModelSpec& model) {
  const std::uint32_t ranks = plan.mesh.size(Axis::pipeline);
  const std::uint64_t most = model.layers / ranks;
  if (ranks == 1 || most < 2) return std::nullopt;
  Plan out = plan;
  out.schedule = ScheduleName::breadth_first;
  out.chunks = many_chunks(model, ranks);
  out.stage_layers.reset();
  return out;
}

std::optional<Plan> ring_of(const Plan& plan) {
  if (plan.mesh.size(Axis::context) == 1 || plan.context == ContextAlgorithm::ring) return std::nullopt;
  Plan out = plan;
  out.context = ContextAlgorithm::ring;
  out.zigzag = true;
  return out;
}

std::vector<Plan> lean_schedules_of(const Plan& plan) {
  if (plan.mesh.size(Axis::pipeline) == 1) return {};
  std::vector<Plan> out{plan};
  for (const ScheduleName s : {ScheduleName::zb_h1, ScheduleName::v_half, ScheduleName::v_min}) {
    out.push_back(plan);
    out.back().schedule = s;
    out.back().chunks = rules_of(s).least_chunks;
    out.back().stage_layers.reset();
  }
  return out;
}

std::vector<Plan> replicas_of(const Plan& plan, const std::vector<std::uint64_t>& units) {
  std::vector<Plan> out;
  const std::uint32_t data = plan.mesh.size(Axis::data);
  if (plan.mesh.size(Axis::replica) > 1 || plan.zero_stage == 0) return out;
  // Half of the data ranks; then as many as lie within one unit of a level, beside what is further inside.
  std::vector<std::uint64_t> sizes{data / 2};
  for (const std::uint64_t unit : units) sizes.push_back(unit / std::min(unit, plan.mesh.stride(Axis::data)));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto within = static_cast<std::uint32_t>(sizes[i]);
    if (within <= 1 || within >= data || data % within != 0) continue;
    if (std::find(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(i), sizes[i]) !=
        sizes.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    out.push_back(plan);
    auto& axes = out.back().mesh.axes;
    const auto at = std::find_if(axes.begin(), axes.end(), [](const MeshAxis& a) { return a.axis == Axis::data; });
    at->size = within;
    axes.insert(at, {Axis::replica, data / within});
  }
  return out;
}

std::vector<Plan> states_of(const Plan& plan, const std::vector<std::uint64_t>& units) {
  if (shard_axes_of(plan).empty()) return {};
  Plan kept = plan;
  kept.zero_stage = 3;
  kept.reshard_after_forward = false;
  std::vector<Plan> out{kept};
  for (const Plan& of : {plan, kept}) {
    const std::vector<Plan> parted = replicas_of(of, units);
    out.insert(out.end(), parted.begin(), parted.end());
  }
  return out;
}

std::optional<Plan> shared_out_further(const Plan& plan) {
  Plan out = plan;
  out.zero_stage = 3;
  out.offload_parameters = 0;
  out.reshard_after_forward = true;
  if (shard_axes_of(plan).empty() || out == plan) return std::nullopt;
  return out;
}

namespace {

/// Splits whose first or last stage, or both, have a layer less: they hold the embedding and the head.
std::vector<std::vector<std::uint32_t>> lighter_ends(const Plan& plan) {
  std::vector<std::vector<std::uint32_t>> out;
  const std::vector<std::uint32_t>& now = *plan.stage_layers;
  if (now.size() < 2) return out;
  const std::uint64_t layers = std::accumulate(now.begin(), now.end(), std::uint64_t{0});
  if (now.size() > layers) return out;
  for (std::vector<std::uint32_t>& split : uneven_stages(layers, static_cast<std::uint32_t>(now.size()), split_reach)) {
    const bool first = split.front() + 1 == now.front(), last = split.back() + 1 == now.back();
    if ((first || split.front() == now.front() || now.size() == 2) &&
        (last || split.back() == now.back() || now.size() == 2) && (first || last)) {
      out.push_back(std::move(split));
    }
  }
  return out;
}

}  // namespace

Plan without_reliefs(Plan plan) {
  set_recompute(plan, Recompute::none);
  plan.recompute_layers.reset();
  plan.offload_activations = 0;
  plan.attention.reset();
  return plan;
}

std::vector<Candidate> reliefs(const Plan& plan, PricedPlans& plans, std::span<const std::uint32_t> mixtures) {
  Plan plain = without_reliefs(plan);
  Plan full = plain;
  set_recompute(full, Recompute::full);
  std::vector<Candidate> out{{plain, Raised::nothing}, {full, Raised::nothing}, {full, Raised::recomputed_layers}};
  for (const std::vector<std::uint32_t>& split : lighter_ends(plan)) {
    for (Plan* of : {&plain, &full}) {
      Plan other = *of;
      other.stage_layers = split;
      out.push_back({std::move(other), of == &full ? Raised::recomputed_layers : Raised::nothing});
    }
  }
  if (plans.hosts) {
    out.push_back({plain, Raised::offloaded_activations});
    out.push_back({full, Raised::offloaded_activations});
    for (const std::uint32_t eighths : mixtures) {
      Plan some = full;
      some.stage_layers = plan.stage_layers;
      some.recompute_layers.emplace();
      for (const std::uint32_t layers : *plan.stage_layers) {
        some.recompute_layers->push_back((layers * eighths + 7) / 8);
      }
      out.push_back({std::move(some), Raised::offloaded_activations});
    }
    out.push_back({plain, Raised::offloaded_states});
    out.push_back({full, Raised::offloaded_states});
  }
  // Whole gradients of a bucket are not held beside the passes.
  if (plan.overlap_gradients == true) {
    for (Plan* of : {&plain, &full}) {
      Plan late = *of;
      late.stage_layers = plan.stage_layers;
      late.overlap_gradients = false;
      out.push_back({std::move(late), of == &full ? Raised::recomputed_layers : Raised::nothing});
    }
  }
  Plan selective = plain;
  selective.recompute = Recompute::selective;
  out.push_back({selective, Raised::nothing});
  out.push_back({selective, Raised::recomputed_layers});
  // Modules beside the flash kernel: the cheapest, whose results alone are dropped, those that keep only their input,
  // and both.
  using enum RecomputeModule;
  const unsigned cheap = set_of(layernorm) | set_of(moe_act) | set_of(mla_up_proj), whole = set_of(mlp) | set_of(moe);
  const unsigned known = recompute_modules_of(plans.model);
  std::set<unsigned> seen{0};
  for (const unsigned modules : {cheap & known, whole & known, (cheap | whole) & known}) {
    if (!seen.insert(modules).second) continue;
    selective.recompute_modules = static_cast<RecomputeModules>(modules);
    if (!plans.is_allowed(selective)) continue;
    out.push_back({selective, Raised::nothing});
    out.push_back({selective, Raised::recomputed_layers});
  }
  return out;
}

std::vector<Candidate> strong_reliefs(const Plan& plan) {
  std::vector<Candidate> out;
  for (const std::uint32_t parameters : {0U, 8U}) {
    Plan away = plan;
    if (parameters > 0) away.zero_stage = std::min(plan.zero_stage, 2U);  // shared out, weights are gathered anyway
    if (away.zero_stage < 3) away.reshard_after_forward = Plan{}.reshard_after_forward;
    set_recompute(away, Recompute::none);
    away.recompute_layers.reset();
    away.offload_states = 8;
    away.offload_parameters = parameters;
    away.offload_activations = 0;
    out.push_back({away, Raised::nothing});
    out.push_back({away, Raised::offloaded_activations});
    set_recompute(away, Recompute::full);
    out.push_back({away, Raised::recomputed_layers});
    out.push_back({away, Raised::offloaded_activations});
  }
  return out;
}

}  // namespace orrery
