#include "core/plan/nearest_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace orrery {
namespace {

std::vector<std::uint64_t> divisors(std::uint64_t n) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d != n / d) all.push_back(n / d);
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// The larger over the smaller.
double factor(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(std::max(a, b)) / static_cast<double>(std::min(a, b));
}

}  // namespace

std::string nearest_divisors(std::uint64_t n, std::uint64_t value, const std::string& what) {
  std::string list;
  std::uint64_t below = 0;
  std::uint64_t above = 0;
  for (const std::uint64_t d : divisors(n)) {
    if (d < value) below = d;
    if (d > value && above == 0) above = d;
  }
  if (below > 0) list += std::to_string(below);
  if (above > 0) list += (list.empty() ? "" : ", ") + std::to_string(above);
  return fmt::format("Nearest valid {}: {}.", what, list);
}

std::optional<std::uint64_t> divisor_between(std::uint64_t n, std::uint64_t least, std::uint64_t most) {
  for (const std::uint64_t d : divisors(n)) {
    if (d >= least && d <= most) return d;
  }
  return std::nullopt;
}

std::vector<Mesh> nearest_meshes(const Mesh& mesh, std::uint64_t ranks, const std::function<bool(const Mesh&)>& valid,
                                 std::size_t count) {
  Mesh form = mesh;  // with the axes that may change; the others stay
  for (const Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) {
    const bool listed = std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const auto& a) { return a.axis == axis; });
    if (listed) continue;
    // The axis goes before the first axis that comes later in the default order, which is that of the enumerators.
    const auto behind = std::find_if(form.axes.begin(), form.axes.end(), [&](const auto& a) { return a.axis > axis; });
    form.axes.insert(behind, {axis, 1});
  }
  std::uint64_t fixed = 1;
  for (const MeshAxis& a : mesh.axes) {
    if (a.axis != Axis::pipeline && a.axis != Axis::data && a.axis != Axis::tensor) fixed *= a.size;
  }
  if (fixed == 0 || ranks % fixed != 0) return {};
  ranks /= fixed;
  struct Candidate {
    int changed;
    double distance;
    Mesh mesh;
  };
  std::vector<Candidate> all;
  for (const std::uint64_t tensor : divisors(ranks)) {
    for (const std::uint64_t pipeline : divisors(ranks / tensor)) {
      Candidate c{0, 1.0, form};
      for (MeshAxis& a : c.mesh.axes) {
        const std::uint64_t size = a.axis == Axis::tensor     ? tensor
                                   : a.axis == Axis::pipeline ? pipeline
                                   : a.axis == Axis::data     ? ranks / tensor / pipeline
                                                              : a.size;
        c.changed += size != a.size ? 1 : 0;
        c.distance *= factor(size, a.size);
        a.size = static_cast<std::uint32_t>(size);
      }
      all.push_back(std::move(c));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.changed, a.distance) < std::tie(b.changed, b.distance);
  });
  std::vector<Mesh> out;
  for (const Candidate& c : all) {
    if (out.size() == count) break;
    if (valid(c.mesh)) out.push_back(c.mesh);
  }
  return out;
}

}  // namespace orrery
