#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"

namespace orrery {

namespace lowering {
class TensorSharding;
class OrderMemo;
}  // namespace lowering

/// Code that a caller brings along (docs/extending.md).
struct Extensions {
  /// Takes the place of the plan's tensor algorithm, whose axes and rules of sizes it shares; must outlive the call.
  const lowering::TensorSharding* tensor = nullptr;
  /// Orders made for plans before, for a caller that lowers many; outlives the call.
  lowering::OrderMemo* orders = nullptr;
};

/// Lowers a plan into the Program that sim/ prices and exec/ runs.
///
/// Requires a resolved plan that passes check(plan, model, workload).  Does not
/// see the cluster: the same Program priced on two clusters is a controlled
/// experiment.  Same input, same Program, to the byte.
[[nodiscard]] Program lower(const ModelSpec&, const Workload&, const Plan&, const Extensions& = {});

/// Names of the passes that lowering consists of, in order.
[[nodiscard]] std::vector<std::string> pass_names();

/// The Program as it stands after the pass of that name: it can be printed and
/// read back, but only the one after the last pass can be priced or run.
[[nodiscard]] Program lower_until(const ModelSpec&, const Workload&, const Plan&, std::string_view pass,
                                  const Extensions& = {});

}  // namespace orrery
