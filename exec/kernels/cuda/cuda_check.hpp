#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

#include "core/base/diagnostics.hpp"

namespace orrery::cuda {

/// Throws Error with CUDA's own words unless a call went well.  `what` completes "cannot ...".
inline void require(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw Error(std::string("CUDA: cannot ") + what + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) +
              ")");
}
inline void require(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string("cuBLASLt: cannot ") + what + ": " + cublasLtGetStatusString(code));
}

}  // namespace orrery::cuda
