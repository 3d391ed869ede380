#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/program/program.hpp"
#include "core/spec/workload.hpp"
#include "exec/calibrate/timing.hpp"
#include "exec/kernels/kernel_runner.hpp"
#include "exec/train/data.hpp"

namespace orrery {

/// One operand of a kernel to be timed.
struct OperandShape {
  DType dtype = DType::f32;
  std::uint64_t count = 0;
  bool accumulate = false;
  bool scalar = false;  ///< counts, norms, factors: holds {1, 0}
  std::optional<Shard> shard;
  friend bool operator==(const OperandShape&, const OperandShape&) = default;
};

/// A kernel with its operands, as a Program would run it on one rank.
struct KernelSample {
  Kernel kernel;
  std::vector<OperandShape> operands;

  /// Bytes of all operands, where those read and written count twice: the same number as touched_bytes of the op.
  [[nodiscard]] std::uint64_t touched() const;
};

/// The distinct kernels of one optimizer step of a single-rank Program.
[[nodiscard]] std::vector<KernelSample> samples_of(const Program&);

/// Times kernels on this thread.
///
/// Every kernel runs over several copies of its operands in turn. Together these are larger than a core's own caches,
/// as the operands of a step's ops are.
class KernelTimer {
 public:
  /// `pool` is the least number of bytes of all copies together.
  KernelTimer(const Program&, const Workload&, std::uint64_t pool = std::uint64_t{8} << 20);
  [[nodiscard]] MeasuredTime time(const KernelSample&, const TimingEffort& = {});

 private:
  Mesh mesh_;
  std::uint32_t microbatches_;
  Workload workload_;
  std::unique_ptr<DataSource> data_;
  KernelScratch scratch_;
  std::uint64_t pool_;
  std::vector<std::byte> memory_;
};

}  // namespace orrery
