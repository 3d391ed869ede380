#pragma once

#include "core/plan/mesh.hpp"
#include "core/program/kernel.hpp"

namespace orrery {

/// The axes whose ranks are the parts of a routing kernel.
[[nodiscard]] inline AxisList routing_axes(const Kernel& k) {
  AxisList axes{Axis::expert};
  if ((k.site & 1U) != 0) axes.axis[axes.count++] = Axis::context;
  if ((k.site & 2U) != 0) axes.axis[axes.count++] = Axis::tensor;
  return axes;
}

/// Whether a routing kernel is given the tokens of all parts.
[[nodiscard]] inline bool routes_gathered(const Kernel& k) { return (k.site & 4U) != 0; }

/// Whether the rank reports the choices that the kernel routes: where all parts have the same ones, the first does.
[[nodiscard]] inline bool reports_choices(const Kernel& k, const Mesh& mesh, Rank rank) {
  return !routes_gathered(k) || coordinate(mesh, rank, routing_axes(k)) == 0;
}

}  // namespace orrery
