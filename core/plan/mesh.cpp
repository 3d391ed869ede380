#include "core/plan/mesh.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::pipeline: return "pipeline";
    case Axis::replica: return "replica";
    case Axis::data: return "data";
    case Axis::context: return "context";
    case Axis::expert: return "expert";
    case Axis::tensor: return "tensor";
    case Axis::depth: return "depth";
    case Axis::row: return "row";
    case Axis::column: return "column";
  }
  return "";
}

std::string_view shorthand_of(Axis axis) {
  switch (axis) {
    case Axis::pipeline: return "pp";
    case Axis::data: return "dp";
    case Axis::context: return "cp";
    case Axis::expert: return "ep";
    case Axis::tensor: return "tp";
    case Axis::replica:
    case Axis::depth:
    case Axis::row:
    case Axis::column: return "";
  }
  return "";
}

std::optional<Axis> axis_named(std::string_view name) {
  for (std::size_t i = 0; i < axis_count; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (name_of(axis) == name || (!name.empty() && shorthand_of(axis) == name)) return axis;
  }
  return std::nullopt;
}

std::string plan_axes_text() {
  std::string text;
  for (std::uint8_t i = 0; i < plan_axes.count; ++i) {
    if (i > 0) text += i + 1 == plan_axes.count ? " and " : ", ";
    text += name_of(plan_axes.axis[i]);
  }
  return text;
}

std::uint64_t Mesh::size() const {
  std::uint64_t product = 1;
  for (const MeshAxis& a : axes) product *= a.size;
  return product;
}

std::uint32_t Mesh::size(Axis wanted) const {
  for (const MeshAxis& a : axes) {
    if (a.axis == wanted) return a.size;
  }
  return 1;
}

std::uint64_t Mesh::stride(Axis wanted) const {
  std::uint64_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (axes[i].axis == wanted) return stride;
    stride *= axes[i].size;
  }
  return stride;
}

std::uint32_t Mesh::coordinate(Rank rank, Axis axis) const {
  return static_cast<std::uint32_t>(index(rank) / stride(axis) % size(axis));
}

Rank Mesh::moved(Rank rank, Axis axis, std::uint32_t to) const {
  ORRERY_ASSERT(to < size(axis), to, size(axis));
  const auto from = static_cast<std::int64_t>(coordinate(rank, axis));
  const auto step = static_cast<std::int64_t>(stride(axis)) * (static_cast<std::int64_t>(to) - from);
  return static_cast<Rank>(static_cast<std::int64_t>(index(rank)) + step);
}

std::uint64_t size(const Mesh& mesh, const AxisList& axes) {
  std::uint64_t product = 1;
  for (const Axis a : axes) product *= mesh.size(a);
  return product;
}

std::uint64_t coordinate(const Mesh& mesh, Rank rank, const AxisList& axes) {
  std::uint64_t at = 0;
  for (const Axis a : axes) at = at * mesh.size(a) + mesh.coordinate(rank, a);
  return at;
}

Rank moved(const Mesh& mesh, Rank rank, const AxisList& axes, std::uint64_t at) {
  ORRERY_ASSERT(at < size(mesh, axes), at);
  for (std::uint8_t i = axes.count; i-- > 0;) {
    const std::uint32_t extent = mesh.size(axes.axis[i]);
    rank = mesh.moved(rank, axes.axis[i], static_cast<std::uint32_t>(at % extent));
    at /= extent;
  }
  return rank;
}

bool contains(const AxisList& axes, Axis axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

AxisList without(const AxisList& axes, Axis axis) {
  AxisList out;
  for (const Axis a : axes) {
    if (a != axis) out.axis[out.count++] = a;
  }
  return out;
}

bool cut_experts(const AxisList& axes) {
  return !axes.empty() && axes.axis[0] == Axis::expert && std::all_of(axes.begin() + 1, axes.end(), [](Axis axis) {
    return axis == Axis::context || axis == Axis::tensor;
  });
}

}  // namespace orrery
