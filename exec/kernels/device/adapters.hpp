#pragma once

#include "exec/kernels/adapter_pieces.hpp"
#include "exec/kernels/device/elementwise.hpp"

/// Second factors of adapters, a product for each of their pieces.
namespace orrery::device {

template <class T, class Launcher>
bool run_adapters(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  const bool forward = k.kind == KernelKind::adapter_forward;
  const bool to_input = k.kind == KernelKind::adapter_backward_input;
  if (!forward && !to_input && k.kind != KernelKind::adapter_backward_weight) return false;
  const std::uint64_t width = k.depth * adapted_matrices_of(k), columns = adapted_columns_of(k);
  const auto part = [](const Elements& x, std::uint64_t column, std::uint64_t row, bool turned) {
    return Product::Factor{at(x, column), turned, row};
  };
  // The pieces of a matrix add to the same gradients of its inputs, which round once.
  const Elements inputs(o[to_input ? N::dx : N::x]);
  constexpr DType wide = sizeof(T) == 8 ? DType::f64 : DType::f32;
  const bool by_sums = to_input && k.kv_heads > 1 && inputs.dtype != wide;
  const Elements sums = by_sums ? Elements(l.scratch(k.rows * width * sizeof(T)), wide) : inputs;
  const Elements results(o[forward ? N::y : N::dy]);
  const Elements factor(o[forward || to_input ? N::weight : N::dweights]);
  for_each_adapter_piece(k, [&](const AdapterPiece& piece) {
    const auto of_inputs = [&](bool turned) { return part(sums, piece.matrix * k.depth, width, turned); };
    const auto of_results = [&] { return part(results, piece.column, k.columns, false); };
    const auto of_factor = [&](bool turned) { return part(factor, piece.at, columns, turned); };
    Product p;
    p.rows = to_input || forward ? k.rows : k.depth;
    p.columns = to_input ? k.depth : piece.columns;
    p.depth = forward ? k.depth : to_input ? piece.columns : k.rows;
    p.a = forward ? of_inputs(false) : to_input ? of_results() : of_inputs(true);
    p.b = forward ? of_factor(false) : to_input ? of_factor(true) : of_results();
    p.c = forward ? of_results() : to_input ? of_inputs(false) : of_factor(false);
    p.alpha = k.scale;
    p.add = !to_input || !piece.first;
    p.compute = k.compute;
    l.multiply(p);
  });
  if (by_sums) for_each(l, k.rows * width, Convert<T>{sums, inputs});
  return true;
}

}  // namespace orrery::device
