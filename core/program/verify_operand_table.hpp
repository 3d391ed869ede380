#pragma once

#include <string_view>
#include <vector>

#include "core/program/kernel.hpp"
#include "core/program/op.hpp"

namespace orrery::verifying {

/// One operand as kernel.hpp lists it.
struct ExpectedOperand {
  std::string_view name;
  View::Use use;
  double elements;  ///< number from the shapes, below 0: any; a double cannot overflow, and views are below 2^53
};

/// The operand table of kernel.hpp, written a second time on purpose: the two must agree.
class KernelTable {
 public:
  explicit KernelTable(const Kernel& k) : k_(k) { fill(); }

  [[nodiscard]] const std::vector<ExpectedOperand>& operands() const { return operands_; }
  /// The last operand may stand any number of times (for fill, initialize and sum_squares: the first one).
  [[nodiscard]] bool repeats() const { return repeats_; }

 private:
  void r(std::string_view name, double n) { operands_.push_back({name, View::Use::read, n}); }
  void w(std::string_view name, double n) { operands_.push_back({name, View::Use::write, n}); }
  void a(std::string_view name, double n) { operands_.push_back({name, View::Use::accumulate, n}); }
  /// The input gradient of a norm is added to itself or to the residual stream's.
  void residual(double n) {
    if (!k_.options.residual) return a("dx", n);
    r("residual", n), w("dx", n);
  }
  void fill();
  void attention();  ///< its kernels, in verify_operand_table_attention.cpp
  void optimizer();  ///< in verify_operand_table_optimizer.cpp

  static constexpr double any = -1.0;

  const Kernel& k_;
  std::vector<ExpectedOperand> operands_;
  bool repeats_ = false;
};

}  // namespace orrery::verifying
