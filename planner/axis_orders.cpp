#include "planner/axis_orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace orrery {
namespace {

std::vector<MeshAxis> long_axes(const Mesh& mesh) {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size > 1) axes.push_back(a);
  }
  return axes;
}

std::vector<std::uint32_t> prime_factors(std::uint32_t n) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) out.push_back(p);
  }
  if (n > 1) out.push_back(n);
  return out;
}

/// Every order of `items`, equal ones alike, as long as there are at most `most`.
std::vector<AxisOrder> orders_of(const std::vector<MeshAxis>& items, std::uint64_t most) {
  // Items by number; equal ones have equal numbers, so that next_permutation passes over what looks the same.
  std::vector<std::size_t> numbers;
  for (const MeshAxis& m : items) {
    numbers.push_back(static_cast<std::size_t>(std::find(items.begin(), items.end(), m) - items.begin()));
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<AxisOrder> out;
  std::set<std::string> seen;  // 2 x 3 and 3 x 2 of one axis, side by side, are the same
  std::uint64_t tried = 0;
  do {
    if (tried++ == most) return {};
    AxisOrder order;
    for (const std::size_t n : numbers) order.axes.push_back(items[n]);
    if (seen.insert(text_of(order)).second) out.push_back(std::move(order));
  } while (std::next_permutation(numbers.begin(), numbers.end()));
  return out;
}

}  // namespace

std::vector<AxisOrder> whole_orders(const Mesh& mesh) { return orders_of(long_axes(mesh), UINT64_MAX); }

std::vector<AxisOrder> factor_orders(const Mesh& mesh, std::uint64_t most) {
  std::vector<MeshAxis> factors;
  for (const MeshAxis& a : long_axes(mesh)) {
    for (const std::uint32_t f : prime_factors(a.size)) factors.push_back({a.axis, f});
  }
  return orders_of(factors, most);
}

std::vector<std::uint32_t> placement_of(const Mesh& mesh, const AxisOrder& order) {
  std::vector<std::uint32_t> placement(mesh.size());
  for (std::uint32_t r = 0; r < placement.size(); ++r) {
    std::uint64_t device = 0;
    std::uint64_t stride = 1;
    std::uint32_t left[axis_count];  // of each axis' coordinate, what inner factors have not said
    for (const MeshAxis& a : mesh.axes) left[static_cast<std::size_t>(a.axis)] = mesh.coordinate(Rank{r}, a.axis);
    for (std::size_t i = order.axes.size(); i-- > 0;) {
      std::uint32_t& coordinate = left[static_cast<std::size_t>(order.axes[i].axis)];
      device += stride * (coordinate % order.axes[i].size);
      coordinate /= order.axes[i].size;
      stride *= order.axes[i].size;
    }
    placement[r] = static_cast<std::uint32_t>(device);
  }
  return placement;
}

AxisOrder joined(const AxisOrder& order) {
  AxisOrder out;
  for (const MeshAxis& a : order.axes) {
    if (!out.axes.empty() && out.axes.back().axis == a.axis) {
      out.axes.back().size *= a.size;
    } else {
      out.axes.push_back(a);
    }
  }
  return out;
}

bool is_whole(const AxisOrder& order) {
  const AxisOrder once = joined(order);
  for (std::size_t i = 0; i < once.axes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (once.axes[i].axis == once.axes[j].axis) return false;
    }
  }
  return true;
}

std::string text_of(const AxisOrder& order) {
  std::string out;
  for (const MeshAxis& a : joined(order).axes) {
    out += fmt::format("{}{} {}", out.empty() ? "" : " > ", name_of(a.axis), a.size);
  }
  return out.empty() ? "one rank" : out;
}

}  // namespace orrery
