#include "planner/changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/units_text.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "planner/resolve.hpp"
#include "planner/space.hpp"

namespace orrery {
namespace {

const char* on_off(bool b) { return b ? "on" : "off"; }

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name_of(a.axis), a.size);
  }
  return text.empty() ? "one rank" : text;
}

class Changes {
 public:
  Changes(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
          const Calibration& calibration)
      : plan_(plan), model_(model), workload_(workload), cluster_(cluster), calibration_(calibration) {
    // Positions in the file belong to the plan as written.
    plan_.origin = {};
  }

  std::vector<PlanChange> all() {
    for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (r == plan_.recompute) continue;
      Plan p = plan_;
      p.recompute = r;
      if (r == Recompute::none) p.recompute_layers.reset();
      add("recompute", std::string(name_of(plan_.recompute)), std::string(name_of(r)), std::move(p));
    }
    for (const AttentionKernel a : {AttentionKernel::unfused, AttentionKernel::flash}) {
      if (a == *plan_.attention) continue;
      Plan p = plan_;
      p.attention = a;
      add("attention", std::string(name_of(*plan_.attention)), std::string(name_of(a)), std::move(p));
    }
    if (size(Axis::tensor) > 1) {
      Plan p = plan_;
      p.sequence_parallel = !p.sequence_parallel;
      add("sequence_parallel", on_off(plan_.sequence_parallel), on_off(p.sequence_parallel), std::move(p));
    }
    if (hosts_are_known(cluster_) || plan_.offload_states != 0U || plan_.offload_activations != 0U) offload();
    if (!shard_axes_of(plan_).empty()) {
      zero();
      chunks_of_parameters();
      Plan overlap = plan_;
      overlap.overlap_gradients = !*overlap.overlap_gradients;
      add("overlap_gradients", on_off(*plan_.overlap_gradients), on_off(!*plan_.overlap_gradients), std::move(overlap));
    }
    if (size(Axis::pipeline) > 1) schedules();
    if (size(Axis::context) > 1) contexts();
    if (plan_.tensor == TensorAlgorithm::three_d) {
      Plan p = plan_;
      p.save_gathered = !p.save_gathered;
      add("save_gathered", on_off(plan_.save_gathered), on_off(p.save_gathered), std::move(p));
    }
    microbatches();
    stages();
    orders();
    moves();
    return std::move(list_);
  }

 private:
  [[nodiscard]] std::uint32_t size(Axis axis) const { return plan_.mesh.size(axis); }

  [[nodiscard]] bool valid(const Plan& plan) const {
    Diagnostics wrong;
    check(plan, model_, workload_, &cluster_, wrong);
    return wrong.empty();
  }

  /// What the change leaves without its reason follows it: counts of recomputed layers, chunks of parameters.
  void add(const char* dimension, std::string from, std::string to, Plan plan) {
    if (!valid(plan)) {
      if (plan.recompute_layers) plan.recompute_layers = counts_on(*plan.stage_layers);
      if (plan.parameter_chunk != Bytes()) {
        const bool gathers = plan.zero_stage == 3 && !shard_axes_of(plan).empty() && plan.reshard_after_forward &&
                             !splits_backward(plan);
        plan.parameter_chunk = gathers ? std::optional<Bytes>() : Bytes();
        if (gathers && valid(plan)) plan = resolve(plan, model_, workload_, cluster_, calibration_).plan;
      }
    }
    if (valid(plan)) list_.push_back({dimension, std::move(from), std::move(to), std::move(plan), {}, {}});
  }

  /// The plan's recomputed layers on other stages: as many of each where there are as many stages, else the same share.
  [[nodiscard]] std::vector<std::uint32_t> counts_on(const std::vector<std::uint32_t>& stages) const {
    const std::vector<std::uint32_t>& counts = *plan_.recompute_layers;
    const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    std::vector<std::uint32_t> out;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::uint64_t share = (stages[s] * all + model_.layers - 1) / model_.layers;
      out.push_back(
          std::min(stages[s], stages.size() == counts.size() ? counts[s] : static_cast<std::uint32_t>(share)));
    }
    return out;
  }

  /// The plan on as many stages as its mesh and chunks ask for, split anew; none where it is not valid.
  [[nodiscard]] std::optional<Plan> split_anew(Plan plan) const {
    plan.stage_layers.reset();
    const bool counts = plan.recompute_layers.has_value();
    plan.recompute_layers.reset();
    if (plan.parameter_chunk != Bytes() && !valid(plan)) {
      plan.parameter_chunk.reset();
      if (!valid(plan)) plan.parameter_chunk = Bytes();
    }
    if (!valid(plan)) return std::nullopt;
    plan = resolve(plan, model_, workload_, cluster_, calibration_).plan;
    if (counts) plan.recompute_layers = counts_on(*plan.stage_layers);
    return plan;
  }

  /// Every other eighth of what may wait in host memory.
  void offload() {
    const auto each = [&](const char* key, std::optional<std::uint32_t> Plan::*eighths, OffloadTier Plan::*tier) {
      for (std::uint32_t e = 0; e <= 8; ++e) {
        if (plan_.*eighths == e) continue;
        Plan p = plan_;
        p.*eighths = e;
        if (e == 0) p.*tier = OffloadTier::host;
        add(key, fmt::to_string(*(plan_.*eighths)), fmt::to_string(e), std::move(p));
      }
    };
    each("offload_states", &Plan::offload_states, &Plan::states_tier);
    each("offload_parameters", &Plan::offload_parameters, &Plan::parameters_tier);
    each("offload_activations", &Plan::offload_activations, &Plan::activations_tier);
  }

  /// ZeRO-3 with layers as a whole, or a chunk for each.
  void chunks_of_parameters() {
    const auto text = [](const Plan& p) {
      return p.parameter_chunk == Bytes() ? std::string("none") : exact_text(*p.parameter_chunk);
    };
    if (plan_.zero_stage != 3) return;
    Plan p = plan_;
    if (plan_.parameter_chunk != Bytes()) {
      p.parameter_chunk = Bytes();
    } else {
      p.parameter_chunk.reset();
      if (!valid(p)) return;
      p = resolve(p, model_, workload_, cluster_, calibration_).plan;
    }
    const std::string to = text(p);
    add("parameter_chunk", text(plan_), to, std::move(p));
  }

  void zero() {
    for (std::uint32_t stage = 0; stage <= 3; ++stage) {
      if (stage == plan_.zero_stage) continue;
      Plan p = plan_;
      p.zero_stage = stage;
      p.reshard_after_forward = Plan{}.reshard_after_forward;  // choices of stage 3 only
      p.prefetch = Plan{}.prefetch;
      p.parameter_chunk = Plan{}.parameter_chunk;
      add("zero_stage", fmt::to_string(plan_.zero_stage), fmt::to_string(stage), std::move(p));
    }
    if (plan_.zero_stage != 3) return;
    Plan kept = plan_;
    kept.reshard_after_forward = !kept.reshard_after_forward;
    add("reshard_after_forward", on_off(plan_.reshard_after_forward), on_off(kept.reshard_after_forward),
        std::move(kept));
    Plan ahead = plan_;
    ahead.prefetch = 1 - std::min(1U, plan_.prefetch);
    add("prefetch", fmt::to_string(plan_.prefetch), fmt::to_string(ahead.prefetch), std::move(ahead));
  }

  /// Every schedule but that of a file, with the plan's chunks where it runs on
  /// as many, else with the nearest number that it runs on; then the numbers of chunks.
  void schedules() {
    for (std::size_t s = 0; s < pipeline_schedule_names().size(); ++s) {
      const auto schedule = static_cast<ScheduleName>(s);
      if (schedule == plan_.schedule || schedule == ScheduleName::custom) continue;
      const ScheduleRules& rules = rules_of(schedule);
      std::uint32_t chunks = std::max(plan_.chunks, rules.least_chunks);
      if (rules.most_chunks > 0) chunks = std::min(chunks, rules.most_chunks);
      std::string to(name_of(schedule));
      if (chunks != plan_.chunks) to += fmt::format(" with {} chunk{}", chunks, chunks == 1 ? "" : "s");
      Plan p = plan_;
      p.schedule = schedule;
      p.order_file.clear();  // of a file's schedule only
      p.order.clear();
      p.order_placement = Plan{}.order_placement;
      if (p.action_times != Plan{}.action_times && !valid(p)) p.action_times = {};
      add_split("schedule", std::string(name_of(plan_.schedule)), std::move(to), std::move(p), chunks);
    }
    const ScheduleRules& rules = rules_of(plan_.schedule);
    if (plan_.schedule == ScheduleName::custom || rules.most_chunks != 0) return;
    for (std::uint32_t chunks = rules.least_chunks; chunks <= model_.layers / size(Axis::pipeline); ++chunks) {
      if (chunks == plan_.chunks) continue;
      add_split("chunks", fmt::to_string(plan_.chunks), fmt::to_string(chunks), plan_, chunks);
    }
  }

  void contexts() {
    for (std::size_t c = 0; c < context_names().size(); ++c) {
      const auto context = static_cast<ContextAlgorithm>(c);
      if (context == plan_.context) continue;
      Plan p = plan_;
      p.context = context;
      p.inner_ring = 0;
      if (!valid(p)) p.zigzag = false;
      add("context", std::string(name_of(plan_.context)), std::string(name_of(context)), std::move(p));
    }
    Plan dealt = plan_;
    dealt.zigzag = !dealt.zigzag;
    add("zigzag", on_off(plan_.zigzag), on_off(dealt.zigzag), std::move(dealt));
    const auto ring = [](std::uint32_t inner) { return inner == 0 ? std::string("off") : fmt::to_string(inner); };
    const std::uint32_t ranks = plan_.context == ContextAlgorithm::ring ? size(Axis::context) : 0;
    for (std::uint32_t inner = 0; inner < ranks; ++inner) {
      if (inner == plan_.inner_ring || inner == 1 || (inner > 0 && ranks % inner != 0)) continue;
      Plan p = plan_;
      p.inner_ring = inner;
      add("inner_ring", ring(plan_.inner_ring), ring(inner), std::move(p));
    }
  }

  /// With another number of chunks the stages are split anew.
  void add_split(const char* dimension, std::string from, std::string to, Plan plan, std::uint32_t chunks) {
    if (chunks != plan.chunks) {
      plan.chunks = chunks;
      const std::optional<Plan> anew = split_anew(plan);
      if (!anew) return;
      plan = *anew;
    }
    add(dimension, std::move(from), std::move(to), std::move(plan));
  }

  void microbatches() {
    const std::uint64_t batch = workload_.global_batch / orrery::size(plan_.mesh, batch_axes);
    for (std::uint64_t b = 1; b <= std::min(batch, plan_size_limit); ++b) {
      if (batch % b != 0 || b == plan_.microbatch_size) continue;
      Plan p = plan_;
      p.microbatch_size = static_cast<std::uint32_t>(b);
      add("microbatch_size", fmt::to_string(plan_.microbatch_size), fmt::to_string(b), std::move(p));
    }
  }

  void stages() {
    for (const auto& split : uneven_stages(model_.layers, size(Axis::pipeline) * plan_.chunks, stage_reach(model_))) {
      if (split == *plan_.stage_layers) continue;
      Plan p = plan_;
      p.stage_layers = split;
      add("stage_layers", fmt::format("[{}]", fmt::join(*plan_.stage_layers, ", ")),
          fmt::format("[{}]", fmt::join(split, ", ")), std::move(p));
    }
  }

  static bool by_axis(const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; }

  void orders() {
    if (!plan_.placement.empty()) return;
    Mesh kept;
    for (const MeshAxis& a : plan_.mesh.axes) {
      if (a.size > 1) kept.axes.push_back(a);
    }
    Mesh other = kept;
    std::sort(other.axes.begin(), other.axes.end(), by_axis);
    do {
      if (other == kept) continue;
      Plan p = plan_;
      p.mesh = other;
      add("order of mesh axes", mesh_text(kept), mesh_text(other), std::move(p));
    } while (std::next_permutation(other.axes.begin(), other.axes.end(), by_axis));
  }

  // A factor from one axis to another.  An axis that the mesh lacks enters at
  // its usual place: pipeline outermost, then data, tensor innermost; replica
  // and context do not enter a mesh that lacks them.
  void moves() {
    if (!plan_.placement.empty()) return;
    std::vector<Axis> axes{Axis::pipeline, Axis::data, Axis::tensor};
    for (const Axis axis : {Axis::replica, Axis::context}) {
      if (size(axis) > 1) axes.push_back(axis);
    }
    for (const Axis from : axes) {
      for (const Axis to : axes) {
        if (from == to) continue;
        for (std::uint32_t k = 2; k <= size(from); ++k) {
          if (size(from) % k == 0) move(from, to, k);
        }
      }
    }
  }

  void move(Axis from, Axis to, std::uint32_t factor) {
    Plan p = plan_;
    const auto place = [&](Axis axis) {
      return std::find_if(p.mesh.axes.begin(), p.mesh.axes.end(), [&](const MeshAxis& a) { return a.axis == axis; });
    };
    if (place(to) == p.mesh.axes.end()) {
      if (to == Axis::pipeline) {
        p.mesh.axes.insert(p.mesh.axes.begin(), {to, 1});
      } else if (to == Axis::tensor) {
        p.mesh.axes.push_back({to, 1});
      } else {
        const auto tensor = place(Axis::tensor);
        p.mesh.axes.insert(tensor, {to, 1});
      }
    }
    place(from)->size /= factor;
    place(to)->size *= factor;
    if (p.mesh.size(Axis::tensor) == 1) p.sequence_parallel = false;
    if (p.mesh.size(Axis::context) == 1) {
      p.context = Plan{}.context;
      p.zigzag = false;
    }
    if (from == Axis::context || to == Axis::context) p.inner_ring = 0;
    if (from == Axis::pipeline || to == Axis::pipeline) {
      const std::optional<Plan> anew = split_anew(p);
      if (!anew) return;
      p = *anew;
    }
    const std::string before = mesh_text(plan_.mesh);
    const std::string after = mesh_text(p.mesh);
    add("mesh", before, after, std::move(p));
  }

  Plan plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  const ClusterSpec& cluster_;
  const Calibration& calibration_;
  std::vector<PlanChange> list_;
};

}  // namespace

std::vector<PlanChange> single_changes(const Plan& plan, const ModelSpec& model, const Workload& workload,
                                       const ClusterSpec& cluster, const Calibration& calibration) {
  return Changes(plan, model, workload, cluster, calibration).all();
}

std::string describe(const PlanChange& change) {
  return fmt::format("{} {} -> {}", change.dimension, change.from, change.to);
}

}  // namespace orrery
