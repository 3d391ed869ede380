#pragma once

#include <string>
#include <vector>

#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"
#include "exec/train/matrix.hpp"

namespace orrery {

/// One trainable tensor of the single-device reference.
///
/// Matrices are [in, out], tables [vocabulary or positions, hidden], vectors [1, n]. Tensors with more than two
/// dimensions elsewhere (QKV, gate and up) have the same elements in the same row-major order.
struct ReferenceParameter {
  enum class Start : std::uint8_t { zeros, ones, normal };
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  Start start = Start::zeros;
  double deviation = 0.0;  ///< of Start::normal
  bool decay = false;      ///< weight decay applies
  friend bool operator==(const ReferenceParameter&, const ReferenceParameter&) = default;
};

/// Every tensor of the model in the order embedding, layers with those of
/// prediction modules, head.
///
/// Starting values are 1 for norms, 0 for biases, and normal with deviation 0.02 for matrices and tables. The two
/// matrices of a layer that write into the residual stream (attention output, ffn down) have 0.02 / sqrt(2 layers).
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3. Decay applies to
/// matrices and tables.
[[nodiscard]] std::vector<ReferenceParameter> parameters_of(const ModelSpec&);

/// What the workload trains: all of these, or the adapters beside them (reference_adapters.hpp).
[[nodiscard]] std::vector<ReferenceParameter> trained_parameters_of(const ModelSpec&, const Workload&);

/// Starting values of one tensor, keyed by (seed, name, element) and rounded to
/// the states' type: f64 or f32, and then to bf16 where there are no masters.
[[nodiscard]] Matrix initial_tensor(const ReferenceParameter&, const Workload&);

/// Starting values of all tensors, adapters among them.
[[nodiscard]] ParameterSet initial_parameters(const ModelSpec&, const Workload&);

/// Tensors of the same names and shapes, all 0.
[[nodiscard]] ParameterSet zeros_like(const ParameterSet&);

}  // namespace orrery
