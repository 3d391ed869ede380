#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/plan.hpp"
#include "sim/bound/family_facts.hpp"
#include "sim/bound/family_pipeline.hpp"

namespace orrery {

/// What bounds of a family are made of.
struct FamilyParts {
  LayerState plain, zero_2, zero_3;  ///< of sharded ones where any pipeline goes with them
  Picoseconds reduce = 0;            ///< of a microbatch's gradients on the fullest rank, at least
  std::uint64_t pair = 0;            ///< bytes of a layer's gradients that two pipes sum at the end, at least
  Picoseconds come = 0;              ///< for a pass, a layer's weights that live in host memory
  std::optional<Lead> lead;          ///< where layers are known
  Lead compute;                      ///< then also: what may run before anything computes
  Lead longest;                      ///< then also: whole passes of the layers that take the longest
  PerBlock<Picoseconds> span;        ///< of layers: of those that take the least
  Picoseconds all_layers = 0;        ///< a microbatch through all layers of the model, both ways
  Picoseconds between = 0;
  Picoseconds busy_forward = 0;  ///< of a layer, kernels alone, where they are known
  std::uint64_t kept = 0;
  /// Where any number of layers may be recomputed: what a layer then keeps, and how much longer its passes take.
  std::uint64_t kept_recomputed = 0;
  std::uint64_t saved = 0;  ///< by recomputing a layer, for each microbatch in flight, at most
  Picoseconds again = 0;
  Picoseconds between_again = 0;
  /// Where activations may wait in host memory: what a layer has there for each microbatch in flight, and how long it
  /// takes to copy that.
  std::uint64_t copied = 0;
  std::uint64_t copied_recomputed = 0;  ///< of a recomputed layer
  Picoseconds copy = 0;
  Picoseconds delay = 0;          ///< of its two passes by copying that, at least
  Picoseconds delay_at_head = 0;  ///< of a layer that the head's backward pass is before
  /// In chunks of parameters: how much less a layer's passes take at most, and what may run behind a stage's message.
  Picoseconds less_in_chunks = 0, later_in_chunks = 0;
  Picoseconds less_again = 0;  ///< likewise, where it may be recomputed
};

/// What all plans with the same parts need at least (docs/formulas.md, "Bound on the steps of a family"), pipeline by
/// pipeline.
class FamilyStep {
 public:
  /// `eighths`: FamilyPipeline::recomputed_eighths.  The parts outlive it.
  FamilyStep(const Plan&, const FamilyParts&, const ModelSpec&, const Workload&, std::uint32_t eighths,
             std::uint64_t capacity);

  struct Needs {
    double peak = 0;     ///< bytes; above the capacity no more is known
    double step = 0;     ///< picoseconds
    double besides = 0;  ///< FamilyBound::besides
  };
  /// A step of `enough` or more need not be the closest.  `after_pipes`: of what comes behind all passes.
  [[nodiscard]] Needs of(const FamilyPipeline&, Keeping, Picoseconds after_pipes, double enough) const;
  /// Of its passes alone, unless parameters are in chunks: none of them takes less.
  [[nodiscard]] double passes_of(const FamilyPipeline& with) const { return on_compute(with, Keeping::plain); }
  /// Of whatever pipeline, on average over the ranks.
  [[nodiscard]] double average(Keeping) const;

 private:
  /// How much less a layer's passes take than where weights stay.
  [[nodiscard]] double less_of(Keeping) const;
  [[nodiscard]] double later_of(Keeping) const;
  [[nodiscard]] double shared_of(double less) const;
  /// What passes take on compute alone.
  [[nodiscard]] double on_compute(const FamilyPipeline&, Keeping) const;

  const FamilyParts& parts_;
  const std::uint32_t eighths_;
  const double capacity_;
  bool copies_ = false;  ///< activations may wait in host memory
  bool open_ = false;    ///< any number of layers may be recomputed
  double stays_again_ = 0, least_kept_ = 0;
  double p_ = 1, layers_of_model_ = 0, most_ = 0, m_ = 0;
  double whole_layer_ = 0, ends_ = 0, all_layers_ = 0;
  bool forward_counts_ = false;
};

}  // namespace orrery
