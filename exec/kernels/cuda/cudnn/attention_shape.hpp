#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "exec/kernels/cuda/cudnn/attention_bands.hpp"
#include "exec/kernels/named_operands.hpp"

/// Flash attention as cuDNN is asked for it. Nothing here needs cuDNN or CUDA.
namespace orrery::cudnn {

/// A tensor [batch, heads, positions, features], or a part of one, within an operand.
struct Strided {
  std::array<std::int64_t, 4> size{}, stride{};  ///< in elements
  std::int64_t first = 0;                        ///< the operand's element that is its first

  [[nodiscard]] std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return first + b * stride[0] + h * stride[1] + i * stride[2] + c * stride[3];
  }
  auto operator<=>(const Strided&) const = default;
};

/// One call of attention. A *pair* is a sequence and a key head: cuDNN's batch. Packed projections are qkv[position,
/// sequence, key head, group + 2, features], so pairs lie a group's width apart, whatever sequence they are of; the
/// heads of a pair are its group's queries, and it has one head of keys and one of values. Keys that were brought to
/// their queries lie apart, kv[position, sequence, key head, key and value].
struct AttentionShape {
  DType type = DType::bf16;
  bool backward = false;
  bool brought = false;        ///< keys and values, from another rank
  bool causal = false;         ///< the last query sees the last key, and each before it one less than the next
  std::int64_t all_pairs = 0;  ///< of the operands
  std::int64_t pairs = 0;      ///< of one call, which divides all_pairs
  std::int64_t group = 0, length = 0, dim = 0, value = 0;
  std::int64_t keys_length = 0;  ///< at least `length` where causal
  std::int64_t window = 0;       ///< positions that a query looks back, its own among them; 0: all
  double scale = 0.0;            ///< of scores
  auto operator<=>(const AttentionShape&) const = default;

  [[nodiscard]] std::int64_t group_width() const { return (group + 1) * dim + value; }
  [[nodiscard]] std::int64_t calls() const { return all_pairs / pairs; }

  // Parts of the projections, or of their gradients, for the call's first pair. Those of the next lie stride[0] on.
  [[nodiscard]] Strided queries() const { return part(group, length, dim, group_width(), 0); }
  [[nodiscard]] Strided keys() const { return key_part(dim, 0); }
  [[nodiscard]] Strided values() const { return key_part(value, dim); }
  /// Gradients of queries whose keys were brought are dq[position, sequence, head, features].
  [[nodiscard]] Strided query_gradients() const {
    return brought ? part(group, length, dim, group * dim, 0) : queries();
  }
  /// The contexts or their gradients are [position, sequence, head, features].
  [[nodiscard]] Strided context() const {
    const std::int64_t width = group * value;
    return {{pairs, group, length, value}, {width, value, all_pairs * width, 1}, 0};
  }
  /// The rows' logarithms of sums of exponentials are [sequence, head, position]. cuDNN's and ours are the same: the
  /// natural logarithm, with the scores' scale and largest score in it.
  [[nodiscard]] Strided row_sums() const { return {{pairs, group, length, 1}, {group * length, length, 1, 1}, 0}; }

 private:
  /// Some heads of a pair's columns, of which a row of the operand has `of_pair` for each pair.
  [[nodiscard]] Strided part(std::int64_t heads, std::int64_t positions, std::int64_t width, std::int64_t of_pair,
                             std::int64_t column) const {
    return {{pairs, heads, positions, width}, {of_pair, width, all_pairs * of_pair, 1}, column};
  }
  [[nodiscard]] Strided key_part(std::int64_t width, std::int64_t column) const {
    return part(1, keys_length, width, brought ? dim + value : group_width(), column + (brought ? 0 : group * dim));
  }
};

/// Where the operands of a call lie.
struct AttentionOperands {
  const std::byte* queries = nullptr;
  const std::byte* keys = nullptr;  ///< with their values; where these are packed beside queries, the same
  std::byte* context = nullptr;
  std::byte* row_sums = nullptr;
  const std::byte* dcontext = nullptr;  ///< of a backward pass, and the next
  std::byte* dqueries = nullptr;
  std::byte* dkeys = nullptr;  ///< with those of values
};

/// Most bytes of a deterministic backward pass's gradients of scores, which cuDNN keeps in memory on Hopper. So many
/// pairs go into a call as stay below. This is room of a kernel's own beside a plan's memory, so it is small beside a
/// GPU's; a sequence of 8192 with 4 queries for a key just fits.
inline constexpr std::uint64_t most_score_bytes = std::uint64_t{512} << 20;

/// Bytes of scores' gradients of one pair: 16 bits each, for whole tiles of 64 queries and 128 keys.
/// Source: NVIDIA's cudnn-frontend 1.32, node/scaled_dot_product_flash_attention.h ("dP workspace").
[[nodiscard]] inline std::uint64_t score_bytes(std::int64_t group, std::int64_t length, std::int64_t keys) {
  const auto whole = [](std::int64_t n, std::int64_t tile) {
    return static_cast<std::uint64_t>((n + tile - 1) / tile * tile);
  };
  return 2 * static_cast<std::uint64_t>(group) * whole(length, 64) * whole(keys, 128);
}

/// Requires a kernel of flash attention; `type` is that of its projections. A backward call has the most pairs that
/// divide all of them and keep score_bytes below most_score_bytes, and at least one.
[[nodiscard]] AttentionShape attention_shape(const Kernel&, DType type);
/// The same for a band of a kernel of attention on brought keys.
[[nodiscard]] AttentionShape attention_shape(const Kernel&, DType type, const Band&);

/// Why cuDNN does not serve this kernel of flash attention, or of attention on brought keys, on a GPU of this compute
/// capability (90: Hopper) as ours does; null where it may. The rule looks at no data, so that all ranks and runs
/// choose alike.
[[nodiscard]] const char* why_not(const Kernel&, const NamedOperands&, int capability);

}  // namespace orrery::cudnn
