#pragma once

#include <span>

#include "core/base/diagnostics.hpp"
#include "core/program/kernel_table.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery {

/// Operands of one kernel call by what they are to it, as the kernel's row names them.
class NamedOperands {
 public:
  NamedOperands(const Kernel& k, std::span<const Operand> all) : all_(all), places_(k, all.size()) {}

  /// Requires that the kernel has it.
  [[nodiscard]] const Operand& operator[](OperandName name) const {
    ORRERY_ASSERT(places_[name] < all_.size(), name_of(name));
    return all_[places_[name]];
  }
  /// Null where it has none.
  [[nodiscard]] const Operand* find(OperandName name) const {
    return places_[name] < all_.size() ? &all_[places_[name]] : nullptr;
  }
  /// An operand that stands any number of times.
  [[nodiscard]] std::span<const Operand> all(OperandName name) const {
    return all_.subspan(places_[name], places_.extra() + 1);
  }

 private:
  std::span<const Operand> all_;
  OperandPlaces places_;
};

}  // namespace orrery
