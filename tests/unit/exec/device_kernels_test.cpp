#include <catch2/catch.hpp>
#include <cmath>

#include "exec/kernels/combine.hpp"
#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "exec/kernels/device/reduction.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// A GPU's kernel bodies, run by threads of the host, against the kernels of exec/kernels/cpu, which oracle tests hold
// to finite differences. With one thread a body has one order of additions. With three, every missing wait inside a
// block is a race, and no dimension here is a multiple of 3. There are few blocks, so that bodies take their work in
// strides. The program gpu_kernels runs the same cases on a GPU, and is skipped where there is none.
namespace {

Kernel attention(KernelKind kind, DType t, bool causal, std::uint32_t kv_heads, std::uint32_t value_dim) {
  Kernel k = kernel(kind, t, 2 * 37, 0);
  k.batch = 2;
  k.heads = 4;
  k.kv_heads = kv_heads;
  k.head_dim = 10;
  k.value_dim = value_dim;
  k.options.causal = causal;
  return k;
}
/// Gives each number of key heads another kind of causal attention.
void shape_scores(Kernel& k) {
  if (!k.options.causal) return;
  k.window = k.kv_heads == 1 ? 0 : 9 + k.kv_heads;
  k.options.chunked = k.kv_heads == 2;
  k.options.alibi = k.kv_heads != 2;
  k.scale = k.kv_heads == 2 ? 0.2 : 0.0;
}
std::uint64_t qkv_width(const Kernel& k) {
  const std::uint64_t value = k.value_dim > 0 ? k.value_dim : k.head_dim;
  return k.kv_heads * ((k.heads / k.kv_heads + 1) * k.head_dim + value);
}
std::uint64_t context_width(const Kernel& k) { return k.heads * (k.value_dim > 0 ? k.value_dim : k.head_dim); }

}  // namespace

TEST_CASE("a GPU's elementwise bodies compute what the host's kernels do", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const std::uint64_t rows = 7, columns = 130;
  const std::uint64_t n = rows * columns;
  const auto two = [&](KernelKind kind) { return kernel(kind, t, rows, columns); };
  compare({two(KernelKind::gelu_forward), {values(t, n, 1), zeros(t, n)}, {}, {}}, bound(t));
  compare({two(KernelKind::gelu_backward), {values(t, n, 1), values(t, n, 2)}, {false, true}, {}}, bound(t));
  compare({two(KernelKind::swiglu_forward), {values(t, 2 * n, 1), zeros(t, n)}, {}, {}}, bound(t));
  compare({two(KernelKind::swiglu_backward), {values(t, 2 * n, 1), values(t, n, 2), zeros(t, 2 * n)}, {}, {}},
          bound(t));
  Kernel limited = two(KernelKind::swiglu_forward);
  limited.parameter = 0.4;  // of values between -1 and 1
  compare({limited, {values(t, 2 * n, 1), zeros(t, n)}, {}, {}}, bound(t));
  limited.kind = KernelKind::swiglu_backward;
  compare({limited, {values(t, 2 * n, 1), values(t, n, 2), zeros(t, 2 * n)}, {}, {}}, bound(t));
  compare({two(KernelKind::geglu_forward), {values(t, 2 * n, 1), zeros(t, n)}, {}, {}}, bound(t));
  compare({two(KernelKind::geglu_backward), {values(t, 2 * n, 1), values(t, n, 2), zeros(t, 2 * n)}, {}, {}}, bound(t));
  for (const KernelKind kind :
       {KernelKind::relu_forward, KernelKind::squared_relu_forward, KernelKind::quick_gelu_forward}) {
    compare({two(kind), {values(t, n, 1), zeros(t, n)}, {}, {}}, bound(t));
  }
  for (const KernelKind kind :
       {KernelKind::relu_backward, KernelKind::squared_relu_backward, KernelKind::quick_gelu_backward}) {
    compare({two(kind), {values(t, n, 1), values(t, n, 2)}, {false, true}, {}}, bound(t));
  }
  Kernel multiply = two(KernelKind::multiply);
  multiply.scale = 1.7;
  compare({multiply, {values(t, n, 1), zeros(t, n)}, {}, {}}, bound(t));
  compare({two(KernelKind::bias_forward), {values(t, columns, 1), values(t, n, 2)}, {false, true}, {}}, bound(t));
  compare({two(KernelKind::bias_backward), {values(t, n, 1), values(wide(t), columns, 2)}, {false, true}, {}},
          bound(t));
  compare({two(KernelKind::scale_features_forward), {values(t, n, 1), values(t, columns, 2), zeros(t, n)}, {}, {}},
          bound(t));
  compare(
      {two(KernelKind::scale_features_backward_input), {values(t, n, 1), values(t, columns, 2), zeros(t, n)}, {}, {}},
      bound(t));
  compare({two(KernelKind::scale_features_backward_weight),
           {values(t, n, 1), values(t, n, 2), values(wide(t), columns, 3)},
           {false, false, true},
           {}},
          bound(t));
  Kernel mean = two(KernelKind::mean_rows_forward);
  mean.depth = 5;
  compare({mean, {values(t, 5 * n, 1), zeros(t, n)}, {}, {}}, bound(t));
  mean.kind = KernelKind::mean_rows_backward;
  compare({mean, {values(t, n, 1), zeros(t, 5 * n)}, {}, {}}, bound(t));
  compare({two(KernelKind::add_to), {values(t, n, 1), values(wide(t), n, 2)}, {false, true}, {}}, bound(t));
  compare({two(KernelKind::convert), {values(wide(t), n, 1), zeros(t, n)}, {}, {}}, 0.0);
  compare({two(KernelKind::fill), {values(t, n, 1), values(DType::f32, 3, 1)}, {}, {}}, 0.0);
}

