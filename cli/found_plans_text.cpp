#include "cli/found_plans_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "cli/report_text.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

using P = const FoundPlan&;

/// There is a column for each plan, and a row for each decision and figure. Cells wider than a column go on in the next
/// row.
struct SideBySide {
  std::span<const FoundPlan> plans;
  struct Row {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows = {};

  template <class Value>
  void row(const std::string& name, Value value) {
    rows.push_back({name, {}});
    for (P p : plans) rows.back().cells.push_back(value(p));
  }
  /// Columns of the terminal that the names of rows take.
  [[nodiscard]] std::size_t label() const {
    std::size_t out = 0;
    for (const Row& r : rows) out = std::max(out, display_width(r.name));
    return out;
  }
  [[nodiscard]] std::string text(std::size_t width) const {
    std::vector<std::string> headers{"plan"};
    for (std::size_t i = 0; i < plans.size(); ++i) headers.push_back(fmt::format("#{}", i + 1));
    Table table(std::move(headers));
    for (const Row& r : rows) {
      std::vector<std::vector<std::string>> cells;
      std::size_t lines = 1;
      for (const std::string& cell : r.cells) {
        cells.push_back(lines_of(wrapped(cell, width)));
        lines = std::max(lines, cells.back().size());
      }
      for (std::size_t line = 0; line < lines; ++line) {
        std::vector<std::string> row{line == 0 ? r.name : ""};
        for (const auto& cell : cells) row.push_back(line < cell.size() ? cell[line] : "");
        table.row(std::move(row));
      }
    }
    return table.str();
  }
  template <class Holds>
  bool any(Holds holds) const {
    return std::any_of(plans.begin(), plans.end(), holds);
  }

 private:
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::size_t begin = std::min(text.find_first_not_of(' ', at), end);
      out.push_back(text.substr(begin, end - begin));
      at = end + 1;
    }
    return out;
  }
};

/// The names of axes that have more than one rank, outermost first.
std::string axes_text(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size > 1) out += (out.empty() ? "" : ", ") + std::string(name_of(a.axis));
  }
  return out.empty() ? "one rank" : out;
}

std::string offloaded_text(const Plan& plan) {
  std::string out;
  const auto add = [&](const char* what, const std::optional<std::uint32_t>& eighths, OffloadTier tier) {
    if (!eighths || *eighths == 0) return;
    out += fmt::format("{}{}/8 of {}{}", out.empty() ? "" : ", ", *eighths, what,
                       tier == OffloadTier::disk ? " (disk)" : "");
  };
  add("states", plan.offload_states, plan.states_tier);
  add("weights", plan.offload_parameters, plan.parameters_tier);
  add("activations", plan.offload_activations, plan.activations_tier);
  return out.empty() ? "nothing" : out;
}

std::string recompute_text(const Plan& plan) {
  if (plan.recompute == Recompute::none) return "none";
  if (!plan.recompute_layers) return std::string(name_of(plan.recompute));
  return fmt::format("{}, layers {}", name_of(plan.recompute), layers_text(*plan.recompute_layers));
}

void add_decisions(SideBySide& t, const Workload& workload, bool all) {
  for (std::size_t a = 0; a < axis_count; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (!t.any([&](P p) { return p.plan.mesh.size(axis) > 1; })) continue;
    t.row(std::string(name_of(axis)), [&](P p) { return fmt::format("{}", p.plan.mesh.size(axis)); });
  }
  t.row("axes, outer first", [](P p) { return axes_text(p.plan.mesh); });
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
  if (t.any([](P p) { return p.plan.expert_folding != ExpertFolding::none; })) {
    t.row("experts folded", [](P p) { return std::string(name_of(p.plan.expert_folding)); });
  }
  if (t.any([](P p) { return p.plan.expert_dispatch != ExpertDispatch::all_to_all; })) {
    t.row("tokens to experts", [](P p) { return std::string(name_of(p.plan.expert_dispatch)); });
  }
  t.row("microbatch",
        [&](P p) { return fmt::format("{} ({} of them)", p.plan.microbatch_size, microbatches(p.plan, workload)); });
  t.row("schedule", [](P p) {
    return std::string(name_of(p.plan.schedule)) + (p.plan.chunks > 1 ? fmt::format(", {} chunks", p.plan.chunks) : "");
  });
  if (t.any([](P p) { return p.plan.mesh.size(Axis::pipeline) > 1; })) {
    t.row("layers of stages", [](P p) { return p.plan.stage_layers ? layers_text(*p.plan.stage_layers) : "auto"; });
  }
  t.row("recompute", [](P p) { return recompute_text(p.plan); });
  if (t.any([](P p) { return p.plan.loss_chunks > 1; })) {
    t.row("loss in chunks", [](P p) { return fmt::format("{}", p.plan.loss_chunks); });
  }
  if (t.any([](P p) { return offloads(p.plan); })) t.row("in host memory", [](P p) { return offloaded_text(p.plan); });
  t.row("ZeRO", [](P p) {
    if (p.plan.zero_stage < 3) return fmt::format("{}", p.plan.zero_stage);
    return fmt::format("3{}{}", p.plan.reshard_after_forward ? "" : " kept", p.plan.prefetch > 0 ? "" : " no prefetch");
  });
  const auto flag = [&](const char* name, auto value) {
    const bool first = value(t.plans[0]);
    if (all || t.any([&](P p) { return value(p) != first; })) t.row(name, [&](P p) { return value(p) ? "on" : "off"; });
  };
  flag("sequence parallel", [](P p) { return p.plan.sequence_parallel; });
  flag("gradient overlap", [](P p) { return p.plan.overlap_gradients.value_or(false); });
  if (all) {
    t.row("attention", [](P p) { return p.plan.attention ? std::string(name_of(*p.plan.attention)) : "auto"; });
  }
}

