#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"
#include "exec/train/matrix.hpp"

namespace orrery {

/// The rows of a sequence that one expert takes, and its results for them.
struct ExpertRecord {
  std::vector<std::uint64_t> positions;
  std::vector<std::uint32_t> choices;  ///< which of the token's this expert is
  Matrix x, pre, act, out;
};
/// Values that the backward pass of a mixture reads again.
struct MixtureRecord {
  Matrix logits;                                   ///< [position, expert]
  Matrix gates;                                    ///< [position, choice]
  std::vector<std::vector<std::uint32_t>> chosen;  ///< experts, by position and choice
  std::vector<ExpertRecord> experts;
  std::vector<std::vector<std::uint64_t>> loads;  ///< choices of each expert, by routing group
  Matrix shared_pre, shared_act;
  Matrix shared_out, gate;  ///< where the shared experts have a gate
};

/// One layer and sequence of a pass over a model with mixtures.
struct MixturePass {
  const ModelSpec& model;
  const Workload& workload;
  std::uint64_t layer;
  std::uint64_t sequence;
  std::function<const Matrix&(const char* name)> weight;  ///< "ffn.router.weight"
  std::function<Matrix&(const char* name)> gradient;
  std::function<void(Matrix&)> kept;    ///< as stored between forward and backward
  std::function<void(Matrix&)> signal;  ///< the same of a gradient
  double* auxiliary;                    ///< the load-balancing loss is added here
};

/// y = shared(x) + sum over the kept choices of gate * expert(x), expert(x) = act(x W_up) W_down, gates by
/// Mixture::Scores from x W_router, times Mixture::scale. core/spec/routing.hpp says which experts a position visits.
/// With learned routing they are those with the highest scores, among equal ones the lower number; then an expert keeps
/// its first choices of a group, up to its capacity.
[[nodiscard]] Matrix mixture_forward(const MixturePass&, const Matrix& x, MixtureRecord&);
/// Returns dx; adds to the gradients of the layer's matrices.
[[nodiscard]] Matrix mixture_backward(const MixturePass&, const Matrix& dy, const Matrix& x, const MixtureRecord&);

}  // namespace orrery