// Large arguments: exp must not overflow into a NaN.
TEST_CASE("a GPU's activations stay finite where their arguments are large", "[gpu-bodies]") {
  const Memory x = Memory::of(DType::f32, {-1e30, -200, -90, -20, 0, 20, 90, 200, 1e30});
  for (const KernelKind kind : {KernelKind::gelu_forward, KernelKind::swiglu_forward, KernelKind::geglu_forward}) {
    Kernel k = kernel(kind, DType::f32, 1, kind == KernelKind::gelu_forward ? 9 : 4);
    compare({k, {x, zeros(DType::f32, k.columns)}, {}, {}}, bound(DType::f32));
  }
}

TEST_CASE("a GPU's dropout keeps what the host's keeps, and residuals are equal", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const std::uint64_t rows = 6, columns = 21, n = rows * columns;
  Workload w;
  w.seed = 17;
  const double scale = GENERATE(0.0, 0.4);
  for (const bool bias : {false, true}) {
    for (const bool dropout : {false, true}) {
      Kernel k = kernel(KernelKind::residual_forward, t, rows, columns);
      k.options.bias = bias;
      k.options.dropout = dropout;
      k.parameter = dropout ? 0.3 : 0.0;
      k.site = 1;
      k.scale = scale;
      Memories m{values(t, n, 1)};
      if (bias) m.push_back(values(t, columns, 2));
      m.push_back(values(t, n, 3));
      m.push_back(zeros(t, n));
      if (dropout) m.push_back(Memory(DType::u8, n));
      compare({k, m, {}, w}, bound(t));
    }
  }
  Kernel k = kernel(KernelKind::dropout_forward, t, rows, columns);
  k.parameter = 0.4;
  compare({k, {values(t, n, 1), Memory(DType::u8, n)}, {true, false}, w}, bound(t));
  Memory mask(DType::u8, n);
  for (std::uint64_t i = 0; i < n; i += 3) static_cast<std::uint8_t*>(mask.operand().data)[i] = 1;
  k.kind = KernelKind::dropout_backward;
  k.scale = scale;
  compare({k, {values(t, n, 1), mask, zeros(t, n)}, {}, w}, bound(t));
}

