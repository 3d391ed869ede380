#include "exec/calibrate/kernel_rates.hpp"

#include <map>
#include <utility>

#include "core/program/kernel_table.hpp"
#include "exec/calibrate/kernel_samples.hpp"
#include "exec/calibrate/sample_programs.hpp"

namespace orrery {

namespace {

std::vector<double> doubles(std::initializer_list<std::uint64_t> sizes) {
  std::vector<double> out;
  for (const std::uint64_t s : sizes) out.push_back(static_cast<double>(s));
  return out;
}

KernelSample gemm_sample(std::uint64_t m, std::uint64_t n, std::uint64_t d, bool ta, bool tb, const Workload& w) {
  KernelSample s;
  s.kernel.kind = KernelKind::gemm;
  s.kernel.compute = weight_dtype(w);
  s.kernel.rows = m;
  s.kernel.columns = n;
  s.kernel.depth = d;
  s.kernel.options.transpose_a = ta;
  s.kernel.options.transpose_b = tb;
  // A transposed left factor is the weight gradient: it adds to the gradients.
  s.operands = {{s.kernel.compute, m * d, false, false, {}},
                {s.kernel.compute, d * n, false, false, {}},
                {ta ? gradient_dtype(w) : s.kernel.compute, m * n, ta, false, {}}};
  return s;
}

}  // namespace

void measure_gemm(Precision precision, MeasuredRates& into) {
  const std::initializer_list<std::uint64_t> rows{8, 32, 128, 512};
  const std::initializer_list<std::uint64_t> columns{16, 64, 128, 384, 1024};
  const std::initializer_list<std::uint64_t> depths{16, 64, 128, 384, 1024};
  constexpr std::uint64_t most_products = std::uint64_t{1} << 24;
  const SampleProgram any = sample_program({}, precision);
  KernelTimer timer(any.program, any.workload);
  for (const auto& [ta, tb] : {std::pair{false, false}, std::pair{false, true}, std::pair{true, false}}) {
    KernelRate table;
    table.kind = KernelKind::gemm;
    table.compute = weight_dtype(any.workload);
    table.transpose_a = ta;
    table.transpose_b = tb;
    table.rate.axes = {doubles(rows), doubles(columns), doubles(depths)};
    // The weight gradient multiplies over the tokens, so its depth takes the place of the rows elsewhere.
    if (ta) table.rate.axes = {doubles(columns), doubles(depths), doubles(rows)};
    const auto& axes = table.rate.axes;
    const std::size_t strides[] = {axes[1].size() * axes[2].size(), axes[2].size(), 1};
    for (std::size_t i = 0; i < axes[0].size(); ++i) {
      for (std::size_t j = 0; j < axes[1].size(); ++j) {
        for (std::size_t k = 0; k < axes[2].size(); ++k) {
          const auto m = static_cast<std::uint64_t>(axes[0][i]);
          const auto n = static_cast<std::uint64_t>(axes[1][j]);
          const auto d = static_cast<std::uint64_t>(axes[2][k]);
          if (m * n * d > most_products) {
            // Large shapes get the rate of the neighbour that is smaller in the longest direction.
            const std::size_t at = table.rate.values.size();
            const std::size_t longest = n >= m && n >= d ? 1 : (d >= m ? 2 : 0);
            table.rate.values.push_back(table.rate.values[at - strides[longest]]);
            continue;
          }
          const MeasuredTime t = timer.time(gemm_sample(m, n, d, ta, tb, any.workload));
          table.rate.values.push_back(2.0 * static_cast<double>(m * n * d) / t.typical.base());
          into.spreads.push_back(t.spread);
        }
      }
    }
    into.rates.push_back(std::move(table));
  }
}

void measure_attention(Precision precision, MeasuredRates& into) {
  const std::initializer_list<std::uint64_t> lengths{8, 32, 128, 256};
  const std::initializer_list<std::uint64_t> head_dims{16, 32, 64, 128};
  std::map<std::pair<KernelKind, bool>, KernelRate> tables;
  for (const bool flash : {false, true}) {
    for (const bool dropout : {false, true}) {
      for (const std::uint64_t length : lengths) {
        for (const std::uint64_t head_dim : head_dims) {
          SampleShape shape;
          shape.sequences = length >= 128 ? 1 : 4;
          shape.length = length;
          shape.heads = 4;
          shape.head_dim = head_dim;
          shape.flash = flash;
          shape.dropout = dropout;
          const SampleProgram sample = sample_program(shape, precision);
          KernelTimer timer(sample.program, sample.workload);
          for (const KernelSample& s : samples_of(sample.program)) {
            if (!is_whole_attention(s.kernel.kind)) continue;
            KernelRate& table = tables[{s.kernel.kind, dropout}];
            table.kind = s.kernel.kind;
            table.compute = s.kernel.compute;
            table.dropout = dropout;
            table.rate.axes = {doubles(lengths), doubles(head_dims)};
            const MeasuredTime t = timer.time(s, {Seconds::of(100e-6), 5, Seconds::of(20e-3)});
            table.rate.values.push_back(flops_of(s.kernel).executed / t.typical.base());
            into.spreads.push_back(t.spread);
          }
        }
      }
    }
  }
  for (auto& [key, table] : tables) into.rates.push_back(std::move(table));
}

}  // namespace orrery
