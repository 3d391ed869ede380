#include "core/plan/grid_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

struct Grid {
  const Plan& plan;
  const ModelSpec& model;
  Diagnostics& out;
  std::uint32_t rows = plan.mesh.size(Axis::row);
  std::uint32_t columns = plan.mesh.size(Axis::column);
  std::uint32_t depth = plan.mesh.size(Axis::depth);

  void error(const std::string& key, const char* code, std::string message, std::vector<std::string> details) const {
    out.error(plan.origin, key, std::string("plan.") + code, std::move(message), std::move(details));
  }
};

/// Without a grid its axes have no meaning.
void check_none(const Grid& g) {
  for (const Axis axis : {Axis::row, Axis::column, Axis::depth}) {
    const std::uint32_t n = g.plan.mesh.size(axis);
    if (n == 1) continue;
    const std::string key = "mesh." + std::string(name_of(axis));
    g.error(key, "grid-axis", fmt::format("1D tensor parallelism does not use the axis {}", name_of(axis)),
            {fmt::format("{} is {}.", name_of(axis), n),
             "Set tensor to \"2d\", \"2.5d\" or \"3d\" in [plan], or use the axis tensor."});
    return;
  }
}

bool check_sides(const Grid& g) {
  const std::string name(name_of(g.plan.tensor));
  if (const std::uint32_t t = g.plan.mesh.size(Axis::tensor); t != 1) {
    g.error("mesh.tensor", "grid-tensor", fmt::format("{} tensor parallelism does not use the axis tensor", name),
            {fmt::format("tensor is {} in [mesh]; the ranks form a grid along row and column instead.", t),
             "Set tensor to 1 in [mesh]."});
    return false;
  }
  if (g.plan.tensor == TensorAlgorithm::two_d && g.depth != 1) {
    g.error("mesh.depth", "grid-depth", "2d tensor parallelism does not use the axis depth",
            {fmt::format("depth is {}.", g.depth), "Set tensor to \"2.5d\", or depth to 1."});
    return false;
  }
  if (g.rows != g.columns || g.rows < 2) {
    const std::uint32_t side = std::max({g.rows, g.columns, 2U});
    const std::string key = g.rows < 2 && g.columns > 1 ? "mesh.row" : "mesh.column";
    g.error(key, "grid-square", fmt::format("{} tensor parallelism needs as many rows as columns, at least 2", name),
            {fmt::format("row is {} and column is {}.", g.rows, g.columns),
             fmt::format("Nearest valid: row {0}, column {0}.", side)});
    return false;
  }
  if (g.plan.tensor == TensorAlgorithm::three_d && g.depth != g.rows) {
    g.error("mesh.depth", "grid-cube", "3d tensor parallelism needs a depth that is equal to rows and columns",
            {fmt::format("row and column are {}, and depth is {}.", g.rows, g.depth),
             fmt::format("Nearest valid: depth {0}, row {0}, column {0}.", g.rows)});
    return false;
  }
  return true;
}

/// 3D cuts the input dimension of every weight twice.
void check_cube(const Grid& g) {
  const ModelSpec& m = g.model;
  const std::uint64_t square = std::uint64_t{g.rows} * g.rows;
  const std::uint64_t heads = m.heads * m.head_dim;
  if (m.hidden % square != 0 || m.ffn % square != 0 || heads % square != 0) {
    g.error("mesh.row", "grid-cube-widths", "the square of the side does not divide all widths of the model",
            {fmt::format("hidden is {}, heads x head_dim {}, ffn {}; each must be a multiple of {} x {}.", m.hidden,
                         heads, m.ffn, g.rows, g.rows),
             "Nearest valid: a smaller side, or tensor = \"2.5d\"."});
  }
}

void check_widths(const Grid& g) {
  struct Width {
    const char* name;
    const char* code;
    std::uint64_t n;
  };
  const ModelSpec& m = g.model;
  const Width widths[] = {{"hidden", "grid-hidden", m.hidden},
                          {"heads", "grid-heads", m.heads},
                          {"kv_heads", "grid-kv-heads", m.kv_heads},
                          {"ffn", "grid-ffn", m.ffn}};
  std::uint64_t common = 0;
  for (const Width& w : widths) common = std::gcd(common, w.n);
  const std::uint64_t q = g.columns;
  for (const Width& w : widths) {
    if (w.n % q == 0) continue;
    const std::string key = "mesh.column", code = w.code;
    g.error(key, code.c_str(), fmt::format("the side of the grid does not divide {}", w.name),
            {fmt::format("{} is {}, and {} / {} leaves {}.", w.name, w.n, w.n, q, w.n % q),
             common < 2 ? fmt::format("hidden, heads, kv_heads and ffn have no common divisor: no grid can cut {}.",
                                      m.name.empty() ? "the model" : m.name)
                        : nearest_divisors(common, q, "sides")});
    return;
  }
}

/// What layers have that a grid does not cut.
void check_layers(const Grid& g) {
  const ModelSpec& m = g.model;
  const auto refuse = [&](bool has, const char* what) {
    if (!has) return;
    g.error("plan.tensor", "grid-layers",
            fmt::format("{} tensor parallelism does not have {}", name_of(g.plan.tensor), what),
            {"Set tensor to \"1d\"."});
  };
  refuse(m.parallel != ParallelBranches::none, "attention and feed-forward layers side by side");
  refuse(m.query_key_norm != QueryKeyNorm::none, "norms of queries and keys");
  refuse(m.mixture && m.mixture->expert_bias, "biases of experts");
  refuse(m.mixture && m.mixture->shared_gate, "a gate of the shared experts");
}

}  // namespace

void check_grid(const Plan& plan, const ModelSpec& model, Diagnostics& out) {
  const Grid g{plan, model, out};
  if (plan.save_gathered && plan.tensor != TensorAlgorithm::three_d) {
    g.error("plan.save_gathered", "save-gathered", "save_gathered needs 3d tensor parallelism",
            {fmt::format("tensor is {}.", name_of(plan.tensor)), "Set save_gathered to false."});
  }
  if (plan.tensor == TensorAlgorithm::one_d) return check_none(g);
  if (!check_sides(g)) return;
  check_widths(g);
  check_layers(g);
  if (plan.tensor == TensorAlgorithm::three_d) check_cube(g);
  if (plan.sequence_parallel) {
    g.error("plan.sequence_parallel", "grid-sequence-parallel",
            fmt::format("{} tensor parallelism has no sequence parallelism", name_of(plan.tensor)),
            {"Its residual stream is cut along row and column already.", "Set sequence_parallel to false."});
  }
}

}  // namespace orrery
