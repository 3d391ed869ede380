#include "sim/cost/kernel_cost.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "sim/cost/memory_cost.hpp"

namespace orrery {

double gemm_efficiency(const GemmShape& shape, const GemmTile& tile, std::uint32_t units, double depth_half) {
  ORRERY_ASSERT(tile.rows > 0 && tile.columns > 0 && units > 0, tile.rows, tile.columns, units);
  if (shape.rows == 0 || shape.columns == 0 || shape.depth == 0) return tile.efficiency;
  const std::uint64_t tiles =
      shape.batch * ((shape.rows + tile.rows - 1) / tile.rows) * ((shape.columns + tile.columns - 1) / tile.columns);
  const std::uint64_t waves = (tiles + units - 1) / units;
  const double wave = static_cast<double>(tiles) / (static_cast<double>(waves) * units);
  const double fill = static_cast<double>(shape.batch) * static_cast<double>(shape.rows) *
                      static_cast<double>(shape.columns) / (static_cast<double>(tiles) * tile.rows * tile.columns);
  const auto depth = static_cast<double>(shape.depth);
  return tile.efficiency * wave * fill * depth / (depth + depth_half);
}

double gemm_efficiency(const GemmShape& shape, const GemmEfficiency& of) {
  ORRERY_ASSERT(!of.tiles.empty());
  double best = 0.0;
  for (const GemmTile& tile : of.tiles) best = std::max(best, gemm_efficiency(shape, tile, of.units, of.depth_half));
  return best;
}

Seconds roofline_time(Flops work, FlopRate rate, Bytes traffic, Bandwidth bandwidth) {
  return std::max(work / rate, traffic / bandwidth);
}

Precision precision_of(DType type) {
  switch (type) {
    case DType::f64: return Precision::fp64;
    case DType::f32: return Precision::fp32;
    case DType::bf16: return Precision::bf16;
    case DType::f16: return Precision::fp16;
    case DType::f8: return Precision::fp8;
    case DType::i32:
    case DType::u8: break;
  }
  ORRERY_ASSERT(false, type);
  return Precision::fp32;
}

namespace {

/// The type's own peak, else that of the first in the list that the device has.
FlopRate peak_of(const DeviceSpec& device, DType type) {
  const auto find = [&](Precision p) -> std::optional<FlopRate> {
    const auto at = device.peak.find(p);
    if (at == device.peak.end()) return std::nullopt;
    return at->second;
  };
  if (const auto own = find(precision_of(type))) return *own;
  // A device without fp8 makes the product in the type that its operands are stored in.
  if (type == DType::f8) return peak_of(device, DType::bf16);
  for (const Precision p : {Precision::fp32, Precision::fp64, Precision::fp16, Precision::bf16}) {
    if (const auto other = find(p)) return *other;
  }
  ORRERY_ASSERT(false, device.name);
  return {};
}

bool is_attention(KernelKind kind) {
  return kind == KernelKind::attention_unfused_forward || kind == KernelKind::attention_unfused_backward ||
         kind == KernelKind::attention_flash_forward || kind == KernelKind::attention_flash_backward ||
         kind == KernelKind::attention_part_forward || kind == KernelKind::attention_part_backward;
}

/// A part of the keys is met by the flash kernel: its measured rates hold.
KernelKind measured_as(KernelKind kind) {
  if (kind == KernelKind::attention_part_forward) return KernelKind::attention_flash_forward;
  if (kind == KernelKind::attention_part_backward) return KernelKind::attention_flash_backward;
  return kind;
}

/// Times that a kernel bound by memory passes over its bytes.
double passes(KernelKind kind, const SoftwareCosts& software) {
  switch (kind) {
    case KernelKind::sum_squares:
    case KernelKind::sgd_update:
    case KernelKind::adam_update:
    case KernelKind::lamb_moments:
    case KernelKind::lamb_update:
    case KernelKind::lars_norms:
    case KernelKind::lars_update:
    case KernelKind::adafactor_squares:
    case KernelKind::adafactor_moments:
    case KernelKind::adafactor_update: return software[SoftwareCost::optimizer];
    default: return software[SoftwareCost::memory];
  }
}

std::size_t transposition(bool a, bool b) { return (a ? 2U : 0U) + (b ? 1U : 0U); }

}  // namespace

KernelCost::KernelCost(const DeviceSpec& device, const Calibration& calibration, bool busy)
    : bandwidth_(device.memory_bandwidth),
      memory_efficiency_(calibration.memory_efficiency),
      launch_(calibration.launch),
      compute_slowdown_(busy ? calibration.busy_compute_slowdown : 1.0),
      memory_slowdown_(busy ? calibration.busy_memory_slowdown : 1.0),
      software_(calibration.software) {
  launch_ += Seconds::of(software_[SoftwareCost::kernel_gap]);
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::f8}) {
    peak_[static_cast<std::size_t>(type)] = peak_of(device, type);
  }
  vector_ = peak_[static_cast<std::size_t>(DType::f32)];
  for (const GemmEfficiency& g : calibration.gemm) gemm_[static_cast<std::size_t>(g.compute)] = g;
  // Nobody has measured shapes in fp8: the share of the peak is that of bf16.
  auto& f8 = gemm_[static_cast<std::size_t>(DType::f8)];
  if (!f8) f8 = gemm_[static_cast<std::size_t>(DType::bf16)];
  for (const AttentionEfficiency& a : calibration.attention) attention_[static_cast<std::size_t>(a.compute)] = a;
  table_of_.fill(-1);
  gemm_table_of_.fill(-1);
  for (const KernelRate& k : calibration.kernels) {
    const auto at = static_cast<std::int16_t>(tables_.size());
    tables_.push_back(k.rate);
    const auto type = static_cast<std::size_t>(k.compute);
    if (k.kind == KernelKind::gemm) {
      gemm_table_of_[type * 4 + transposition(k.transpose_a, k.transpose_b)] = at;
    } else {
      table_of_[(static_cast<std::size_t>(k.kind) * dtype_count + type) * 2 + (k.dropout ? 1 : 0)] = at;
    }
  }
}

