#include "planner/follow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/plan/axis_sizes.hpp"
#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

/// The first rule that the run breaks, with its numbers; empty where it is valid.
std::string violation(const PlannedRun& run) {
  Diagnostics d;
  if (check_sizes(run.model, run.workload, d)) check(run.plan, run.model, run.workload, &*run.cluster, d);
  if (d.empty()) return "";
  const Diagnostic& first = d.list().front();
  std::string out = first.message + ".";
  for (const std::string& detail : first.details) out += " " + detail;
  out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out;
}

class Settling {
 public:
  Settling(const PlannedRun& before, PlannedRun& run, const Dimension* turned, Dimensions table)
      : before_(before), run_(run), turned_(turned), wish_(turned == nullptr ? 0 : turned->get(run)), table_(table) {
    const Mesh &old = before.plan.mesh, &now = run.plan.mesh;
    for (const Axis axis : plan_axes) {
      if (old.size(axis) != now.size(axis)) asked_.axis[asked_.count++] = axis;
    }
  }

  bool settle(std::string& reason) {
    Plan& plan = run_.plan;
    const std::uint64_t devices = run_.cluster->devices();
    const Plan plain = plan;
    reason = followed();
    if (reason.empty()) return true;
    const Mesh mesh = plan.mesh;  // without the axes that the model does not have
    const std::uint64_t rest = mesh.size() / mesh.size(Axis::data);
    if (!contains(asked_, Axis::data) && mesh.size() != devices && devices % rest == 0) {
      plan = plain;
      plan.mesh = mesh;
      set_size(plan.mesh, Axis::data, static_cast<std::uint32_t>(devices / rest));
      reason = followed();
      if (reason.empty()) return true;
    }
    if (mend()) return true;
    // Who turns a schedule or a batch does not ask for another mesh.
    if (turned_ != nullptr && asked_.empty() && devices == before_.cluster->devices()) return false;
    Plan found;
    const auto suits = [&](const Mesh& other) {
      for (const Axis axis : asked_) {
        if (other.size(axis) != mesh.size(axis)) return false;
      }
      plan = plain;
      plan.mesh = other;
      if (!followed().empty() && !mend()) return false;
      found = plan;
      return true;
    };
    if (nearest_meshes(mesh, devices, suits, 1).empty()) return false;
    plan = std::move(found);
    return true;
  }

 private:
  [[nodiscard]] bool valid() const { return violation(run_).empty(); }
  [[nodiscard]] bool is(std::string_view key) const { return turned_ != nullptr && turned_->key == key; }

  /// What no longer means what it meant goes back to its default, and so does what does not apply, where files would
  /// not say it, or where a rule is `broken`: who turns tensor up and down again has not lost the ZeRO stage.
  void follow(bool broken) {
    std::string ignored;
    for (const Dimension& d : table_) {
      if (is(d.key)) continue;
      const bool idle = (broken || d.said != Said::always) && !applies(d, run_);
      if (idle || (d.outlived != nullptr && d.outlived(before_, run_))) {
        static_cast<void>(d.put(run_, d.usual, ignored));
      }
    }
  }
  /// The first rule that it breaks even so.
  std::string followed() {
    follow(false);
    if (valid()) return "";
    follow(true);
    return violation(run_);
  }

  /// Whether the run breaks one of the rules whose codes begin so.
  [[nodiscard]] bool breaks(std::string_view code) const {
    Diagnostics d;
    check(run_.plan, run_.model, run_.workload, &*run_.cluster, d);
    return std::any_of(d.list().begin(), d.list().end(), [&](const Diagnostic& x) { return x.code.starts_with(code); });
  }

