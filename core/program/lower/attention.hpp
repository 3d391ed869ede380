#pragma once

#include <functional>
#include <memory>

#include "core/program/lower/draft.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// What a layer hands to its attention core: the packed projections (queries,
/// keys and values of this rank's tokens and heads), the context that comes
/// out, the gradients of both, and of which kind the layer is.
struct AttentionOperands {
  BufferId qkv{}, context{}, context_gradient{}, qkv_gradient{};
  const LayerKind* kind = nullptr;
};

/// The compute order of an attention core and the seams in it, for one way to
/// cut positions over the context axis.  The constructor of a core declares
/// its buffers; it is built after qkv and before the context.
class AttentionCore {
 public:
  AttentionCore() = default;
  AttentionCore(const AttentionCore&) = delete;
  AttentionCore& operator=(const AttentionCore&) = delete;
  virtual ~AttentionCore() = default;
  virtual void forward(BlockBuilder&, const AttentionOperands&) = 0;
  virtual void backward(BlockBuilder&, const AttentionOperands&) = 0;
};

/// Tokens and heads that a kernel sees on one rank.
struct HeadShape {
  std::uint64_t tokens = 0;
  std::uint32_t heads = 0, kv_heads = 0;
};
[[nodiscard]] HeadShape local_heads(const State&);  ///< of a layer's packed projections
[[nodiscard]] Kernel attention_kernel(const State&, const HeadShape&, KernelKind, Pass);
/// Gives `heads` their copies of keys and values, or takes those of gradients together, in `parts` parts of `width`
/// columns (share_heads_forward and share_heads_backward).
[[nodiscard]] Kernel sharing_kernel(const State&, const HeadShape& heads, Pass, std::uint64_t parts,
                                    std::uint64_t width);

/// The same kernel with what the model makes of scores in layers of a kind: which keys are seen, scale, cap and slopes.
[[nodiscard]] Kernel scoring_kernel(const State&, const HeadShape&, const LayerKind&, KernelKind, Pass);
/// The same where keys are brought to the rank's queries, with attention dropout where the workload has some.
[[nodiscard]] Kernel brought_kernel(const State&, const LayerKind&, KernelKind, Pass);
/// Sets the kernel's pairs of query and key, of the busiest rank and the mean over ranks. The keys are those of the
/// rank that `holder` names for each rank of the context axis; null: all.
void count_pairs(const State&, Kernel&, const std::function<std::uint32_t(std::uint32_t rank)>& holder);

/// Gives a forward kernel the sinks of the layer's heads, where the model has them; `operands` are its others.
[[nodiscard]] std::vector<Operand> with_sinks(const State&, const AttentionOperands&, Kernel&,
                                              std::vector<Operand> operands);
/// The gradients of sinks, behind the attention core's backward kernels.
void sinks_backward(const State&, BlockBuilder&, const AttentionOperands&, BufferId lse);

/// Packed projections as a tensor [position, sequence, key-value head, group width].
[[nodiscard]] Shard qkv_shard(const State&, Rows, const AxisList& heads);
/// Keys, each with its value, of this rank's heads: [position, sequence, key-value head, key and value].
[[nodiscard]] Shard pair_shard(const State&, Rows);
[[nodiscard]] std::uint64_t pair_width(const State&);  ///< of one token
/// A buffer of the layer and microbatch that has no place in a global tensor.
BufferId layer_buffer(State&, std::string name, Role, DType, std::uint64_t count);

/// Every rank holds all keys of its heads: the whole sequence on one rank.
[[nodiscard]] std::unique_ptr<AttentionCore> attention_local(State&, const HeadShape&);
/// Positions become heads and back by all-to-all (Jacobs et al., "DeepSpeed Ulysses", 2023).
[[nodiscard]] std::unique_ptr<AttentionCore> attention_ulysses(State&);
/// Keys and values of the whole sequence are gathered (Dubey et al., "The Llama 3 Herd of Models", 2024).
[[nodiscard]] std::unique_ptr<AttentionCore> attention_all_gather(State&);

/// Keys and values go around (Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers", 2023), in one ring
/// or in a ring of rings (Gu et al., "LoongTrain", 2024, section 4.3).
[[nodiscard]] std::unique_ptr<AttentionCore> attention_ring(State&);

/// Keys, then values go around, and scores are kept (Li et al., "Sequence Parallelism", 2021).
[[nodiscard]] std::unique_ptr<AttentionCore> attention_ring_scores(State&);

/// The one that the plan asks for.
[[nodiscard]] std::unique_ptr<AttentionCore> attention_core(State&);

}  // namespace orrery::lowering
