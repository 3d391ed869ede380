#pragma once

#include <memory>

#include "core/program/lower/shared_gate.hpp"
#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// One of an expert's two matrices, and its bias. Results of the second are parts of a sum over tensor ranks, so each
/// rank adds a part of its bias.
struct ExpertMatrix {
  const char* weight;
  const char* bias;
  bool widens;
};

/// The routed part of a layer, in place of a dense feed-forward part: the
/// compute order and its seams.
///
/// Tokens go to the ranks that hold their experts and back by all-to-all over the axes that cut these (Lepikhin et al.,
/// "GShard", ICLR 2021). Each expert is cut along the tensor axis as a dense layer is, so results are sums over tensor
/// ranks. The sums are made after experts are combined, once per token. Every part of an all-to-all has room for the
/// most that any rank sends another. With learned routing it has room for the most that a rank may send, and a message
/// beside it says which expert each row is for. With sequence parallelism a rank routes its own positions and gathers
/// gates.
///
/// Where the plan has ranks gather tokens, each of them gets the tokens of all ranks that share the experts, and the
/// gates with them. It takes the rows for its own experts, adds up what these give for each token, and the sums are
/// scattered over the same ranks.
///
/// Where the plan folds experts over the tensor axis (Liu et al., "MoE Parallel Folding", arXiv 2504.14960), each of
/// its ranks holds whole experts and sends the positions that sequence parallelism gives it. So nothing is gathered
/// before and nothing summed behind, but for shared experts, which stay cut as a dense layer is.
///
/// On a grid experts are cut along columns as along a tensor axis, and their tokens have all features. SUMMA would
/// bring the blocks of every expert to every rank, although a token visits only a few. The router alone takes the
/// features that a rank has, and sums over the row of ranks.
class MixtureLayer {
 public:
  /// `norm2_out` is the normed stream, `hidden_width` wide.
  MixtureLayer(State&, BufferId norm2_out);

  /// Whether y and dx are those of the rank's own positions, with their sums made, and so are dy and what is routed.
  [[nodiscard]] bool routes_own() const { return folded_; }
  /// Whether the forward pass takes the whole x, and not the rank's own positions alone.
  [[nodiscard]] bool takes_whole_input() const { return !folded_ || shared_ > 0; }
  /// y = the experts' output for x: x is whole, y is a sum over tensor ranks that is still to be made.
  void forward(BlockBuilder&, BufferId x, BufferId y);
  /// Whether the weight gradients need the whole x again, and where ranks route their own positions, dy whole.
  [[nodiscard]] bool takes_input_again() const { return shared_ > 0; }
  /// dx from dy (whole): a sum over tensor ranks that is still to be made, without the router's part. `whole_dy` is
  /// what shared experts take.
  void backward(BlockBuilder& b, BlockBuilder& w, Operand dy, Operand whole_dy, BufferId x, BufferId dx);
  /// Adds the router's part to dx after its sum is made; the router's products may run beside that sum.
  void router_gradients(BlockBuilder& b, BlockBuilder& w);
  void router_backward(BlockBuilder& b, BlockBuilder& w, BufferId dx);

