#include "core/program/work_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <variant>

#include "core/program/kernel_table.hpp"
#include "core/program/program.hpp"

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

WorkKind work_kind_of(const Block& block, const Op& op) {
  return std::visit(
      [&](const auto& a) -> WorkKind {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, Compute>) {
          return row_of(block.kernels[a.kernel].kind).work;
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
