#include "core/plan/plan_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/compute_order.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/spec/data_file.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

constexpr auto size_limit = static_cast<std::uint32_t>(plan_size_limit);

bool given(TomlTable& table, std::string_view key) { return !table.read_auto(key) && table.has(key); }

// The axes in the order of `order`; without it as plan_axes lists them, as far as they have a size.
void read_mesh(TomlTable& table, Mesh& mesh) {
  std::vector<MeshAxis> sizes;
  for (const Axis axis : plan_axes) {
    if (!shorthand_of(axis).empty()) table.also(name_of(axis), shorthand_of(axis));
    std::uint32_t size = 1;
    if (table.read(name_of(axis), size, {1, size_limit}, Need::optional)) sizes.push_back({axis, size});
  }
  if (!table.has("order")) {
    mesh.axes = sizes;
    return;
  }
  std::vector<std::string> order;
  if (!table.read("order", order, axis_count)) return;
  const auto wrong = [&](std::string message, std::string detail) {
    table.error("order", "plan.mesh-order", std::move(message), {std::move(detail)});
  };
  bool unknown = false;  // then nothing is known of what it leaves out
  for (const std::string& name : order) {
    const std::optional<Axis> axis = axis_named(name);
    if (!axis || std::find(plan_axes.begin(), plan_axes.end(), *axis) == plan_axes.end()) {
      wrong(fmt::format("there is no mesh axis {}", toml_quoted(name)),
            fmt::format("The axes are {}.", plan_axes_text()));
      unknown = true;
      continue;
    }
    const auto is_axis = [&](const MeshAxis& a) { return a.axis == *axis; };
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), is_axis)) {
      table.error("order", "plan.mesh-axis", fmt::format("the mesh lists the axis {} twice", name),
                  {fmt::format("Each of {} stands at most once.", plan_axes_text())});
      continue;
    }
    const auto found = std::find_if(sizes.begin(), sizes.end(), is_axis);
    if (found != sizes.end()) {
      mesh.axes.push_back(*found);
    } else if (!table.has(name_of(*axis))) {  // else its size was wrong, and said so
      wrong(fmt::format("the order lists {}, which has no size", name), fmt::format("Add {} = SIZE to [mesh].", name));
    }
  }
  for (const MeshAxis& a : sizes) {
    const auto same = [&](const MeshAxis& b) { return b.axis == a.axis; };
    if (!unknown && std::none_of(mesh.axes.begin(), mesh.axes.end(), same)) {
      wrong(fmt::format("the order leaves out {}", name_of(a.axis)),
            fmt::format("[mesh] gives {} = {}.", name_of(a.axis), a.size));
    }
  }
}

// The actions of a custom schedule: a file's name, or a line for each rank.  Chunks are as it has them.
void read_custom_order(TomlTable& table, const std::filesystem::path& folder, Plan& plan) {
  if (!table.has("order")) return;
  Diagnostics found;
  std::optional<ComputeOrder> order;
  if (table.is_text("order")) {
    std::string name;
    if (!table.read("order", name)) return;
    const std::filesystem::path file = (folder / name).lexically_normal();
    std::optional<std::string> text = read_text(file, found);
    if (text) order = read_order(*std::move(text), file.string(), found);
    plan.order_file = file.string();
  } else {
    std::vector<std::string> lines;
    if (!table.read("order", lines, size_limit)) return;
    std::string text = fmt::format("orrery-order {}\n", order_schema);
    for (const std::string& line : lines) text += line + "\n";
    order = read_order(std::move(text), "", found);
  }
  table.add_from("order", found);
  if (!order) return;
  plan.order = std::move(order->ranks);
  plan.order_placement = order->placement;
  if (!table.has("chunks")) plan.chunks = order->chunks;
}

void read_eighths(TomlTable& table, std::string_view key, std::optional<std::uint32_t>& eighths) {
  if (table.read_auto(key)) {
    eighths.reset();
  } else {
    table.read(key, *eighths, {0, 8}, Need::optional);
  }
}

