#pragma once

#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// Queries, keys and values of multi-head latent attention (DeepSeek-V2, 2024,
/// section 2.1):
///
///     u   = norm(x W_query_down)        q = u W_query_up    (u = x without query_rank)
///     c   = norm(x W_kv_down)           keys, values = c W_kv_up
///     r   = x W_key_rope                one rotated key for all heads
///
/// Tensor parallelism cuts heads. The weights that make narrow vectors are whole on every rank and work on the rank's
/// rows; sequence parallelism gathers the narrow vectors instead of the stream. On a grid (2D, 2.5D) these weights are
/// cut as the stream's features: the narrow vectors are sums over a row of ranks, whole on each.
class LatentProjections {
 public:
  /// `x`: the norm's output, rows of this rank; `qkv` and its gradient: packed heads.
  LatentProjections(State&, BufferId x, BufferId qkv, BufferId qkv_gradient);

  /// Queries come from the stream itself, so `whole` must be all its rows.
  [[nodiscard]] bool widens_stream() const { return rank_ == 0; }
  /// `of` has a layer's parameters.
  void forward(BlockBuilder&, const Module& of, BufferId whole);
  /// Makes the gradient of x, summed over ranks; weight gradients of products go to `w`.
  void backward(BlockBuilder& b, BlockBuilder& w, const Module& of, BufferId whole);
  [[nodiscard]] BufferId input_gradient() const { return input_gradient_; }

 private:
  /// A narrow vector per token, its norm, and the gradients of both.
  struct Latent {
    std::uint64_t width = 0;
    BufferId raw{}, out{}, stats{}, whole{}, whole_gradient{}, out_gradient{}, raw_gradient{};
    const char *down = nullptr, *norm = nullptr;
  };
  Latent declare(const std::string& name, std::uint64_t width, const char* down, const char* norm);
  void down_forward(BlockBuilder&, const Module& of, const Latent&);
  void down_backward(BlockBuilder& b, BlockBuilder& w, const Module& of, const Latent&, BufferId dx, bool first);
  void to_whole(BlockBuilder&, BufferId part, BufferId whole);
  void to_part(BlockBuilder&, BufferId whole, BufferId part);
  /// On a grid, sums over the row what ranks made from their features, or for their heads.
  void sum_over_row(BlockBuilder&, BufferId partial);
  [[nodiscard]] Product stream_queries(const Module& of) const;
  [[nodiscard]] Kernel heads(KernelKind, Pass) const;

  State& c_;
  std::uint64_t rank_;
  BufferId x_, qkv_, qkv_gradient_;
  Latent query_, kv_;
  BufferId key_{}, key_whole_{}, key_gradient_{}, key_part_{};
  BufferId queries_{}, pairs_{}, queries_gradient_{}, pairs_gradient_{}, stream_gradient_{}, stream_part_{},
      latent_gradient_{}, input_gradient_{};
};

}  // namespace orrery::lowering