const RateTable* KernelCost::gemm_rate(DType type, bool transpose_a, bool transpose_b) const {
  const std::int16_t at = gemm_table_of_[static_cast<std::size_t>(type) * 4 + transposition(transpose_a, transpose_b)];
  return at < 0 ? nullptr : &tables_[static_cast<std::size_t>(at)];
}

const RateTable* KernelCost::rate(KernelKind kind, DType type, bool dropout) const {
  const std::size_t place = (static_cast<std::size_t>(kind) * dtype_count + static_cast<std::size_t>(type)) * 2;
  std::int16_t at = table_of_[place + (dropout ? 1 : 0)];
  if (at < 0) at = table_of_[place];
  return at < 0 ? nullptr : &tables_[static_cast<std::size_t>(at)];
}

FlopRate KernelCost::peak(DType type) const { return peak_[static_cast<std::size_t>(type)]; }

Seconds KernelCost::gemm(const GemmShape& s, DType type, Bytes touched) const {
  const bool f8 = type == DType::f8;
  Seconds time = software_[f8 ? SoftwareCost::gemm_f8 : SoftwareCost::gemm] * products(s, type, touched);
  const auto beside = [&](SoftwareCost bytes, std::uint64_t rows, std::uint64_t columns) {
    const double elements = static_cast<double>(s.batch) * static_cast<double>(rows) * static_cast<double>(columns);
    time += memory_time(Bytes::of(software_[bytes] * elements), bandwidth_, memory_efficiency_);
  };
  if (s.transpose_a) {
    beside(SoftwareCost::accumulate, s.rows, s.columns);
  } else if (f8) {
    // Made fp8 once for the product that follows and for the weights' gradient, which reads what this left.
    beside(SoftwareCost::quantize, s.rows, s.depth);
  }
  return launch_ + time;
}

Seconds KernelCost::products(const GemmShape& s, DType type, Bytes touched) const {
  const auto rows = static_cast<double>(s.rows);
  const auto columns = static_cast<double>(s.columns);
  const auto depth = static_cast<double>(s.depth);
  const double flops = 2.0 * rows * columns * depth * static_cast<double>(s.batch);
  const RateTable* measured = gemm_rate(type, s.transpose_a, s.transpose_b);
  double faster = 1.0;
  if (measured == nullptr && type == DType::f8) {
    // As for efficiencies: the share of the peak is that of bf16.
    measured = gemm_rate(DType::bf16, s.transpose_a, s.transpose_b);
    faster = peak(DType::f8).in(peak(DType::bf16));
  }
  if (measured != nullptr) {
    const FlopRate rate = FlopRate::of(faster * interpolate(*measured, rows, columns, depth));
    return compute_slowdown_ * (Flops::of(flops) / rate);
  }
  const auto& of = gemm_[static_cast<std::size_t>(type)];
  const double efficiency = of ? gemm_efficiency(s, *of) : 1.0;
  return compute_slowdown_ *
         roofline_time(Flops::of(flops), efficiency * peak(type), touched, memory_efficiency_ * bandwidth_);
}

Seconds KernelCost::gemm(const GemmShape& s, DType type) const {
  const auto rows = static_cast<double>(s.rows);
  const auto columns = static_cast<double>(s.columns);
  const auto depth = static_cast<double>(s.depth);
  const double elements = (rows * depth + depth * columns + rows * columns) * static_cast<double>(s.batch);
  return gemm(s, type, Bytes::of(elements * static_cast<double>(size_of(type))));
}

