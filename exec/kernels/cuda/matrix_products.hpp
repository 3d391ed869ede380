#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>

#include "exec/kernels/cuda/product_notes.hpp"
#include "exec/kernels/device/product_shape.hpp"

namespace orrery::cuda {

/// Products by cuBLASLt on one stream. For each shape it describes the product to cuBLASLt once, asks for algorithms
/// once and keeps the first that works, so that a run repeats bit for bit.
class MatrixProducts {
 public:
  /// The notes outlive it.
  MatrixProducts(cudaStream_t stream, ProductNotes&);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  /// Multiplies, with the bias where that has the result's type and is not f64 (the launcher adds others itself).
  /// False, and nothing is computed, where none of cuBLASLt's algorithms works; the notes say so.
  [[nodiscard]] bool multiply(const device::Product&);
  [[nodiscard]] std::uint64_t workspace_bytes() const { return workspace_ == nullptr ? 0 : workspace_size; }

  /// Whether a GPU of this compute capability multiplies fp8; Ada, Hopper and later do.
  [[nodiscard]] static bool takes_fp8(int major, int minor) { return major > 8 || (major == 8 && minor >= 9); }

 private:
  /// The size that NVIDIA recommends for Hopper; enough for every algorithm there.
  static constexpr std::uint64_t workspace_size = std::uint64_t{32} << 20;
  /// How many algorithms cuBLASLt proposes for a shape; the first that it then launches is kept.
  static constexpr int algorithms_asked = 8;
  struct Known;
  [[nodiscard]] cublasStatus_t launch(const Known&, const device::Product&);
  /// Multiplies, too; false where no algorithm does.
  [[nodiscard]] bool choose_algorithm(Known&, const device::Product&);

  cudaStream_t stream_;
  ProductNotes& notes_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<device::ProductShape, std::unique_ptr<Known>> known_;  ///< null: cuBLASLt refuses
};

}  // namespace orrery::cuda
