#pragma once

#include <vector>

#include "core/spec/adapters.hpp"
#include "core/spec/model_spec.hpp"
#include "exec/train/matrix.hpp"
#include "exec/train/parameters.hpp"

namespace orrery {

// Adapters of the single-device reference. It trains them in a way that no Program takes: it adds the factors' product
// to the weights, differentiates the whole weights, and takes the factors' gradients from those.
//
//     W' = W + s A B         dA = s dW' B^T         dB = s A^T dW'        s = alpha / r

/// The factors of every layer: "layers.0.attention.qkv.adapter.a" [in, adapted matrices x r] and "...b" [r, columns of
/// the adapted matrices].
[[nodiscard]] std::vector<ReferenceParameter> adapter_parameters_of(const ModelSpec&, const Adapters&);

/// The weights that the model computes with, without the factors.
[[nodiscard]] ParameterSet with_adapters(const ModelSpec&, const Adapters&, const ParameterSet& weights);

/// Gradients of the factors among `weights`, from those of the weights that the model computes with.
[[nodiscard]] ParameterSet adapter_gradients(const ModelSpec&, const Adapters&, const ParameterSet& weights,
                                             const ParameterSet& of_sums);

}  // namespace orrery
