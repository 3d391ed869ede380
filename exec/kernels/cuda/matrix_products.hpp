#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>

#include "exec/kernels/device/launcher.hpp"

namespace orrery::cuda {

/// Products by cuBLASLt on one stream. It asks cuBLASLt for algorithms once for each shape and keeps the first that
/// works, so that a run repeats bit for bit.
class MatrixProducts {
 public:
  explicit MatrixProducts(cudaStream_t stream) : stream_(stream) {}
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  /// Multiplies, with the bias where that has the result's type and is not f64 (the launcher adds others itself).
  /// Throws Error where none of cuBLASLt's algorithms works.
  void multiply(const device::Product&);
  [[nodiscard]] std::uint64_t workspace_bytes() const { return workspace_ == nullptr ? 0 : workspace_size; }

  /// Whether cuBLASLt multiplies such types: the factors must be alike, and the result like them or f32.
  [[nodiscard]] static bool takes(DType factors, DType result, DType compute);
  /// Whether a GPU of this compute capability multiplies fp8; Ada, Hopper and later do.
  [[nodiscard]] static bool takes_fp8(int major, int minor) { return major > 8 || (major == 8 && minor >= 9); }

 private:
  /// The size that NVIDIA recommends for Hopper; enough for every algorithm there.
  static constexpr std::uint64_t workspace_size = std::uint64_t{32} << 20;
  /// How many algorithms cuBLASLt proposes for a shape; the first that it then launches is kept.
  static constexpr int algorithms_asked = 8;
  using Key = std::array<std::uint64_t, 21>;
  [[nodiscard]] static Key key_of(const device::Product&);

  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, cublasLtMatmulAlgo_t> chosen_;
};

}  // namespace orrery::cuda
