#include <catch2/catch.hpp>
#include <set>

#include "exec/kernels/cuda/cudnn/attention_notes.hpp"
#include "exec/kernels/cuda/cudnn/attention_shape.hpp"
#include "tests/unit/exec/by_strides.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;
using cudnn::attention_shape;
using cudnn::AttentionShape;
using cudnn::Strided;

// What cuDNN is told of attention, without cuDNN.
namespace {

struct Heads {
  std::uint32_t sequences, length, heads, kv_heads, dim, value, window;
  bool causal;
};

Kernel flash(const Heads& s, DType t = DType::bf16) {
  Kernel k = kernel(KernelKind::attention_flash_forward, t, s.sequences * s.length, 0);
  k.batch = s.sequences;
  k.heads = s.heads;
  k.kv_heads = s.kv_heads;
  k.head_dim = s.dim;
  k.value_dim = s.value;
  k.window = s.window;
  k.options.causal = s.causal;
  return k;
}

void compare_strides(const Heads& s, std::int64_t pairs_of_call) {
  CAPTURE(s.sequences, s.length, s.heads, s.kv_heads, s.dim, s.value, s.window, s.causal, pairs_of_call);
  Kernel k = flash(s, DType::f32);
  const std::uint64_t value = s.value > 0 ? s.value : s.dim;
  const std::uint64_t width = s.kv_heads * ((s.heads / s.kv_heads + 1) * s.dim + value);
  Memory qkv = values(DType::f32, k.rows * width, 1), dcontext = values(DType::f32, k.rows * s.heads * value, 2);
  Memory context = zeros(DType::f32, k.rows * s.heads * value), lse = zeros(DType::f32, k.rows * s.heads);
  Memory dqkv = zeros(DType::f32, k.rows * width), room = zeros(DType::f32, k.rows * s.heads * s.dim);
  run(k, {qkv.operand(), context.operand(), lse.operand()});
  Memory context_there = context, lse_there = lse, dqkv_there = dqkv;
  const auto there = [&] {
    AttentionShape shape = attention_shape(k, DType::f32);
    REQUIRE(shape.all_pairs % pairs_of_call == 0);
    shape.pairs = pairs_of_call;
    const auto at = [](Memory& m) { return static_cast<std::byte*>(m.operand().data); };
    attend_by_strides(
        shape, {at(qkv), at(qkv), at(context_there), at(lse_there), at(dcontext), at(dqkv_there), at(dqkv_there)});
  };
  there();
  CHECK(error(context_there, context) <= bound(DType::f32));
  CHECK(error(lse_there, lse) <= bound(DType::f32));

  k.kind = KernelKind::attention_flash_backward;
  run(k, {dcontext.operand(), qkv.operand(), context.operand(), lse.operand(), dqkv.operand(), room.operand()});
  there();
  CHECK(error(dqkv_there, dqkv) <= bound(DType::f32));
}

std::vector<Operand> operands_for(const Kernel& k, DType t) {
  // The rule looks at no element; only that operands begin at multiples of 16 bytes.
  auto* const somewhere = reinterpret_cast<std::byte*>(std::uintptr_t{4096});
  const Operand x{somewhere, t, 0, false, {}}, sums{somewhere, DType::f32, 0, false, {}};
  if (k.kind == KernelKind::attention_flash_backward) return {x, x, x, sums, x, sums};
  std::vector<Operand> all{x, x, sums};
  if (k.options.sinks) all.push_back(x);
  return all;
}

std::string reason(Kernel k, DType t = DType::bf16, int capability = 90) {
  const std::vector<Operand> operands = operands_for(k, t);
  const char* why = cudnn::why_not(k, NamedOperands(k, operands), capability);
  return why != nullptr ? why : "";
}

}  // namespace

// The host's kernel, which oracle tests hold to finite differences, knows nothing of strides over pairs.
TEST_CASE("attention by the strides that cuDNN gets is the host's attention", "[gpu-bodies]") {
  compare_strides({2, 19, 6, 2, 8, 0, 0, true}, 4);    // groups of three heads that share a key
  compare_strides({3, 11, 4, 4, 8, 0, 0, false}, 12);  // a key for each head, not causal
  compare_strides({2, 23, 4, 1, 8, 16, 5, true}, 2);   // values of another width, a window
  compare_strides({1, 17, 2, 2, 16, 8, 4, false}, 2);  // a window without a causal mask
  // Several calls: of two sequences' pairs, and of one pair each.
  compare_strides({2, 19, 6, 2, 8, 0, 7, true}, 2);
  compare_strides({3, 9, 4, 2, 8, 0, 0, true}, 1);
}

TEST_CASE("tensors of cuDNN's attention share no element and leave none out", "[gpu-bodies]") {
  const AttentionShape s = attention_shape(flash({3, 5, 6, 2, 8, 16, 0, true}), DType::bf16);
  std::set<std::int64_t> seen;
  for (const Strided& t : {s.queries(), s.keys(), s.values()}) {
    for (std::int64_t b = 0; b < t.size[0]; ++b) {
      for (std::int64_t h = 0; h < t.size[1]; ++h) {
        for (std::int64_t i = 0; i < t.size[2]; ++i) {
          for (std::int64_t c = 0; c < t.size[3]; ++c) CHECK(seen.insert(t.at(b, h, i, c)).second);
        }
      }
    }
  }
  // 3 sequences of 5 positions, each with 2 groups of 3 queries and a key of 8, and a value of 16.
  CHECK(seen.size() == 3 * 5 * 2 * (3 * 8 + 8 + 16));
  CHECK(*seen.begin() == 0);
  CHECK(*seen.rbegin() == static_cast<std::int64_t>(seen.size()) - 1);
}