Seconds KernelCost::attention(const Kernel& k, Bytes touched) const {
  ORRERY_ASSERT(is_attention(k.kind) && k.batch > 0, k.kind, k.batch);
  return launch_ + software_[SoftwareCost::attention] * attention_core(k, touched);
}

Seconds KernelCost::attention_core(const Kernel& k, Bytes touched) const {
  const KernelFlops flops = flops_of(k);
  const double executed = busiest_flops(k);
  if (const RateTable* measured = rate(measured_as(k.kind), k.compute, k.options.dropout)) {
    const double sequence = static_cast<double>(k.rows) / k.batch;
    return compute_slowdown_ *
           (Flops::of(executed) / FlopRate::of(interpolate(*measured, sequence, static_cast<double>(k.head_dim))));
  }
  const AttentionEfficiency& e = attention_[static_cast<std::size_t>(k.compute)];
  const Bytes traffic = memory_traffic(k, touched);
  const Bandwidth bandwidth = memory_efficiency_ * bandwidth_;
  const double width = k.head_dim;
  const double keys = static_cast<double>(k.depth > 0 ? k.depth : k.rows) / k.batch;
  const double full = width / (width + e.head_half) * (k.options.causal ? keys / (keys + e.sequence_half) : 1.0);
  switch (measured_as(k.kind)) {
    case KernelKind::attention_flash_forward:
      return roofline_time(Flops::of(executed), full * e.forward_efficiency * peak(k.compute), traffic, bandwidth);
    case KernelKind::attention_flash_backward:
      return roofline_time(Flops::of(executed), full * e.backward_efficiency * peak(k.compute), traffic, bandwidth);
    default: {
      // Separate kernels, one after the other: products over the whole square, then
      // passes over the matrix.  Batched products use the plain GEMM efficiency.
      const auto& g = gemm_[static_cast<std::size_t>(k.compute)];
      const auto sequence = k.rows / k.batch;
      const double efficiency =
          g ? gemm_efficiency({sequence * k.batch * k.heads, sequence, k.head_dim, false, true}, *g) : 1.0;
      const double kernels = k.kind == KernelKind::attention_unfused_forward ? 3.0 : 5.0;
      // Rows of a head that do not begin at 16 bytes keep the products off the tensor cores.
      const bool aligned = std::size_t{k.head_dim} * size_of(k.compute) % 16 == 0;
      const FlopRate rate = aligned ? efficiency * peak(k.compute) : std::min(efficiency * peak(k.compute), vector_);
      return (kernels - 1.0 + (k.options.dropout ? 1.0 : 0.0)) * launch_ + Flops::of(flops.counted) / rate +
             traffic / bandwidth;
    }
  }
}

Seconds KernelCost::bytes(KernelKind kind, DType type, Bytes traffic, bool dropout) const {
  if (const RateTable* measured = rate(kind, type, dropout)) {
    return launch_ + memory_slowdown_ * (traffic / Bandwidth::of(interpolate(*measured, traffic.in(byte))));
  }
  Seconds time = memory_slowdown_ * memory_time(passes(kind, software_) * traffic, bandwidth_, memory_efficiency_);
  if (kind == KernelKind::advance_step) time += Seconds::of(software_[SoftwareCost::step_gap]);
  if (kind == KernelKind::route_tokens || kind == KernelKind::route_choices) {
    time += Seconds::of(software_[SoftwareCost::routing_gap]);
  }
  return launch_ + time;
}

Seconds KernelCost::kernel(const Kernel& k, Bytes touched) const {
  if (k.kind == KernelKind::gemm) {
    return gemm({k.rows, k.columns, k.depth, k.options.transpose_a, k.options.transpose_b}, k.compute, touched);
  }
  if (k.kind == KernelKind::expert_gemm) {
    // The busiest rank's rows, shared out evenly to its experts.
    GemmShape s{k.rows, k.columns, k.depth, k.options.transpose_a, k.options.transpose_b, k.batch};
    std::uint64_t& rows = k.options.transpose_a ? s.depth : s.rows;
    rows = (rows + k.batch - 1) / k.batch;
    const Seconds time = software_[SoftwareCost::expert_gemm] * gemm(s, k.compute, touched);
    return std::max(time, static_cast<double>(k.batch) * Seconds::of(software_[SoftwareCost::expert_gap]));
  }
  if (is_attention(k.kind)) return attention(k, touched);
  if (const std::uint32_t width = score_width(k); width > 0) {
    return gemm({k.rows / k.batch, k.depth / k.batch, width, false, true, std::uint64_t{k.batch} * k.heads}, k.compute,
                touched);
  }
  return bytes(k.kind, k.compute, memory_traffic(k, touched), k.options.dropout);
}

}  // namespace orrery
