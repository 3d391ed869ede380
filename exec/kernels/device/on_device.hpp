#pragma once

/// Marks functions that nvcc compiles for a GPU and any other compiler for the host. One text serves both, and tests on
/// a machine without GPU run what a GPU runs.
///   ORRERY_ON_DEVICE   may be called on either
///   ORRERY_KERNEL_BODY runs inside a block: on a GPU under nvcc, on the host elsewhere
///   ORRERY_ROLLED      before a loop that a GPU's compiler should not unroll: copies of it would want more registers
#if defined(__CUDACC__)
#define ORRERY_ON_DEVICE __host__ __device__
#define ORRERY_KERNEL_BODY __device__
#else
#define ORRERY_ON_DEVICE
#define ORRERY_KERNEL_BODY
#endif
#if defined(__CUDA_ARCH__)
#define ORRERY_ROLLED _Pragma("unroll 1")
#else
#define ORRERY_ROLLED
#endif
