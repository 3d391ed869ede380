#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

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

/// What the kernels of one head of so many features do to shared memory, forward and backward.
Counted count(std::uint32_t dim, std::uint64_t shared_limit) {
  const DType t = DType::bf16;
  Kernel k = kernel(KernelKind::attention_flash_forward, t, 140, 0);
  k.batch = k.heads = k.kv_heads = 1;
  k.head_dim = dim;
  k.options.causal = true;
  Memory qkv = values(t, 140 * 3 * dim, 1), context = zeros(t, 140 * dim), lse = zeros(DType::f32, 140);
  Memory dcontext = values(t, 140 * dim, 2), dqkv = zeros(t, 140 * 3 * dim), dq = zeros(DType::f32, 140 * dim);
  Counted counted;
  std::mutex one;
  device::HostLauncher launcher;
  launcher.limit_shared(shared_limit);
  launcher.watch([&](const device::SharedAccess& a) {
    const std::lock_guard lock(one);
    ++counted.accesses;
    counted.conflicts += conflicts(a);
    for (const std::uint64_t at : a.at) counted.misplaced += at % a.bytes != 0 ? 1 : 0;
  });
  const std::vector<Operand> forward{qkv.operand(), context.operand(), lse.operand()};
  REQUIRE(device::run_tensor_flash(launcher, k, NamedOperands(k, forward), {}));
  k.kind = KernelKind::attention_flash_backward;
  const std::vector<Operand> backward{dcontext.operand(), qkv.operand(),  context.operand(),
                                      lse.operand(),      dqkv.operand(), dq.operand()};
  REQUIRE(device::run_tensor_flash(launcher, k, NamedOperands(k, backward), {}));
  return counted;
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
