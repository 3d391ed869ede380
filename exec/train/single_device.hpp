#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"
#include "exec/train/data.hpp"
#include "exec/train/matrix.hpp"
#include "exec/train/reference_adafactor.hpp"
#include "exec/train/reference_model.hpp"

namespace orrery {

/// The single-device reference trainer computes what every parallel plan must compute.
///
/// Plain double arithmetic on whole tensors. It shares only the specs and the random keys (core/) with the executor: no
/// Program, no lowering, no kernels. Parameters are named and shaped as in parameters.hpp.
///
/// In 16-bit precision `parameters` are the master weights; the forward and
/// backward pass read them rounded to the 16-bit type, in double from there on.
/// Without masters they are the 16-bit weights.
struct TrainingState {
  ParameterSet parameters;
  ParameterSet moment1;                             ///< Adam, or SGD with momentum; else empty
  ParameterSet moment2;                             ///< Adam; else empty
  std::map<std::string, FactoredMoments> factored;  ///< Adafactor; else empty
  std::uint64_t steps = 0;                          ///< updates made (skipped steps do not count)
  double loss_scale = 1.0;                          ///< fp16; 1 otherwise
  std::uint64_t good_steps = 0;                     ///< fp16: steps since the loss scale last changed
};

/// The state before the first step.
[[nodiscard]] TrainingState initial_state(const ModelSpec&, const Workload&);

/// The weights that forward and backward read: the parameters rounded to the
/// precision's weight type.
[[nodiscard]] ParameterSet working_weights(const Workload&, const ParameterSet& parameters);

struct UpdateResult {
  double norm = 0.0;           ///< global, of the unscaled gradients
  double clip = 1.0;           ///< min(1, clip_norm / (norm + 1e-6)); 1 without clipping
  double learning_rate = 0.0;  ///< 0 when skipped
  bool skipped = false;        ///< fp16: the gradients were not finite
};

/// Global L2 norm, every parameter counted once.
[[nodiscard]] double global_norm(const ParameterSet& gradients);

/// One optimizer step on unscaled gradients, in place:
///
///     g   = clip * gradient,  clip = min(1, clip_norm / (norm + 1e-6))
///     t   = steps + 1,        lr = learning_rate(workload, t)
///     Adam (Kingma and Ba, 2015; decay decoupled: Loshchilov and Hutter, 2019)
///         m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
///         w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay w)
///     Adafactor: reference_adafactor.hpp
///     SGD
///         m = momentum m + g,      w -= lr (m + decay w)
///
/// A narrower moment_dtype rounds moments only where they are kept: the step that makes them still has all digits. In
/// f8 and f16 they are rounded in blocks of 128 neighbours of a parameter, in u8 of 256, each with a scale; a Program
/// has other blocks. Weights without masters are rounded once, at the end of the step, which reads all digits of its
/// own moments.
///
/// Decay applies to matrices and tables only. In fp16, gradients that are not finite leave everything as it is except
/// the loss scale, which halves; after loss_scale_window good steps the scale doubles.
UpdateResult apply_update(const ModelSpec&, const Workload&, const ParameterSet& gradients, TrainingState&);

struct StepResult {
  ReferenceGradients pass;
  UpdateResult update;
};

/// Forward, backward and update of step `step` (from 1).
StepResult train_step(const ModelSpec&, const Workload&, const DataSource&, std::uint64_t step, TrainingState&);

}  // namespace orrery