TEST_CASE("a GPU's norms compute what the host's do, whole and cut", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const DType s = wide(t);
  const std::uint64_t rows = 70, columns = 65, n = rows * columns;
  for (const bool rms : {false, true}) {
    const auto norm = [&](KernelKind layer, KernelKind root) {
      Kernel k = kernel(rms ? root : layer, t, rows, columns);
      k.parameter = 1e-5;
      return k;
    };
    const std::uint64_t per_row = rms ? 1 : 2;
    Memory stats = values(s, per_row * rows, 9);
    Kernel forward = norm(KernelKind::layer_norm_forward, KernelKind::rms_norm_forward);
    Memories m{values(t, n, 1), values(t, columns, 2)};
    if (!rms) m.push_back(values(t, columns, 3));
    Memories whole = m;
    whole.push_back(zeros(t, n));
    whole.push_back(zeros(s, per_row * rows));
    compare({forward, whole, {}, {}}, bound(t));
    if (!rms) {
      forward.options.unbiased = true;
      compare({forward, {m[0], m[1], zeros(t, n), zeros(s, 2 * rows)}, {}, {}}, bound(t));
      forward.options.unbiased = false;
    }
    forward.options.cut = true;
    forward.depth = 2 * columns;
    Memory squares = values(s, rows, 5);
    for (std::uint64_t i = 0; i < rows; ++i) squares.set(i, 100 + std::abs(squares[i]));
    if (!rms) m.push_back(values(s, rows, 4));
    m.push_back(squares);
    m.push_back(zeros(t, n));
    m.push_back(zeros(s, per_row * rows));
    compare({forward, m, {}, {}}, bound(t));

    Kernel input = norm(KernelKind::layer_norm_backward_input, KernelKind::rms_norm_backward_input);
    for (const bool residual : {false, true}) {
      for (const bool cut : {false, true}) {
        input.options.residual = residual;
        input.options.cut = cut;
        input.depth = cut ? 2 * columns : 0;
        Memories b{values(t, n, 1), values(t, n, 2), values(t, columns, 3), stats};
        if (cut) b.push_back(values(s, per_row * rows, 7));
        if (residual) b.push_back(values(t, n, 6));
        b.push_back(values(t, n, 8));
        std::vector<bool> a(b.size(), false);
        a.back() = !residual;
        // Statistics of order 1 multiply twice: a few roundings more.
        compare({input, b, a, {}}, 4 * bound(t));
      }
    }
    Kernel weight = norm(KernelKind::layer_norm_backward_weight, KernelKind::rms_norm_backward_weight);
    Memories g{values(t, n, 1), values(t, n, 2), stats, values(s, columns, 3)};
    if (!rms) g.push_back(values(s, columns, 4));
    compare({weight, g, {false, false, false, true, true}, {}}, 4 * bound(t));

    Kernel sums = kernel(KernelKind::norm_squares, t, rows, columns, 2 * columns);
    sums.options.centered = !rms;
    Memories q{values(t, n, 1)};
    if (!rms) q.push_back(values(s, rows, 2));
    q.push_back(zeros(s, rows));
    compare({sums, q, {}, {}}, bound(t));
    sums.kind = KernelKind::norm_gradient_sums;
    compare({sums, {values(t, n, 1), values(t, n, 2), values(t, columns, 3), stats, zeros(s, per_row * rows)}, {}, {}},
            4 * bound(t));
  }
  compare({kernel(KernelKind::norm_sums, t, rows, columns), {values(t, n, 1), zeros(s, rows)}, {}, {}}, bound(t));
}

