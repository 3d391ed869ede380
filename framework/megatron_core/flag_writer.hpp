#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "framework/launch/plan_refusals.hpp"
#include "framework/megatron_core/write.hpp"

namespace orrery {

/// Flags on their way, with what cannot be said.
class FlagWriter {
 public:
  FlagWriter(const PlannedRun& run, Diagnostics& out) : run_(run), out_(out) {}

  [[nodiscard]] const ModelSpec& model() const { return run_.model; }
  [[nodiscard]] const Workload& workload() const { return run_.workload; }
  [[nodiscard]] const Plan& plan() const { return run_.plan; }
  [[nodiscard]] std::uint32_t size(Axis a) const { return run_.plan.mesh.size(a); }

  void flag(const char* name) { flags_.push_back({name, ""}); }
  template <class T>
  void flag(const char* name, const T& value) {
    flags_.push_back({name, fmt::format("{}", value)});
  }
  void refuse(const std::string& key, const char* code, std::string message, std::vector<std::string> details) {
    out_.error(run_.plan.origin, key, std::string("export.") + code, std::move(message), std::move(details));
  }
  /// Refusals that frameworks share, of Megatron-LM.
  [[nodiscard]] PlanRefusals shared() { return {run_, "Megatron-LM", out_}; }
  [[nodiscard]] std::vector<LaunchFlag> take() { return std::move(flags_); }

 private:
  const PlannedRun& run_;
  Diagnostics& out_;
  std::vector<LaunchFlag> flags_;
};

// Parts of the flags, in this order.
void write_megatron_mesh(FlagWriter&);      ///< mesh, schedule, sharding, offload and the batch
void write_megatron_kernels(FlagWriter&);   ///< attention and recomputation
void write_megatron_model(FlagWriter&);     ///< shape and kinds of layers
void write_megatron_training(FlagWriter&);  ///< precision, optimizer, learning rate
void write_megatron_states(FlagWriter&);    ///< where states lie, and their types

}  // namespace orrery
