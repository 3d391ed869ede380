#include <catch2/catch.hpp>
#include <iostream>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/cuda/cudnn/fused_attention.hpp"
#include "exec/kernels/cuda/cudnn/library.hpp"

using namespace orrery;
using cudnn::AttentionPlan;
using cudnn::AttentionShape;

// cuDNN plans attention for a GPU that is described to it and is not there: it takes the graph, finds engines that
// support it, writes and compiles their code, and serialises the plan. A library of our own stands for the driver
// (fake_cuda_driver.cpp). What is left to a GPU is to run the plan.
namespace {

/// An NVIDIA H100 (SXM) or A100, in the words of cuDNN's own JSON.
/// Source: NVIDIA's CUDA C++ Programming Guide, table of technical specifications by compute capability (blocks,
/// threads, registers, shared memory), and its H100 and A100 architecture papers (multiprocessors, L2).
cudnn::PlanTarget gpu(int capability) {
  const bool hopper = capability == 90;
  std::string text = R"({"cudaDeviceId": 0, "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 85899345920,
    "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, )";
  text += hopper ? R"("deviceName": "NVIDIA H100", "deviceVer": 900, "multiProcessorCount": 132,
    "maxSharedMemoryPerBlockOptin": 232448, "l2CacheSize": 52428800})"
                 : R"("deviceName": "NVIDIA A100", "deviceVer": 800, "multiProcessorCount": 108,
    "maxSharedMemoryPerBlockOptin": 166912, "l2CacheSize": 41943040})";
  return {nullptr, text, capability};
}

AttentionShape shape(std::int64_t pairs, std::int64_t group, std::int64_t length, std::int64_t dim) {
  AttentionShape s;
  s.causal = true;
  s.all_pairs = s.pairs = pairs;
  s.group = group;
  s.length = s.keys_length = length;
  s.dim = s.value = dim;
  s.scale = 0.125;
  return s;
}

bool there() {
  std::string why;
  if (cudnn::library(why) != nullptr) return true;
  std::cout << "skipped: " << why << '\n';
  return false;
}

