#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "exec/kernels/device/host_block.hpp"
#include "exec/kernels/device/host_warp.hpp"
#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/device/plain_product.hpp"

namespace orrery::device {

/// Runs kernel bodies on the host, block after block, each by a number of threads: one is fast, several show waits that
/// a body forgot.
class HostLauncher {
 public:
  /// `most_blocks` bounds a launch, so that bodies take their work in strides.
  explicit HostLauncher(std::uint32_t threads = 1, std::uint64_t blocks_at_once = most_blocks, bool fp8 = false)
      : threads_(threads), most_blocks_(blocks_at_once), fp8_(fp8) {}

  template <class Body>
  void launch(const Body& body, std::uint64_t blocks, std::uint32_t, std::uint64_t shared_bytes) {
    run(body, blocks, threads_, shared_bytes, [](auto... of) { return HostBlock(of...); });
  }
  /// A thread for each warp. With several threads asked for, copies are late.
  template <class Body>
  void launch_warps(const Body& body, std::uint64_t blocks, std::uint32_t warps, std::uint64_t shared_bytes) {
    run(body, blocks, warps, shared_bytes, [this](auto... of) { return HostWarpBlock(of..., threads_ > 1, watch_); });
  }
  /// Told of every instruction of a warp on shared memory.
  void watch(SharedWatch watch) { watch_ = std::move(watch); }
  /// Shared bytes of a block, as devices have different ones.
  void limit_shared(std::uint64_t bytes) { shared_limit_ = bytes; }

  void clear(void* data, std::uint64_t bytes) { std::memset(data, 0, bytes); }
  [[nodiscard]] void* scratch(std::uint64_t bytes) {
    scratch_.assign(bytes / sizeof(std::max_align_t) + 1, {});
    return scratch_.data();
  }
  [[nodiscard]] std::uint64_t shared_limit() const { return shared_limit_; }

  [[nodiscard]] bool makes_fp8() const { return fp8_; }

  /// As where a GPU's library of products refuses all.
  void refuse_products(bool refuse) { refuses_products_ = refuse; }
  /// Plain loops, or the body that is there for what a library refuses.
  void multiply(const Product& p) {
    if (refuses_products_) return multiply_plainly(*this, p);
    p.compute == DType::f64 ? multiply_as<double>(p) : multiply_as<float>(p);
  }

 private:
  template <class Body, class MakeBlock>
  void run(const Body& body, std::uint64_t blocks, std::uint32_t threads, std::uint64_t shared_bytes,
           MakeBlock make_block) {
    blocks = std::min(blocks, most_blocks_);
    // Allocates exactly the requested bytes, so that address checks see accesses beyond them.
    const auto shared = std::make_unique<std::max_align_t[]>(shared_bytes / sizeof(std::max_align_t) + 1);
    HostTeam team(threads);
    const auto work = [&](std::uint32_t thread) {
      for (std::uint64_t index = 0; index < blocks; ++index) {
        auto block = make_block(&team, thread, index, blocks, reinterpret_cast<std::byte*>(shared.get()));
        body(block);
        block.sync();
      }
    };
    std::vector<std::thread> others;
    for (std::uint32_t t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& t : others) t.join();
  }
  template <class T>
  static void multiply_as(const Product& p) {
    for (std::uint64_t n = 0; n < p.batch; ++n) {
      for (std::uint64_t row = 0; row < p.rows; ++row) {
        for (std::uint64_t column = 0; column < p.columns; ++column) {
          T sum{0};
          for (std::uint64_t d = 0; d < p.depth; ++d) {
            sum += element_of<T>(p.a, n, row, d) * element_of<T>(p.b, n, d, column);
          }
          put_result(p, n, row, column, sum);
        }
      }
    }
  }

  std::uint32_t threads_;
  std::uint64_t most_blocks_;
  bool fp8_;
  bool refuses_products_ = false;
  std::uint64_t shared_limit_ = std::uint64_t{160} << 10;
  SharedWatch watch_;
  std::vector<std::max_align_t> scratch_;
};

}  // namespace orrery::device
