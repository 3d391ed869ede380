#pragma once

#include <cstdint>
#include <string_view>

#include "core/program/op.hpp"

namespace orrery {

/// Kinds of work that apply both to the operations of a Program and to the kernels of another training program. They
/// are coarser than Operation: a library fuses and splits what a Program names one by one, and the names of its kernels
/// do not tell the pass.
enum class WorkKind : std::uint8_t {
  gemm,
  attention,
  norm,
  embedding,
  loss,
  optimizer,
  elementwise,  ///< and all other computing
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  barrier,
  collective,  ///< whose kind nothing tells
  exchange,
  copy
};
inline constexpr std::size_t work_kind_count = 17;

[[nodiscard]] std::string_view name_of(WorkKind);
[[nodiscard]] bool is_collective(WorkKind);
/// Whether the kind runs beside computing: collectives, exchanges, copies.
[[nodiscard]] bool is_transfer(WorkKind);

/// The kind of an op that takes time (is_timed).
[[nodiscard]] WorkKind work_kind_of(const Block&, const Op&);

/// The kind by a GPU kernel's name, as CUPTI and roctracer give it ("ampere_bf16_s16816gemm_...",
/// "flash_fwd_kernel<...>"). For kernels of NCCL and RCCL it goes by what the caller named the collective
/// ("_allgather_base"), where that is known: their all-to-all is a kernel of sends and receives, and newer kernels of
/// several kinds share a name.
[[nodiscard]] WorkKind work_kind_of_kernel(std::string_view name, std::string_view collective);

}  // namespace orrery
