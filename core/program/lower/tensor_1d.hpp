#pragma once

#include "core/program/lower/tensor_grid.hpp"

namespace orrery::lowering {

/// Forward and backward blocks of the embedding, of one layer and of the head, with compute on local shapes and a seam
/// wherever a tensor's layout changes. The tensor algorithm makes products, norms and word tables. The sums of 1D
/// (Shoeybi et al. 2019) and the gathers of sequence parallelism (Korthikanti et al. 2022) stand here, since they lie
/// between the parts of a layer.
///
/// The residual stream "hidden" enters a layer as (hidden, 0) and leaves as (hidden, +1); its gradient is one buffer
/// per microbatch, updated in place. Where the schedule splits backward, the gradient enters as (gradient, +1) and
/// leaves as (gradient, 0): the products' weight gradients are a block of their own, to which layers keep the products'
/// inputs and output gradients. Norms, biases, embedding and head make theirs in the backward block: they are short, or
/// (the head's) would keep the logits.
void build_model(State&);

/// The parts of build_model that have their own files.
void build_layer(State&);
void build_embedding(State&);
void build_head(State&);
/// The layers that bring the stream into each prediction module, and the heads behind them. This and the next four work
/// in 1D alone.
void build_predictions(State&);
void build_prediction_heads(State&);
/// BERT's layer: norms after the residual.
void build_post_norm_layer(State&);
/// Patches of images, and the class token.
void build_patch_embedding(State&);
/// What comes before BERT's product with the word table: a product, gelu and a norm of the stream's rows.
struct HeadTransform {
  BufferId pre{}, act{}, act_gradient{}, pre_gradient{};
  BufferId input{}, input_gradient{};  ///< rows of all features: the stream, or on a grid these workspaces
  AllFeatures gathered, summed;
};
[[nodiscard]] HeadTransform declare_head_transform(State&);
/// act = gelu(hidden W + b)
void head_transform_forward(State&, BlockBuilder&, const HeadTransform&);
/// From the gradient of act to that of hidden.
void head_transform_backward(State&, BlockBuilder&, const HeadTransform&);

}  // namespace orrery::lowering
