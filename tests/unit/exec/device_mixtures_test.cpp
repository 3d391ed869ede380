#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>

#include "core/spec/routing.hpp"
#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Bodies of mixtures beside the host's kernels (device_kernels_test.cpp says how).
namespace {

/// Slots of 5 tokens with 3 choices each: in no order, some empty; choices 4, 9 and 14 have none.
const std::vector<std::int32_t> some_slots{7, -1, 0, 2, 13, -1, -1, 12, 1, 3, 5, 11, 6, 10, 8, -1};

Kernel of_tokens(KernelKind kind, DType t, std::uint64_t columns) {
  Kernel k = kernel(kind, t, 5, columns, some_slots.size());
  k.batch = 3;
  return k;
}

/// So many different choices for each token; some experts have none.
std::vector<std::int32_t> some_choices(std::uint64_t tokens, std::uint32_t experts, std::uint32_t each) {
  std::vector<std::int32_t> x;
  for (std::uint64_t token = 0; token < tokens; ++token) {
    for (std::uint32_t j = 0; j < each; ++j) {
      x.push_back(static_cast<std::int32_t>((token * token / 2 + 3 * j) % (experts - 1)));
    }
  }
  return x;
}

}  // namespace

TEST_CASE("a GPU's rows go to experts and come back as the host's do", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const DType s = wide(t);
  const Memory slots = whole_numbers(some_slots);
  for (const std::uint64_t columns : {19U, 64U, 520U}) {  // rows of 16 bytes, or not
    const std::uint64_t x = 5 * columns, rows = some_slots.size() * columns;
    compare({of_tokens(KernelKind::dispatch_forward, t, columns), {values(t, x, 1), slots, values(t, rows, 9)}, {}, {}},
            0.0);
    compare({of_tokens(KernelKind::combine_backward, t, columns),
             {values(t, x, 1), values(t, rows, 2), slots, values(s, 15, 3), values(t, rows, 9), values(s, 15, 9)},
             {},
             {}},
            bound(t));
    for (const bool residual : {false, true}) {
      Memories back{values(t, rows, 1), slots}, combine{values(t, rows, 1), slots, values(s, 15, 3)};
      for (Memories* m : {&back, &combine}) {
        if (residual) m->push_back(values(t, x, 4));
        m->push_back(values(t, x, 9));
      }
      Kernel k = of_tokens(KernelKind::dispatch_backward, t, columns);
      k.options.residual = residual;
      compare({k, back, {}, {}}, bound(t));
      k.kind = KernelKind::combine_forward;
      compare({k, combine, {}, {}}, bound(t));
    }
  }
}

TEST_CASE("a GPU's gates are the host's, forward and back, with and without a loss that balances", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32);
  const auto scores = GENERATE(Mixture::Scores::softmax_chosen, Mixture::Scores::softmax_all, Mixture::Scores::sigmoid);
  // 4 sequences of 8 positions, which are routed 4 by 4: 8 groups.
  const std::uint64_t rows = 32;
  const std::uint32_t each = 3, experts = GENERATE(11U, 44U);
  const std::vector<std::int32_t> choices = some_choices(rows, experts, each);
  Kernel k = kernel(KernelKind::gates_forward, t, rows, experts);
  k.batch = each;
  k.site = static_cast<std::uint8_t>(scores);
  k.parameter = 1.7;
  const Memory logits = Memory::random(t, rows * experts, 1, 2.0), choice = whole_numbers(choices);
  compare({k, {logits, choice, values(t, rows * each, 9)}, {}, {}}, bound(t));
  k.kind = KernelKind::gates_backward;
  const auto back = [&](Workload w, const std::vector<Memory>& more, std::vector<Place> places) {
    Memories m{values(t, rows * each, 2), logits, choice};
    m.insert(m.end(), more.begin(), more.end());
    m.push_back(values(t, rows * experts, 9));
    Case c{k, m, {}, w};
    c.places = std::move(places);
    compare(c, bound(t));
  };
  Workload w;
  w.global_batch = 4;
  w.sequence_length = 8;
  w.routing.group = 4;
  back(w, {}, {});
  w.routing.auxiliary_loss = 0.3;
  w.routing.kind = Routing::Kind::skewed;
  w.routing.exponent = 0.8;
  back(w, {}, {});
  k.options.scaled = true;
  const Memory scale = Memory::of(DType::f32, {64.0, 0.0});
  back(w, {scale}, {});
  w.routing.kind = Routing::Kind::learned;
  k.options.loads = true;
  std::vector<std::int32_t> loads(8 * experts);
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint32_t j = 0; j < each; ++j) {
      ++loads[(row / 4 / 4 * 4 + row % 4) * experts + static_cast<std::uint32_t>(choices[row * each + j])];
    }
  }
  const Shard shard{{8, 8, {}, true}, {4, 4, {}, false}, {each, each, {}, false}};
  Place place;
  place.shard = &shard;
  place.box.extent[0] = 8, place.box.extent[1] = 4, place.box.extent[2] = each;
  back(w, {scale, whole_numbers(loads)}, {{}, {}, place});
}

