// A GPU's updates that need to know an element's tensor, compared with those of exec/kernels/cpu: whole, and cut over
// ranks in the middle of a tensor.

#include <catch2/catch.hpp>

#include <algorithm>

#include "core/program/factored.hpp"
#include "core/program/flat_parts.hpp"
#include "tests/support/device_under_test.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Tensors of 1301, 34 and 700 elements with decay, then 3 of padding; one of 50 without.
ParameterTable vectors() {
  const auto whole = [](std::uint64_t n) { return Shard{{n, n, {}, false}}; };
  ParameterTable t;
  t.module = "layer";
  t.count = 2088;
  t.slices = {{"a", 0, whole(1301), Init::zeros, 0.0},
              {"b", 1301, whole(34), Init::zeros, 0.0},
              {"c", 1335, whole(700), Init::zeros, 0.0},
              {"d", 2038, whole(50), Init::zeros, 0.0}};
  t.segments = {{0, 2038, true, false, true}, {2038, 50, false, false, true}};
  return t;
}

/// The first segment whole, or either half of it: b lies in the second.
struct Part {
  std::uint32_t rank;
  bool split;
  std::uint64_t count;
};

/// The tensors are a matrix of 72 rows, 2 of them padding, whose 2 x 26 columns the tensor axis cuts; one whose rows it
/// cuts, the last of them padding; a vector with padding; and three experts on each rank, their rows cut.
ParameterTable matrices() {
  const auto whole = [](std::uint64_t n, std::uint64_t padding = 0) { return ShardDim{n, n - padding, {}, false}; };
  const auto cut = [](std::uint64_t n, Axis axis, std::uint64_t padding = 0) {
    return ShardDim{n, n - padding, {axis}, false};
  };
  ParameterTable t;
  t.module = "layer";
  t.count = 1872 + 682 + 50 + 990;
  t.slices = {{"a", 0, {whole(72, 2), whole(2), cut(26, Axis::tensor)}, Init::zeros, 0.0},
              {"b", 1872, {cut(44, Axis::tensor, 1), whole(31)}, Init::zeros, 0.0},
              {"c", 2554, {whole(50, 3)}, Init::zeros, 0.0},
              {"d", 2604, {cut(6, Axis::expert), cut(30, Axis::tensor), whole(22)}, Init::zeros, 0.0}};
  t.segments = {{0, 2554, true, false, true}, {2554, 50, false, true, true}, {2604, 990, true, false, true}};
  return t;
}

Memory positive(DType t, std::uint64_t n, std::uint64_t stream) {
  Memory m = values(t, n, stream);
  for (std::uint64_t i = 0; i < n; ++i) m.set(i, m[i] * m[i]);
  return m;
}

}  // namespace

