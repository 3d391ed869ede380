#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "exec/kernels/device/launcher.hpp"

namespace orrery::device {

/// The threads of one block at a time, on the host, and the memory that they share.
class HostTeam {
 public:
  explicit HostTeam(std::uint32_t threads) : threads_(threads), meet_(threads), values_(threads) {}

  [[nodiscard]] std::uint32_t threads() const { return threads_; }
  void sync() { meet_.arrive_and_wait(); }
  /// combine(a, b) over all threads' values, in order of threads; each thread gets the result.
  template <class T, class Combine>
  [[nodiscard]] T over_all(std::uint32_t thread, T value, Combine combine) {
    if (threads_ == 1) return value;
    values_[thread] = static_cast<double>(value);
    sync();
    T all = static_cast<T>(values_[0]);
    for (std::uint32_t t = 1; t < threads_; ++t) all = combine(all, static_cast<T>(values_[t]));
    sync();  // values may be written again
    return all;
  }

 private:
  std::uint32_t threads_;
  std::barrier<> meet_;
  std::vector<double> values_;
};

/// One thread's view of a block (launcher.hpp says what a Block is).
class HostBlock {
 public:
  HostBlock(HostTeam& team, std::uint32_t thread, std::uint64_t index, std::uint64_t blocks, std::byte* shared)
      : team_(team), thread_(thread), index_(index), blocks_(blocks), shared_(shared) {}
  [[nodiscard]] std::uint64_t index() const { return index_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t thread() const { return thread_; }
  [[nodiscard]] std::uint32_t threads() const { return team_.threads(); }
  void sync() {
    if (team_.threads() > 1) team_.sync();
  }
  template <class T>
  [[nodiscard]] T sum(T x) {
    return team_.over_all(thread_, x, [](T a, T b) { return a + b; });
  }
  template <class T>
  [[nodiscard]] T largest(T x) {
    return team_.over_all(thread_, x, [](T a, T b) { return a < b ? b : a; });
  }
  [[nodiscard]] bool any(bool x) { return largest(x ? 1.0 : 0.0) > 0.0; }
  template <class T>
  [[nodiscard]] T* shared() const {
    return reinterpret_cast<T*>(shared_);
  }

 private:
  HostTeam& team_;
  std::uint32_t thread_;
  std::uint64_t index_, blocks_;
  std::byte* shared_;
};

/// Runs kernel bodies on the host, block after block, each by a number of threads: one is fast, several show waits that
/// a body forgot.
class HostLauncher {
 public:
  /// `most_blocks` bounds a launch, so that bodies take their work in strides.
  explicit HostLauncher(std::uint32_t threads = 1, std::uint64_t blocks_at_once = most_blocks, bool fp8 = false)
      : threads_(threads), most_blocks_(blocks_at_once), fp8_(fp8) {}

  template <class Body>
  void launch(const Body& body, std::uint64_t blocks, std::uint32_t, std::uint64_t shared_bytes) {
    blocks = std::min(blocks, most_blocks_);
    // Allocates exactly the requested bytes, so that address checks see accesses beyond them.
    const auto shared = std::make_unique<std::max_align_t[]>(shared_bytes / sizeof(std::max_align_t) + 1);
    HostTeam team(threads_);
    const auto work = [&](std::uint32_t thread) {
      for (std::uint64_t index = 0; index < blocks; ++index) {
        HostBlock block(team, thread, index, blocks, reinterpret_cast<std::byte*>(shared.get()));
        body(block);
        block.sync();
      }
    };
    std::vector<std::thread> others;
    for (std::uint32_t t = 1; t < threads_; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& t : others) t.join();
  }

  void clear(void* data, std::uint64_t bytes) { std::memset(data, 0, bytes); }
  [[nodiscard]] void* scratch(std::uint64_t bytes) {
    scratch_.assign(bytes / sizeof(std::max_align_t) + 1, {});
    return scratch_.data();
  }
  [[nodiscard]] static std::uint64_t shared_limit() { return std::uint64_t{160} << 10; }

  [[nodiscard]] bool makes_fp8() const { return fp8_; }

  /// Plain loops.
  void multiply(const Product& p) { p.compute == DType::f64 ? multiply_as<double>(p) : multiply_as<float>(p); }

 private:
  template <class T>
  static void multiply_as(const Product& p) {
    for (std::uint64_t n = 0; n < p.batch; ++n) {
      for (std::uint64_t row = 0; row < p.rows; ++row) {
        for (std::uint64_t column = 0; column < p.columns; ++column) {
          T sum{0};
          for (std::uint64_t d = 0; d < p.depth; ++d) {
            sum += element<T>(p.a, n, row, d) * element<T>(p.b, n, d, column);
          }
          const std::uint64_t to = n * p.c.step + row * p.c.row + column;
          T value = static_cast<T>(p.alpha) * sum;
          if (p.add) value += p.c.x.load<T>(to);
          if (p.bias.data != nullptr) value += p.bias.load<T>(column);
          p.c.x.store(to, value);
        }
      }
    }
  }
  template <class T>
  static T element(const Product::Factor& f, std::uint64_t n, std::uint64_t row, std::uint64_t column) {
    const std::uint64_t at = f.transposed ? column * f.row + row : row * f.row + column;
    if (f.x.dtype != DType::f8) return f.x.load<T>(n * f.step + at);
    const std::uint8_t bits = f.x.bytes()[n * f.step + at];
    return static_cast<T>(f.format == Float8::e4m3 ? from_e4m3(bits) : from_e5m2(bits)) * static_cast<T>(*f.scale);
  }

  std::uint32_t threads_;
  std::uint64_t most_blocks_;
  bool fp8_;
  std::vector<std::max_align_t> scratch_;
};

}  // namespace orrery::device
