#include "core/program/kernel.hpp"

#include <bit>

#include "core/base/diagnostics.hpp"
#include "core/program/kernel_table.hpp"
#include "core/program/sight.hpp"

namespace orrery {

std::string_view name_of(Pass pass) {
  switch (pass) {
    case Pass::setup: return "setup";
    case Pass::forward: return "forward";
    case Pass::recompute: return "recompute";
    case Pass::input_gradient: return "input_gradient";
    case Pass::weight_gradient: return "weight_gradient";
    case Pass::loss: return "loss";
    case Pass::optimizer: return "optimizer";
  }
  return "";
}

std::uint32_t score_width(const Kernel& k) {
  const std::uint32_t value = k.value_dim > 0 ? k.value_dim : k.head_dim;
  switch (row_of(k.kind).traits.arithmetic) {
    case Arithmetic::key_scores: return k.head_dim;
    case Arithmetic::value_scores: return value;
    case Arithmetic::pair_scores: return k.head_dim + value;
    default: return 0;
  }
}

namespace {

/// Attention of whole sequences.
KernelFlops attention_flops(const Kernel& k, Arithmetic how) {
  ORRERY_ASSERT(k.batch > 0, k.batch);
  const double s = static_cast<double>(k.rows) / k.batch;
  // Scores and context: 2 s^2 d and 2 s^2 e per head and sequence, d and e the
  // widths of a key and a value.
  const double product = 2.0 * static_cast<double>(k.rows) * s * k.heads;
  const double scores = product * k.head_dim;
  const double forward = scores + product * static_cast<double>(k.value_dim > 0 ? k.value_dim : k.head_dim);
  // Backward has two for each; flash recomputes the scores, a fifth (Dao et al. 2022),
  // which is executed but not counted as the model's.  The derivative of a soft cap
  // needs the scores too.
  const double counted = how == Arithmetic::attention_forward ? forward : 2.0 * forward;
  const bool again = how == Arithmetic::flash_backward || (how == Arithmetic::attention_backward && k.softcap > 0.0);
  const double products = again ? counted + scores : counted;
  const Sight sight = sight_of(k);
  const std::uint64_t length = k.rows / k.batch;
  if (is_local(sight, length)) {
    const double seen = static_cast<double>(seen_pairs(sight, length)) / (s * s);
    return {counted * seen, products * seen};
  }
  const double visible = k.options.causal ? (s + 1.0) / (2.0 * s) : 1.0;
  return {counted, products * visible};
}

/// Attention on keys that were brought here.
KernelFlops part_flops(const Kernel& k, bool backward) {
  ORRERY_ASSERT(k.batch > 0, k.batch);
  const double value = k.value_dim > 0 ? k.value_dim : k.head_dim;
  const double scores = 2.0 * k.batch * k.heads * k.head_dim;  // per pair
  const double forward = scores + 2.0 * k.batch * k.heads * value;
  const double square = static_cast<double>(k.rows) / k.batch * (static_cast<double>(k.depth) / k.batch);
  const double counted = k.window > 0 ? k.parameter : square;
  return {forward * counted * (backward ? 2.0 : 1.0), k.parameter * (backward ? 2.0 * forward + scores : forward)};
}

KernelFlops product_flops(double rows, double columns, double depth) {
  const double f = 2.0 * rows * columns * depth;
  return {f, f};
}

}  // namespace

std::uint32_t adapted_matrices_of(const Kernel& k) { return static_cast<std::uint32_t>(std::popcount(k.site)); }

std::uint64_t adapted_columns_of(const Kernel& k) {
  const std::uint32_t first = (k.site & 1U) != 0 ? k.heads - (k.batch - 1) : 0;
  const std::uint32_t others = adapted_matrices_of(k) - (k.site & 1U);
  return std::uint64_t{k.kv_heads} * (first + others) * k.head_dim;
}

KernelFlops flops_of(const Kernel& k) {
  const auto rows = static_cast<double>(k.rows), columns = static_cast<double>(k.columns);
  const auto depth = static_cast<double>(k.depth);
  const Arithmetic how = row_of(k.kind).traits.arithmetic;
  switch (how) {
    case Arithmetic::none: return {};
    case Arithmetic::product: return product_flops(rows, columns, depth);
    case Arithmetic::adapter_product: return product_flops(rows, static_cast<double>(adapted_columns_of(k)), depth);
    case Arithmetic::expert_product: return product_flops(k.parameter, columns, k.options.transpose_a ? rows : depth);
    case Arithmetic::attention_forward:
    case Arithmetic::attention_backward:
    case Arithmetic::flash_backward: return attention_flops(k, how);
    case Arithmetic::part_forward: return part_flops(k, false);
    case Arithmetic::part_backward: return part_flops(k, true);
    case Arithmetic::key_scores:
    case Arithmetic::value_scores:
    case Arithmetic::pair_scores: {
      ORRERY_ASSERT(k.batch > 0, k.batch);
      const double pairs = rows * depth / k.batch * k.heads;
      const double f = 2.0 * pairs * score_width(k);  // masked or not
      return {f, f};
    }
  }
  return {};
}

double busiest_flops(const Kernel& k) {
  const double executed = flops_of(k).executed;
  switch (row_of(k.kind).traits.arithmetic) {
    case Arithmetic::expert_product:
      return 2.0 * static_cast<double>(k.rows) * static_cast<double>(k.columns) * static_cast<double>(k.depth);
    case Arithmetic::part_forward:
    case Arithmetic::part_backward:
      return k.parameter > 0.0 ? executed / k.parameter * static_cast<double>(k.columns) : 0.0;
    default: return executed;
  }
}

}  // namespace orrery
