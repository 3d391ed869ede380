#include "exec/kernels/adapter_pieces.hpp"
#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"

// Second factors of adapters (core/program/kernel.hpp). Each matrix of a product has its own inputs and its own columns
// of the result, which stand in several pieces where the result is packed.
namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { inputs_at, factor_at, results_at };

/// The elements as T, and room for them where they are not stored so.
template <class T>
const T* all_of(const Operand& x, std::size_t place, KernelScratch& scratch) {
  return read(x, 0, x.count, x.dtype == dtype_of<T> ? nullptr : scratch.get<T>(place, x.count));
}
template <class T>
T* result(const Operand& x, std::size_t place, bool add, KernelScratch& scratch) {
  T* to = x.dtype == dtype_of<T> ? static_cast<T*>(x.data) : scratch.get<T>(place, x.count);
  if (!add) {
    std::fill(to, to + x.count, T(0));
  } else if (x.dtype != dtype_of<T>) {
    load_elements(x.dtype, x.data, 0, x.count, to);
  }
  return to;
}

template <class T>
void forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const std::uint64_t width = k.depth * adapted_matrices_of(k), columns = adapted_columns_of(k);
  const T* u = all_of<T>(o[N::x], inputs_at, *context.scratch);
  const T* b = all_of<T>(o[N::weight], factor_at, *context.scratch);
  T* y = result<T>(o[N::y], results_at, true, *context.scratch);
  for_each_adapter_piece(k, [&](const AdapterPiece& p) {
    matrix(y + p.column, k.rows, p.columns, k.columns).noalias() +=
        T(k.scale) *
        (matrix(u + p.matrix * k.depth, k.rows, k.depth, width) * matrix(b + p.at, k.depth, p.columns, columns));
  });
  finish(o[N::y], 0, o[N::y].count, y);
}

template <class T>
void backward_input(const Kernel& k, const Operands& o, const KernelContext& context) {
  const std::uint64_t width = k.depth * adapted_matrices_of(k), columns = adapted_columns_of(k);
  const T* dy = all_of<T>(o[N::dy], inputs_at, *context.scratch);
  const T* b = all_of<T>(o[N::weight], factor_at, *context.scratch);
  T* du = result<T>(o[N::dx], results_at, false, *context.scratch);
  for_each_adapter_piece(k, [&](const AdapterPiece& p) {
    matrix(du + p.matrix * k.depth, k.rows, k.depth, width).noalias() +=
        T(k.scale) * (matrix(dy + p.column, k.rows, p.columns, k.columns) *
                      matrix(b + p.at, k.depth, p.columns, columns).transpose());
  });
  finish(o[N::dx], 0, o[N::dx].count, du);
}

template <class T>
void backward_weight(const Kernel& k, const Operands& o, const KernelContext& context) {
  const std::uint64_t width = k.depth * adapted_matrices_of(k), columns = adapted_columns_of(k);
  const T* u = all_of<T>(o[N::x], inputs_at, *context.scratch);
  const T* dy = all_of<T>(o[N::dy], factor_at, *context.scratch);
  T* db = result<T>(o[N::dweights], results_at, true, *context.scratch);
  for_each_adapter_piece(k, [&](const AdapterPiece& p) {
    matrix(db + p.at, k.depth, p.columns, columns).noalias() +=
        T(k.scale) * (matrix(u + p.matrix * k.depth, k.rows, k.depth, width).transpose() *
                      matrix(dy + p.column, k.rows, p.columns, k.columns));
  });
  finish(o[N::dweights], 0, o[N::dweights].count, db);
}

}  // namespace

std::span<const HostKernel> adapter_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::adapter_forward, forward<float>, forward<double>},
      {KernelKind::adapter_backward_input, backward_input<float>, backward_input<double>},
      {KernelKind::adapter_backward_weight, backward_weight<float>, backward_weight<double>},
  };
  return list;
}

}  // namespace orrery::cpu
