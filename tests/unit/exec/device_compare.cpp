#include "tests/unit/exec/device_compare.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "tests/support/device_under_test.hpp"

namespace orrery::test {
namespace {

/// The largest difference relative to the size; for a tensor of zeros the difference itself counts. Numbers that are
/// infinite in both are equal.
double difference(Memory a, Memory b) {
  for (std::uint64_t i = 0; i < a.count(); ++i) {
    if (!std::isinf(a[i]) || a[i] != b[i]) continue;
    a.set(i, 0.0);
    b.set(i, 0.0);
  }
  return error(a, b, 1e-6);
}

/// Whether a library of a GPU may compute it.
bool has_library(KernelKind kind) {
  switch (kind) {
    case KernelKind::gemm:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward: return true;
    default: return false;
  }
}

}  // namespace

std::vector<Operand> operands_of(Case& c, Memories& memories) {
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    operands.push_back(memories[i].operand(i < c.accumulates.size() && c.accumulates[i]));
    if (i < c.places.size()) operands.back().place = c.places[i];
  }
  return operands;
}

void run_on(Device& gpu, Case& c, Memories& memories, KernelContext context) {
  const auto stream = gpu.make_stream(false);
  const auto ended = gpu.make_event();
  std::vector<Operand> operands = operands_of(c, memories);
  std::vector<std::byte*> there;
  for (Operand& o : operands) {
    const std::uint64_t bytes = o.count * size_of(o.dtype);
    there.push_back(gpu.allocate(bytes));
    REQUIRE(there.back() != nullptr);
    stream->copy(there.back(), o.data, bytes);
    o.data = there.back();
  }
  REQUIRE(gpu.runs(c.kernel, operands));
  stream->run(c.kernel, operands, context);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const Operand o = memories[i].operand();
    stream->copy(o.data, there[i], o.count * size_of(o.dtype));
  }
  stream->record(*ended);
  while (!gpu.done(*ended)) {
  }
  for (std::byte* p : there) gpu.release(p);
}

void compare(Case c, double bound) {
  const Kernel& k = c.kernel;
  CAPTURE(name_of(k.kind), name_of(k.compute), k.rows, k.columns, k.depth);  // of exceptions, too
  KernelContext context;
  context.workload = &c.workload;
  context.mesh = c.mesh;
  context.rank = c.rank;
  Memories expected = c.memories;
  KernelScratch scratch;
  context.scratch = &scratch;
  run_kernel(k, operands_of(c, expected), context);
  if (Device* gpu = test::gpu_under_test()) {
    // What a library of a GPU has ready is computed by it, and by our own kernel, too.
    const bool library = !gpu->info().identity.empty() && has_library(k.kind);
    for (const bool own : library ? std::vector<bool>{false, true} : std::vector<bool>{false}) {
      gpu->keep_to_own_kernels(own);
      Memories got = c.memories, again = c.memories;
      run_on(*gpu, c, got, context);
      if (library) run_on(*gpu, c, again, context);
      gpu->keep_to_own_kernels(false);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i < c.rooms.size() && c.rooms[i]) continue;
        CAPTURE(own, i);
        if (library) CHECK(got[i] == again[i]);  // bit for bit
        if (got[i] == expected[i]) continue;     // infinite, too
        CHECK(difference(got[i], expected[i]) <= bound);
      }
    }
    return;
  }
  for (const std::uint32_t threads : {1U, 3U}) {
    Memories got = c.memories;
    const std::vector<Operand> operands = operands_of(c, got);
    REQUIRE(device::has_kernel(k, operands));
    device::HostLauncher launcher(threads, 5);
    if (c.shared_limit > 0) launcher.limit_shared(c.shared_limit);
    launcher.refuse_products(threads > 1);
    if (k.compute == DType::f64) {
      device::launch_kernel<double>(launcher, k, operands, context);
    } else {
      device::launch_kernel<float>(launcher, k, operands, context);
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected[i]) continue;  // infinite, too
      CAPTURE(threads, i);
      CHECK(difference(got[i], expected[i]) <= bound);
    }
  }
}

}  // namespace orrery::test
