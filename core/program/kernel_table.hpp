#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/program/kernel.hpp"
#include "core/program/op.hpp"
#include "core/program/operand_name.hpp"
#include "core/program/work_kind.hpp"

// All that is known of a kernel but its body (exec/kernels) and its price (sim/cost): one row for each kind.  Text,
// `verify`, counts, prices, the executor and its bodies read the rows.  How to add one: docs/extending.md.
namespace orrery {

/// When a kernel has an operand, or a property: always, or with an option of the same name.
enum class When : std::uint8_t {
  always,
  never,
  bias,
  dropout,
  factor,
  master,
  momentum,
  scaled,
  cut,
  centered,
  loads,
  residual,
  no_residual,
  sinks,
  dropout_or_alibi,
  weighted,  ///< norms: not unweighted
  biased,    ///< norms: neither unbiased nor unweighted
  depth      ///< where it is not 0
};
[[nodiscard]] bool holds(When, const Kernel&);

/// One operand of a kernel.
struct OperandRow {
  /// Elements by the kernel's shapes; a double cannot overflow, and views are below 2^53.
  using Elements = double (*)(const Kernel&);
  OperandName name{};
  View::Use use = View::Use::read;
  Elements elements = nullptr;  ///< null: any number
  When when = When::always;
  bool adds = false;     ///< written or added to, as the view says
  bool repeats = false;  ///< stands any number of times, at least once
};

/// Operands in the order of an op's views.
class OperandList {
 public:
  constexpr OperandList() = default;
  constexpr OperandList(std::initializer_list<OperandRow> rows) {
    for (const OperandRow& row : rows) add(row);
  }
  constexpr void add(const OperandRow& row) { rows_[size_++] = row; }
  [[nodiscard]] constexpr const OperandRow* begin() const { return rows_.data(); }
  [[nodiscard]] constexpr const OperandRow* end() const { return rows_.data() + size_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr const OperandRow& operator[](std::size_t i) const { return rows_[i]; }

 private:
  std::array<OperandRow, 8> rows_{};
  std::size_t size_ = 0;
};

/// By which formula a kernel's FLOPs are counted.
enum class Arithmetic : std::uint8_t {
  none,  ///< not counted by convention, priced by bytes
  product,
  adapter_product,
  expert_product,
  attention_forward,  ///< of whole sequences
  attention_backward,
  flash_backward,  ///< makes the scores again
  part_forward,    ///< of this rank's queries on keys that were brought to it
  part_backward,
  key_scores,  ///< for each pair of query and key a product as wide as a key, as a value, as both
  value_scores,
  pair_scores
};

struct KernelTraits {
  Arithmetic arithmetic = Arithmetic::none;
  bool parameters = false;    ///< passes over whole parameters, gradients or their states, in the optimizer
  bool gpu = false;           ///< has a body for GPUs (exec/kernels/device)
  When placed = When::never;  ///< what it writes depends on where its operands lie in their global tensors
};

struct KernelRow {
  KernelKind kind{};
  std::string_view word;
  WorkKind work{};
  OperandList operands;
  KernelTraits traits;
};
[[nodiscard]] const KernelRow& row_of(KernelKind);

/// The operands that a kernel with these options has.
[[nodiscard]] OperandList operands_of(const Kernel&);

/// Attention of whole sequences in one kernel, which measured rates are kept for.
[[nodiscard]] bool is_whole_attention(KernelKind);

/// Where the operands of a kernel stand among the views of its op.
class OperandPlaces {
 public:
  static constexpr std::uint16_t absent = 0xffff;
  /// Requires as many views as the kernel takes.
  OperandPlaces(const Kernel&, std::size_t views);
  /// How many more views there are than operands: one of these stands so many times more.
  [[nodiscard]] std::size_t extra() const { return extra_; }
  /// `absent` where the kernel has no such operand; the first of one that repeats.
  [[nodiscard]] std::uint16_t operator[](OperandName name) const { return places_[static_cast<std::size_t>(name)]; }

 private:
  std::array<std::uint16_t, operand_name_count> places_;
  std::size_t extra_;
};

}  // namespace orrery
