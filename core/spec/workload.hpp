#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/dtype.hpp"
#include "core/spec/adapters.hpp"

namespace orrery {

struct ModelSpec;

/// Precision of a training run.
///   fp64, fp32   weights, gradients, states and arithmetic in that type
///   bf16, fp16   16-bit weights and activations, fp32 master weights and
///                states; fp16 with loss scaling; bf16 also without masters
///   fp8          bf16, with the products of layers in fp8
enum class Precision : std::uint8_t { fp64, fp32, bf16, fp16, fp8 };

/// adafactor keeps Adam's second moment as sums over rows and columns, and no first moment (docs/formulas/training.md);
/// its rate is given, as the others' is.
enum class OptimizerKind : std::uint8_t { sgd, adam, lamb, lars, adafactor };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::adam;
  double learning_rate = 3e-4;
  double beta1 = 0.9;  ///< Adam, LAMB
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.9;             ///< SGD, where 0 keeps no momentum buffer; LARS
  double weight_decay = 0.1;         ///< on matrices only (not norms, biases); decoupled but for LARS
  double trust_coefficient = 0.001;  ///< LARS: local learning rate over |w| / |g|
  std::optional<double> trust_clip;  ///< LAMB: |w| counts as at most this in the trust ratio; unset: as it is
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

// Adafactor's constants, as its authors give them.
inline constexpr double adafactor_epsilon = 1e-30;       ///< added to squared gradients
inline constexpr double adafactor_clip = 1.0;            ///< largest root mean square of an update
inline constexpr double adafactor_decay_exponent = 0.8;  ///< second moments decay by 1 - t^-0.8

/// learning rate at step t (from 1):
///   warm-up   linear from 0 to the peak over warmup_steps
///   then      constant | linear or cosine from the peak to minimum over total_steps
enum class ScheduleKind : std::uint8_t { constant, linear, cosine };

struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::uint64_t warmup_steps = 0;
  std::uint64_t total_steps = 0;  ///< linear, cosine
  double minimum_ratio = 0.0;     ///< final rate over the peak rate
  friend bool operator==(const LearningRateSchedule&, const LearningRateSchedule&) = default;
};

/// Which experts the tokens of a mixture visit (docs/formulas/mixtures.md).
///   balanced   every expert gets as many tokens of a routing group, as far as that divides
///   skewed     the share of the i-th most loaded expert falls as i^-exponent
///   recorded   from a table
///   learned    by the router's scores: Programs carry upper bounds
struct Routing {
  enum class Kind : std::uint8_t { balanced, skewed, recorded, learned };
  Kind kind = Kind::balanced;
  double exponent = 0.0;                   ///< skewed
  std::string table;                       ///< recorded: path of the file
  std::vector<std::vector<double>> loads;  ///< the loads in it: one for each expert of each layer
  std::uint64_t group = 0;                 ///< positions of one sequence routed together; 0: all of a sequence
  std::optional<double>
      capacity;                 ///< tokens an expert takes of a group, over the balanced share; unset: all (drop-less)
  double auxiliary_loss = 0.0;  ///< weight of the load-balancing loss
  friend bool operator==(const Routing&, const Routing&) = default;
};

/// How a model is trained, independent of how it is split.
struct Workload {
  std::uint64_t global_batch = 0;  ///< sequences per optimizer step
  std::uint64_t sequence_length = 0;
  Precision precision = Precision::bf16;
  /// Whether 16-bit weights have fp32 masters, which the optimizer updates. Without masters it updates the weights.
  bool master_weights = true;
  std::optional<DType> gradient_dtype;  ///< of the accumulated gradients; unset: the states' type
  /// Type of optimizer moments: f32, bf16, u8 (codes), or f8 with f16 for the second; unset: the states' type, but
  /// always wide for LAMB, whose update reads its moments again, and for Adafactor's sums.
  std::optional<DType> moment_dtype;
  Optimizer optimizer;
  LearningRateSchedule schedule;
  std::optional<double> clip_norm;  ///< unset: no clipping
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double loss_scale = 65536.0;             ///< fp16: initial loss scale, halved on overflow
  std::uint64_t loss_scale_window = 1000;  ///< fp16: steps without overflow until it doubles
  Routing routing;
  /// Trained in place of the weights, which stay as they are; unset: all weights are trained.
  std::optional<Adapters> adapters;
  /// Weight of the mean loss of the prediction modules beside the model's own; unset: usual_prediction_loss_weight.
  std::optional<double> prediction_loss_weight;
  std::uint64_t seed = 1;
  std::string data;  ///< path of a token file; empty: synthetic tokens
  Origin origin;
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Element types that follow from the precision.
[[nodiscard]] DType weight_dtype(const Workload&);    ///< weights, activations
[[nodiscard]] DType product_dtype(const Workload&);   ///< arithmetic of the layers' matrix products
[[nodiscard]] DType wide_dtype(const Workload&);      ///< master weights, statistics, sums, logits: f32, or f64 in fp64
[[nodiscard]] DType gradient_dtype(const Workload&);  ///< accumulated gradients
[[nodiscard]] DType state_dtype(const Workload&);     ///< what is updated: master weights, or weights without masters
[[nodiscard]] DType moment_dtype(const Workload&,
                                 int moment = 0);  ///< the first optimizer moment (0), or the second (1)
/// Whether moments are kept as multiples of a scale, one for each block of them.
[[nodiscard]] bool has_scaled_moments(const Workload&);
[[nodiscard]] bool has_master_weights(const Workload&);
/// Optimizer moments per parameter: 2 for Adam and LAMB, 1 for LARS, 1 for SGD with momentum, otherwise 0. Factored
/// moments do not count.
[[nodiscard]] int optimizer_moments(const Workload&);
/// Whether the second moments of a matrix are kept as sums over its rows and columns.
[[nodiscard]] bool has_factored_moments(const Workload&);
/// Whether the length of a matrix's update depends on the norms of the matrix and of the update.
[[nodiscard]] bool has_trust_ratio(const Workload&);

/// The weight that DeepSeek-V3 had in the first part of its training.
inline constexpr double usual_prediction_loss_weight = 0.3;

/// Factor of the loss of one prediction module: the weight over their number.
///
///     L = L_0 + (w / D) sum over k of L_k
///
/// L_0 loss of the next token, L_k that of the token k further ahead, each the mean over its own targets; w weight,
/// D modules.  Source: DeepSeek-AI, "DeepSeek-V3 technical report", 2024, section 2.2, equations 24 and 25.
[[nodiscard]] double prediction_weight(const ModelSpec&, const Workload&);

/// Learning rate of step `step` (1 is the first).
[[nodiscard]] double learning_rate(const Workload&, std::uint64_t step);

}  // namespace orrery
