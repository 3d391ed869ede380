#include "exec/kernels/cuda/matrix_products.hpp"

#include <array>
#include <span>
#include <string>

#include "exec/kernels/cuda/cuda_check.hpp"

namespace orrery::cuda {
namespace {

cudaDataType_t type_of(DType t, device::Float8 format = device::Float8::e4m3) {
  switch (t) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f8: return format == device::Float8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
    case DType::i32:
    case DType::u8: break;
  }
  throw Error("cuBLASLt: no products of " + std::string(name_of(t)));
}

/// cuBLASLt's matrices are column-major: a row-major one is its own transpose there.
class Layout {
 public:
  /// `rows` and `columns` are those of the stored matrix as cuBLASLt sees it.
  Layout(DType t, std::uint64_t rows, std::uint64_t columns, const device::Product::Factor& f, std::uint64_t batch) {
    require(cublasLtMatrixLayoutCreate(&layout_, type_of(t, f.format), rows, columns, static_cast<std::int64_t>(f.row)),
            "describe a matrix");
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    const auto step = static_cast<std::int64_t>(f.step);
    require(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
            "describe a batch of matrices");
    require(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
            "describe a batch of matrices");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  [[nodiscard]] cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  Description(bool f64, bool transpose_first, bool transpose_second) {
    require(cublasLtMatmulDescCreate(&description_, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                     f64 ? CUDA_R_64F : CUDA_R_32F),
            "describe a product");
    const cublasOperation_t first = transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    require(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value), "describe a product");
  }
  [[nodiscard]] cublasLtMatmulDesc_t get() const { return description_; }

 private:
  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  Preference() { require(cublasLtMatmulPreferenceCreate(&preference_), "state what algorithms are wanted"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    require(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
            "state what algorithms are wanted");
  }
  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

// Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T: the factors change places, and a matrix that is
// stored transposed stays so.
struct MatrixProducts::Known {
  explicit Known(const device::Product& p)
      : description(p.compute == DType::f64, p.b.transposed, p.a.transposed),
        first(p.b.x.dtype, p.b.transposed ? p.depth : p.columns, p.b.transposed ? p.columns : p.depth, p.b, p.batch),
        second(p.a.x.dtype, p.a.transposed ? p.rows : p.depth, p.a.transposed ? p.depth : p.rows, p.a, p.batch),
        result(p.c.x.dtype, p.columns, p.rows, p.c, p.batch) {
    if (p.bias.data == nullptr) return;
    // One for each of our columns, which are cuBLASLt's rows; of the result's type.
    description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    description.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.dtype));
  }
  /// What lies elsewhere each time, and is told in the description.
  void place(const device::Product& p) {
    if (p.bias.data != nullptr) {
      description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(p.bias.data));
    }
    if (p.a.x.dtype == DType::f8) {  // the factors change places
      description.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(p.b.scale));
      description.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(p.a.scale));
    }
  }
  Description description;
  Layout first, second, result;
  cublasLtMatmulAlgo_t algorithm{};
};

MatrixProducts::MatrixProducts(cudaStream_t stream, ProductNotes& notes) : stream_(stream), notes_(notes) {}

MatrixProducts::~MatrixProducts() {
  if (workspace_ != nullptr) cudaFree(workspace_);
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

cublasStatus_t MatrixProducts::launch(const Known& known, const device::Product& p) {
  const bool f64 = p.compute == DType::f64;
  const double alpha = p.alpha, beta = p.add ? 1.0 : 0.0;
  const auto alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
  return cublasLtMatmul(handle_, known.description.get(), f64 ? static_cast<const void*>(&alpha) : &alpha32, p.b.x.data,
                        known.first.get(), p.a.x.data, known.second.get(),
                        f64 ? static_cast<const void*>(&beta) : &beta32, p.c.x.data, known.result.get(), p.c.x.data,
                        known.result.get(), &known.algorithm, workspace_, workspace_size, stream_);
}

bool MatrixProducts::choose_algorithm(Known& known, const device::Product& p) {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_size);
  // Parts of a long sum are added in an order that does not depend on timing.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, device::alignment_of(p.b, p.batch));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, device::alignment_of(p.a, p.batch));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, device::alignment_of(p.c, p.batch));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, device::alignment_of(p.c, p.batch));
  std::array<cublasLtMatmulHeuristicResult_t, algorithms_asked> best{};
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, known.description.get(), known.first.get(),
                                                         known.second.get(), known.result.get(), known.result.get(),
                                                         preference.get(), algorithms_asked, best.data(), &count);
  // A proposed algorithm may still be refused when it is launched; nothing is computed then.
  for (const cublasLtMatmulHeuristicResult_t& b : std::span(best).first(static_cast<std::size_t>(count))) {
    known.algorithm = b.algo;
    status = b.state == CUBLAS_STATUS_SUCCESS ? launch(known, p) : b.state;
    if (status == CUBLAS_STATUS_SUCCESS) return true;
  }
  notes_.own("cuBLASLt has no algorithm of " + std::to_string(count) + " for [" + std::to_string(p.rows) + ", " +
             std::to_string(p.depth) + "] times [" + std::to_string(p.depth) + ", " + std::to_string(p.columns) +
             "] of " + std::string(name_of(p.a.x.dtype)) + " into " + std::string(name_of(p.c.x.dtype)) + " (" +
             cublasLtGetStatusString(status) + ")");
  return false;
}

bool MatrixProducts::multiply(const device::Product& p) {
  if (p.rows == 0 || p.columns == 0 || p.batch == 0) return true;
  if (handle_ == nullptr) {
    require(cublasLtCreate(&handle_), "start");
    require(cudaMalloc(&workspace_, workspace_size), "take memory for matrix products");
  }
  const device::ProductShape shape = device::shape_of(p);
  const auto found = known_.find(shape);
  if (found != known_.end()) {
    if (found->second == nullptr) return false;
    found->second->place(p);
    require(launch(*found->second, p), "multiply");
    return true;
  }
  auto known = std::make_unique<Known>(p);
  known->place(p);
  if (!choose_algorithm(*known, p)) known.reset();
  return known_.emplace(shape, std::move(known)).first->second != nullptr;
}

}  // namespace orrery::cuda