void add_figures(SideBySide& t, bool all) {
  const auto faster = [](P p) { return p.report.step_time / headline_step(p.report); };
  const bool ranged = t.any([](P p) { return p.report.interval.has_value(); });
  t.row("step time", [](P p) { return headline_text(p.report); });
  if (ranged) t.row("  eight in ten", [](P p) { return step_range(p.report); });
  if (all) t.row("  simulated", [](P p) { return p.simulated ? short_text(p.simulated->step_time, 4) : "-"; });
  if (all) t.row("tokens/s", [&](P p) { return short_count(faster(p) * p.report.tokens_per_s, 4); });
  t.row("tokens/s per GPU", [&](P p) { return short_count(faster(p) * p.report.tokens_per_s_per_gpu, 4); });
  t.row("MFU", [&](P p) { return percent(faster(p) * p.report.model_flops_utilization); });
  if (all) {
    t.row("bubble", [](P p) { return percent(p.report.bubble_fraction); });
    t.row("exposed communication", [](P p) { return short_text(p.report.exposed_communication); });
  }
  if (t.any([](P p) { return p.report.cost_per_step.has_value(); })) {
    t.row("cost per step", [&](P p) {
      if (!p.report.cost_per_step) return std::string("-");
      return fmt::format("{:.4g} {}", *p.report.cost_per_step / faster(p), p.report.cost_currency);
    });
  }
  const auto gib = [](std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); };
  if (all) t.row("memory of tensors", [&](P p) { return gib(p.report.peak_memory_bytes); });
  t.row("fullest device", [&](P p) {
    const MemoryVerdict v = memory_verdict(p.report);
    const bool device = v.where == MemoryVerdict::Where::device;
    const auto whole = [](std::uint64_t bytes) { return fmt::format("{:.3g}", static_cast<double>(bytes) / 0x1p30); };
    return device && v.room >= (1ULL << 30) ? whole(v.need) + " of " + whole(v.room) + " GiB" : gib(held(p.report));
  });
  if (t.any([](P p) { return p.report.peak_host_memory_bytes.has_value(); })) {
    t.row("fullest host", [&](P p) {
      if (!p.report.peak_host_memory_bytes) return std::string("-");
      return gib(*p.report.peak_host_memory_bytes) +
             (p.report.host_memory_capacity_bytes ? " of " + gib(*p.report.host_memory_capacity_bytes) : "");
    });
  }
}

}  // namespace

std::string found_plans_text(const std::vector<FoundPlan>& plans, const Workload& workload, const TableSize& size) {
  // On a wide terminal columns do not grow without end.
  constexpr std::size_t gap = 2, narrowest = 18, widest = 24;
  const std::size_t columns = std::max<std::size_t>(size.columns, 60);
  // As many plans are shown as fit side by side.
  std::size_t shown = std::min(plans.size(), size.most_plans);
  std::string out;
  for (;; --shown) {
    SideBySide t{std::span<const FoundPlan>(plans).first(shown)};
    add_decisions(t, workload, size.all_rows);
    t.rows.push_back({});
    add_figures(t, size.all_rows);
    const std::size_t width = (columns - gap - t.label()) / shown;
    if (shown > 1 && width < narrowest + gap) continue;
    out = t.text(std::min(widest, width - gap));
    break;
  }
  if (shown < plans.size()) {
    out += fmt::format("  {} more; a wider terminal or --json has them.\n", counted(plans.size() - shown, "plan"));
  }
  if (plans.size() > 1) out += "\nWhy the others lose against #1\n";
  for (std::size_t i = 1; i < shown; ++i) {
    out += fmt::format("  #{}  {}; it has {}\n", i + 1, step_difference(plans[i].report, plans[0].report),
                       fmt::join(differences(plans[i].plan, plans[0].plan), "; "));
  }
  out += "\n" + (size.all_rows ? memory_text(plans[0].report) : memory_bars(plans[0].report));
  return out;
}

}  // namespace orrery
