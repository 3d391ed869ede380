#include "cli/found_plans_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "cli/report_text.hpp"
#include "cli/table.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

using P = const FoundPlan&;

/// A column for each plan, a row for each decision and figure.
struct SideBySide {
  std::span<const FoundPlan> plans;
  Table table;

  explicit SideBySide(std::span<const FoundPlan> shown) : plans(shown), table(headers(shown.size())) {}

  static std::vector<std::string> headers(std::size_t plans) {
    std::vector<std::string> out{"plan"};
    for (std::size_t i = 0; i < plans; ++i) out.push_back(fmt::format("#{}", i + 1));
    return out;
  }
  template <class Value>
  void row(const std::string& name, Value value) {
    std::vector<std::string> cells{name};
    for (P p : plans) cells.push_back(value(p));
    table.row(std::move(cells));
  }
  template <class Holds>
  bool any(Holds holds) const {
    return std::any_of(plans.begin(), plans.end(), holds);
  }
};

void add_decisions(SideBySide& t, const Workload& workload) {
  for (const Axis axis :
       {Axis::data, Axis::tensor, Axis::pipeline, Axis::replica, Axis::context, Axis::depth, Axis::row, Axis::column}) {
    const bool plain = axis == Axis::data || axis == Axis::tensor || axis == Axis::pipeline;
    if (!plain && !t.any([&](P p) { return p.plan.mesh.size(axis) > 1; })) continue;
    t.row(std::string(name_of(axis)), [&](P p) { return fmt::format("{}", p.plan.mesh.size(axis)); });
  }
  if (t.any([](P p) { return p.plan.tensor != TensorAlgorithm::one_d; })) {
    t.row("tensor algorithm", [](P p) { return std::string(name_of(p.plan.tensor)); });
  }
  if (t.any([](P p) { return p.plan.mesh.size(Axis::context) > 1; })) {
    t.row("context algorithm", [](P p) {
      if (p.plan.mesh.size(Axis::context) == 1) return std::string("-");
      return fmt::format("{}{}{}", name_of(p.plan.context), p.plan.zigzag ? " zigzag" : "",
                         p.plan.inner_ring > 0 ? fmt::format(" in {}s", p.plan.inner_ring) : "");
    });
  }
  t.row("axes, outermost first", [](P p) {
    std::string order;
    for (const MeshAxis& a : p.plan.mesh.axes) order += name_of(a.axis).substr(0, 1);
    return order.empty() ? std::string("-") : order;
  });
  t.row("microbatch", [](P p) { return fmt::format("{}", p.plan.microbatch_size); });
  t.row("microbatches", [&](P p) { return fmt::format("{}", microbatches(p.plan, workload)); });
  t.row("schedule", [](P p) { return std::string(name_of(p.plan.schedule)); });
  if (t.any([](P p) { return p.plan.chunks > 1; })) {
    t.row("chunks per rank", [](P p) { return fmt::format("{}", p.plan.chunks); });
  }
  t.row("layers of stages", [](P p) { return p.plan.stage_layers ? layers_text(*p.plan.stage_layers) : "auto"; });
  t.row("sequence parallel", [](P p) { return p.plan.sequence_parallel ? "on" : "off"; });
  t.row("recompute", [](P p) { return std::string(name_of(p.plan.recompute)); });
  if (t.any([](P p) { return p.plan.recompute_layers.has_value(); })) {
    t.row("layers recomputed", [](P p) {
      if (p.plan.recompute_layers) return layers_text(*p.plan.recompute_layers);
      return std::string(p.plan.recompute == Recompute::none ? "none" : "all");
    });
  }
  const auto offloaded = [&](const char* name, const std::optional<std::uint32_t> Plan::*eighths,
                             OffloadTier Plan::*tier) {
    if (!t.any([&](P p) { return p.plan.*eighths != 0U; })) return;
    t.row(name, [&](P p) {
      if (p.plan.*eighths == 0U) return std::string("none");
      return fmt::format("{}/8{}", *(p.plan.*eighths), p.plan.*tier == OffloadTier::disk ? " (disk)" : "");
    });
  };
  offloaded("states on host", &Plan::offload_states, &Plan::states_tier);
  offloaded("parameters on host", &Plan::offload_parameters, &Plan::parameters_tier);
  offloaded("activations on host", &Plan::offload_activations, &Plan::activations_tier);
  t.row("ZeRO", [](P p) {
    if (p.plan.zero_stage < 3) return fmt::format("{}", p.plan.zero_stage);
    return fmt::format("3{}{}", p.plan.reshard_after_forward ? "" : " kept", p.plan.prefetch > 0 ? "" : " no prefetch");
  });
  t.row("gradient overlap", [](P p) { return p.plan.overlap_gradients.value_or(false) ? "on" : "off"; });
  t.row("attention", [](P p) { return p.plan.attention ? std::string(name_of(*p.plan.attention)) : "auto"; });
}

