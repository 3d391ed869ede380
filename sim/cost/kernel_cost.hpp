#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/program/kernel.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/derivation.hpp"

namespace orrery {

/// A matrix product C[rows, columns] = A[rows, depth] B[depth, columns].
struct GemmShape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t depth = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::uint64_t batch = 1;  ///< products of this shape in one kernel
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

/// Share of the peak that a matrix product reaches with one tile shape.
///
///     e = e0 * wave * tile * K / (K + K0)
///     tiles = ceil(M / Tm) ceil(N / Tn)
///     wave  = tiles / (S ceil(tiles / S))
///     tile  = M N / (tiles Tm Tn)
///
///     (tiles of all products of a batch, M N counted as often)
///
///     M, N, K  rows, columns, depth        Tm, Tn  output tile
///     S        tiles in flight             K0      depth of start and end
///     e0       efficiency when all of these are full
///
/// Source: wave and tile quantisation as NVIDIA describes them in "Matrix
/// Multiplication Background User's Guide" (Deep Learning Performance
/// documentation); the depth term is the pipeline fill of one tile.
/// Leaves out: split-K, clocks under load, caches.
[[nodiscard]] double gemm_efficiency(const GemmShape&, const GemmTile&, std::uint32_t units, double depth_half);

/// The best tile of the list for the shape.  Requires a tile.
[[nodiscard]] double gemm_efficiency(const GemmShape&, const GemmEfficiency&, Derivation* why = nullptr);

/// T = max(flops / (peak * e), bytes / bandwidth): roofline, without launch.
/// Source: Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009.
[[nodiscard]] Seconds roofline_time(Flops work, FlopRate rate, Bytes traffic, Bandwidth bandwidth);

/// The precision whose peak holds for a type. Requires a floating-point type.
[[nodiscard]] Precision precision_of(DType);

/// Prices kernels on one kind of device.
///
/// Each price includes the costs of the training software (SoftwareCosts).
///
/// A kernel with a measured rate costs work / rate (gemm and attention: flops; others: bytes), interpolated over its
/// sizes. Other kernels cost the roofline with the calibration's efficiencies, plus the launch gap. A type for which
/// the device states no peak computes at the peak of the next wider type it has.
///
/// Where `why` is given, it gets the way to the time (derivation.hpp).
class KernelCost {
 public:
  /// `busy` means that other ranks of the same node compute at the same time.
  KernelCost(const DeviceSpec&, const Calibration&, bool busy = false);

  [[nodiscard]] Seconds gemm(const GemmShape&, DType compute, Bytes touched, Derivation* why = nullptr) const;
  /// Includes the bytes of its three operands, each moved once (C of the same type).
  [[nodiscard]] Seconds gemm(const GemmShape&, DType compute) const;
  /// An attention kernel (any of the four kinds).
  [[nodiscard]] Seconds attention(const Kernel&, Bytes touched, Derivation* why = nullptr) const;
  /// A kernel priced by its bytes.
  [[nodiscard]] Seconds bytes(KernelKind, DType compute, Bytes traffic, bool dropout = false,
                              Derivation* why = nullptr) const;
  /// Price of any kernel.
  [[nodiscard]] Seconds kernel(const Kernel&, Bytes touched, Derivation* why = nullptr) const;

 private:
  static constexpr std::size_t dtype_count = 7;
  /// The measured rate; null where there is none.
  [[nodiscard]] const RateTable* gemm_rate(DType, bool transpose_a, bool transpose_b) const;
  /// The measured rate; where there is none with dropout, the one without it.
  [[nodiscard]] const RateTable* rate(KernelKind, DType, bool dropout) const;
  [[nodiscard]] FlopRate peak(DType) const;
  [[nodiscard]] Seconds products(const GemmShape&, DType compute, Bytes touched, Derivation* why) const;
  [[nodiscard]] Seconds expert_products(const Kernel&, Bytes touched, Derivation* why) const;
  [[nodiscard]] Seconds attention_core(const Kernel&, Bytes touched, Derivation* why) const;
  [[nodiscard]] Seconds unfused_attention(const Kernel&, Bytes traffic, Derivation* why) const;
  void tell_roofline(Derivation&, Flops work, Bytes traffic, Seconds time) const;
  void tell_launch(Derivation&) const;

  std::array<FlopRate, dtype_count> peak_{};
  std::array<std::optional<GemmEfficiency>, dtype_count> gemm_;
  std::array<AttentionEfficiency, dtype_count> attention_;
  FlopRate vector_;  ///< of arithmetic beside the tensor cores
  Bandwidth bandwidth_;
  double memory_efficiency_ = 1.0;
  Seconds launch_;  ///< with the software's gap
  double compute_slowdown_ = 1.0;
  double memory_slowdown_ = 1.0;
  SoftwareCosts software_;
  std::vector<RateTable> tables_;
  std::array<std::int16_t, kernel_kind_count * dtype_count * 2> table_of_{};  ///< into tables_, -1: none
  std::array<std::int16_t, 4 * dtype_count> gemm_table_of_{};
};

}  // namespace orrery