// Tokens stand several times, beside the table's part, and not at all.
TEST_CASE("a GPU's tables give and take what the host's do", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const std::uint64_t columns = 11, entries = 8;
  const std::vector<std::int32_t> ids{9, 4, 4, 15, 3, 4, 11, 9, 5, 9};
  const std::uint64_t rows = ids.size();
  // The table is the second half of 16 entries: ids 8 to 15.
  Shard shard{{16, 16, {}, false, 0}, {columns, columns, {}, false, 0}};
  Place half;
  half.shard = &shard;
  half.box.rank = 2;
  half.box.offset = {8, 0};
  half.box.extent = {8, columns};
  Case forward{kernel(KernelKind::embed_forward, t, rows, columns, entries),
               {whole_numbers(ids), values(t, entries * columns, 1), zeros(t, rows * columns)},
               {},
               {},
               {{}, half, {}}};
  compare(forward, 0.0);
  Case backward{kernel(KernelKind::embed_backward, t, rows, columns, entries),
                {whole_numbers(ids), values(t, rows * columns, 1), values(wide(t), entries * columns, 2)},
                {false, false, true},
                {},
                {{}, {}, half}};
  compare(backward, bound(wide(t)));

  // 3 sequences, 4 positions of 8: the middle of two zigzag pieces, positions 2, 3 and 4, 5.
  Shard cut{{8, 8, {}, false, 2}, {3, 3, {}, false, 0}, {columns, columns, {}, false, 0}};
  Place part;
  part.shard = &cut;
  part.box.rank = 3;
  part.box.offset = {4, 0, 0};
  part.box.extent = {4, 3, columns};
  Kernel position = kernel(KernelKind::position_forward, t, 12, columns);
  compare({position, {values(t, 12 * columns, 1), values(t, 8 * columns, 2)}, {true, false}, {}, {part, {}}}, bound(t));
  position.kind = KernelKind::position_backward;
  compare({position, {values(t, 12 * columns, 1), values(wide(t), 8 * columns, 2)}, {false, true}, {}, {part, {}}},
          bound(wide(t)));

  for (const KernelKind kind : {KernelKind::rope_forward, KernelKind::rope_backward}) {
    Kernel k = kernel(kind, t, 12, 0);
    k.batch = 3;
    k.heads = 4;
    k.kv_heads = 2;
    k.head_dim = 6;
    k.parameter = 10000;
    compare({k, {values(t, 12 * 2 * 4 * 6, 1)}, {true}, {}, {part}}, bound(t));
    k.depth = 4;
    compare({k, {values(t, 12 * 2 * 4 * 6, 1)}, {true}, {}, {part}}, bound(t));
    k.depth = 0;
    k.head_dim = 600;  // more pairs than one launch has frequencies for
    compare({k, {values(t, 12 * 2 * 4 * 600, 1)}, {true}, {}, {part}}, bound(t));
  }
}

TEST_CASE("places of kernel bodies are the Program's", "[gpu-bodies]") {
  Shard shard{{24, 24, {}, false, 3}, {5, 5, {}, false, 0}, {8, 8, {}, false, 2}};
  Place place;
  place.shard = &shard;
  place.box.rank = 3;
  place.box.offset = {8, 1, 4};
  place.box.extent = {8, 3, 4};
  const device::GlobalIndex where(place);
  for (std::uint64_t i = 0; i < 8 * 3 * 4; ++i) CHECK(where(i) == global_index(shard, place.box, i));
  const device::Positions positions(place);
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(positions(i) == coordinate_of(shard.dims[0], 8 + i));
}

TEST_CASE("a GPU's products have the operands that the host's have", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  for (int options = 0; options < 16; ++options) {
    Kernel k = kernel(KernelKind::gemm, t, 9, 14, 23);
    k.options.transpose_a = (options & 1) != 0;
    k.options.transpose_b = (options & 2) != 0;
    k.options.bias = (options & 4) != 0;
    const bool add = (options & 8) != 0;
    Memories m{values(t, 9 * 23, 1), values(t, 23 * 14, 2), values(wide(t), 9 * 14, 3)};
    if (k.options.bias) m.push_back(values(t, 14, 4));
    compare({k, m, {false, false, add}, {}}, bound(wide(t)));
  }
}