 private:
  [[nodiscard]] Kernel tokens_kernel(KernelKind, Pass, std::uint64_t width) const;
  [[nodiscard]] Kernel gates_kernel(KernelKind, Pass) const;
  void limit_groups(Kernel&) const;
  /// Decides which choices go where, by the workload or by the scores.
  void route(BlockBuilder&);
  /// The kernel of the forward product, or with the transposed factor that of a gradient.
  [[nodiscard]] Kernel expert_kernel(Pass, std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) const;
  void expert_forward(BlockBuilder&, const ExpertMatrix&, BufferId x, BufferId y, std::uint64_t in, std::uint64_t out);
  void expert_input(BlockBuilder&, const char* weight, BufferId dy, BufferId dx, std::uint64_t in, std::uint64_t out);
  void expert_weight(BlockBuilder&, const char* weight, BufferId x, BufferId dy, std::uint64_t in, std::uint64_t out);
  void expert_bias(BlockBuilder&, const ExpertMatrix&, BufferId dy, std::uint64_t out);
  [[nodiscard]] double bias_scale(const ExpertMatrix&) const;
  void activate(BlockBuilder&, std::uint64_t rows, std::uint64_t width, BufferId pre, BufferId act);
  /// Returns the gradient before the activation: `dact` itself, or `dpre`.
  BufferId activate_back(BlockBuilder&, std::uint64_t rows, std::uint64_t width, BufferId pre, BufferId dact,
                         BufferId dpre);
  /// The group over which experts' parts are summed: the tensor axis, or the columns of a grid.
  [[nodiscard]] GroupId sum_group() const { return s_.grid ? s_.column_group : s_.tensor_group; }
  [[nodiscard]] const TensorSharding& shared_sharding() const { return s_.grid ? tensor_1d() : s_.sharding; }
  void router_weight(BlockBuilder&);
  [[nodiscard]] Product shared_up() const;
  [[nodiscard]] Product shared_down() const;
  [[nodiscard]] Operand own(BufferId tokens_buffer, std::uint64_t width) const;
  /// What a buffer says of the rows that this rank's experts take.
  [[nodiscard]] Operand ids(BufferId) const;
  /// Gathers what belongs to tokens from the ranks that share the experts, where they do so.
  void gather(BlockBuilder&, Operand own, BufferId all);
  void scatter(BlockBuilder&, BufferId all, BufferId own);
  /// own = the scattered sums and what shared experts give, where there are such.
  void scatter_beside(BlockBuilder&, Pass, BufferId all, BufferId shared, BufferId own);
  void send(BlockBuilder&, BufferId from, BufferId to);

  State& s_;
  const Mixture& m_;
  bool gated_;
  bool folded_;           ///< tensor ranks hold other experts
  bool gathers_;          ///< sequence parallelism, and what belongs to tokens is gathered from tensor ranks
  bool brings_all_;       ///< every rank gathers the tokens of all ranks that share the experts
  bool learned_;          ///< scores decide who visits whom; sizes are then upper bounds
  std::uint32_t parts_;   ///< ranks that share the experts
  std::uint32_t local_;   ///< experts on one of them
  std::uint64_t tokens_;  ///< that a rank routes
  std::uint64_t routed_;  ///< tokens of which a rank takes rows for its experts: its own, or those of all
  std::uint64_t slots_;   ///< rows that a rank sends and takes, empty ones included
  double filled_;         ///< how many of these hold a token: mean over ranks and layers (learned: at most)
  std::uint64_t width_;   ///< of an expert on one rank
  std::uint64_t shared_;  ///< of the shared experts on one rank
  std::unique_ptr<SharedGate> gate_;
  GroupId expert_group_{};
  BufferId norm2_out_;
  BufferId choice_part_{}, sent_ids_{}, loads_{};  ///< learned
  BufferId choice_{}, slot_ids_{}, expert_ids_{}, logits_{}, gates_{}, gates_part_{};
  BufferId sent_{}, arrived_{}, pre_{}, act_{}, made_{}, returned_{};
  BufferId all_choice_{}, all_gates_{}, all_in_{}, all_out_{};  ///< of gathered tokens
  BufferId sums_{};                                             ///< scattered, without shared experts' results
  BufferId all_out_gradient_{}, all_in_gradient_{}, all_gates_gradient_{};
  BufferId shared_pre_{}, shared_act_{}, shared_out_{};
  BufferId shared_part_{}, shared_input_part_{};  ///< own positions of sums over tensor ranks
  BufferId returned_gradient_{}, made_gradient_{}, act_gradient_{}, pre_gradient_{}, arrived_gradient_{},
      sent_gradient_{};
  BufferId gates_gradient_{}, gates_part_gradient_{}, logits_gradient_{};
  BufferId shared_act_gradient_{}, shared_pre_gradient_{}, shared_input_gradient_{};
};

}  // namespace orrery::lowering
