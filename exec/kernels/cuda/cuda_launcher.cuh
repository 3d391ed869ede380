#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "exec/kernels/cuda/cuda_check.hpp"
#include "exec/kernels/cuda/matrix_products.hpp"
#include "exec/kernels/cuda/warp.cuh"
#include "exec/kernels/device/elementwise.hpp"
#include "exec/kernels/device/launcher.hpp"

namespace orrery::cuda {

/// A block of a GPU's threads (exec/kernels/device/launcher.hpp says what a Block is).  All its threads call each of
/// the members that wait.
class Block : public Warp {
 public:
  __device__ std::uint64_t index() const { return blockIdx.x; }
  __device__ std::uint64_t blocks() const { return gridDim.x; }
  __device__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ std::uint32_t threads() const { return blockDim.x; }
  __device__ void sync() { __syncthreads(); }
  template <class T>
  __device__ T sum(T x) {
    return over_all(x, [](T a, T b) { return a + b; }, T{0});
  }
  template <class T>
  __device__ T largest(T x) {
    return over_all(x, [](T a, T b) { return a < b ? b : a; }, -std::numeric_limits<T>::infinity());
  }
  __device__ bool any(bool x) { return __syncthreads_or(x ? 1 : 0) != 0; }
  template <class T>
  __device__ T* shared() const {
    extern __shared__ uint4 memory_of_block[];  // aligned to 16 bytes
    return reinterpret_cast<T*>(memory_of_block);
  }

 private:
  /// Adds up in a tree in every warp, then in one over the warps: the same order in every run.
  template <class T, class Combine>
  __device__ T over_all(T x, Combine combine, T nothing) {
    __shared__ T of_warp[32];
    for (int distance = 16; distance > 0; distance /= 2) x = combine(x, __shfl_xor_sync(0xffffffffU, x, distance));
    const std::uint32_t warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    T all = threadIdx.x % 32 < warps ? of_warp[threadIdx.x % 32] : nothing;
    for (int distance = 16; distance > 0; distance /= 2) {
      all = combine(all, __shfl_xor_sync(0xffffffffU, all, distance));
    }
    __syncthreads();  // of_warp may be written again
    return all;
  }
};

/// Threads of a block, by which the compiler shares out registers.
template <class Body>
constexpr std::uint32_t most_threads() {
  if constexpr (requires { Body::most_threads; }) {
    return Body::most_threads;
  } else {
    return device::usual_threads;
  }
}

template <class Body>
__global__ void __launch_bounds__(most_threads<Body>()) run_body(const Body body) {
  Block block;
  body(block);
}

class Launcher;
/// device::multiply_plainly, which launch_products.cu has.
void multiply_plainly(Launcher&, const device::Product&);

/// Gives kernels to one stream.
class Launcher {
 public:
  Launcher(cudaStream_t stream, std::uint64_t shared_limit, bool own_products, ProductNotes& notes)
      : stream_(stream), shared_limit_(shared_limit), own_products_(own_products), products_(stream, notes) {
    int device = 0, major = 0, minor = 0;
    require(cudaGetDevice(&device), "ask for the GPU in use");
    require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "ask what the GPU is");
    require(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "ask what the GPU is");
    makes_fp8_ = MatrixProducts::takes_fp8(major, minor);
  }
  ~Launcher() {
    for (void* p : scratches_) cudaFree(p);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// The number of threads is a multiple of 32, at most usual_threads; the number of blocks is at most most_blocks,
  /// which a grid takes.
  template <class Body>
  void launch(const Body& body, std::uint64_t blocks, std::uint32_t threads, std::uint64_t shared_bytes) {
    static_assert(sizeof(Body) <= 4096, "a kernel takes 4 KiB of arguments");
    constexpr std::uint64_t without_asking = 48 << 10;
    if (shared_bytes > without_asking) {
      require(cudaFuncSetAttribute(run_body<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)),
              "give a kernel its shared memory");
    }
    run_body<Body><<<static_cast<unsigned>(blocks), threads, shared_bytes, stream_>>>(body);
    require(cudaGetLastError(), "launch a kernel");
  }
  template <class Body>
  void launch_warps(const Body& body, std::uint64_t blocks, std::uint32_t warps, std::uint64_t shared_bytes) {
    launch(body, blocks, warps * device::lanes_of_warp, shared_bytes);
  }
  void clear(void* data, std::uint64_t bytes) {
    if (bytes > 0) require(cudaMemsetAsync(data, 0, bytes, stream_), "clear memory");
  }
  void multiply(const device::Product& p) {
    device::Product product = p;
    // A bias of another type than the result's is added afterwards, and so is one that cuBLASLt cannot add: in f64, and
    // in f32 beside factors in f8.
    const bool f8 = p.a.x.dtype == DType::f8;
    const bool apart = p.bias.data != nullptr && (p.bias.dtype != p.c.x.dtype || p.compute == DType::f64 ||
                                                  (f8 && p.bias.dtype == DType::f32));
    if (apart) product.bias = {};
    if (own_products_ || !products_.multiply(product)) return multiply_plainly(*this, p);
    if (!apart) return;
    if (p.compute == DType::f64) {
      device::for_each(*this, p.rows * p.columns, device::AddRow<double>{p.bias, p.c.x, p.columns, p.c.row});
    } else {
      device::for_each(*this, p.rows * p.columns, device::AddRow<float>{p.bias, p.c.x, p.columns, p.c.row});
    }
  }
  /// Throws Error where there is no memory; what there was stays, and other kernels may go on.
  [[nodiscard]] void* scratch(std::uint64_t bytes) {
    if (bytes > scratch_bytes_) {
      // Earlier work still uses the old memory.
      const std::uint64_t size = std::max(bytes, 2 * scratch_bytes_);
      void* more = nullptr;
      const cudaError_t code = cudaMalloc(&more, size);
      if (code != cudaSuccess) static_cast<void>(cudaGetLastError());  // it is no failure of the next launch
      require(code, "take memory for kernels' own use");
      scratches_.push_back(more);
      scratch_bytes_ = size;
      held_bytes_ += size;
    }
    return scratches_.back();
  }
  [[nodiscard]] std::uint64_t shared_limit() const { return shared_limit_; }
  [[nodiscard]] bool makes_fp8() const { return makes_fp8_; }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_ + products_.workspace_bytes(); }

 private:
  cudaStream_t stream_;
  std::uint64_t shared_limit_;
  bool makes_fp8_ = false, own_products_;
  MatrixProducts products_;
  std::vector<void*> scratches_;
  std::uint64_t scratch_bytes_ = 0, held_bytes_ = 0;
};

}  // namespace orrery::cuda