TEST_CASE("cuDNN gets what it computes as we do, and the rest says why not", "[gpu-bodies]") {
  const Kernel plain = flash({2, 1024, 8, 2, 64, 0, 0, true});
  const auto with = [&](auto change) {
    Kernel k = plain;
    change(k);
    return k;
  };
  const auto backward = [](Kernel& k) { k.kind = KernelKind::attention_flash_backward; };
  CHECK(reason(plain) == "");
  CHECK(reason(plain, DType::f16, 80) == "");
  CHECK(reason(with(backward)) == "");
  CHECK(reason(with([](Kernel& k) { k.window = 128; })) == "");
  CHECK(reason(with([](Kernel& k) { k.options.causal = false; })) == "");
  CHECK(reason(plain, DType::f32) == "elements are not bf16 or f16");
  CHECK(reason(with([](Kernel& k) { k.compute = DType::f64; })) == "elements are not bf16 or f16");
  CHECK(reason(with([](Kernel& k) { k.options.dropout = true; })) == "dropout is keyed by element");
  CHECK(reason(with([](Kernel& k) { k.options.alibi = true; })) == "scores fall with distance (ALiBi)");
  CHECK(reason(with([](Kernel& k) { k.softcap = 30.0; })) == "scores have a soft cap");
  CHECK(reason(with([](Kernel& k) { k.options.sinks = true; })) == "heads have sinks");
  CHECK(reason(with([](Kernel& k) {
          k.window = 128;
          k.options.chunked = true;
        })) == "sequences are cut into chunks");
  CHECK(reason(with([](Kernel& k) { k.head_dim = 60; })) == "features of a head are no multiple of 8");
  CHECK(reason(with([](Kernel& k) { k.value_dim = 20; })) == "features of a head are no multiple of 8");
  // Hopper's kernels take heads of up to 256 features, those of other GPUs 128.
  CHECK(reason(with([](Kernel& k) { k.head_dim = 192; })) == "");
  CHECK(reason(with([](Kernel& k) { k.head_dim = 192; }), DType::bf16, 80) == "a head has more than 128 features");
  CHECK(reason(with([](Kernel& k) { k.head_dim = 264; })) == "a head has more than 256 features");
  // 4 queries for a key: at 8192 positions, 2 * 4 * 8192 * 8192 bytes, 512 MiB.
  CHECK(reason(flash({1, 8192, 8, 2, 64, 0, 0, true})) == "");
  Kernel longer = flash({1, 8192, 8, 2, 64, 0, 0, true});
  backward(longer);
  CHECK(reason(longer) == "");
  longer = flash({1, 8193, 8, 2, 64, 0, 0, true});
  CHECK(reason(longer) == "");  // forward keeps no scores
  backward(longer);
  CHECK(reason(longer) == "a deterministic backward pass of cuDNN would need more than 512 MiB");
  std::vector<Operand> odd = operands_for(plain, DType::bf16);
  odd[0].data = static_cast<std::byte*>(odd[0].data) + 2;
  CHECK(std::string(cudnn::why_not(plain, NamedOperands(plain, odd), 90)) ==
        "operands do not lie in chunks of 16 bytes, or add to what is there");
}

TEST_CASE("a backward call of cuDNN has as many pairs as keep its scores' gradients below the limit", "[gpu-bodies]") {
  Kernel k = flash({6, 4096, 8, 2, 64, 0, 0, true});
  CHECK(attention_shape(k, DType::bf16).pairs == 12);
  k.kind = KernelKind::attention_flash_backward;
  // A pair: 2 * 4 * 4096 * 4096 bytes, 128 MiB. So 4 fit, which divides 12.
  CHECK(attention_shape(k, DType::bf16).pairs == 4);
  // 7 sequences have 14 pairs: of 1, 2, 7 and 14 pairs, 2 are the most that fit.
  k.batch = 7;
  k.rows = 7 * 4096;
  CHECK(attention_shape(k, DType::bf16).pairs == 2);
  // Whole tiles: 65 queries are two tiles of 64, and one of 128 keys.
  CHECK(cudnn::score_bytes(1, 65, 65) == 2 * 128 * 128);
  // A window of the whole sequence is none, so that both have one plan.
  k.window = 4096;
  CHECK(attention_shape(k, DType::bf16).window == 0);
  k.window = 4095;
  CHECK(attention_shape(k, DType::bf16).window == 4095);
}

TEST_CASE("whose attention ran is said once for each reason", "[gpu-bodies]") {
  cudnn::AttentionNotes notes;
  CHECK(notes.lines().empty());
  notes.own("heads have sinks");
  notes.own("heads have sinks");
  CHECK(notes.lines() == std::vector<std::string>{"attention by our own kernel: heads have sinks"});
  notes.cudnn("9.19.0");
  notes.own("dropout is keyed by element");
  CHECK(notes.lines() == std::vector<std::string>{"attention by cuDNN 9.19.0",
                                                  "some attention by our own kernel: dropout is keyed by element",
                                                  "some attention by our own kernel: heads have sinks"});
}
