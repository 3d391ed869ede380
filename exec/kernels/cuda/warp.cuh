#pragma once

#include "exec/kernels/device/warp.hpp"

namespace orrery::cuda {

/// A warp of a GPU's block (exec/kernels/device/warp.hpp says what is asked of it). Instructions are those of NVIDIA's
/// PTX ISA for compute capability 8.0.
class Warp {
 public:
  template <class X>
  struct PerLane {
    X x;
    __device__ X& operator[](std::uint32_t) { return x; }
    __device__ const X& operator[](std::uint32_t) const { return x; }
  };
  __device__ std::uint32_t warp() const { return threadIdx.x / device::lanes_of_warp; }
  __device__ std::uint32_t warps() const { return blockDim.x / device::lanes_of_warp; }
  template <class F>
  __device__ void each_lane(F f) {
    f(lane());
  }
  __device__ void sync_lanes() { __syncwarp(); }

  template <int bytes, class F>
  __device__ void copy(F f) {
    static_assert(bytes == 16);
    const device::Copy c = f(lane());
    const int there = c.there ? bytes : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(c.to)), "l"(c.from), "r"(there)
                 : "memory");
  }
  __device__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

  template <bool turned, class F>
  __device__ void read_matrices(PerLane<device::Quad>& to, F f) {
    const std::uint32_t from = shared_address(f(lane()));
    std::uint32_t* x = to.x.x;
    if constexpr (turned) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(from)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(from)
                   : "memory");
    }
  }

  template <DType type, int n>
  __device__ void multiply_add(PerLane<device::Sums<n>>& c, int tile, const PerLane<device::Quad>& a,
                               const PerLane<device::Quad>& b, int first) {
    float* d = c.x.x[tile];
    const std::uint32_t* l = a.x.x;
    const std::uint32_t* r = b.x.x + first;
    if constexpr (type == DType::bf16) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r[0]), "r"(r[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r[0]), "r"(r[1]));
    }
  }

  template <class Combine>
  __device__ void over_quad(PerLane<device::RowPair>& x, Combine combine) {
    ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
      float& v = x.x.x[half];
      v = combine(v, __shfl_xor_sync(0xffffffffU, v, 1));
      v = combine(v, __shfl_xor_sync(0xffffffffU, v, 2));
    }
  }

  /// Two floats rounded to 16 bits.
  template <DType type>
  __device__ static std::uint32_t packed(float low, float high) {
    std::uint32_t both;
    if constexpr (type == DType::bf16) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    }
    return both;
  }
  template <DType type, class F>
  __device__ void put_pair(F f) {
    const device::Pair p = f(lane());
    *reinterpret_cast<std::uint32_t*>(p.to) = packed<type>(p.low, p.high);
  }
  template <class F>
  __device__ void put_chunk(F f) {
    const device::Copy c = f(lane());
    if (c.there) *static_cast<uint4*>(c.to) = *static_cast<const uint4*>(c.from);
  }

 private:
  __device__ static std::uint32_t lane() { return threadIdx.x % device::lanes_of_warp; }
  __device__ static std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
  }
};

}  // namespace orrery::cuda
