#include "sim/cost/kernel_cost.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/kernel_table.hpp"
#include "core/program/sight.hpp"
#include "core/spec/spec_files.hpp"
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

double gemm_efficiency(const GemmShape& shape, const GemmEfficiency& of, Derivation* why) {
  ORRERY_ASSERT(!of.tiles.empty());
  double best = 0.0;
  const GemmTile* taken = &of.tiles.front();
  for (const GemmTile& tile : of.tiles) {
    const double e = gemm_efficiency(shape, tile, of.units, of.depth_half);
    if (e > best) {
      best = e;
      taken = &tile;
    }
  }
  if (why != nullptr) {
    why->given("efficiency of full tiles", taken->efficiency, NumberSource::calibration,
               fmt::format("gemm.{}.tiles: {} x {}", name_of(of.compute), taken->rows, taken->columns));
    why->given("full waves, tiles and depth", best / taken->efficiency, NumberSource::formula,
               fmt::format("{} of {} x {} x {}, {} tiles at once, depth_half {:g}: gemm_efficiency",
                           shape.batch == 1 ? "a product" : fmt::format("{} products", shape.batch), shape.rows,
                           shape.columns, shape.depth, of.units, of.depth_half));
    why->made(NumberBy::product, 2, "share of the peak", best, "tile and wave quantisation");
  }
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

/// The type's own peak, or that of the first type in the list for which the device states one.
FlopRate peak_of(const DeviceSpec& device, DType type) {
  const auto find = [&](Precision p) -> std::optional<FlopRate> {
    const auto at = device.peak.find(p);
    if (at == device.peak.end()) return std::nullopt;
    return at->second;
  };
  if (const auto own = find(precision_of(type))) return *own;
  // A device without fp8 makes the product in the type in which its operands are stored.
  if (type == DType::f8) return peak_of(device, DType::bf16);
  for (const Precision p : {Precision::fp32, Precision::fp64, Precision::fp16, Precision::bf16}) {
    if (const auto other = find(p)) return *other;
  }
  ORRERY_ASSERT(false, device.name);
  return {};
}

/// A part of the keys is met by the flash kernel: its measured rates hold.
KernelKind measured_as(KernelKind kind) {
  if (kind == KernelKind::attention_part_forward) return KernelKind::attention_flash_forward;
  if (kind == KernelKind::attention_part_backward) return KernelKind::attention_flash_backward;
  return kind;
}

/// Keys among which a query's lie: those of a sequence, or of the part of it, or of a window or chunk inside.
double keys_of(const Kernel& k, std::uint64_t rows) {
  const std::uint64_t keys = rows / k.batch;
  return static_cast<double>(is_local(sight_of(k), keys) ? k.window : keys);
}

/// The cost that counts how often a memory-bound kernel passes over its bytes.
SoftwareCost passes_as(KernelKind kind) {
  return row_of(kind).traits.parameters ? SoftwareCost::optimizer : SoftwareCost::memory;
}

/// The product of all adapted columns with one factor, which is what the products of single matrices come to.
GemmShape adapter_shape(const Kernel& k) {
  const std::uint64_t columns = adapted_columns_of(k);
  if (k.kind == KernelKind::adapter_backward_input) return {k.rows, k.depth, columns, false, true};
  if (k.kind == KernelKind::adapter_backward_weight) return {k.depth, columns, k.rows, true, false};
  return {k.rows, columns, k.depth, false, false};
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
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::f8}) {
    peak_[static_cast<std::size_t>(type)] = peak_of(device, type);
  }
  vector_ = peak_[static_cast<std::size_t>(DType::f32)];
  for (const GemmEfficiency& g : calibration.gemm) gemm_[static_cast<std::size_t>(g.compute)] = g;
  // No shapes were measured in fp8, so its share of the peak is that of bf16.
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

void KernelCost::tell_launch(Derivation& why) const {
  why.given("gap before a kernel", launch_, NumberSource::calibration, "launch");
}

/// The rate of arithmetic must be noted before it.
void KernelCost::tell_roofline(Derivation& why, Flops work, Bytes traffic, Seconds time) const {
  DerivedNumber rate = why.take();
  const FlopRate at = FlopRate::of(rate.value);
  why.given("work", work, NumberSource::program, "FLOPs that are executed");
  why.put(std::move(rate));
  why.made(NumberBy::quotient, 2, "arithmetic", work / at);
  why.given("bytes", traffic, NumberSource::program, "views read and written");
  why.given("memory_efficiency", memory_efficiency_, NumberSource::calibration, "memory_efficiency");
  why.given("memory bandwidth", bandwidth_, NumberSource::device, "memory_bandwidth");
  why.made(NumberBy::quotient, 3, "memory", traffic / (memory_efficiency_ * bandwidth_));
  why.made(NumberBy::largest, 2, "roofline", time, "Williams, Waterman and Patterson, CACM 52(4), 2009");
}

