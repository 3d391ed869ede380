#include "core/record/work_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <variant>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

std::string plain(std::string_view text, bool keep_lines) {
  std::string out;
  for (const char c : text) {
    if (c == '_' && !keep_lines) continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool holds_any(const std::string& text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string::npos; });
}

/// The kind of transfer for a name without its lines: "allgatherbase", "nccldevkernelallreducesumbf16ringll".
WorkKind transfer_of(const std::string& name) {
  if (holds_any(name, {"alltoall"})) return WorkKind::all_to_all;
  if (holds_any(name, {"allreduce"})) return WorkKind::all_reduce;
  if (holds_any(name, {"allgather"})) return WorkKind::all_gather;
  if (holds_any(name, {"reducescatter"})) return WorkKind::reduce_scatter;
  if (holds_any(name, {"broadcast"})) return WorkKind::broadcast;
  if (holds_any(name, {"barrier"})) return WorkKind::barrier;
  if (holds_any(name, {"send", "recv"})) return WorkKind::exchange;
  if (holds_any(name, {"reduce"})) return WorkKind::reduce;
  return WorkKind::collective;
}

}  // namespace

std::string_view name_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::gemm: return "gemm";
    case WorkKind::attention: return "attention";
    case WorkKind::norm: return "norm";
    case WorkKind::embedding: return "embedding";
    case WorkKind::loss: return "loss";
    case WorkKind::optimizer: return "optimizer";
    case WorkKind::elementwise: return "elementwise and other";
    case WorkKind::all_reduce: return "all_reduce";
    case WorkKind::reduce: return "reduce";
    case WorkKind::broadcast: return "broadcast";
    case WorkKind::all_gather: return "all_gather";
    case WorkKind::reduce_scatter: return "reduce_scatter";
    case WorkKind::all_to_all: return "all_to_all";
    case WorkKind::barrier: return "barrier";
    case WorkKind::collective: return "collective";
    case WorkKind::exchange: return "exchange";
    case WorkKind::copy: return "copy";
  }
  return "";
}

bool is_collective(WorkKind kind) { return kind >= WorkKind::all_reduce && kind <= WorkKind::collective; }
bool is_transfer(WorkKind kind) { return kind >= WorkKind::all_reduce; }

WorkKind work_kind_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::gemm:
    case KernelKind::expert_gemm: return WorkKind::gemm;
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::latent_heads_forward:
    case KernelKind::latent_heads_backward:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward:
    case KernelKind::attention_merge:
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_softmax_forward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward:
    case KernelKind::attention_softmax_backward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_pairs_backward: return WorkKind::attention;
    case KernelKind::layer_norm_forward:
    case KernelKind::layer_norm_backward_input:
    case KernelKind::layer_norm_backward_weight:
    case KernelKind::rms_norm_forward:
    case KernelKind::rms_norm_backward_input:
    case KernelKind::rms_norm_backward_weight:
    case KernelKind::norm_sums:
    case KernelKind::norm_squares:
    case KernelKind::norm_gradient_sums: return WorkKind::norm;
    case KernelKind::embed_forward:
    case KernelKind::embed_backward:
    case KernelKind::position_forward:
    case KernelKind::position_backward:
    case KernelKind::segment_forward:
    case KernelKind::segment_backward:
    case KernelKind::class_token_forward:
    case KernelKind::class_token_backward: return WorkKind::embedding;
    case KernelKind::cross_entropy_max:
    case KernelKind::cross_entropy_sum:
    case KernelKind::cross_entropy_loss:
    case KernelKind::cross_entropy_backward:
    case KernelKind::mean_loss:
    case KernelKind::add_losses: return WorkKind::loss;
    case KernelKind::sum_squares:
    case KernelKind::clip_factor:
    case KernelKind::advance_step:
    case KernelKind::sgd_update:
    case KernelKind::adam_update:
    case KernelKind::lamb_moments:
    case KernelKind::lamb_update:
    case KernelKind::lars_norms:
    case KernelKind::lars_update:
    case KernelKind::adafactor_squares:
    case KernelKind::adafactor_moments:
    case KernelKind::adafactor_update: return WorkKind::optimizer;
    case KernelKind::load_tokens:
    case KernelKind::load_targets:
    case KernelKind::load_segments:
    case KernelKind::load_patches:
    case KernelKind::count_targets:
    case KernelKind::fill:
    case KernelKind::initialize:
    case KernelKind::initialize_scale:
    case KernelKind::bias_forward:
    case KernelKind::bias_backward:
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::pack_keys_values:
    case KernelKind::unpack_gradients:
    case KernelKind::split_keys_values:
    case KernelKind::swap_blocks:
    case KernelKind::add_to:
    case KernelKind::convert:
    case KernelKind::gelu_forward:
    case KernelKind::gelu_backward:
    case KernelKind::swiglu_forward:
    case KernelKind::swiglu_backward:
    case KernelKind::route_tokens:
    case KernelKind::choose_experts:
    case KernelKind::route_choices:
    case KernelKind::gates_forward:
    case KernelKind::gates_backward:
    case KernelKind::dispatch_forward:
    case KernelKind::dispatch_backward:
    case KernelKind::combine_forward:
    case KernelKind::combine_backward:
    case KernelKind::residual_forward:
    case KernelKind::dropout_forward:
    case KernelKind::dropout_backward: return WorkKind::elementwise;
  }
  return WorkKind::elementwise;
}