  /// Ways to mend a run that breaks a rule, the smallest first; each is tried with those before it.
  bool mend() {
    Plan& plan = run_.plan;
    const Plan plain = plan;
    const std::function<void()> mendings[] = {
        [&] {  // the host updates weights only beside their states
          auto &states = plan.offload_states, &weights = plan.offload_parameters;
          if (states && weights && *weights > *states)
            (is("plan.offload_parameters") ? states = weights : weights = states);
        },
        [&] {  // chunks that another cut of the layers, or other ranks, make too small or uneven: a layer's size
          if (!is("plan.parameter_chunk") && breaks("plan.chunk-")) plan.parameter_chunk.reset();
        },
        [&] {  // the largest microbatch that divides, no larger than it is
          if (is("plan.microbatch_size")) return;
          const std::uint64_t ranks = size(plan.mesh, sequence_axes(plan));
          const std::uint64_t sequences = std::max<std::uint64_t>(1, run_.workload.global_batch / ranks);
          std::uint64_t size = std::min<std::uint64_t>(plan.microbatch_size, sequences);
          while (size > 1 && sequences % size != 0) --size;
          plan.microbatch_size = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, size));
        },
        [&] {  // as many chunks as the schedule takes
          if (is("plan.chunks")) return;
          const ScheduleRules& rules = rules_of(plan.schedule);
          plan.chunks = std::max(plan.chunks, rules.least_chunks);
          if (rules.most_chunks > 0) plan.chunks = std::min(plan.chunks, rules.most_chunks);
          plan.stage_layers.reset();
          plan.recompute_layers.reset();
        },
        [&] {
          if (!is("plan.attention")) plan.attention.reset();
        },
        [&] {
          if (!is("plan.recompute") && plan.recompute == Recompute::selective) set_recompute(plan, Recompute::none);
        },
        [&] {
          if (!is("plan.zigzag")) plan.zigzag = false;
        },
        [&] {  // smaller microbatches are more of them, which many schedules want
          if (!is("plan.microbatch_size")) plan.microbatch_size = 1;
        },
        [&] {  // the schedule that asks for least
          if (is("plan.schedule")) return;
          plan.schedule = ScheduleName::one_f_one_b;
          if (!is("plan.chunks")) plan.chunks = 1;
        },
        [&] {
          if (!is("plan.zero_stage")) plan.zero_stage = std::min(plan.zero_stage, 1U);
          if (!is("plan.offload_parameters")) plan.offload_parameters = 0;
        },
        [&] {
          if (!is("plan.sequence_parallel")) plan.sequence_parallel = false;
        },
    };
    for (const auto& mending : mendings) {
      mending();
      follow(true);
      if (valid() && (turned_ == nullptr || turned_->get(run_) == wish_)) return true;
    }
    plan = plain;
    return false;
  }

  const PlannedRun& before_;
  PlannedRun& run_;
  const Dimension* turned_;
  std::uint64_t wish_;
  Dimensions table_;
  AxisList asked_;  ///< axes that the turn itself changed
};

}  // namespace

PlannedRun unplaced(PlannedRun run) {
  run.plan.origin = {};
  run.workload.origin = {};
  run.model.origin = {};
  run.cluster->origin = {};
  return run;
}

bool settle(const PlannedRun& before, PlannedRun& run, const Dimension* turned, std::string& reason, Dimensions table) {
  return Settling(before, run, turned, table).settle(reason);
}

Turner::Turner(PlannedRun from, Dimensions table) : from_(unplaced(std::move(from))), run_(from_), table_(table) {}

const PlannedRun* Turner::turned(const Dimension& d, std::uint64_t value, std::string& reason) {
  reason.clear();
  if (whole_) run_ = from_;
  run_.plan = from_.plan;
  whole_ = d.table() != "plan" && d.table() != "mesh";  // turns the workload or the cluster
  if (!put(run_, d, value, reason) || !settle(from_, run_, &d, reason, table_)) return nullptr;
  // What mends a rule must not undo the wish.
  if (d.get(run_) != value) {
    reason = fmt::format("A consequence of {} {} undoes it.", d.key, text_of(d, value));
  } else if (value != d.usual && value != d.get(from_) && !applies(d, run_)) {
    reason = fmt::format("{} {} makes no difference to this plan.", d.key, text_of(d, value));
  } else {
    reason.clear();
    return &run_;
  }
  return nullptr;
}

}  // namespace orrery