void add_figures(SideBySide& t, bool priced) {
  t.row("step time", [](P p) { return short_text(p.report.step_time, 4); });
  t.row("  simulated", [](P p) { return p.simulated ? short_text(p.simulated->step_time, 4) : "-"; });
  const auto range = [&](auto text) {
    if (t.any([](P p) { return p.report.interval.has_value(); })) t.row("  eight in ten", text);
  };
  range([](P p) { return step_range(p.report); });
  t.row("tokens/s", [](P p) { return short_count(p.report.tokens_per_s, 4); });
  t.row("tokens/s per GPU", [](P p) { return short_count(p.report.tokens_per_s_per_gpu, 4); });
  range([](P p) { return count_range(p.report, p.report.tokens_per_s_per_gpu); });
  t.row("MFU", [](P p) { return percent(p.report.model_flops_utilization); });
  range([](P p) { return percent_range(p.report, p.report.model_flops_utilization); });
  t.row("bubble", [](P p) { return percent(p.report.bubble_fraction); });
  t.row("exposed communication", [](P p) { return short_text(p.report.exposed_communication); });
  if (priced) {
    t.row("cost per step",
          [](P p) { return p.report.cost_per_step ? fmt::format("{:.4g}", *p.report.cost_per_step) : "-"; });
  }
  t.row("peak memory", [](P p) { return short_text(Bytes::of(static_cast<double>(p.report.peak_memory_bytes))); });
  t.row("  of the process", [](P p) {
    if (!p.report.peak_memory_process_bytes) return std::string("-");
    return short_text(Bytes::of(static_cast<double>(*p.report.peak_memory_process_bytes))) +
           (p.report.fits ? "" : " (!)");
  });
}

void add_stages(SideBySide& t) {
  std::size_t stages = 0;
  for (P p : t.plans) stages = std::max(stages, p.report.memory_by_stage.size());
  const auto stage_text = [](P p, std::uint64_t bytes) {
    const auto peak = static_cast<double>(bytes);
    return fmt::format("{} {:>5}", short_text(Bytes::of(peak)),
                       percent(peak / static_cast<double>(p.report.memory_capacity_bytes.value_or(1)), 0));
  };
  constexpr std::size_t most = 16;  // rows for stages; the best plan's are all listed below
  for (std::size_t s = 0; s < std::min(stages, most); ++s) {
    t.row(fmt::format("  stage {}", s), [&stage_text, s](P p) {
      const auto& memory = p.report.memory_by_stage;
      return s < memory.size() ? stage_text(p, memory[s].peak) : std::string();
    });
  }
  if (stages > most) {
    t.row(fmt::format("  fullest of the other {}", stages - most), [&stage_text](P p) {
      std::uint64_t fullest = 0;
      for (std::size_t s = most; s < p.report.memory_by_stage.size(); ++s) {
        fullest = std::max(fullest, p.report.memory_by_stage[s].peak);
      }
      return fullest > 0 ? stage_text(p, fullest) : std::string();
    });
  }
}

}  // namespace

std::string found_plans_text(const std::vector<FoundPlan>& plans, const Workload& workload, bool priced) {
  constexpr std::size_t most_columns = 8;
  const std::size_t shown = std::min(plans.size(), most_columns);
  SideBySide t{std::span<const FoundPlan>(plans).first(shown)};
  add_decisions(t, workload);
  t.table.row({});
  add_figures(t, priced);
  add_stages(t);
  std::string out = t.table.str() + "\nThe best plan\n" + memory_text(plans[0].report);
  if (plans.size() > 1) {
    out += "\nWhy the others lose\n";
    for (std::size_t i = 1; i < shown; ++i) {
      out += fmt::format("  #{}  {}\n      with {}\n", i + 1, step_difference(plans[i].report, plans[0].report),
                         fmt::join(differences(plans[i].plan, plans[0].plan), "; "));
    }
  }
  return out;
}

}  // namespace orrery