TEST_CASE("a GPU's trust ratios and their updates are the host's, in the middle of tensors too", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const DType s = wide(t);
  const bool master = t == DType::bf16 && GENERATE(true, false);
  const ParameterTable table = vectors();
  const Mesh mesh{{{Axis::data, 2}}};
  Workload w;
  w.optimizer.weight_decay = 0.1;
  w.optimizer.momentum = 0.9;
  w.optimizer.trust_coefficient = 0.02;
  w.schedule.warmup_steps = 3;
  w.schedule.total_steps = 40;
  if (GENERATE(false, true)) w.optimizer.trust_clip = 3.0;
  for (const Part part : {Part{0, false, 2038}, Part{0, true, 1019}, Part{1, true, 1019}}) {
    const std::uint64_t n = part.count;
    Place place;
    place.table = &table;
    if (part.split) place.flat_split = {Axis::data};
    for (const bool factor : {false, true}) {
      for (const double skip : {0.0, 1.0}) {
        if (skip != 0.0 && !factor) continue;
        CAPTURE(part.rank, part.split, factor, skip);
        const auto check = [&](KernelKind kind, std::uint32_t depth, Memories m, std::vector<bool> accumulates,
                               std::size_t placed, bool has_master) {
          Kernel k = kernel(kind, s, 1, n, depth);
          k.options.factor = factor;
          k.options.master = has_master;
          k.options.decay = true;
          k.parameter = 0.5;
          Case c{k, std::move(m), std::move(accumulates), w, {}, &mesh, Rank{part.rank}};
          c.places.resize(placed + 1);
          c.places[placed] = place;
          compare(c, 2 * bound(t));
        };
        const auto with_factor = [&](Memories m) {
          if (factor) m.push_back(Memory::of(DType::f64, {0.7, skip}));
          return m;
        };
        const Memory gradient = values(s, n, 1), steps = Memory::of(DType::f64, {7});
        const Memory exact = values(master ? s : t, n, 2), m = values(s, n, 4), v = positive(s, n, 5);
        // The third tensor's gradient, then the first one's weight, have length 0, so no ratio is applied.
        const Memory norms = Memory::of(DType::f64, {9, 4, 25, 0, 0, 16}), begun = values(DType::f64, 6, 6);
        const auto weights = [&](Memories all) {
          if (master) {
            all.push_back(values(t, n, 3));
          }
          all.push_back(exact);
          return all;
        };
        const std::size_t f = factor ? 1 : 0;
        Memories moments = with_factor({gradient, steps});
        for (const Memory& x : {exact, m, v, begun}) moments.push_back(x);
        check(KernelKind::lamb_moments, 3, moments, {}, 2 + f, false);
        Memories update = weights(with_factor({norms, steps}));
        for (const Memory& x : {m, v}) update.push_back(x);
        check(KernelKind::lamb_update, 3, update, {}, 2 + f, master);
        Memories squares = with_factor({gradient});
        for (const Memory& x : {exact, begun}) squares.push_back(x);
        check(KernelKind::lars_norms, 3, squares, {}, 1 + f, false);
        Memories lars = weights(with_factor({gradient, steps}));
        lars.push_back(m);
        check(KernelKind::lars_update, 0, lars, {}, 2 + f, master);
        lars.push_back(norms);
        check(KernelKind::lars_update, 3, lars, {}, 2 + f, master);
      }
    }
  }
}

TEST_CASE("a GPU's Adafactor is the host's, of cut and padded matrices, vectors and experts", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const DType s = wide(t);
  const bool master = t == DType::bf16 && GENERATE(true, false);
  const ParameterTable table = matrices();
  const Mesh mesh{{{Axis::data, 2}, {Axis::expert, 2}, {Axis::tensor, 2}}};
  Workload w;
  w.optimizer.weight_decay = 0.1;
  w.optimizer.learning_rate = 0.01;
  for (const bool split : {false, true}) {
    const AxisList axes = split ? AxisList{Axis::data} : AxisList{};
    for (const FlatPart& part : flat_parts(table, mesh, axes)) {
      const FactoredSegment segment = factored(table, *part.segment, mesh);
      const std::uint64_t n = part.count;
      Place place;
      place.table = &table;
      place.flat_split = axes;
      place.flat_first = part.first;
      // These are both halves of data, and either rank of experts and tensors.
      for (const std::uint32_t rank : {0U, 3U, 5U, 7U}) {
        for (const int factors : {0, 1, 2}) {
          const bool factor = factors > 0;
          CAPTURE(split, part.first, rank, factors);
          const auto check = [&](KernelKind kind, Memories m, bool has_master) {
            Kernel k = kernel(kind, s, 1, n, static_cast<std::uint32_t>(segment.count));
            k.batch = static_cast<std::uint32_t>(segment.matrices);
            k.options.factor = factor;
            k.options.master = has_master;
            k.options.decay = part.segment->decay;
            k.parameter = 0.5;
            compare({k, std::move(m), {}, w, {place}, &mesh, Rank{rank}}, 2 * bound(t));
          };
          const auto with_factor = [&](Memories m) {
            if (factor) m.push_back(Memory::of(DType::f64, {0.7, factors == 2 ? 1.0 : 0.0}));
            return m;
          };
          const Memory gradient = values(s, n, 1), steps = Memory::of(DType::f64, {7});
          const Memory sums = positive(s, segment.count, 2), moments = positive(s, segment.count, 3);
          const Memory norms = positive(DType::f64, segment.matrices, 4);
          Memories squares = with_factor({gradient});
          squares.push_back(sums);
          check(KernelKind::adafactor_squares, squares, false);
          Memories means = with_factor({gradient, sums, steps});
          for (const Memory& x : {moments, norms}) means.push_back(x);
          check(KernelKind::adafactor_moments, means, false);
          Memories update = with_factor({gradient, steps});
          update.push_back(values(t, n, 5));  // rounded from the master, in padding too
          if (master) update.push_back(values(s, n, 5));
          update.push_back(moments);
          // There are root mean squares above and below the clip.
          Memory lengths = norms;
          for (std::uint64_t i = 0; i < lengths.count(); ++i) lengths.set(i, norms[i] * (i % 2 == 0 ? 1.0 : 1e5));
          update.push_back(lengths);
          check(KernelKind::adafactor_update, update, master);
        }
      }
    }
  }
}