// More experts than one kernel's arguments bring.
TEST_CASE("a GPU knows the stated loads of many experts", "[gpu-bodies]") {
  const std::uint32_t experts = 1100, each = 2;
  Kernel k = kernel(KernelKind::gates_backward, DType::f32, 16, experts);
  k.batch = each;
  Workload w;
  w.global_batch = 1;
  w.sequence_length = 2048;
  w.routing.auxiliary_loss = 40.0;
  w.routing.kind = Routing::Kind::skewed;
  w.routing.exponent = 0.5;
  compare({k,
           {zeros(DType::f32, 16 * each), values(DType::f32, 16 * experts, 1),
            whole_numbers(some_choices(16, experts, each)), zeros(DType::f32, 16 * experts)},
           {},
           w},
          bound(DType::f32));
}

TEST_CASE("a GPU's gate of shared experts is the host's", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const DType s = wide(t);
  const std::uint64_t rows = 7, columns = 130, n = rows * columns;
  const Memory x = values(t, n, 1), logits = values(s, rows, 2);
  compare({kernel(KernelKind::gate_forward, t, rows, columns), {x, logits, zeros(t, n)}, {}, {}}, bound(t));
  compare({kernel(KernelKind::gate_backward, t, rows, columns),
           {values(t, n, 3), x, logits, zeros(t, n), zeros(s, rows)},
           {},
           {}},
          bound(t));
}

TEST_CASE("a GPU chooses the experts that the host chooses, of equal ones the first", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32);
  const std::uint64_t rows = 13;
  const std::uint32_t experts = 24;
  Memory logits = values(t, rows * experts, 1);
  for (std::uint64_t i = 0; i < 4 * experts; ++i) logits.set(i, std::round(2.0 * logits[i]));  // many are equal
  for (std::uint64_t i = 4 * experts; i < 5 * experts; ++i) logits.set(i, 0.5);
  for (std::uint64_t i = 5 * experts; i < 6 * experts; ++i) logits.set(i, i % 7 == 0 ? 1.0 : -INFINITY);
  for (const std::uint32_t each : {1U, 6U, 12U}) {
    for (const std::uint32_t groups : {0U, 4U, 24U}) {
      for (std::uint8_t worth = 0; worth < 3; ++worth) {
        if (groups == 0 && worth > 0) continue;
        Kernel k = kernel(KernelKind::choose_experts, t, rows, experts);
        k.batch = each;
        k.kv_heads = groups;
        k.head_dim = groups == 0 ? 0 : groups / 2;
        k.site = worth;
        CAPTURE(each, groups, worth);
        compare({k, {logits, whole_numbers(std::vector<std::int32_t>(rows * each))}, {}, {}}, 0.0);
      }
    }
  }
}

