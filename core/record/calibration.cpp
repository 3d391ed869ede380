#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"

namespace orrery {

namespace {

/// Where a size lies on an axis: between points `low` and `low + 1`, with `high` the share of the way in logarithms. A
/// size outside the axis lies on its border.
struct Place {
  std::size_t low = 0;
  double high = 0.0;
};

Place place(const std::vector<double>& axis, double x) {
  if (axis.size() == 1 || x <= axis.front()) return {};
  if (x >= axis.back()) return {axis.size() - 2, 1.0};
  const auto above = std::upper_bound(axis.begin(), axis.end(), x);
  const auto low = static_cast<std::size_t>(above - axis.begin()) - 1;
  return {low, std::log(x / axis[low]) / std::log(axis[low + 1] / axis[low])};
}

double at(const RateTable& table, std::span<const double> sizes) {
  ORRERY_ASSERT(table.axes.size() == sizes.size(), table.axes.size(), sizes.size());
  std::array<Place, 3> places;
  for (std::size_t d = 0; d < sizes.size(); ++d) places[d] = place(table.axes[d], std::max(sizes[d], 1.0));
  // Weighted mean of the logarithms at the corners of the cell.
  double sum = 0.0;
  for (std::size_t corner = 0; corner < std::size_t{1} << sizes.size(); ++corner) {
    double weight = 1.0;
    std::size_t index = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const bool upper = (corner >> d & 1U) != 0;
      weight *= upper ? places[d].high : 1.0 - places[d].high;
      index = index * table.axes[d].size() + std::min(places[d].low + (upper ? 1 : 0), table.axes[d].size() - 1);
    }
    if (weight > 0.0) sum += weight * std::log(table.values[index]);
  }
  return std::exp(sum);
}

}  // namespace

double interpolate(const RateTable& table, double x) { return at(table, std::array{x}); }
double interpolate(const RateTable& table, double x, double y) { return at(table, std::array{x, y}); }
double interpolate(const RateTable& table, double x, double y, double z) { return at(table, std::array{x, y, z}); }

Bytes memory_traffic(const Kernel& k, Bytes touched) {
  const auto element = static_cast<double>(size_of(k.compute));
  switch (k.kind) {
    case KernelKind::embed_forward:
    case KernelKind::embed_backward: {
      // Each token moves its number, its row of the table (backward: read and written) and its row of x.
      const double rows = static_cast<double>(k.rows);
      const double moves = k.kind == KernelKind::embed_forward ? 2.0 : 3.0;
      return std::min(touched, Bytes::of(4.0 * rows + moves * rows * static_cast<double>(k.columns) * element));
    }
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward: {
      ORRERY_ASSERT(k.batch > 0, k.batch);
      const double sequence = static_cast<double>(k.rows) / k.batch;
      const double scores = static_cast<double>(k.rows) * sequence * k.heads;
      const double passes =
          (k.kind == KernelKind::attention_unfused_forward ? 3.0 : 5.0) + (k.options.dropout ? 1.0 : 0.0);
      return touched + Bytes::of(passes * scores * element);
    }
    default: return touched;
  }
}

}  // namespace orrery