Seconds KernelCost::gemm(const GemmShape& s, DType type, Bytes touched, Derivation* why) const {
  const bool f8 = type == DType::f8;
  const SoftwareCost factor = f8 ? SoftwareCost::gemm_f8 : SoftwareCost::gemm;
  std::size_t parts = 2;
  if (why != nullptr) {
    tell_launch(*why);
    why->given("factor of the program", software_[factor], NumberSource::software, std::string(name_of(factor)));
  }
  Seconds time = software_[factor] * products(s, type, touched, why);
  if (why != nullptr) why->made(NumberBy::product, 2, "product", time);
  const auto beside = [&](SoftwareCost bytes, std::uint64_t rows, std::uint64_t columns) {
    const double elements = static_cast<double>(s.batch) * static_cast<double>(rows) * static_cast<double>(columns);
    const Bytes moved = Bytes::of(software_[bytes] * elements);
    const Seconds took = memory_time(moved, bandwidth_, memory_efficiency_);
    time += took;
    if (why == nullptr || software_[bytes] == 0.0) return;
    why->given("bytes an element", Bytes::of(software_[bytes]), NumberSource::software, std::string(name_of(bytes)));
    why->given("elements", elements, NumberSource::program, fmt::format("{} x {} x {}", s.batch, rows, columns));
    why->made(NumberBy::product, 2, "bytes", moved);
    why->given("memory_efficiency", memory_efficiency_, NumberSource::calibration, "memory_efficiency");
    why->given("memory bandwidth", bandwidth_, NumberSource::device, "memory_bandwidth");
    why->made(NumberBy::quotient, 3, std::string(name_of(bytes)), took);
    ++parts;
  };
  if (s.transpose_a) {
    beside(SoftwareCost::accumulate, s.rows, s.columns);
  } else if (f8) {
    // The operand is made fp8 once, for the product that follows and for the weights' gradient, which reads the result.
    beside(SoftwareCost::quantize, s.rows, s.depth);
  }
  if (why != nullptr) why->made(NumberBy::sum, parts, "matrix product", launch_ + time);
  return launch_ + time;
}

Seconds KernelCost::products(const GemmShape& s, DType type, Bytes touched, Derivation* why) const {
  const auto rows = static_cast<double>(s.rows);
  const auto columns = static_cast<double>(s.columns);
  const auto depth = static_cast<double>(s.depth);
  const double flops = 2.0 * rows * columns * depth * static_cast<double>(s.batch);
  const RateTable* measured = gemm_rate(type, s.transpose_a, s.transpose_b);
  double faster = 1.0;
  if (measured == nullptr && type == DType::f8) {
    // As for efficiencies, the share of the peak is that of bf16.
    measured = gemm_rate(DType::bf16, s.transpose_a, s.transpose_b);
    faster = peak(DType::f8).in(peak(DType::bf16));
  }
  if (why != nullptr) {
    why->given("other cores at work", compute_slowdown_, NumberSource::calibration,
               compute_slowdown_ > 1.0 ? "busy_compute_slowdown" : "alone on its cores");
  }
  if (measured != nullptr) {
    const double table = interpolate(*measured, rows, columns, depth);
    const FlopRate rate = FlopRate::of(faster * table);
    const Seconds time = compute_slowdown_ * (Flops::of(flops) / rate);
    if (why != nullptr) {
      why->given("work", Flops::of(flops), NumberSource::program,
                 fmt::format("2 x {} x {} x {} x {}", s.batch, s.rows, s.columns, s.depth));
      why->given("rate", FlopRate::of(table), NumberSource::calibration,
                 fmt::format("kernels.gemm.{}{}{} at {} x {} x {}", name_of(type), s.transpose_a ? " a'" : "",
                             s.transpose_b ? " b'" : "", s.rows, s.columns, s.depth));
      why->given("peaks of fp8 and bf16", faster, NumberSource::device, "peak");
      why->made(NumberBy::product, 2, "rate", rate);
      why->made(NumberBy::quotient, 2, "measured", Flops::of(flops) / rate);
      why->made(NumberBy::product, 2, "products", time);
    }
    return time;
  }
  const auto& of = gemm_[static_cast<std::size_t>(type)];
  double efficiency = 1.0;
  if (of) {
    efficiency = gemm_efficiency(s, *of, why);
  } else if (why != nullptr) {
    why->given("share of the peak", 1.0, NumberSource::calibration, "gemm: no shapes of this type");
  }
  const Seconds roofline =
      roofline_time(Flops::of(flops), efficiency * peak(type), touched, memory_efficiency_ * bandwidth_);
  if (why != nullptr) {
    why->given("peak", peak(type), NumberSource::device, fmt::format("peak.{}", name_of(precision_of(type))));
    why->made(NumberBy::product, 2, "rate", efficiency * peak(type));
    tell_roofline(*why, Flops::of(flops), touched, roofline);
    why->made(NumberBy::product, 2, "products", compute_slowdown_ * roofline);
  }
  return compute_slowdown_ * roofline;
}