void read_choices(TomlTable& table, const std::filesystem::path& folder, Plan& plan) {
  table.read("microbatch_size", plan.microbatch_size, {1, size_limit}, Need::optional);
  table.read_enum("schedule", pipeline_schedule_names(), plan.schedule, Need::optional);
  table.read("chunks", plan.chunks, {1, size_limit}, Need::optional);
  read_custom_order(table, folder, plan);
  table.also("microbatch_size", "mbs");
  table.read_enum("tensor", tensor_names(), plan.tensor, Need::optional);
  table.read("save_gathered", plan.save_gathered, Need::optional);
  table.read("sequence_parallel", plan.sequence_parallel, Need::optional);
  table.read_enum("context", context_names(), plan.context, Need::optional);
  table.read("zigzag", plan.zigzag, Need::optional);
  table.read("inner_ring", plan.inner_ring, {2, size_limit}, Need::optional);
  table.read_enum("recompute", recompute_names(), plan.recompute, Need::optional);
  if (table.has("recompute_layers")) {
    table.read("recompute_layers", plan.recompute_layers.emplace(), {0, size_limit}, size_limit);
  }
  read_eighths(table, "offload_states", plan.offload_states);
  table.read_enum("states_tier", offload_tier_names(), plan.states_tier, Need::optional);
  read_eighths(table, "offload_parameters", plan.offload_parameters);
  table.read_enum("parameters_tier", offload_tier_names(), plan.parameters_tier, Need::optional);
  read_eighths(table, "offload_activations", plan.offload_activations);
  table.read_enum("activations_tier", offload_tier_names(), plan.activations_tier, Need::optional);
  table.read("zero_stage", plan.zero_stage, {0, 3}, Need::optional);
  table.read("reshard_after_forward", plan.reshard_after_forward, Need::optional);
  table.read("prefetch", plan.prefetch, {0, 1}, Need::optional);
  if (table.read_auto("parameter_chunk")) {
    plan.parameter_chunk.reset();
  } else {
    table.read("parameter_chunk", *plan.parameter_chunk, {Bytes::of(1), Bytes::of(0x1p53)}, Need::optional);
  }
  if (std::vector<std::uint32_t> times; table.read("action_times", times, {0, size_limit}, 4, Need::optional)) {
    if (times.size() == 4) {
      plan.action_times = {times[0], times[1], times[2], times[3]};
    } else {
      table.error("action_times", "plan.action-times-count", "action_times does not name four times",
                  {"They are those of forward, input gradient, weight gradient and a message."});
    }
  }
  if (given(table, "stage_layers")) {
    table.read("stage_layers", plan.stage_layers.emplace(), {1, size_limit}, size_limit);
  }
  if (given(table, "gradient_bucket")) {
    table.read("gradient_bucket", plan.gradient_bucket.emplace(), {Bytes::of(1), Bytes::of(0x1p53)});
  }
  if (given(table, "overlap_gradients")) table.read("overlap_gradients", plan.overlap_gradients.emplace());
  if (given(table, "attention")) table.read_enum("attention", attention_names(), plan.attention.emplace());
  if (given(table, "collective_algorithm")) {
    table.read_enum("collective_algorithm", algorithm_names(), plan.collective_algorithm.emplace());
  }
}

}  // namespace

std::optional<PlannedRun> read_plan(std::string text, const std::string& file, const Library& library,
                                    std::optional<std::uint32_t> gpus, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  std::optional<TomlTable> root = parse_toml(std::move(text), file, diagnostics);
  if (!root || !read_schema(*root, "plan", plan_schema)) return std::nullopt;

  PlannedRun run;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  root->read("name", run.plan.name, Need::optional);
  std::optional<ModelSpec> model;
  if (root->read("model", run.model_reference)) {
    Diagnostics found;
    model = library.model(run.model_reference, folder, found);
    root->add_from("model", found);
  }
  std::uint32_t devices = 0;
  if (root->read("gpus", devices, {1, size_limit}, Need::optional) && !gpus) gpus = devices;
  if (root->read("cluster", run.cluster_reference, Need::optional)) {
    Diagnostics found;
    run.cluster = library.cluster(run.cluster_reference, folder, gpus, found);
    const bool size = !found.empty() && found.list().front().code == "cluster.gpus" && root->has("gpus");
    root->add_from(size ? "gpus" : "cluster", found);
  } else if (root->has("gpus")) {
    root->error("gpus", "plan.gpus", "gpus is given without a cluster", {"Add cluster = NAME, or remove gpus."});
  }
  std::optional<Workload> workload;
  if (std::optional<TomlTable> table = root->table("workload")) workload = read_workload(*table);
  if (std::optional<TomlTable> table = root->table("mesh", Need::optional)) {
    read_mesh(*table, run.plan.mesh);
    if (table->has("placement")) table->read("placement", run.plan.placement, {0, size_limit - 1}, size_limit);
    table->finish();
  }
  if (std::optional<TomlTable> table = root->table("plan", Need::optional)) {
    read_choices(*table, folder, run.plan);
    table->finish();
  }
  root->finish();
  run.plan.origin = root->origin();
  // What is checked later looks for full keys.
  auto& positions = run.plan.origin.positions;
  const auto as_full = [&](const std::string& shorthand, const std::string& key) {
    if (const auto at = positions.find(shorthand); at != positions.end()) positions.try_emplace(key, at->second);
  };
  for (const Axis axis : plan_axes) {
    if (!shorthand_of(axis).empty())
      as_full(fmt::format("mesh.{}", shorthand_of(axis)), fmt::format("mesh.{}", name_of(axis)));
  }
  as_full("plan.mbs", "plan.microbatch_size");
  if (diagnostics.size() != before || !model || !workload) return std::nullopt;

  run.model = *std::move(model);
  run.workload = *std::move(workload);
  static_cast<void>(check_data_tokens(run.workload, run.model, diagnostics));  // the mistake is in diagnostics
  check(run.plan, run.model, run.workload, run.cluster ? &*run.cluster : nullptr, diagnostics);
  if (diagnostics.size() != before) return std::nullopt;
  return run;
}