// Scores are rounded to their buffer's type before the softmax, which the host's kernel does after it: of 16 bits,
// exp(x (1 + u)) is off by |x| u, and scores here reach about 3.
TEST_CASE("a GPU's attention computes what the host's does", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const DType s = wide(t);
  const double loose = (t == DType::bf16 ? 4 : 2) * bound(t);
  Workload w;
  w.seed = 5;
  for (const std::uint32_t kv_heads : {4U, 2U, 1U}) {
    for (const bool causal : {false, true}) {
      for (const bool dropout : {false, true}) {
        const std::uint32_t value_dim = causal ? 0 : 6;
        Kernel k = attention(KernelKind::attention_unfused_forward, t, causal, kv_heads, value_dim);
        shape_scores(k);
        k.options.dropout = dropout;
        k.parameter = dropout ? 0.25 : 0.0;
        k.site = 2;
        k.softcap = kv_heads < 4 ? 1.5 : 0.0;
        const std::uint64_t square = 2 * 4 * 37 * 37;
        Memories m{values(t, k.rows * qkv_width(k), 1), zeros(t, k.rows * context_width(k)), zeros(t, square)};
        if (dropout) m.push_back(Memory(DType::u8, square));
        if (dropout) m.push_back(zeros(t, square));
        compare({k, m, {}, w}, loose);
        Kernel sinking = k;
        sinking.options.sinks = true;
        Memories with_sinks = m;
        with_sinks.push_back(values(t, 4, 9));
        with_sinks.push_back(zeros(s, 2 * 4 * 37));
        compare({sinking, with_sinks, {}, w}, loose);

        Memories after = m;
        KernelContext context;
        KernelScratch scratch;
        context.workload = &w;
        context.scratch = &scratch;
        Case filled{k, m, {}, w};
        run_kernel(k, operands_of(filled, after), context);
        Kernel back = k;
        back.kind = KernelKind::attention_unfused_backward;
        Memories b{values(t, k.rows * context_width(k), 7), after[0], after[2]};
        if (dropout) b.push_back(after[3]);
        if (dropout) b.push_back(after[4]);
        b.push_back(zeros(t, k.rows * qkv_width(k)));
        b.push_back(zeros(t, square));
        compare({back, b, {}, w}, loose);

        Kernel flash = k;
        flash.kind = KernelKind::attention_flash_forward;
        Memories f{m[0], m[1], zeros(s, 2 * 4 * 37)};
        sinking = flash;
        sinking.options.sinks = true;
        compare({sinking, {f[0], f[1], f[2], values(t, 4, 9)}, {}, w}, loose);
        compare({flash, f, {}, w}, loose);
        Case flashed{flash, f, {}, w};
        run_kernel(flash, operands_of(flashed, f), context);
        flash.kind = KernelKind::attention_flash_backward;
        compare({flash,
                 {b[0], f[0], f[1], f[2], zeros(t, k.rows * qkv_width(k)), zeros(s, k.rows * k.heads * k.head_dim)},
                 {},
                 w},
                loose);
      }
    }
  }
}

// A part changes no rounding: each sum is made whole.
TEST_CASE("a GPU's capped attention gives the same bits in parts", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  Kernel k = attention(KernelKind::attention_unfused_backward, t, true, 4, 0);
  k.heads = 8;
  k.softcap = 1.5;
  const std::uint64_t square = 2 * 8 * 37 * 37;
  const auto made = [&](std::uint64_t most, auto of) {
    Case c{k,
           {values(t, k.rows * context_width(k), 1), values(t, k.rows * qkv_width(k), 2), values(t, square, 3),
            zeros(t, k.rows * qkv_width(k)), zeros(t, square)},
           {},
           {}};
    device::HostLauncher launcher;
    using T = decltype(of);
    device::UnfusedAttention<T, device::HostLauncher> attention(launcher, k);
    attention.backward(NamedOperands(k, operands_of(c, c.memories)), most);
    return c.memories;
  };
  const auto check = [&](auto of) {
    const Memories whole = made(4 * 37 * 37, of);
    CHECK(error(whole[4], zeros(t, square), 1.0) > 0.0);
    for (const std::uint64_t most : {1U, 3U * 37U * 37U}) CHECK(made(most, of) == whole);
  };
  if (t == DType::f64) {
    check(double{});
  } else {
    check(float{});
  }
}

