#pragma once

#include <cstdint>
#include <functional>

#include "exec/kernels/cuda/cudnn/attention_shape.hpp"
#include "exec/kernels/device/part_rows.hpp"

/// Attention on brought keys, by calls of a library that knows neither parts nor sums in f32.
namespace orrery::cudnn {

/// A call of the library.
using Attend = std::function<void(const AttentionShape&, const AttentionOperands&)>;

/// A kernel attention_part_forward or attention_part_backward as calls for its bands. Results that the library cannot
/// write where they belong, those that are not of its type or are added to others, lie in memory of the kernel's own
/// first; so do keys that do not lie in order, and row sums of some queries, which the library has without gaps.
class PartAttention {
 public:
  /// Requires that why_not has no reason.
  PartAttention(const Kernel&, const NamedOperands&, AttentionBands);

  [[nodiscard]] const AttentionBands& bands() const { return bands_; }
  [[nodiscard]] AttentionShape shape(const Band& b) const { return attention_shape(kernel_, type_, b); }
  /// Bytes of memory of its own, which begins at a multiple of 256 bytes.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  void run(const Attend&, device::AroundLibrary&, std::byte* memory) const;

 private:
  /// Rows of an operand [position, ...] for the queries or keys, and where the library leaves them.
  struct Result {
    const Operand* operand = nullptr;
    std::uint64_t row = 0;     ///< elements of a position
    bool direct = false;       ///< in the operand
    std::uint64_t offset = 0;  ///< else here in the memory
  };
  [[nodiscard]] Result result(OperandName, std::uint64_t positions, std::uint64_t row, bool direct);
  [[nodiscard]] std::byte* at(const Result&, std::byte* memory, std::int64_t position) const;
  [[nodiscard]] device::Elements rows(const Result&, std::int64_t position) const;
  [[nodiscard]] bool is_whole(const Band& b) const { return b.queries == positions_; }
  [[nodiscard]] device::MovedSums::Rows sums(std::int64_t position) const;
  [[nodiscard]] device::MovedSums::Rows sums_of(const Band&, std::byte* memory) const;
  void order_keys(device::AroundLibrary&, std::byte* memory) const;
  [[nodiscard]] AttentionOperands operands(const Band&, std::byte* memory) const;
  void finish_queries(device::AroundLibrary&, std::byte* memory) const;
  void add_keys(device::AroundLibrary&, const Band&, std::byte* memory) const;

  const Kernel& kernel_;
  const NamedOperands& operands_;
  AttentionBands bands_;
  DType type_;
  bool backward_;
  std::int64_t positions_, keys_;
  std::uint64_t heads_;  ///< of all sequences
  std::uint64_t query_row_, key_row_, context_row_;
  std::uint64_t bytes_ = 0, ordered_ = 0, sums_ = 0;
  Result of_queries_, of_keys_;
};

}  // namespace orrery::cudnn
