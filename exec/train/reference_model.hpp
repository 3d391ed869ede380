#pragma once

#include <optional>

#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"
#include "exec/train/data.hpp"
#include "exec/train/matrix.hpp"

namespace orrery {

struct ReferenceGradients {
  double loss = 0.0;        ///< mean over the valid targets of the global batch
  std::uint64_t count = 0;  ///< valid targets
  double auxiliary = 0.0;   ///< load-balancing loss of mixtures, weighted (core/spec/routing.hpp)
  ParameterSet gradients;   ///< of `loss` + `auxiliary`, before clipping
  /// Largest |d loss / d activation|. In fp16 the step overflows when this times the loss scale is far above 65504, and
  /// does not when it is far below.
  double largest_signal = 0.0;
};

/// Emulates 16-bit storage in the reference, to learn how far rounding alone moves a result. Activations and their
/// gradients (times `signal_scale`) are rounded to `type` wherever a trainer would store them. Before that each gets a
/// random relative error of up to half a unit, so that every `draw` rounds otherwise. With `gradients` the parameter
/// gradients are rounded too, after every sequence.
struct StorageRounding {
  DType type = DType::bf16;
  double signal_scale = 1.0;
  bool gradients = false;
  std::uint64_t draw = 0;
};

/// Loss of step `step` (from 1) and its gradients by backward formulas written out by hand. The global batch is
/// processed one sequence after the other in double, without any parallel machinery; tests of exec/run compare with it.
///
/// One sequence, s positions, all matrices [position, feature]:
///
///     x      = word[token] (+ position[p]),                   then dropout site 0
///     qkv    = norm1(x) W_qkv + b, queries and keys rotated where rotary
///     P      = softmax over earlier keys of q k^T / sqrt(d),  then dropout site 1
///     mid    = x + dropout_2(P v W_out + b)
///     y      = mid + dropout_3(act(norm2(mid) W_up + b) W_down + b)
///              a mixture in place of act(..) W_down: reference_mixture.hpp
///     loss   = sum over valid positions of -log softmax(norm(y) table^T)[target] / count
///
/// Prediction modules k = 1 .. D, each on the stream h that the model or the module before has put out:
///
///     y_k    = layer(norm(h) W_1 + norm(word[token k ahead]) W_2),   the next module's h
///     loss  += w / D sum over valid positions of -log softmax(norm(y_k) table^T)[target k ahead] / count_k
///
/// That is the usual decoder. ModelSpec names what else layers may have: where norms stand and which parameters they
/// have, norms of queries and keys, branches side by side (which share one dropout), scales of embedding, branches and
/// logits, and caps.
///
/// BERT: x also has segment[kind of token] and a norm before dropout;
/// mid = norm1(x + ..attention of x..), y = norm2(mid + ..feed-forward of mid..); the
/// head is norm(gelu(y W + b)) table^T + b; queries see all keys.  ViT: x is
/// patches W + b with the class token in front, and only that is classified.
/// Latent attention: queries norm(x A) B, keys and values norm(x C) D, one
/// rotated key x E for all heads (core/program/lower/latent_attention.hpp).
///
/// Rotation of a head's feature pair (i, i + d/2) at position p by the angle
/// p theta^(-2i/d).  gelu in its tanh form; swiglu is silu(gate) * up, geglu gelu(gate) * up.
/// Dropout keeps an element when its key's uniform number is at least the rate
/// and scales it by 1 / (1 - rate); keys use global element indices:
///
///     sites 0, 2, 3   (position * global_batch + sequence) * hidden + feature
///     site 1          ((sequence * heads + head) * s + query) * s + key
[[nodiscard]] ReferenceGradients reference_gradients(const ModelSpec&, const Workload&, const ParameterSet& weights,
                                                     const DataSource&, std::uint64_t step,
                                                     const std::optional<StorageRounding>& = std::nullopt);

/// The loss and the auxiliary loss alone (for finite differences).
[[nodiscard]] double reference_loss(const ModelSpec&, const Workload&, const ParameterSet& weights, const DataSource&,
                                    std::uint64_t step);

}  // namespace orrery