/// Plans forward and backward, and checks what they take.
void check_plans(AttentionShape s, int capability) {
  for (const bool backward : {false, true}) {
    s.backward = backward;
    CAPTURE(capability, backward, s.group, s.length, s.dim, s.value, s.window, s.causal, name_of(s.type));
    const AttentionPlan plan(s, gpu(capability));
    CHECK(!plan.name().empty());
    CHECK(plan.serialized().size() > 1000);
    // A cuDNN that keeps no gradients of scores takes less.
    const std::uint64_t scores =
        backward ? static_cast<std::uint64_t>(s.pairs) * cudnn::score_bytes(s.group, s.length, s.keys_length) : 0;
    // Beside the gradients of scores: those of keys and values for every head before they are added up, 16 bits each,
    // row sums in f32, and rounding up. So a run takes at most the bytes that the rule counts.
    const auto rows = [&](std::int64_t n) {
      return static_cast<std::uint64_t>(s.pairs * s.group * ((n + 127) / 128 * 128));
    };
    const std::uint64_t of_keys = rows(s.keys_length) * static_cast<std::uint64_t>(2 * (s.dim + s.value));
    const std::uint64_t beside = backward ? of_keys + rows(s.length) * 2 * 4 : 0;
    CHECK(plan.workspace_bytes() <= scores + beside + 4096);
    const std::string text = plan.graph_text();
    // The batch of pairs lies a group's width apart.
    CHECK(text.find("[" + std::to_string(s.group_width()) + "," + std::to_string(s.dim) + "," +
                    std::to_string(s.all_pairs * s.group_width()) + ",1]") != std::string::npos);
    if (backward) CHECK(text.find("\"is_deterministic_algorithm\":true") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("cuDNN plans causal attention of groups that share a key, by strides, for Hopper", "[cudnn]") {
  if (!there()) return;
  check_plans(shape(4, 8, 1024, 64), 90);
}

TEST_CASE("cuDNN plans windows, all keys, wide heads and lengths that are no whole tiles", "[cudnn]") {
  if (!there()) return;
  AttentionShape window = shape(2, 1, 512, 128);
  window.window = 100;
  window.type = DType::f16;
  check_plans(window, 90);
  AttentionShape open = shape(2, 2, 150, 80);
  open.causal = false;
  check_plans(open, 90);
  AttentionShape latent = shape(2, 1, 256, 192);
  latent.value = 128;
  check_plans(latent, 90);
}

TEST_CASE("cuDNN plans attention for an A100", "[cudnn]") {
  if (!there()) return;
  check_plans(shape(2, 2, 256, 64), 80);
}

// What the ranks of a context axis of two or four ask for, with row sums for merging.
TEST_CASE("cuDNN plans attention on keys that were brought: all of some, and a diagonal that ends at the last",
          "[cudnn]") {
  if (!there()) return;
  const auto brought = [](std::int64_t queries, std::int64_t keys, bool causal) {
    AttentionShape s = shape(4, 4, queries, 128);
    s.brought = true;
    s.keys_length = keys;
    s.causal = causal;
    return s;
  };
  check_plans(brought(512, 256, false), 90);  // zigzag: all queries, the early half of the keys
  check_plans(brought(256, 512, false), 90);  // the late half of the queries, all keys
  check_plans(brought(512, 512, true), 90);   // a rank's own keys
  check_plans(brought(256, 768, true), 90);   // gathered keys
  check_plans(brought(512, 256, false), 80);
  check_plans(brought(256, 768, true), 80);
  AttentionShape window = brought(256, 384, true);
  window.window = 128;
  check_plans(window, 90);
}

TEST_CASE("cuDNN plans one shape alike each time", "[cudnn]") {
  if (!there()) return;
  AttentionShape s = shape(2, 2, 256, 64);
  s.backward = true;
  const AttentionPlan first(s, gpu(90)), second(s, gpu(90));
  CHECK(first.name() == second.name());
  CHECK(first.workspace_bytes() == second.workspace_bytes());
  // The graphs are numbered; what is in them is alike.
  const auto content = [](const AttentionPlan& plan) {
    const std::string text = plan.graph_text();
    return text.substr(text.find("\"nodes\""));
  };
  CHECK(content(first) == content(second));
}

// Gradients of one position are known (all zero but the value's); cuDNN refuses, and our own kernel makes them.
TEST_CASE("what cuDNN refuses is an error with its words", "[cudnn]") {
  if (!there()) return;
  AttentionShape s = shape(2, 1, 1, 64);
  s.backward = true;
  try {
    const AttentionPlan plan(s, gpu(90));
    FAIL("cuDNN has a plan");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).rfind("cuDNN: cannot ", 0) == 0);
  }
}

// CTest runs it with a library that says that it is cuDNN 9.1.
TEST_CASE("with an old cuDNN attention is left to our own kernel, and that is said once", "[.old]") {
  std::string why;
  REQUIRE(cudnn::library(why) == nullptr);
  Kernel k;
  k.kind = KernelKind::attention_flash_forward;
  cudnn::AttentionNotes notes;
  cudnn::FusedAttention attention(nullptr, 90, notes);
  struct : device::AroundLibrary {
    [[nodiscard]] void* scratch(std::uint64_t) override { return nullptr; }
    void move(const device::MovedElements&) override {}
    void move(const device::MovedSums&) override {}
  } none;
  const std::vector<Operand> operands(3);
  CHECK(!attention.run(k, operands, none));
  CHECK(!attention.run(k, operands, none));
  CHECK(notes.lines() ==
        std::vector<std::string>{
            "attention by our own kernel: cuDNN 9.1.0 is older than 9.11.0, the first that can be used"});
  k.kind = KernelKind::gemm;
  CHECK(!attention.run(k, operands, none));
}
