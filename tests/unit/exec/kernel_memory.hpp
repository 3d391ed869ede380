#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/kernels/convert.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery::test {

/// An operand with memory of its own.
class Memory {
 public:
  Memory(DType dtype, std::uint64_t count) : dtype_(dtype), count_(count), bytes_(count * size_of(dtype)) {}
  /// Normal numbers of deviation `scale`, keyed by `stream`.
  static Memory random(DType dtype, std::uint64_t count, std::uint64_t stream, double scale = 1.0);
  static Memory of(DType dtype, const std::vector<double>& values);

  [[nodiscard]] double operator[](std::uint64_t i) const {
    double x = 0.0;
    load_elements(dtype_, bytes_.data(), i, 1, &x);
    return x;
  }
  void set(std::uint64_t i, double x) { store_elements(dtype_, bytes_.data(), i, 1, &x); }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Operand operand(bool accumulate = false) { return {bytes_.data(), dtype_, count_, accumulate, {}}; }
  friend bool operator==(const Memory&, const Memory&) = default;

 private:
  DType dtype_;
  std::uint64_t count_;
  std::vector<std::byte> bytes_;
};

/// An operand of i32.
[[nodiscard]] Memory whole_numbers(const std::vector<std::int32_t>&);

/// max |a - b| / max(max |b|, least).
[[nodiscard]] double error(const Memory& a, const Memory& b, double least = 0.0);

/// Runs a kernel with a context of its own.
void run(const Kernel&, std::vector<Operand> operands, KernelContext context = {});

/// A kernel with arithmetic in f64, or in f32 from storage of type `t`.
[[nodiscard]] Kernel kernel(KernelKind, DType t, std::uint64_t rows, std::uint64_t columns, std::uint64_t depth = 0);

/// A few roundings to the type, for comparisons with results in double: 100 units in the last place for f64 and f32
/// (sums of up to some hundred terms), and 4 for 16-bit storage, whose arithmetic is in f32.
[[nodiscard]] double tolerance(DType);

}  // namespace orrery::test