// The next number would come from a NaN that is compared with nothing.
TEST_CASE("a GPU chooses different experts where logits are no numbers", "[gpu-bodies]") {
  std::vector<float> logits(8, std::nanf(""));
  std::vector<std::int32_t> chosen(3, -1);
  Kernel k = kernel(KernelKind::choose_experts, DType::f32, 1, 8);
  k.batch = 3;
  const std::vector<Operand> operands{{logits.data(), DType::f32, 8, false, {}},
                                      {chosen.data(), DType::i32, 3, false, {}}};
  device::HostLauncher launcher(3);
  device::launch_kernel<float>(launcher, k, operands, {});
  CHECK(chosen == std::vector<std::int32_t>{0, 1, 2});
}

TEST_CASE("a GPU gives choices the slots that the host gives them, and counts them", "[gpu-bodies]") {
  // 4 sequences of 8 positions, sequences innermost.
  const std::uint64_t rows = 32;
  const std::uint32_t each = 3, experts = 12, parts = GENERATE(1U, 2U, 4U);
  Workload w;
  w.global_batch = 4;
  w.sequence_length = 8;
  w.routing.kind = Routing::Kind::learned;
  w.routing.group = GENERATE(0U, 4U);
  if (GENERATE(false, true)) w.routing.capacity = 1.1;
  const std::uint64_t groups = rows / routing_group(w);
  Kernel k = kernel(KernelKind::route_choices, DType::f32, rows, experts,
                    parts * groups * most_kept_of_any(w, experts, each, experts / parts));
  k.batch = each;
  k.heads = parts;
  k.options.loads = GENERATE(false, true);
  const Shard shard{{8, 8, {}, true}, {4, 4, {}, false}, {each, each, {}, false}};
  Place place;
  place.shard = &shard;
  place.box.extent[0] = 8, place.box.extent[1] = 4, place.box.extent[2] = each;
  const Memory filled = whole_numbers(std::vector<std::int32_t>(k.depth, 5));
  Memories m{whole_numbers(some_choices(rows, experts, each)), filled, filled};
  if (k.options.loads) m.push_back(whole_numbers(std::vector<std::int32_t>(groups * experts, 5)));
  Case c{k, m, {}, w};
  c.places = {place};
  compare(c, 0.0);

  RoutingCounts expected;
  std::vector<std::uint64_t> sums(2 * experts, 10);
  KernelScratch scratch;
  KernelContext context;
  context.workload = &w;
  context.scratch = &scratch;
  context.routing = &expected;
  context.layer = 3;
  run_kernel(k, operands_of(c, m), context);
  context.routing_there = sums.data();
  device::HostLauncher launcher(3, 5);
  device::launch_kernel<float>(launcher, k, operands_of(c, m), context);
  std::uint64_t kept = 0;
  for (std::uint32_t e = 0; e < experts; ++e) {
    CHECK(sums[e] == 10 + expected.at(3).chosen[e]);
    kept += sums[experts + e] - 10;
  }
  CHECK(kept == expected.at(3).kept);
}

