#pragma once

#include "exec/kernels/cpu/operand_access.hpp"

/// One function per kernel of core/program/kernel.hpp, which states operands
/// and layouts.  T is the type of the arithmetic: double for f64, else float.
/// Defined for both.
namespace orrery::cpu {

// data.cpp
void load_tokens(const Kernel&, Operands, const KernelContext&);
void load_targets(const Kernel&, Operands, const KernelContext&);
void load_segments(const Kernel&, Operands, const KernelContext&);
void load_patches(const Kernel&, Operands, const KernelContext&);
void count_targets(const Kernel&, Operands, const KernelContext&);
void fill(Operands);
void initialize(Operands, const KernelContext&);

// embedding.cpp
template <class T>
void embed_forward(const Kernel&, Operands);
template <class T>
void embed_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void position_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void position_backward(const Kernel&, Operands, KernelScratch&);

template <class T>
void segment_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void segment_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void class_token_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void class_token_backward(const Kernel&, Operands, KernelScratch&);

// norm.cpp; rms has no mean and no beta
template <class T>
void norm_forward(const Kernel&, Operands, bool rms, KernelScratch&);
template <class T>
void norm_backward_input(const Kernel&, Operands, bool rms, KernelScratch&);
template <class T>
void norm_backward_weight(const Kernel&, Operands, bool rms, KernelScratch&);

template <class T>
void norm_sums(const Kernel&, Operands, KernelScratch&);
template <class T>
void norm_squares(const Kernel&, Operands, KernelScratch&);
template <class T>
void norm_gradient_sums(const Kernel&, Operands, KernelScratch&);

// gemm.cpp
template <class T>
void gemm(const Kernel&, Operands, KernelScratch&);

// attention_unfused.cpp, attention_flash.cpp, attention_part.cpp
template <class T>
void attention_unfused_forward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_unfused_backward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_flash_forward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_flash_backward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_part_forward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_part_backward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_merge(const Kernel&, Operands, KernelScratch&);

// attention_ring_scores.cpp
template <class T>
void attention_scores_forward(const Kernel&, Operands, const KernelContext&);
template <class T>
void attention_softmax_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void attention_values_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void attention_values_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void attention_softmax_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void attention_scores_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void attention_pairs_backward(const Kernel&, Operands, KernelScratch&);

// rope.cpp
template <class T>
void rope(const Kernel&, Operands, bool backward, KernelScratch&);

// latent_heads.cpp
template <class T>
void latent_heads_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void latent_heads_backward(const Kernel&, Operands, KernelScratch&);

// rearrange.cpp
void swap_blocks(const Kernel&, Operands);
void pack_keys_values(const Kernel&, Operands);
void split_keys_values(const Kernel&, Operands);
template <class T>
void add_to(Operands);
template <class T>
void convert_to(Operands);
template <class T>
void unpack_gradients(const Kernel&, Operands, KernelScratch&);

// elementwise.cpp
template <class T>
void bias_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void bias_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void gelu_forward(Operands);
template <class T>
void gelu_backward(Operands);
template <class T>
void swiglu_forward(const Kernel&, Operands);
template <class T>
void swiglu_backward(const Kernel&, Operands);

// mixture.cpp
void route_tokens(const Kernel&, Operands, const KernelContext&);
template <class T>
void choose_experts(const Kernel&, Operands, KernelScratch&);
void route_choices(const Kernel&, Operands, const KernelContext&);
template <class T>
void gates_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void gates_backward(const Kernel&, Operands, const KernelContext&);
void dispatch_forward(const Kernel&, Operands);
template <class T>
void dispatch_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void combine_forward(const Kernel&, Operands, KernelScratch&);
template <class T>
void combine_backward(const Kernel&, Operands, KernelScratch&);
template <class T>
void expert_gemm(const Kernel&, Operands, KernelScratch&);

// dropout.cpp
template <class T>
void residual_forward(const Kernel&, Operands, const KernelContext&);
template <class T>
void dropout_forward(const Kernel&, Operands, const KernelContext&);
template <class T>
void dropout_backward(const Kernel&, Operands);

// cross_entropy.cpp
template <class T>
void cross_entropy_max(const Kernel&, Operands, KernelScratch&);
template <class T>
void cross_entropy_sum(const Kernel&, Operands, KernelScratch&);
void cross_entropy_loss(const Kernel&, Operands);
template <class T>
void cross_entropy_backward(const Kernel&, Operands, KernelScratch&);
void mean_loss(Operands);
void add_losses(const Kernel&, Operands);

// optimizer.cpp
void initialize_scale(Operands, const KernelContext&);
template <class T>
void sum_squares(const Kernel&, Operands);
void clip_factor(const Kernel&, Operands, const KernelContext&);
void advance_step(const Kernel&, Operands);
template <class T>
void sgd_update(const Kernel&, Operands, const KernelContext&);
template <class T>
void adam_update(const Kernel&, Operands, const KernelContext&);

// adafactor.cpp
template <class T>
void adafactor_squares(const Kernel&, Operands, const KernelContext&);
template <class T>
void adafactor_moments(const Kernel&, Operands, const KernelContext&);
template <class T>
void adafactor_update(const Kernel&, Operands, const KernelContext&);

// trust_ratio.cpp
template <class T>
void lamb_moments(const Kernel&, Operands, const KernelContext&);
template <class T>
void lamb_update(const Kernel&, Operands, const KernelContext&);
template <class T>
void lars_norms(const Kernel&, Operands, const KernelContext&);
template <class T>
void lars_update(const Kernel&, Operands, const KernelContext&);

}  // namespace orrery::cpu