Seconds KernelCost::gemm(const GemmShape& s, DType type) const {
  const auto rows = static_cast<double>(s.rows);
  const auto columns = static_cast<double>(s.columns);
  const auto depth = static_cast<double>(s.depth);
  const double elements = (rows * depth + depth * columns + rows * columns) * static_cast<double>(s.batch);
  return gemm(s, type, Bytes::of(elements * static_cast<double>(size_of(type))));
}

Seconds KernelCost::attention(const Kernel& k, Bytes touched, Derivation* why) const {
  ORRERY_ASSERT(k.batch > 0, k.kind, k.batch);
  const double factor = software_[SoftwareCost::attention];
  if (why != nullptr) {
    tell_launch(*why);
    why->given("factor of the program", factor, NumberSource::software, "attention");
  }
  const Seconds core = attention_core(k, touched, why);
  if (why != nullptr) {
    why->made(NumberBy::product, 2, "attention core", factor * core);
    why->made(NumberBy::sum, 2, "attention", launch_ + factor * core);
  }
  return launch_ + factor * core;
}

Seconds KernelCost::attention_core(const Kernel& k, Bytes touched, Derivation* why) const {
  const double executed = busiest_flops(k);
  if (const RateTable* measured = rate(measured_as(k.kind), k.compute, k.options.dropout)) {
    const double sequence = keys_of(k, k.rows);
    const FlopRate at = FlopRate::of(interpolate(*measured, sequence, static_cast<double>(k.head_dim)));
    const Seconds time = compute_slowdown_ * (Flops::of(executed) / at);
    if (why != nullptr) {
      why->given("other cores at work", compute_slowdown_, NumberSource::calibration,
                 compute_slowdown_ > 1.0 ? "busy_compute_slowdown" : "alone on its cores");
      why->given("work", Flops::of(executed), NumberSource::program, "FLOPs that are executed, busiest rank");
      why->given("rate", at, NumberSource::calibration,
                 fmt::format("kernels.{}.{} at length {:g}, head width {}", name_of(measured_as(k.kind)),
                             name_of(k.compute), sequence, k.head_dim));
      why->made(NumberBy::quotient, 2, "measured", Flops::of(executed) / at);
      why->made(NumberBy::product, 2, "core", time);
    }
    return time;
  }
  const AttentionEfficiency& e = attention_[static_cast<std::size_t>(k.compute)];
  const Bytes traffic = memory_traffic(k, touched);
  const KernelKind kind = measured_as(k.kind);
  if (kind != KernelKind::attention_flash_forward && kind != KernelKind::attention_flash_backward) {
    return unfused_attention(k, traffic, why);
  }
  const double width = k.head_dim;
  const double keys = keys_of(k, k.depth > 0 ? k.depth : k.rows);
  const double full = width / (width + e.head_half) * (k.options.causal ? keys / (keys + e.sequence_half) : 1.0);
  const bool forward = kind == KernelKind::attention_flash_forward;
  const double efficiency = forward ? e.forward_efficiency : e.backward_efficiency;
  const FlopRate rate = full * efficiency * peak(k.compute);
  const Seconds time = roofline_time(Flops::of(executed), rate, traffic, memory_efficiency_ * bandwidth_);
  if (why != nullptr) {
    const std::string key = fmt::format("attention.{}", name_of(k.compute));
    why->given("width and length", full, NumberSource::formula,
               fmt::format("head width {}, {:g} keys; head_half {:g}{}", k.head_dim, keys, e.head_half,
                           k.options.causal ? fmt::format(", sequence_half {:g}", e.sequence_half) : ""));
    why->given("efficiency", efficiency, NumberSource::calibration,
               key + (forward ? ".forward_efficiency" : ".backward_efficiency"));
    why->given("peak", peak(k.compute), NumberSource::device, fmt::format("peak.{}", name_of(precision_of(k.compute))));
    why->made(NumberBy::product, 3, "rate", rate);
    tell_roofline(*why, Flops::of(executed), traffic, time);
  }
  return time;
}

