#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/dimension_rows.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"

// Rows of the mesh: its axes, their order, and the devices of its ranks.

namespace orrery {
namespace {

constexpr auto size_limit = static_cast<std::uint32_t>(plan_size_limit);

template <Axis axis>
std::uint64_t axis_size(const PlannedRun& run) {
  return run.plan.mesh.size(axis);
}
template <Axis axis>
bool put_axis(PlannedRun& run, std::uint64_t value, std::string&) {
  set_size(run.plan.mesh, axis, static_cast<std::uint32_t>(value));
  return true;
}

std::uint64_t tensor_ranks(const PlannedRun& run) { return size(run.plan.mesh, tensor_axes); }
bool put_tensor_ranks(PlannedRun& run, std::uint64_t value, std::string& reason) {
  if (set_tensor(run.plan, run.plan.tensor, value)) return true;
  reason = fmt::format("{} ranks do not form a {} grid.", value, name_of(run.plan.tensor));
  return false;
}

/// An axis is listed where a file gives its size; the axes' own row reads their order.
void read_axis(const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
  std::uint32_t size = 1;
  if (table.read(d.word(), size, {1, size_limit}, Need::optional)) {
    run.plan.mesh.axes.push_back({*axis_named(d.word()), size});
  }
}
void write_nothing(const Dimension&, TomlWriter&, const PlannedRun&) {}

/// Puts the axes in the order of `order`; without it they stand as their rows do. Only axes with a size count.
void read_order_of_axes(const Dimension&, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
  std::vector<std::string> order;
  if (!table.has("order") || !table.read("order", order, axis_count)) return;
  Mesh& mesh = run.plan.mesh;
  const std::vector<MeshAxis> sizes = std::exchange(mesh.axes, {});
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
                  {fmt::format("Each of {} may stand only once.", plan_axes_text())});
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
void write_axes(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  std::vector<std::string> order;
  for (const MeshAxis& a : run.plan.mesh.axes) order.emplace_back(name_of(a.axis));
  out.texts(d.word(), order);
  for (const MeshAxis& a : run.plan.mesh.axes) out.whole(name_of(a.axis), a.size);
}

bool usual_order(const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; }
std::uint64_t has_own_order(const PlannedRun& run) {
  const auto& axes = run.plan.mesh.axes;
  return std::is_sorted(axes.begin(), axes.end(), usual_order) ? 0 : 1;
}
void order_usually(PlannedRun& run) {
  auto& axes = run.plan.mesh.axes;
  std::sort(axes.begin(), axes.end(), usual_order);
}

std::uint64_t has_placement(const PlannedRun& run) { return run.plan.placement.empty() ? 0 : 1; }
void drop_placement(PlannedRun& run) { run.plan.placement.clear(); }

/// A row of the axis; where it has a label, its values are the divisors of the number of devices.
template <Axis axis>
Dimension axis_row(std::string_view key, const char* label, const char* help, bool (*applies)(const PlannedRun&)) {
  Dimension row{.key = key,
                .group = DimensionGroup::mesh,
                .kind = DimensionKind::axis,
                .label = label,
                .help = help,
                .least = 1,
                .most = plan_size_limit,
                .usual = 1,
                .get = axis_size<axis>,
                .put = put_axis<axis>,
                .values = [](const PlannedRun& run) { return divisors_of(run.cluster->devices()); },
                .applies = applies,
                .read = read_axis,
                .write = write_nothing};
  if (label == nullptr) row.values = [](const PlannedRun& run) { return std::vector{axis_size<axis>(run)}; };
  if (!shorthand_of(axis).empty()) row.aliases = {shorthand_of(axis)};
  if (axis == Axis::tensor) row.get = tensor_ranks, row.put = put_tensor_ranks;
  return row;
}

bool takes_context(const PlannedRun& run) { return run.model.architecture != Architecture::vit; }
bool has_experts(const PlannedRun& run) { return run.model.mixture.has_value(); }
bool has_grid(const PlannedRun& run) { return run.plan.tensor != TensorAlgorithm::one_d; }
bool has_depth(const PlannedRun& run) { return has_grid(run) && run.plan.tensor != TensorAlgorithm::two_d; }

}  // namespace

std::vector<Dimension> mesh_dimensions() {
  return {
      axis_row<Axis::pipeline>(
          "mesh.pipeline", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Pipeline"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Stages of layers, one behind the other."), nullptr),
      axis_row<Axis::replica>(
          "mesh.replica", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Replica"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Whole copies of what ZeRO shares out (hybrid sharding)."),
          nullptr),
      axis_row<Axis::data>("mesh.data", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Data"),
                           QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                             "Ranks that take other sequences; ZeRO shares out states along it."),
                           nullptr),
      axis_row<Axis::context>(
          "mesh.context", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Context"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Ranks that take other positions of the same sequences."),
          takes_context),
      axis_row<Axis::expert>("mesh.expert", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Expert"),
                             QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                               "Ranks that hold other experts; a model without experts has 1."),
                             has_experts),
      axis_row<Axis::tensor>(
          "mesh.tensor", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Tensor"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Ranks that share every matrix product."), nullptr),
      axis_row<Axis::depth>("mesh.depth", nullptr, "Grids of tensor ranks, one behind the other.", has_depth),
      axis_row<Axis::row>("mesh.row", nullptr, "One side of a grid of tensor ranks.", has_grid),
      axis_row<Axis::column>("mesh.column", nullptr, "The other side of a grid of tensor ranks.", has_grid),
      {.key = "mesh.order",
       .group = DimensionGroup::mesh,
       .kind = DimensionKind::written,
       .help = "The axes, outermost first.",
       .names = as_written("the usual order"),
       .get = has_own_order,
       .put = put_written<has_own_order, order_usually>,
       .read = read_order_of_axes,
       .write = write_axes},
      {.key = "mesh.placement",
       .group = DimensionGroup::mesh,
       .kind = DimensionKind::written,
       .help = "The device of each rank.",
       .names = as_written("none"),
       .get = has_placement,
       .put = put_written<has_placement, drop_placement>,
       .outlived = [](const PlannedRun& a, const PlannedRun& b) { return a.plan.mesh.size() != b.plan.mesh.size(); },
       .said = Said::unless_default,
       .read =
           [](const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
             table.read(d.word(), run.plan.placement, {0, size_limit - 1}, size_limit, Need::optional);
           },
       .write = [](const Dimension& d, TomlWriter& out,
                   const PlannedRun& run) { out.wholes(d.word(), run.plan.placement); }},
  };
}

}  // namespace orrery