WorkKind work_kind_of(const Block& block, const Op& op) {
  return std::visit(
      [&](const auto& a) -> WorkKind {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, Compute>) {
          return work_kind_of(block.kernels[a.kernel].kind);
        } else if constexpr (std::is_same_v<T, Collective>) {
          switch (a.kind) {
            case Collective::Kind::all_reduce: return WorkKind::all_reduce;
            case Collective::Kind::reduce: return WorkKind::reduce;
            case Collective::Kind::broadcast: return WorkKind::broadcast;
            case Collective::Kind::all_gather: return WorkKind::all_gather;
            case Collective::Kind::reduce_scatter: return WorkKind::reduce_scatter;
            case Collective::Kind::all_to_all: return WorkKind::all_to_all;
            case Collective::Kind::barrier: return WorkKind::barrier;
            case Collective::Kind::permute: return WorkKind::exchange;  // a ring of sends and receives
          }
          return WorkKind::collective;
        } else if constexpr (std::is_same_v<T, Exchange>) {
          return WorkKind::exchange;
        } else {
          static_assert(std::is_same_v<T, Copy> || std::is_same_v<T, Alloc> || std::is_same_v<T, Free>);
          return WorkKind::copy;
        }
      },
      op.action);
}

WorkKind work_kind_of_kernel(std::string_view name, std::string_view collective) {
  std::string lower = plain(name, true);
  // PyTorch names its elementwise kernels by lambdas, which are no LAMB.
  for (std::size_t at = 0; (at = lower.find("lambda", at)) != std::string::npos;) lower.erase(at, 6);
  if (holds_any(lower, {"nccl", "rccl"})) {
    const WorkKind named = transfer_of(plain(collective, false));
    return named != WorkKind::collective ? named : transfer_of(plain(name, false));
  }
  // Attention before gemm: its kernels are made of products and say so.
  if (holds_any(lower, {"flash", "fmha", "attention", "attn", "sdpa"})) return WorkKind::attention;
  if (holds_any(lower, {"cross_entropy", "crossentropy", "logsoftmax", "log_softmax", "nll_loss"})) {
    return WorkKind::loss;
  }
  if (holds_any(lower, {"softmax"})) return WorkKind::attention;
  if (holds_any(lower, {"layer_norm", "layernorm", "rms_norm", "rmsnorm", "group_norm", "batch_norm", "ln_fwd",
                        "ln_bwd", "gammabeta"})) {
    return WorkKind::norm;
  }
  if (holds_any(lower, {"adam", "lamb", "multi_tensor_apply", "multitensorapply", "sgd", "l2norm"})) {
    return WorkKind::optimizer;
  }
  if (holds_any(lower, {"embedding"})) return WorkKind::embedding;
  // nvjet: cuBLAS on Hopper and later; Cijk: Tensile's, on AMD; split-K reductions belong to their product.
  if (holds_any(lower, {"gemm", "gemv", "cutlass", "nvjet", "xmma", "cijk", "splitk", "cublas"})) return WorkKind::gemm;
  return WorkKind::elementwise;
}

}  // namespace orrery
