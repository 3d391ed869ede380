#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What one module ("embedding", "layer", "head") keeps and what updating it takes.
struct ModuleState {
  std::uint64_t persistent_bytes = 0;  ///< weights, gradients, masters, moments
  std::uint64_t weight_bytes = 0;
  std::uint64_t gradient_bytes = 0;
  std::uint64_t replicated_gradient_bytes = 0;  ///< of segments that every tensor rank holds
  Picoseconds clear = 0;
  Picoseconds norm = 0;  ///< 0 without a factor
  Picoseconds update = 0;
};

/// Parameters, gradients and optimizer states on one mesh with one ZeRO stage:
/// their bytes, and the time of the kernels and collectives that touch them
/// once a step.  Lowered by the same functions as whole Programs.
class StateCosts {
 public:
  /// Only mesh, ZeRO stage and microbatch size (any valid one) of the plan matter.
  StateCosts(const ModelSpec&, const Workload&, const Plan&, const CostModel& costs);

  [[nodiscard]] const ModuleState& embedding() const { return embedding_; }
  [[nodiscard]] const ModuleState& layer() const { return layer_; }
  [[nodiscard]] const ModuleState& head() const { return head_; }
  [[nodiscard]] std::uint64_t scalar_bytes() const { return scalar_bytes_; }
  [[nodiscard]] bool factor() const { return factor_; }
  [[nodiscard]] Picoseconds norm_reduction() const { return norm_reduction_; }  ///< of the norm's single number
  [[nodiscard]] Picoseconds tied_reduction() const {
    return tied_reduction_;
  }  ///< 0 where no table is tied across stages

  // Collectives over `bytes`, remembered.  `costs` is the one given above.
  [[nodiscard]] Picoseconds reduce_gradients(std::uint64_t bytes, const CostModel& costs);
  [[nodiscard]] Picoseconds gather_weights(std::uint64_t bytes, const CostModel& costs);
  [[nodiscard]] Picoseconds sum_replicated(std::uint64_t bytes, const CostModel& costs);

 private:
  using Prices = std::map<std::uint64_t, Picoseconds>;
  static Picoseconds price(Prices&, Collective::Kind, Axis, std::uint64_t bytes, const CostModel&);

  ModuleState embedding_, layer_, head_;
  std::uint64_t scalar_bytes_ = 0;
  bool factor_ = false;
  bool sharded_ = false;
  Picoseconds norm_reduction_ = 0;
  Picoseconds tied_reduction_ = 0;
  Prices reduce_, gather_, replicated_;
};

}  // namespace orrery