// Two ranks share 12 experts, and each has half of 4 sequences of 24 positions; or four, with halves of the sequences
// in zigzag.
TEST_CASE("a GPU states the routing that the host states, on every rank", "[gpu-bodies]") {
  Workload w;
  w.seed = 5;
  w.global_batch = 4;
  w.sequence_length = 24;
  w.routing.kind = GENERATE(Routing::Kind::balanced, Routing::Kind::skewed);
  w.routing.exponent = w.routing.kind == Routing::Kind::skewed ? 0.9 : 0.0;
  w.routing.group = 6;
  if (GENERATE(false, true)) w.routing.capacity = 0.8;
  const std::uint32_t experts = 12, each = 4, context = GENERATE(1U, 2U), groups = GENERATE(0U, 4U);
  const bool whole = GENERATE(false, true);  // every rank has all experts
  const Mesh mesh{{{Axis::expert, 2}, {Axis::context, context}}};
  Shard shard{{24, 24, {}, false}, {4, 4, {Axis::expert}, false}, {each, each, {}, false}};
  if (context > 1) {
    shard.dims[0].split = {Axis::context};
    shard.dims[0].zigzag = context;
  }
  const std::uint32_t parts = whole ? 1 : 2 * context;
  const std::uint64_t rows = 24 / context * 2;
  const LayerRouting routing(w, experts, each, 0, groups > 0 ? ExpertGroups{groups, 2} : ExpertGroups{});
  Kernel k = kernel(KernelKind::route_tokens, DType::f32, rows, experts, parts * (rows / 6) * routing.most_kept(parts));
  k.batch = each;
  k.heads = parts;
  k.site = context > 1 ? 1 : 0;
  k.kv_heads = groups;
  k.head_dim = groups > 0 ? 2 : 0;
  for (std::uint32_t r = 0; r < 2 * context; ++r) {
    const Memory choice = whole_numbers(std::vector<std::int32_t>(rows * each, 5));
    const Memory filled = whole_numbers(std::vector<std::int32_t>(k.depth, 5));
    Case c{k, {choice, filled, filled}, {}, w};
    Place place;
    place.shard = &shard;
    place.box = box_of(shard, mesh, Rank{r});
    c.places = {place};
    c.mesh = &mesh;
    c.rank = Rank{r};
    CAPTURE(r, parts, groups);
    compare(c, 0.0);
    if (whole) continue;
    // The tokens of all parts are there, and rows are for this rank's experts.
    c.kernel.site |= 4;
    compare(c, 0.0);
  }
}

TEST_CASE("a GPU's products of experts are the host's", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const DType s = wide(t);
  // Expert 2 has no row, 3 has more than a tile of rows, and 0 two runs.
  std::vector<std::int32_t> of;
  for (const auto& [expert, rows] :
       std::vector<std::pair<int, int>>{{0, 9}, {1, 3}, {-1, 5}, {0, 1}, {3, 70}, {-1, 2}}) {
    of.insert(of.end(), static_cast<std::size_t>(rows), expert);
  }
  const std::uint64_t m = of.size();
  const Memory experts = whole_numbers(of);
  for (const auto& [n, d] : {std::pair<std::uint64_t, std::uint64_t>{37, 41}, {72, 136}, {200, 24}}) {
    for (const DType result : {t, s}) {
      for (const bool accumulate : {false, true}) {
        for (const bool transposed : {false, true}) {
          for (const bool bias : {false, true}) {
            Kernel k = kernel(KernelKind::expert_gemm, t, m, n, d);
            k.batch = 4;
            k.options.transpose_b = transposed;
            k.options.bias = bias;
            k.scale = accumulate ? 0.4 : 0.0;
            Memories memories{values(t, m * d, 1), values(t, 4 * d * n, 2), experts, values(result, m * n, 3)};
            if (bias) memories.push_back(values(t, 4 * n, 4));
            compare({k, memories, {false, false, false, accumulate}, {}}, bound(result));
          }
        }
        Kernel k = kernel(KernelKind::expert_gemm, t, d, n, m);
        k.batch = 4;
        k.options.transpose_a = true;
        compare({k,
                 {values(t, m * d, 1), values(t, m * n, 2), experts, values(result, 4 * d * n, 3)},
                 {false, false, false, accumulate},
                 {}},
                bound(result));
      }
    }
    for (const double scale : {0.0, 0.25}) {
      Kernel k = kernel(KernelKind::expert_bias_backward, t, m, n);
      k.batch = 4;
      k.scale = scale;
      compare({k, {values(t, m * n, 1), experts, values(s, 4 * n, 2)}, {false, false, true}, {}}, bound(t));
    }
  }
  // A message without rows.
  Kernel k = kernel(KernelKind::expert_gemm, t, 6, 5, 4);
  k.batch = 2;
  const Memory none = whole_numbers({-1, -1, -1, -1, -1, -1});
  compare({k, {values(t, 24, 1), values(t, 40, 2), none, values(t, 30, 3)}, {}, {}}, 0.0);
}
