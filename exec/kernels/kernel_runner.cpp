#include "exec/kernels/kernel_runner.hpp"

#include <array>

#include "core/base/diagnostics.hpp"
#include "core/program/kernel_table.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery {
namespace {

using Bodies = std::array<cpu::HostKernel, kernel_kind_count>;

/// One body for every kind.
Bodies all_bodies() {
  Bodies bodies;
  for (const auto topic : {cpu::activation_kernels,     cpu::adafactor_kernels,
                           cpu::adapter_kernels,        cpu::flash_attention_kernels,
                           cpu::part_attention_kernels, cpu::ring_scores_kernels,
                           cpu::sink_attention_kernels, cpu::unfused_attention_kernels,
                           cpu::loss_kernels,           cpu::data_kernels,
                           cpu::dropout_kernels,        cpu::elementwise_kernels,
                           cpu::embedding_kernels,      cpu::expert_row_kernels,
                           cpu::product_kernels,        cpu::latent_heads_kernels,
                           cpu::mixture_kernels,        cpu::norm_kernels,
                           cpu::optimizer_kernels,      cpu::query_key_norm_kernels,
                           cpu::rearranging_kernels,    cpu::rope_kernels,
                           cpu::trust_ratio_kernels,    cpu::base_weight_kernels}) {
    for (const cpu::HostKernel& kernel : topic()) {
      cpu::HostKernel& place = bodies[static_cast<std::size_t>(kernel.kind)];
      ORRERY_ASSERT(place.f32 == nullptr, name_of(kernel.kind));
      place = kernel;
    }
  }
  for (std::size_t kind = 0; kind < bodies.size(); ++kind) {
    ORRERY_ASSERT(bodies[kind].f32 != nullptr, name_of(static_cast<KernelKind>(kind)));
  }
  return bodies;
}

}  // namespace

bool needs_place(const Kernel& k) { return holds(row_of(k.kind).traits.placed, k); }

void run_kernel(const Kernel& kernel, std::span<const Operand> operands, const KernelContext& context) {
  static const Bodies bodies = all_bodies();
  ORRERY_ASSERT(context.scratch != nullptr);
  const cpu::HostKernel& body = bodies[static_cast<std::size_t>(kernel.kind)];
  (kernel.compute == DType::f64 ? body.f64 : body.f32)(kernel, NamedOperands(kernel, operands), context);
}

}  // namespace orrery