TEST_CASE("a GPU's cross-entropy computes what the host's does, padding left out", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const DType s = wide(t);
  const std::uint64_t rows = 6, columns = 20;
  // The second of two parts of a vocabulary of 37 that is padded to 40.
  Shard shard{{rows, rows, {}, false, 0}, {40, 37, {}, false, 0}};
  Place part;
  part.shard = &shard;
  part.box.rank = 2;
  part.box.offset = {0, 20};
  part.box.extent = {rows, 20};
  const Memory targets = whole_numbers({3, 20, -1, 36, 25, 19});
  const std::vector<Place> places{part};
  Memory logits = values(t, rows * columns, 1);
  compare({kernel(KernelKind::cross_entropy_max, t, rows, columns), {logits, zeros(s, rows)}, {}, {}, places}, 0.0);
  Memory largest = Memory::of(s, {2, 2.5, 3, 2, 2, 3});
  Memory sums = Memory::of(s, {9, 8, 7, 6, 5, 4});
  compare({kernel(KernelKind::cross_entropy_sum, t, rows, columns),
           {logits, largest, targets, zeros(s, rows), zeros(s, rows)},
           {},
           {},
           places},
          bound(s));
  compare({kernel(KernelKind::cross_entropy_loss, t, rows, columns),
           {largest, sums, values(s, rows, 2), targets, Memory::of(DType::f64, {1.5})},
           {false, false, false, false, true},
           {}},
          bound(DType::f64));
  const double softcap = GENERATE(0.0, 3.5);
  for (const bool scaled : {false, true}) {
    Kernel k = kernel(KernelKind::cross_entropy_backward, t, rows, columns);
    k.options.scaled = scaled;
    k.softcap = softcap;
    k.scale = scaled ? 0.6 : 0.0;
    Memories m{logits, largest, sums, targets, Memory::of(DType::f64, {5})};
    if (scaled) m.push_back(Memory::of(DType::f64, {1024, 0}));
    compare({k, m, {true}, {}, places}, bound(t));
  }
  Kernel logits_scale = kernel(KernelKind::scale_logits, t, rows, columns);
  logits_scale.scale = 0.6;
  logits_scale.softcap = softcap;
  compare({logits_scale, {logits}, {true}, {}}, bound(t));
  compare({kernel(KernelKind::mean_loss, t, 0, 0),
           {Memory::of(DType::f64, {12}), Memory::of(DType::f64, {5})},
           {true, false},
           {}},
          0.0);
  Kernel add = kernel(KernelKind::add_losses, t, 4, 0);
  add.parameter = 0.3;
  compare({add, {values(DType::f64, 4, 1), Memory::of(DType::f64, {2})}, {false, true}, {}}, bound(DType::f64));
}

