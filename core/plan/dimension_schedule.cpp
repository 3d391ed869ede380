#include <fmt/format.h>

#include <algorithm>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/compute_order.hpp"
#include "core/plan/dimension_rows.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"

// Rows of the pipeline: its microbatches, its schedule and its stages.

namespace orrery {
namespace {

constexpr auto size_limit = static_cast<std::uint32_t>(plan_size_limit);

std::vector<std::uint64_t> microbatch_sizes(const PlannedRun& run) {
  const std::uint64_t ranks = size(run.plan.mesh, sequence_axes(run.plan));
  return divisors_of(std::max<std::uint64_t>(1, run.workload.global_batch / ranks));
}

std::vector<std::uint64_t> chunk_counts(const PlannedRun& run) {
  const ScheduleRules& rules = rules_of(run.plan.schedule);
  const std::uint64_t layers = std::min<std::uint64_t>(run.model.layers / run.plan.mesh.size(Axis::pipeline), 64);
  return numbers(rules.least_chunks, rules.most_chunks == 0 ? layers : rules.most_chunks);
}

std::uint64_t has_times(const PlannedRun& run) { return run.plan.action_times == ActionTimes{} ? 0 : 1; }
void drop_times(PlannedRun& run) { run.plan.action_times = {}; }
void read_times(const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
  std::vector<std::uint32_t> times;
  if (!table.read(d.word(), times, {0, size_limit}, 4, Need::optional)) return;
  if (times.size() == 4) {
    run.plan.action_times = {times[0], times[1], times[2], times[3]};
  } else {
    table.error(d.word(), "plan.action-times-count", "action_times needs four numbers",
                {"They are the times of a forward pass, an input gradient, a weight gradient and a message."});
  }
}
void write_times(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  const ActionTimes& t = run.plan.action_times;
  out.wholes(d.word(), {t.forward, t.input_gradient, t.weight_gradient, t.message});
}

std::uint64_t has_order(const PlannedRun& run) { return run.plan.order_file.empty() && run.plan.order.empty() ? 0 : 1; }
void drop_order(PlannedRun& run) {
  run.plan.order_file.clear();
  run.plan.order.clear();
  run.plan.order_placement = Plan{}.order_placement;
}
/// The actions of a custom schedule: a file's name, or a line for each rank. The number of chunks is that of the order.
void read_actions(const Dimension& d, TomlTable& table, const std::filesystem::path& folder, PlannedRun& run) {
  if (!table.has(d.word())) return;
  Plan& plan = run.plan;
  Diagnostics found;
  std::optional<ComputeOrder> order;
  if (table.is_text(d.word())) {
    std::string name;
    if (!table.read(d.word(), name)) return;
    const std::filesystem::path file = (folder / name).lexically_normal();
    std::optional<std::string> text = read_text(file, found);
    if (text) order = read_order(*std::move(text), file.string(), found);
    plan.order_file = file.string();
  } else {
    std::vector<std::string> lines;
    if (!table.read(d.word(), lines, size_limit)) return;
    std::string text = fmt::format("orrery-order {}\n", order_schema);
    for (const std::string& line : lines) text += line + "\n";
    order = read_order(std::move(text), "", found);
  }
  table.add_from(d.word(), found);
  if (!order) return;
  plan.order = std::move(order->ranks);
  plan.order_placement = order->placement;
  if (!table.has("chunks")) plan.chunks = order->chunks;
}
void write_actions(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  const Plan& plan = run.plan;
  if (!plan.order_file.empty()) {
    out.text(d.word(), plan.order_file);
  } else {
    out.texts(d.word(), order_lines({plan.order_placement, plan.chunks, 1, plan.order}));
  }
}

std::uint64_t has_stages(const PlannedRun& run) { return run.plan.stage_layers ? 1 : 0; }
void drop_stages(PlannedRun& run) { run.plan.stage_layers.reset(); }
void read_stages(const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
  if (table.read_auto(d.word()) || !table.has(d.word())) return;
  table.read(d.word(), run.plan.stage_layers.emplace(), {0, size_limit}, size_limit);
}
void write_stages(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  const auto& layers = run.plan.stage_layers;
  layers ? out.wholes(d.word(), *layers) : out.text(d.word(), "auto");
}

}  // namespace

std::vector<Dimension> schedule_dimensions() {
  using enum DimensionKind;
  return {
      {.key = "plan.microbatch_size",
       .aliases = {"mbs"},
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Microbatch"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequences that go through the pipeline together."),
       .least = 1,
       .most = plan_size_limit,
       .usual = 1,
       .get = plan_value<&Plan::microbatch_size>,
       .put = put_plan<&Plan::microbatch_size>,
       .values = microbatch_sizes},
      {.key = "plan.schedule",
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Schedule"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "In which order stages work on microbatches."),
       .names = pipeline_schedule_names(),
       .usual = static_cast<std::uint64_t>(Plan{}.schedule),
       .get = plan_value<&Plan::schedule>,
       .put = put_plan<&Plan::schedule>},
      {.key = "plan.chunks",
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Chunks"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Parts of the model on each pipeline rank."),
       .least = 1,
       .most = plan_size_limit,
       .usual = 1,
       .get = plan_value<&Plan::chunks>,
       .put = put_plan<&Plan::chunks>,
       .values = chunk_counts,
       .said = Said::unless_default},
      {.key = "plan.action_times",
       .kind = written,
       .help = "Times of a chunk's actions and of a message, for which the order of zb-v is searched.",
       .names = as_written("[1, 1, 1, 0]"),
       .get = has_times,
       .put = put_written<has_times, drop_times>,
       .applies = [](const PlannedRun& run) { return run.plan.schedule == ScheduleName::zb_v; },
       .said = Said::unless_default,
       .read = read_times,
       .write = write_times},
      {.key = "plan.order",
       .kind = written,
       .help = "The actions of a custom schedule.",
       .names = as_written("none"),
       .get = has_order,
       .put = put_written<has_order, drop_order>,
       .applies = [](const PlannedRun& run) { return run.plan.schedule == ScheduleName::custom; },
       .said = Said::unless_default,
       .read = read_actions,
       .write = write_actions},
      {.key = "plan.stage_layers",
       .kind = written,
       .help = "Layers of each stage.",
       .names = as_written("auto"),
       .get = has_stages,
       .put = put_written<has_stages, drop_stages>,
       .outlived =
           [](const PlannedRun& before, const PlannedRun& after) {
             return stage_map(before.plan).stages() != stage_map(after.plan).stages() ||
                    before.model.layers != after.model.layers;
           },
       .read = read_stages,
       .write = write_stages},
  };
}

}  // namespace orrery
