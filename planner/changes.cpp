#include "planner/changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
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
    if (size(Axis::data) > 1) {
      for (const std::uint32_t stage : {0U, 1U}) {
        if (stage == plan_.zero_stage) continue;
        Plan zero = plan_;
        zero.zero_stage = stage;
        add("zero_stage", fmt::to_string(plan_.zero_stage), fmt::to_string(stage), std::move(zero));
      }
      Plan overlap = plan_;
      overlap.overlap_gradients = !*overlap.overlap_gradients;
      add("overlap_gradients", on_off(*plan_.overlap_gradients), on_off(!*plan_.overlap_gradients), std::move(overlap));
    }
    if (size(Axis::pipeline) > 1) {
      Plan p = plan_;
      p.schedule = p.schedule == ScheduleName::one_f_one_b ? ScheduleName::gpipe : ScheduleName::one_f_one_b;
      add("schedule", std::string(name_of(plan_.schedule)), std::string(name_of(p.schedule)), std::move(p));
    }
    microbatches();
    stages();
    orders();
    moves();
    return std::move(list_);
  }

 private:
  [[nodiscard]] std::uint32_t size(Axis axis) const { return plan_.mesh.size(axis); }

  void add(const char* dimension, std::string from, std::string to, Plan plan) {
    Diagnostics wrong;
    check(plan, model_, workload_, &cluster_, wrong);
    if (wrong.empty()) list_.push_back({dimension, std::move(from), std::move(to), std::move(plan), {}, 0, false});
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
  // its usual place: pipeline outermost, then data, tensor innermost.
  void moves() {
    if (!plan_.placement.empty()) return;
    constexpr Axis axes[] = {Axis::pipeline, Axis::data, Axis::tensor};
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
    if (from == Axis::pipeline || to == Axis::pipeline) {
      p.stage_layers.reset();
      Diagnostics wrong;
      check(p, model_, workload_, &cluster_, wrong);
      if (!wrong.empty()) return;
      p = resolve(p, model_, workload_, cluster_, calibration_).plan;
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
