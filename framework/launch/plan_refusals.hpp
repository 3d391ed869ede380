#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Whether those of these axes that are longer than 1 stand in this order, outermost first. Other axes may stand
/// anywhere.
[[nodiscard]] bool stand_in_order(const Mesh&, std::initializer_list<Axis>);

/// What a framework cannot train, whatever the plan: one diagnostic for each reason, at a key of the workload or at
/// "model" (export.*).
class ModelRefusals {
 public:
  /// `title` is the framework's: "DeepSpeed".
  ModelRefusals(const Workload& workload, std::string_view title, Diagnostics& out)
      : workload_(workload), title_(title), out_(out) {}

  void refuse(const std::string& key, const char* code, std::string message, std::vector<std::string> details = {});

  // Reasons that many frameworks share.
  /// Precisions that the framework has.
  void precisions(std::initializer_list<Precision> known);
  void usual_moments();    ///< moments of 1 or 2 bytes; weights without fp32 copies
  void no_decay_of_sgd();  ///< weight decay of SGD that is decoupled from momentum
  void no_dropout();
  /// Low-rank adapters in place of the weights; `also` says who launches them in this program's place.
  void no_adapters(std::string also = {});

 private:
  const Workload& workload_;
  std::string title_;
  Diagnostics& out_;
};

/// What a framework cannot say of a plan: one diagnostic for each reason, at the plan's key (export.*).
class PlanRefusals {
 public:
  /// `title` is the framework's: "DeepSpeed".
  PlanRefusals(const PlannedRun& run, std::string_view title, Diagnostics& out)
      : run_(run), title_(title), out_(out), before_(out.size()) {}

  void refuse(const std::string& key, const char* code, std::string message, std::vector<std::string> details = {});
  /// Whether nothing was refused.
  [[nodiscard]] bool none() const { return out_.size() == before_; }

  // Reasons that many frameworks share.
  void one_d_tensor();               ///< grids of tensor ranks
  void whole_kv_heads();             ///< tensor ranks that share key-value heads
  void whole_kv_heads_of_ulysses();  ///< context ranks that do
  void no_placement();               ///< ranks on devices of the user's choice
  void whole_loss();                 ///< a loss in chunks
  void no_folding();                 ///< experts folded over other axes
  void sends_rows();                 ///< tokens that all ranks gather for their experts
  void no_algorithm();               ///< algorithms of collectives
  void no_pipeline(const char* why);
  void no_order_alone();  ///< another schedule than 1F1B on one stage
  void no_chunks();       ///< ZeRO-3's parameter chunks
  void no_offloaded_weights();
  void on_host();  ///< no tier is the disk
  void no_tensor_sequences();
  /// The axes longer than 1 stand in this order, outermost first.
  void order(std::initializer_list<Axis> axes);
  /// An axis has size 1.
  void single(Axis, const char* why);

 private:
  const PlannedRun& run_;
  std::string title_;
  Diagnostics& out_;
  std::size_t before_;
};

/// The stage of ZeRO that takes effect: 0 where no ranks share weights.
[[nodiscard]] std::uint32_t zero_in_force(const Plan&);

}  // namespace orrery