std::optional<PlannedRun> read_plan_file(const std::filesystem::path& file, const Library& library,
                                         std::optional<std::uint32_t> gpus, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return read_plan(*std::move(text), file.string(), library, gpus, diagnostics);
}

std::string write_plan(const PlannedRun& run) {
  const Plan& plan = run.plan;
  TomlWriter out;
  out.whole("schema", plan_schema);
  if (!plan.name.empty()) out.text("name", plan.name);
  out.text("model", run.model_reference);
  if (!run.cluster_reference.empty()) out.text("cluster", run.cluster_reference);
  if (run.cluster && !run.cluster_reference.empty()) out.whole("gpus", run.cluster->devices());
  write_workload(out, run.workload);

  out.table("mesh");
  std::vector<std::string> order;
  for (const MeshAxis& a : plan.mesh.axes) order.emplace_back(name_of(a.axis));
  out.texts("order", order);
  for (const MeshAxis& a : plan.mesh.axes) out.whole(name_of(a.axis), a.size);
  if (!plan.placement.empty()) out.wholes("placement", plan.placement);

  out.table("plan");
  out.whole("microbatch_size", plan.microbatch_size);
  out.text("schedule", name_of(plan.schedule));
  if (plan.chunks != 1) out.whole("chunks", plan.chunks);
  if (const ActionTimes& t = plan.action_times; t != ActionTimes{}) {
    out.wholes("action_times", {t.forward, t.input_gradient, t.weight_gradient, t.message});
  }
  if (!plan.order_file.empty()) {
    out.text("order", plan.order_file);
  } else if (!plan.order.empty()) {
    out.texts("order", order_lines({plan.order_placement, plan.chunks, 1, plan.order}));
  }
  const auto write_auto = [&](std::string_view key, bool is_set) {
    if (!is_set) out.text(key, "auto");
    return is_set;
  };
  if (write_auto("stage_layers", plan.stage_layers.has_value())) out.wholes("stage_layers", *plan.stage_layers);
  if (plan.tensor != TensorAlgorithm::one_d) out.text("tensor", name_of(plan.tensor));
  if (plan.save_gathered) out.flag("save_gathered", true);
  out.flag("sequence_parallel", plan.sequence_parallel);
  if (plan.mesh.size(Axis::context) > 1) {
    out.text("context", name_of(plan.context));
    out.flag("zigzag", plan.zigzag);
    if (plan.inner_ring != 0) out.whole("inner_ring", plan.inner_ring);
  }
  out.text("recompute", name_of(plan.recompute));
  if (plan.recompute_layers) out.wholes("recompute_layers", *plan.recompute_layers);
  const auto write_eighths = [&](std::string_view key, const std::optional<std::uint32_t>& eighths) {
    if (eighths != 0U && write_auto(key, eighths.has_value())) out.whole(key, *eighths);
  };
  const auto write_tier = [&](std::string_view key, OffloadTier tier) {
    if (tier != OffloadTier::host) out.text(key, name_of(tier));
  };
  write_eighths("offload_states", plan.offload_states);
  write_tier("states_tier", plan.states_tier);
  write_eighths("offload_parameters", plan.offload_parameters);
  write_tier("parameters_tier", plan.parameters_tier);
  write_eighths("offload_activations", plan.offload_activations);
  write_tier("activations_tier", plan.activations_tier);
  out.whole("zero_stage", plan.zero_stage);
  if (plan.zero_stage == 3) {
    out.flag("reshard_after_forward", plan.reshard_after_forward);
    out.whole("prefetch", plan.prefetch);
  }
  if (plan.parameter_chunk != Bytes() && write_auto("parameter_chunk", plan.parameter_chunk.has_value())) {
    out.text("parameter_chunk", exact_text(*plan.parameter_chunk));
  }
  if (write_auto("gradient_bucket", plan.gradient_bucket.has_value())) {
    out.text("gradient_bucket", exact_text(*plan.gradient_bucket));
  }
  if (write_auto("overlap_gradients", plan.overlap_gradients.has_value())) {
    out.flag("overlap_gradients", *plan.overlap_gradients);
  }
  if (write_auto("attention", plan.attention.has_value())) out.text("attention", name_of(*plan.attention));
  // Stays open in a resolved plan: pricing then takes the quickest.
  if (plan.collective_algorithm) out.text("collective_algorithm", name_of(*plan.collective_algorithm));
  return out.str();
}

std::vector<Decision> decisions(const Plan& plan) {
  PlannedRun run;
  run.plan = plan;
  const std::string text = write_plan(run);
  std::vector<Decision> list;
  std::string table;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.starts_with('[')) table = line.substr(1, line.size() - 2);
    const std::size_t sign = line.find(" = ");
    if (sign == std::string_view::npos || (table != "mesh" && table != "plan")) continue;
    list.push_back({table + "." + std::string(line.substr(0, sign)), std::string(line.substr(sign + 3))});
  }
  return list;
}

}  // namespace orrery
