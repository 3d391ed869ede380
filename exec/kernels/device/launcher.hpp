#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/kernels/device/elements.hpp"

/// Kernels that run on a GPU, written once for GPU and host.
///
/// A kernel is a *body*: a struct with its operands and a member
/// `operator()(Block&)` that one block of threads runs.  A Block has
///     index, blocks       which block of how many (64 bit)
///     thread, threads     which thread of it
///     sync()              waits for the block's threads
///     sum(x), largest(x)  over the block's threads, in a fixed order, for all of them
///     any(b)              likewise
///     shared<T>()         memory of the block, as many bytes as the launch says
/// A body gives the same result for every number of threads, except for the order of additions. One that says
/// `most_threads` is launched with no more. A Launcher has
///     launch(body, blocks, threads, shared_bytes)
///     clear(data, bytes)  all bits zero
///     multiply(Product)   one or several matrix products of one shape
///     scratch(bytes)      memory for one kernel's own use, in the stream's order: void at the next call of it
///     shared_limit()      most shared bytes of a block
///     makes_fp8()         whether products of fp8 factors are made
/// The GPU's Block and Launcher are in exec/kernels/cuda. The host's are in host_launcher.hpp, with which the tests
/// compare every body with the kernels of exec/kernels/cpu.
namespace orrery::device {

/// Threads of a block where nothing asks for another number.
inline constexpr std::uint32_t usual_threads = 256;
/// Largest number of blocks; bodies take more work than that in strides. The limit of a grid is 2^31 - 1.
inline constexpr std::uint64_t most_blocks = std::uint64_t{1} << 20;

/// Formats of f8 in a product: E4M3 has finer steps, E5M2 the range that gradients need.
enum class Float8 : std::uint8_t { e4m3, e5m2 };

/// C = alpha op(A) op(B) (+ C) (+ bias), row-major, as many times as `batch`; each next matrix is `step` elements on.
struct Product {
  struct Factor {
    Elements x;
    bool transposed = false;
    std::uint64_t row = 0;  ///< elements from one row of the stored matrix to the next
    std::uint64_t step = 0;
    Float8 format = Float8::e4m3;  ///< of elements in f8
    const float* scale = nullptr;  ///< for elements in f8: the scale that they are multiples of, in the device's memory
  };
  Factor a, b, c;
  Elements bias;  ///< of the columns; none where data is null
  std::uint64_t rows = 0, columns = 0, depth = 0;
  std::uint64_t batch = 1;
  double alpha = 1.0;
  bool add = false;
  DType compute = DType::f32;  ///< f64, else sums are in f32
};

/// Element (row, column) of op(a factor) of one matrix of the batch; f8 with its scale.
template <class T>
[[nodiscard]] ORRERY_ON_DEVICE T element_of(const Product::Factor& f, std::uint64_t matrix, std::uint64_t row,
                                            std::uint64_t column) {
  const std::uint64_t at = matrix * f.step + (f.transposed ? column * f.row + row : row * f.row + column);
  if (f.x.dtype != DType::f8) return f.x.load<T>(at);
  const std::uint8_t bits = f.x.bytes()[at];
  return static_cast<T>(f.format == Float8::e4m3 ? from_e4m3(bits) : from_e5m2(bits)) * static_cast<T>(*f.scale);
}

/// Writes C's element from the sum over the depth.
template <class T>
ORRERY_ON_DEVICE void put_result(const Product& p, std::uint64_t matrix, std::uint64_t row, std::uint64_t column,
                                 T sum) {
  const std::uint64_t to = matrix * p.c.step + row * p.c.row + column;
  T value = static_cast<T>(p.alpha) * sum;
  if (p.add) value += p.c.x.load<T>(to);
  if (p.bias.data != nullptr) value += p.bias.load<T>(column);
  p.c.x.store(to, value);
}

/// The element of the same type that is `n` elements on.
[[nodiscard]] inline Elements at(const Elements& x, std::uint64_t first) {
  return {static_cast<std::byte*>(x.data) + first * size_of(x.dtype), x.dtype};
}

/// Runs f(i) for every i < count, with a thread for each.
template <class F>
struct ForEach {
  F f;
  std::uint64_t count;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    for (std::uint64_t i = b.index() * b.threads() + b.thread(); i < count; i += b.blocks() * b.threads()) f(i);
  }
};

template <class Launcher, class F>
void for_each(Launcher& l, std::uint64_t count, F f) {
  if (count == 0) return;
  l.launch(ForEach<F>{f, count}, std::min(most_blocks, (count + usual_threads - 1) / usual_threads), usual_threads, 0);
}

/// Runs f(block, row) for every row, with a block for each.
template <class F>
struct ForEachRow {
  F f;
  std::uint64_t rows;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    for (std::uint64_t row = b.index(); row < rows; row += b.blocks()) {
      f(b, row);
      b.sync();  // shared memory is used again
    }
  }
};

template <class Launcher, class F>
void for_each_row(Launcher& l, std::uint64_t rows, F f, std::uint32_t threads = usual_threads,
                  std::uint64_t shared = 0) {
  if (rows == 0) return;
  l.launch(ForEachRow<F>{f, rows}, std::min(most_blocks, rows), threads, shared);
}

}  // namespace orrery::device