Seconds KernelCost::unfused_attention(const Kernel& k, Bytes traffic, Derivation* why) const {
  // The kernels run separately, one after the other: products over the whole square, then passes over the matrix.
  // Batched products use the plain GEMM efficiency.
  const auto& g = gemm_[static_cast<std::size_t>(k.compute)];
  const auto sequence = k.rows / k.batch;
  Kernel square = k;
  square.window = 0;
  square.options.causal = false;
  const Flops work = Flops::of(flops_of(square).executed);
  if (why != nullptr) tell_launch(*why);
  const double kernels = k.kind == KernelKind::attention_unfused_forward ? 3.0 : 5.0;
  const double further = kernels - 1.0 + (k.options.dropout ? 1.0 : 0.0);
  if (why != nullptr) {
    why->given("further kernels", further, NumberSource::formula,
               "scores, softmax, dropout, product and their backward");
    why->made(NumberBy::product, 2, "launches", further * launch_);
    why->given("work", work, NumberSource::program, "FLOPs over the whole square");
  }
  double efficiency = 1.0;
  if (g) {
    efficiency = gemm_efficiency({sequence * k.batch * k.heads, sequence, k.head_dim, false, true}, *g, why);
  } else if (why != nullptr) {
    why->given("share of the peak", 1.0, NumberSource::calibration, "gemm: no shapes of this type");
  }
  // Where rows of a head do not begin at 16 bytes, the products do not run on tensor cores.
  const bool aligned = std::size_t{k.head_dim} * size_of(k.compute) % 16 == 0;
  const FlopRate rate = aligned ? efficiency * peak(k.compute) : std::min(efficiency * peak(k.compute), vector_);
  const Bandwidth bandwidth = memory_efficiency_ * bandwidth_;
  const Seconds time = further * launch_ + work / rate + traffic / bandwidth;
  if (why != nullptr) {
    why->given("peak", peak(k.compute), NumberSource::device, fmt::format("peak.{}", name_of(precision_of(k.compute))));
    why->made(NumberBy::product, 2, "rate", efficiency * peak(k.compute));
    if (!aligned) {
      why->given("peak beside tensor cores", vector_, NumberSource::device, "peak.fp32: heads not at 16 bytes");
      why->made(NumberBy::least, 2, "rate", rate);
    }
    why->made(NumberBy::quotient, 2, "arithmetic", work / rate);
    why->given("bytes", traffic, NumberSource::program, "views, and passes over the square");
    why->given("memory_efficiency", memory_efficiency_, NumberSource::calibration, "memory_efficiency");
    why->given("memory bandwidth", bandwidth_, NumberSource::device, "memory_bandwidth");
    why->made(NumberBy::quotient, 3, "memory", traffic / bandwidth);
    why->made(NumberBy::sum, 3, "unfused attention", time);
  }
  return time;
}

Seconds KernelCost::bytes(KernelKind kind, DType type, Bytes traffic, bool dropout, Derivation* why) const {
  if (why != nullptr) {
    tell_launch(*why);
    why->given("other cores at work", memory_slowdown_, NumberSource::calibration,
               memory_slowdown_ > 1.0 ? "busy_memory_slowdown" : "alone on its cores");
    why->given("bytes", traffic, NumberSource::program, "read and written");
  }
  if (const RateTable* measured = rate(kind, type, dropout)) {
    const Bandwidth at = Bandwidth::of(interpolate(*measured, traffic.in(byte)));
    const Seconds time = launch_ + memory_slowdown_ * (traffic / at);
    if (why != nullptr) {
      why->given("rate", at, NumberSource::calibration,
                 fmt::format("kernels.{}.{} at so many bytes", name_of(kind), name_of(type)));
      why->made(NumberBy::quotient, 2, "measured", traffic / at);
      why->made(NumberBy::product, 2, "memory", time - launch_);
      why->made(NumberBy::sum, 2, std::string(name_of(kind)), time);
    }
    return time;
  }
  // A bias for the rows of each expert is summed in passes of its own.
  const double own = kind == KernelKind::expert_bias_backward ? software_[SoftwareCost::expert_bias] : 1.0;
  const double times = own * software_[passes_as(kind)];
  Seconds time = memory_slowdown_ * memory_time(times * traffic, bandwidth_, memory_efficiency_);
  std::size_t parts = 2;
  if (why != nullptr) {
    why->given("passes of the program", software_[passes_as(kind)], NumberSource::software,
               std::string(name_of(passes_as(kind))));
    const bool biased = kind == KernelKind::expert_bias_backward;
    if (biased) why->given("passes for a bias", own, NumberSource::software, "expert_bias");
    why->made(NumberBy::product, biased ? 3 : 2, "bytes moved", times * traffic);
    why->given("memory_efficiency", memory_efficiency_, NumberSource::calibration, "memory_efficiency");
    why->given("memory bandwidth", bandwidth_, NumberSource::device, "memory_bandwidth");
    why->made(NumberBy::quotient, 3, "memory", memory_time(times * traffic, bandwidth_, memory_efficiency_));
    why->made(NumberBy::product, 2, "memory", time);
  }
  const auto wait = [&](SoftwareCost cost) {
    time += Seconds::of(software_[cost]);
    if (why == nullptr || software_[cost] == 0.0) return;
    why->given("wait of the host", Seconds::of(software_[cost]), NumberSource::software, std::string(name_of(cost)));
    ++parts;
  };
  if (kind == KernelKind::advance_step) wait(SoftwareCost::step_gap);
  if (kind == KernelKind::route_tokens || kind == KernelKind::route_choices) wait(SoftwareCost::routing_gap);
  if (why != nullptr) why->made(NumberBy::sum, parts, std::string(name_of(kind)), launch_ + time);
  return launch_ + time;
}

