#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "exec/kernels/device/expert_product.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "exec/kernels/device/run_tensor_flash.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Shared memory has 32 banks of 4 bytes. A warp's access of 4 bytes each is one wavefront where no two lanes need
// different words of a bank; of 16 bytes each, its quarters of 8 lanes are taken one after another, each by the same
// rule. Source: NVIDIA, "CUDA C++ Programming Guide", 16.5.3 and the vector accesses of "CUDA C++ Best Practices
// Guide".
namespace {

/// Wavefronts beyond those that an access of so many bytes must have.
std::uint64_t conflicts(const device::SharedAccess& a) {
  const std::uint32_t lanes_at_once = std::min<std::uint32_t>(32, 128 / a.bytes);
  std::uint64_t extra = 0;
  for (std::uint32_t first = 0; first < 32; first += lanes_at_once) {
    std::array<std::set<std::uint64_t>, 32> words;
    for (std::uint32_t lane = first; lane < first + lanes_at_once; ++lane) {
      for (std::uint64_t word = a.at[lane] / 4; word < (a.at[lane] + a.bytes) / 4; ++word) {
        words[word % 32].insert(word);
      }
    }
    std::size_t most = 1;
    for (const auto& of_bank : words) most = std::max(most, of_bank.size());
    extra += most - 1;
  }
  return extra;
}

struct Counted {
  std::uint64_t accesses = 0, conflicts = 0, misplaced = 0;
};

/// What runs of kernels do to shared memory.
class Counter {
 public:
  explicit Counter(device::HostLauncher& launcher) {
    launcher.watch([this](const device::SharedAccess& a) {
      const std::lock_guard lock(one_);
      ++counted_.accesses;
      counted_.conflicts += conflicts(a);
      for (const std::uint64_t at : a.at) counted_.misplaced += at % a.bytes != 0 ? 1 : 0;
    });
  }
  [[nodiscard]] const Counted& counted() const { return counted_; }

 private:
  std::mutex one_;
  Counted counted_;
};

/// What the kernels of one head of so many features do to shared memory, forward and backward.
Counted count(std::uint32_t dim, std::uint64_t shared_limit) {
  const DType t = DType::bf16;
  Kernel k = kernel(KernelKind::attention_flash_forward, t, 140, 0);
  k.batch = k.heads = k.kv_heads = 1;
  k.head_dim = dim;
  k.options.causal = true;
  Memory qkv = values(t, 140 * 3 * dim, 1), context = zeros(t, 140 * dim), lse = zeros(DType::f32, 140);
  Memory dcontext = values(t, 140 * dim, 2), dqkv = zeros(t, 140 * 3 * dim), dq = zeros(DType::f32, 140 * dim);
  device::HostLauncher launcher;
  launcher.limit_shared(shared_limit);
  const Counter counter(launcher);
  const std::vector<Operand> forward{qkv.operand(), context.operand(), lse.operand()};
  REQUIRE(device::run_tensor_flash(launcher, k, NamedOperands(k, forward), {}));
  k.kind = KernelKind::attention_flash_backward;
  const std::vector<Operand> backward{dcontext.operand(), qkv.operand(),  context.operand(),
                                      lse.operand(),      dqkv.operand(), dq.operand()};
  REQUIRE(device::run_tensor_flash(launcher, k, NamedOperands(k, backward), {}));
  return counter.counted();
}

/// What experts' products do: of their rows with weights that are stored either way, or of weights' gradients.
Counted count_experts(bool to_weight, bool transposed) {
  const DType t = DType::bf16;
  constexpr std::uint64_t rows = 150, columns = 136, depth = 72, experts = 2;
  std::vector<std::int32_t> chosen(rows);
  for (std::uint64_t i = 0; i < rows; ++i) chosen[i] = static_cast<std::int32_t>(i % 3) - 1;  // a third has none
  Memory a = values(t, rows * depth, 1), b = values(t, to_weight ? rows * columns : experts * depth * columns, 2);
  Memory of = whole_numbers(chosen), c = zeros(t, to_weight ? experts * depth * columns : rows * columns);
  Kernel k = to_weight ? kernel(KernelKind::expert_gemm, t, depth, columns, rows)
                       : kernel(KernelKind::expert_gemm, t, rows, columns, depth);
  k.batch = experts;
  k.options.transpose_a = to_weight;
  k.options.transpose_b = transposed;
  device::HostLauncher launcher;
  const Counter counter(launcher);
  const std::vector<Operand> operands{a.operand(), b.operand(), of.operand(), c.operand()};
  REQUIRE(device::run_expert_products<float>(launcher, k, NamedOperands(k, operands), {}));
  return counter.counted();
}

}  // namespace

TEST_CASE("the count of bank conflicts is that of known patterns", "[exec]") {
  device::SharedAccess a{false, 4, {}};
  for (std::uint64_t lane = 0; lane < 32; ++lane) a.at[lane] = 4 * lane;
  CHECK(conflicts(a) == 0);
  for (std::uint64_t lane = 0; lane < 32; ++lane) a.at[lane] = 0;  // one word for all
  CHECK(conflicts(a) == 0);
  for (std::uint64_t lane = 0; lane < 32; ++lane) a.at[lane] = 8 * lane;
  CHECK(conflicts(a) == 1);
  for (std::uint64_t lane = 0; lane < 32; ++lane) a.at[lane] = 128 * lane;
  CHECK(conflicts(a) == 31);
  a.bytes = 16;
  for (std::uint64_t lane = 0; lane < 32; ++lane) a.at[lane] = 16 * lane;
  CHECK(conflicts(a) == 0);
  for (std::uint64_t lane = 0; lane < 32; ++lane) a.at[lane] = 128 * lane;  // a column of unpadded rows
  CHECK(conflicts(a) == 4 * 7);
}

TEST_CASE("attention on tensor cores has no bank conflicts, for any width of tiles", "[exec]") {
  const std::uint32_t dim = GENERATE(40U, 64U, 96U, 128U);
  const std::uint64_t limit = GENERATE(std::uint64_t{160} << 10, std::uint64_t{99} << 10);
  CAPTURE(dim, limit);
  const Counted c = count(dim, limit);
  CHECK(c.accesses > 1000);
  CHECK(c.misplaced == 0);
  CHECK(c.conflicts == 0);
}

TEST_CASE("products of experts on tensor cores have no bank conflicts", "[exec]") {
  const auto [to_weight, transposed] =
      GENERATE(std::pair{false, false}, std::pair{false, true}, std::pair{true, false});
  CAPTURE(to_weight, transposed);
  const Counted c = count_experts(to_weight, transposed);
  CHECK(c.accesses > 1000);
  CHECK(c.misplaced == 0);
  CHECK(c.conflicts == 0);
}