TEST_CASE("a GPU's optimizers compute what the host's do", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const DType s = wide(t);
  const bool master = t == DType::bf16 && GENERATE(true, false);
  const std::uint64_t n = 2500;
  Workload w;
  w.schedule.kind = GENERATE(ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine);
  w.schedule.warmup_steps = 3;
  w.schedule.total_steps = 40;
  w.schedule.minimum_ratio = 0.1;
  for (const double step : {1.0, 3.0, 17.0, 90.0}) {
    for (const double skip : {0.0, 1.0}) {
      const Memory steps = Memory::of(DType::f64, {step});
      const Memory factor = Memory::of(DType::f64, {0.7, skip});
      Memory second = values(s, n, 5);
      for (std::uint64_t i = 0; i < n; ++i) second.set(i, second[i] * second[i]);
      Kernel adam = kernel(KernelKind::adam_update, s, 0, 0);
      adam.options.factor = true;
      adam.options.decay = true;
      adam.options.master = master;
      Memories m{values(s, n, 1), steps, factor, values(t, n, 2)};
      if (master) m.push_back(values(s, n, 3));
      m.push_back(values(s, n, 4));
      m.push_back(second);
      compare({adam, m, {}, w}, bound(t));
      for (const bool momentum : {false, true}) {
        Kernel sgd = kernel(KernelKind::sgd_update, s, 0, 0);
        sgd.options.factor = true;
        sgd.options.momentum = momentum;
        Memories g{values(s, n, 1), steps, factor, values(t, n, 2)};
        if (momentum) g.push_back(values(s, n, 3));
        compare({sgd, g, {}, w}, bound(t));
      }
      Kernel advance = kernel(KernelKind::advance_step, s, 0, 0);
      advance.options.factor = true;
      compare({advance, {steps, factor}, {true}, w}, 0.0);
    }
  }
  Kernel sum = kernel(KernelKind::sum_squares, s, 0, 0);
  sum.parameter = 0.5;
  compare({sum, {values(t, n, 1), values(s, 3, 2), Memory::of(DType::f64, {0.25})}, {false, false, true}, w},
          bound(DType::f64));
  w.loss_scale_window = 3;
  for (const double norm : {4.0, 0.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const bool scaled : {false, true}) {
      if (!scaled && !std::isfinite(norm)) continue;
      for (const double good : {0.0, 2.0}) {
        Kernel k = kernel(KernelKind::clip_factor, s, 0, 0);
        k.options.scaled = scaled;
        k.parameter = 1.0;
        Memories m{Memory::of(DType::f64, {norm})};
        if (scaled) m.push_back(Memory::of(DType::f64, {8, good}));
        m.push_back(zeros(DType::f64, 2));
        compare({k, m, {}, w}, bound(DType::f64));
      }
    }
  }
}

// The sums are those of a ring of the host, hop by hop, in its order and with its roundings: equal bit for bit.
TEST_CASE("a shared device's sums are a ring's, bit for bit", "[gpu-bodies]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const auto reduction = GENERATE(Collective::Reduction::sum, Collective::Reduction::max);
  const std::uint64_t n = 700;
  std::vector<Memory> parts;
  for (std::uint64_t i = 0; i < 5; ++i) parts.push_back(values(t, n, i + 1));
  Memory travelling = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    Memory own = parts[i];
    combine(t, reduction, own.operand().data, travelling.operand().data, n);
    travelling = own;
  }
  for (const bool based : {false, true}) {
    ReductionShare share;
    share.dtype = t;
    share.reduction = reduction;
    share.count = n;
    for (Memory& p : parts) share.chain.push_back(static_cast<const std::byte*>(p.operand().data));
    Memory a = values(t, n, 20), b = values(t, n, 21), out = zeros(t, n), copy = zeros(t, n);
    if (based) share.base = static_cast<const std::byte*>(a.operand().data);
    if (based) share.base2 = static_cast<const std::byte*>(b.operand().data);
    share.results = {static_cast<std::byte*>(out.operand().data), static_cast<std::byte*>(copy.operand().data)};
    device::HostLauncher launcher(3, 2);
    device::launch_reduction(launcher, share);
    Memory expected = travelling;
    if (based) {
      expected = a;
      combine(t, reduction, expected.operand().data, b.operand().data, n);
      combine(t, reduction, expected.operand().data, travelling.operand().data, n);
    }
    CHECK(out == expected);
    CHECK(copy == expected);
  }
}