// The first moment in E4M3, the second in f16, both in multiples of a scale for each 128; the last block has 61.
TEST_CASE("a GPU's Adam with scaled moments is the host's", "[gpu-bodies]") {
  const DType s = GENERATE(DType::f64, DType::f32);
  const std::uint64_t n = 5 * 128 + 61, blocks = 6;
  Workload w;
  w.optimizer.weight_decay = 0.1;
  Memory first = values(DType::f8, n, 4), second = positive(DType::f16, n, 5);
  Memory scales = positive(DType::f32, 2 * blocks, 6);
  // A block without gradients and moments keeps the scale 0.
  Memory gradient = values(s, n, 1);
  for (std::uint64_t i = 128; i < 256; ++i) {
    gradient.set(i, 0.0);
    first.set(i, 0.0);
    second.set(i, 0.0);
  }
  for (const double skip : {0.0, 1.0}) {
    Kernel k = kernel(KernelKind::adam_update, s, 0, 0);
    k.options.factor = true;
    k.options.decay = true;
    k.options.master = true;
    k.options.scaled = true;
    k.depth = 128;
    const Memories m{gradient,
                     Memory::of(DType::f64, {7}),
                     Memory::of(DType::f64, {0.7, skip}),
                     values(DType::bf16, n, 2),
                     values(s, n, 2),
                     first,
                     second,
                     scales};
    // On a GPU a tie may round the other way: a step of E4M3 below 448 is 32.
    compare({k, m, {}, w}, test::gpu_under_test() != nullptr ? 0.08 : bound(DType::f32));
  }
}

// Both moments are codes of a byte in blocks of 256; the last has 61.
TEST_CASE("a GPU's Adam with moments in codes is the host's", "[gpu-bodies]") {
  const DType s = GENERATE(DType::f64, DType::f32);
  const std::uint64_t n = 3 * 256 + 61, blocks = 4;
  Workload w;
  w.optimizer.weight_decay = 0.1;
  Memory first(DType::u8, n), second(DType::u8, n);
  for (std::uint64_t i = 0; i < n; ++i) {
    first.set(i, static_cast<double>(i * 37 % 256));
    second.set(i, static_cast<double>(i * 91 % 256));
  }
  const Memory scales = positive(DType::f32, 2 * blocks, 6);
  // A block without gradients and moments gets the scale 0.
  Memory gradient = values(s, n, 1);
  for (std::uint64_t i = 256; i < 512; ++i) {
    gradient.set(i, 0.0);
    first.set(i, 0.0);
    second.set(i, 0.0);
  }
  for (const double skip : {0.0, 1.0}) {
    Kernel k = kernel(KernelKind::adam_update, s, 0, 0, 256);
    k.options.factor = true;
    k.options.decay = true;
    k.options.master = true;
    k.options.scaled = true;
    const Memories m{gradient,
                     Memory::of(DType::f64, {7}),
                     Memory::of(DType::f64, {0.7, skip}),
                     values(DType::bf16, n, 2),
                     values(s, n, 2),
                     first,
                     second,
                     scales};
    // On a GPU a number between two values may have the other's code, the next one.
    compare({k, m, {}, w}, test::gpu_under_test() != nullptr ? 0.005 : bound(DType::f32));
  }
}