Seconds KernelCost::kernel(const Kernel& k, Bytes touched, Derivation* why) const {
  switch (row_of(k.kind).traits.arithmetic) {
    case Arithmetic::none: break;
    case Arithmetic::product:
      return gemm({k.rows, k.columns, k.depth, k.options.transpose_a, k.options.transpose_b}, k.compute, touched, why);
    case Arithmetic::adapter_product: return gemm(adapter_shape(k), k.compute, touched, why);
    case Arithmetic::expert_product: return expert_products(k, touched, why);
    case Arithmetic::attention_forward:
    case Arithmetic::attention_backward:
    case Arithmetic::flash_backward:
    case Arithmetic::part_forward:
    case Arithmetic::part_backward: return attention(k, touched, why);
    case Arithmetic::key_scores:
    case Arithmetic::value_scores:
    case Arithmetic::pair_scores:
      return gemm({k.rows / k.batch, k.depth / k.batch, score_width(k), false, true, std::uint64_t{k.batch} * k.heads},
                  k.compute, touched, why);
  }
  return bytes(k.kind, k.compute, memory_traffic(k, touched), k.options.dropout, why);
}

Seconds KernelCost::expert_products(const Kernel& k, Bytes touched, Derivation* why) const {
  // The busiest rank's rows, shared out evenly to its experts.
  GemmShape s{k.rows, k.columns, k.depth, k.options.transpose_a, k.options.transpose_b, k.batch};
  std::uint64_t& rows = k.options.transpose_a ? s.depth : s.rows;
  rows = (rows + k.batch - 1) / k.batch;
  const Seconds gap = Seconds::of(software_[SoftwareCost::expert_gap]);
  Seconds time = gemm(s, k.compute, touched, why);
  const Seconds launches = static_cast<double>(k.batch) * gap;
  const double passes = k.options.bias ? software_[SoftwareCost::expert_bias] - 1.0 : 0.0;
  if (passes > 0.0) {
    const Bytes once = Bytes::of(2.0 * static_cast<double>(size_of(DType::bf16)) * static_cast<double>(k.rows) *
                                 static_cast<double>(k.columns));
    const Seconds added = memory_time(passes * once, bandwidth_, memory_efficiency_);
    time += added;
    if (why != nullptr) {
      why->given("passes beside the product", passes, NumberSource::software, "expert_bias, less one");
      why->given("bytes of a pass", once, NumberSource::program, "rows of all experts, read and written");
      why->given("memory_efficiency", memory_efficiency_, NumberSource::calibration, "memory_efficiency");
      why->given("memory bandwidth", bandwidth_, NumberSource::device, "memory_bandwidth");
      why->made(NumberBy::product, 2, "rate", memory_efficiency_ * bandwidth_);
      DerivedNumber rate = why->take();
      why->made(NumberBy::product, 2, "bytes", passes * once);
      why->put(std::move(rate));
      why->made(NumberBy::quotient, 2, "bias of the experts", added);
      why->made(NumberBy::sum, 2, "with its bias", time);
    }
  }
  if (why != nullptr) {
    why->given("experts", static_cast<double>(k.batch), NumberSource::program);
    why->given("launch of an expert's product", gap, NumberSource::software, "expert_gap");
    why->made(NumberBy::product, 2, "launches", launches);
    why->made(NumberBy::largest, 2, "grouped product", std::max(time, launches));
  }
  return std::max(time, launches);
}

}  // namespace orrery
