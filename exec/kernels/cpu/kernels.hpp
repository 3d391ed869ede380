#pragma once

#include <span>

#include "exec/kernels/cpu/operand_access.hpp"

/// Bodies of the kernels on the host, those of a topic in one source.
namespace orrery::cpu {

/// A kernel's body for arithmetic in f32, and for f64.
struct HostKernel {
  using Body = void (*)(const Kernel&, const Operands&, const KernelContext&);
  KernelKind kind{};
  Body f32 = nullptr;
  Body f64 = nullptr;
};

[[nodiscard]] std::span<const HostKernel> activation_kernels();
[[nodiscard]] std::span<const HostKernel> adafactor_kernels();
[[nodiscard]] std::span<const HostKernel> adapter_kernels();
[[nodiscard]] std::span<const HostKernel> base_weight_kernels();
[[nodiscard]] std::span<const HostKernel> flash_attention_kernels();
[[nodiscard]] std::span<const HostKernel> part_attention_kernels();
[[nodiscard]] std::span<const HostKernel> sink_attention_kernels();
[[nodiscard]] std::span<const HostKernel> ring_scores_kernels();
[[nodiscard]] std::span<const HostKernel> unfused_attention_kernels();
[[nodiscard]] std::span<const HostKernel> loss_kernels();
[[nodiscard]] std::span<const HostKernel> data_kernels();
[[nodiscard]] std::span<const HostKernel> dropout_kernels();
[[nodiscard]] std::span<const HostKernel> elementwise_kernels();
[[nodiscard]] std::span<const HostKernel> embedding_kernels();
[[nodiscard]] std::span<const HostKernel> expert_row_kernels();
[[nodiscard]] std::span<const HostKernel> product_kernels();
[[nodiscard]] std::span<const HostKernel> latent_heads_kernels();
[[nodiscard]] std::span<const HostKernel> mixture_kernels();
[[nodiscard]] std::span<const HostKernel> norm_kernels();
[[nodiscard]] std::span<const HostKernel> optimizer_kernels();
[[nodiscard]] std::span<const HostKernel> query_key_norm_kernels();
[[nodiscard]] std::span<const HostKernel> rearranging_kernels();
[[nodiscard]] std::span<const HostKernel> rope_kernels();
[[nodiscard]] std::span<const HostKernel> trust_ratio_kernels();

}  // namespace orrery::cpu
