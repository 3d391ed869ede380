#include <cmath>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

enum : std::size_t { context_row = first_own, gradient_row, lse_values };

// With P the probabilities of keys and p the sink's share, p = e^(sink - lse), C = P v and dP = dC v^T:
//   dsink = p (0 - rowsum(dP P)) = -p dC C.
// Dropout changes nothing in that: the row sum is of what it has left.
template <class T>
void attention_sinks_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Heads shape(k);
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t s = shape.length;
  const std::uint64_t e = shape.value;
  T* c_buffer = scratch.get<T>(context_row, e);
  T* g_buffer = scratch.get<T>(gradient_row, e);
  T* lse_buffer = scratch.get<T>(lse_values, s);
  for (std::uint64_t head = 0; head < shape.heads; ++head) {
    const T sink = static_cast<T>(read_scalar(o[N::sinks], head));
    T sum{0};
    for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
      const T* lse = read(o[N::lse], (sequence * shape.heads + head) * s, s, lse_buffer);
      for (std::uint64_t i = 0; i < s; ++i) {
        const std::uint64_t at = (i * shape.batch + sequence) * shape.context_width() + head * e;
        const T* c = read(o[N::context], at, e, c_buffer);
        const T* g = read(o[N::dcontext], at, e, g_buffer);
        sum += std::exp(sink - lse[i]) * sum_over<T>(e, [&](std::uint64_t f) { return c[f] * g[f]; });
      }
    }
    write_scalar(o[N::dsinks], read_scalar(o[N::dsinks], head) - static_cast<double>(sum), head);
  }
}

}  // namespace

std::span<const HostKernel> sink_attention_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::attention_sinks_backward, attention_sinks_backward<float>, attention_sinks_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
