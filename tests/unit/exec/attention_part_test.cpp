#include <catch2/catch.hpp>

#include <cmath>

#include "exec/kernels/reference/reference_kernels.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Sequences of `ranks * own` positions, cut over ranks: whole operands, and one rank's.
struct Cut {
  std::uint32_t ranks, batch;
  std::uint64_t own;
  std::uint32_t heads, kv_heads, dim;
  bool zigzag, causal;
  std::uint64_t window = 0;
  bool chunked = false;
  double scale = 0.0, softcap = 0.0;
  bool alibi = false;
  std::vector<double> sinks = {};  ///< by head

  [[nodiscard]] Shard shard() const {
    ShardDim positions{ranks * own, ranks * own, {Axis::context}, false};
    if (zigzag) positions.zigzag = ranks;
    const std::uint64_t group = width() / kv_heads;
    return {positions, {batch, batch, {}, false}, {kv_heads, kv_heads, {}, false}, {group, group, {}, false}};
  }
  [[nodiscard]] std::uint64_t width() const { return (heads + 2 * kv_heads) * dim; }
  [[nodiscard]] Kernel kernel_of(KernelKind kind, std::uint64_t positions) const {
    Kernel k = kernel(kind, DType::f64, positions * batch, width());
    const bool part = kind == KernelKind::attention_part_forward || kind == KernelKind::attention_part_backward;
    if (part) k.depth = positions * batch;
    k.batch = batch;
    k.heads = heads;
    k.kv_heads = kv_heads;
    k.head_dim = dim;
    k.options.causal = causal;
    k.window = window;
    k.options.chunked = chunked;
    k.scale = scale;
    k.softcap = softcap;
    k.options.alibi = alibi;
    return k;
  }
  /// Row of the whole that is row i of the rank.
  [[nodiscard]] std::uint64_t row(std::uint32_t rank, std::uint64_t i) const {
    return coordinate_of(shard().dims[0], rank * own + i / batch) * batch + i % batch;
  }
  [[nodiscard]] Memory part(const Memory& whole, std::uint32_t rank) const {
    const std::uint64_t columns = whole.count() / (ranks * own * batch);
    Memory out(DType::f64, own * batch * columns);
    for (std::uint64_t i = 0; i < out.count(); ++i) {
      out.set(i, whole[row(rank, i / columns) * columns + i % columns]);
    }
    return out;
  }
  /// The operand, knowing where the rank's positions are.
  static Operand placed(Memory& m, const Shard& shard, std::uint32_t rank, std::uint64_t own) {
    Operand o = m.operand();
    o.place.shard = &shard;
    o.place.box.rank = shard.rank;
    o.place.box.offset[0] = rank * own;
    o.place.box.extent = {own, shard.dims[1].extent, 1, 1};
    return o;
  }
};

}  // namespace

// Every rank's queries meet the keys of all ranks, its own first, then those of the rank before on the ring and so on,
// merged one by one. In the backward pass, gradients of keys are summed over the ranks whose queries met them.
TEST_CASE("attention in parts equals attention on whole sequences, forward and backward", "[kernels]") {
  const Cut c = GENERATE(Cut{2, 1, 4, 2, 1, 4, false, true}, Cut{2, 2, 6, 4, 2, 3, true, true},
                         Cut{3, 1, 70, 2, 2, 4, true, true}, Cut{3, 2, 2, 1, 1, 2, false, false},
                         Cut{1, 1, 5, 2, 1, 2, false, true}, Cut{3, 2, 6, 2, 1, 4, false, true, 4},
                         Cut{3, 1, 70, 2, 2, 4, true, true, 75}, Cut{2, 1, 6, 2, 1, 4, true, true, 5, true},
                         Cut{4, 1, 40, 2, 1, 4, false, true, 64, true, 0.3},
                         Cut{2, 1, 6, 4, 2, 3, true, true, 0, false, 0.0, 1.2, false, {0.3, -2.0, 3.0, 0.0}},
                         Cut{2, 2, 70, 2, 2, 4, false, true, 100, false, 0.0, 0.9, true, {1.0, -1.0}},
                         Cut{3, 1, 4, 4, 2, 3, true, true, 0, false, 0.7, 0.0, true});
  CAPTURE(c.ranks, c.batch, c.own, c.heads, c.kv_heads, c.dim, c.zigzag, c.causal, c.window, c.chunked, c.softcap,
          c.alibi, c.sinks);
  const std::uint64_t all = c.ranks * c.own, rows = all * c.batch;
  const std::uint64_t features = c.heads * c.dim, keys = c.own * c.batch * c.kv_heads * 2 * c.dim;
  Memory qkv = Memory::random(DType::f64, rows * c.width(), 1);
  Memory dcontext = Memory::random(DType::f64, rows * features, 2);
  Memory whole(DType::f64, rows * features), dwhole(DType::f64, rows * c.width());
  const Kernel on_all = c.kernel_of(KernelKind::attention_flash_forward, all);
  reference::attention_forward(on_all, qkv.operand(), whole.operand(), c.sinks);
  reference::attention_backward(on_all, dcontext.operand(), qkv.operand(), dwhole.operand(), c.sinks);

  const Shard shard = c.shard();
  Memory sinks = Memory::of(DType::f64, c.sinks);
  std::vector<Memory> own, kv, context, lse, dq, dkv;
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    own.push_back(c.part(qkv, r));
    kv.emplace_back(DType::f64, keys);
    run(c.kernel_of(KernelKind::pack_keys_values, c.own), {own[r].operand(), kv[r].operand()});
    dq.emplace_back(DType::f64, c.own * c.batch * features);
    dkv.emplace_back(DType::f64, keys);
  }
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    context.emplace_back(DType::f64, c.own * c.batch * features);
    lse.emplace_back(DType::f64, c.own * c.batch * c.heads);
    for (std::uint32_t back = 0; back < c.ranks; ++back) {
      Memory part(DType::f64, context[r].count()), part_lse(DType::f64, lse[r].count());
      Kernel k = c.kernel_of(KernelKind::attention_part_forward, c.own);
      k.site = static_cast<std::uint8_t>(back);
      Memory& from = kv[(r + c.ranks - back) % c.ranks];
      std::vector<Operand> operands{Cut::placed(own[r], shard, r, c.own), Cut::placed(from, shard, r, c.own),
                                    part.operand(), part_lse.operand()};
      // Sinks count once.
      k.options.sinks = back == 0 && !c.sinks.empty();
      if (k.options.sinks) operands.push_back(sinks.operand());
      run(k, operands);
      if (back == 0) {
        context[r] = part;
        lse[r] = part_lse;
      } else {
        run(c.kernel_of(KernelKind::attention_merge, c.own),
            {context[r].operand(true), lse[r].operand(true), part.operand(), part_lse.operand()});
      }
    }
    CHECK(error(context[r], c.part(whole, r)) <= tolerance(DType::f64));
  }
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    Memory given = c.part(dcontext, r);
    for (std::uint32_t back = 0; back < c.ranks; ++back) {
      const std::uint32_t holder = (r + c.ranks - back) % c.ranks;
      Memory dpart(DType::f64, keys);
      Kernel k = c.kernel_of(KernelKind::attention_part_backward, c.own);
      k.site = static_cast<std::uint8_t>(back);
      run(k, {given.operand(), Cut::placed(own[r], shard, r, c.own), Cut::placed(kv[holder], shard, r, c.own),
              context[r].operand(), lse[r].operand(), dq[r].operand(back > 0), dpart.operand()});
      run(kernel(KernelKind::add_to, DType::f64, 1, keys), {dpart.operand(), dkv[holder].operand(true)});
    }
  }
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    Memory dqkv(DType::f64, c.own * c.batch * c.width());
    run(c.kernel_of(KernelKind::unpack_gradients, c.own), {dq[r].operand(), dkv[r].operand(), dqkv.operand()});
    CHECK(error(dqkv, c.part(dwhole, r)) <= tolerance(DType::f64));
  }
}

// Keys stand ring by ring: six ranks in rings of two and of three, every rank's queries against all keys.
TEST_CASE("attention in parts meets the keys of the rank that an inner ring's place names", "[kernels]") {
  const std::uint32_t width = GENERATE(2U, 3U);
  const Cut c{6, 1, 2, 2, 1, 2, GENERATE(false, true), true};
  CAPTURE(width, c.zigzag);
  const Shard shard = c.shard();
  Memory qkv = Memory::random(DType::f64, 12 * c.width(), 1), whole(DType::f64, 12 * 4);
  reference::attention_forward(c.kernel_of(KernelKind::attention_flash_forward, 12), qkv.operand(), whole.operand());
  std::vector<Memory> own, kv;
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    own.push_back(c.part(qkv, r));
    kv.emplace_back(DType::f64, 2 * 4);
    run(c.kernel_of(KernelKind::pack_keys_values, c.own), {own[r].operand(), kv[r].operand()});
  }
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    Memory context(DType::f64, 2 * 4), lse(DType::f64, 2 * 2);
    for (std::uint32_t place = 0; place < c.ranks; ++place) {
      Memory part(DType::f64, context.count()), part_lse(DType::f64, lse.count());
      Kernel k = c.kernel_of(KernelKind::attention_part_forward, c.own);
      k.site = static_cast<std::uint8_t>(place);
      k.ring = width;
      const std::uint32_t inside = (r % width + width - place % width) % width;
      const std::uint32_t ring = (r / width + 6 / width - place / width) % (6 / width);
      run(k, {Cut::placed(own[r], shard, r, c.own), Cut::placed(kv[ring * width + inside], shard, r, c.own),
              part.operand(), part_lse.operand()});
      if (place == 0) {
        context = part;
        lse = part_lse;
      } else {
        run(c.kernel_of(KernelKind::attention_merge, c.own),
            {context.operand(true), lse.operand(true), part.operand(), part_lse.operand()});
      }
    }
    CHECK(error(context, c.part(whole, r)) <= tolerance(DType::f64));
  }
}

// Scores with all ranks' keys come one after the other, then their softmax, then values. Backward come the sums over
// ranks of each rank's gradients of all keys and values.
TEST_CASE("ring self-attention, kernel by kernel, equals attention on whole sequences", "[kernels]") {
  const Cut c =
      GENERATE(Cut{2, 1, 4, 2, 1, 4, false, true}, Cut{3, 2, 2, 4, 2, 3, false, false},
               Cut{4, 1, 3, 2, 2, 2, false, true}, Cut{2, 2, 5, 4, 2, 3, false, true, 0, false, 0.3, 0.0, true});
  CAPTURE(c.ranks, c.batch, c.own, c.heads, c.kv_heads, c.dim, c.causal, c.scale, c.alibi);
  const std::uint64_t all = c.ranks * c.own, rows = all * c.batch, features = c.heads * c.dim;
  Memory qkv = Memory::random(DType::f64, rows * c.width(), 1),
         dcontext = Memory::random(DType::f64, rows * features, 2);
  Memory whole(DType::f64, rows * features), dwhole(DType::f64, rows * c.width());
  const Kernel on_all = c.kernel_of(KernelKind::attention_flash_forward, all);
  reference::attention_forward(on_all, qkv.operand(), whole.operand());
  reference::attention_backward(on_all, dcontext.operand(), qkv.operand(), dwhole.operand());

  const Shard shard = c.shard();
  const std::uint64_t one = c.batch * c.heads * c.own * c.own, keys = c.own * c.batch * c.kv_heads * c.dim;
  const auto kernel_of = [&](KernelKind kind, std::uint64_t brought, std::uint32_t place) {
    Kernel k = c.kernel_of(kind, c.own);
    k.depth = brought * c.batch;
    k.site = static_cast<std::uint8_t>(place);
    return k;
  };
  const auto piece = [&](Memory& m, std::uint32_t place) {
    Operand o = m.operand();
    o.data = static_cast<double*>(o.data) + place * one;
    o.count = one;
    return o;
  };
  std::vector<Memory> own, key, value;
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    own.push_back(c.part(qkv, r));
    key.emplace_back(DType::f64, keys);
    value.emplace_back(DType::f64, keys);
    run(c.kernel_of(KernelKind::split_keys_values, c.own), {own[r].operand(), key[r].operand(), value[r].operand()});
  }
  std::vector<Memory> dq;
  Memory dkv(DType::f64, c.ranks * 2 * keys);  // summed over ranks
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    const auto holder = [&](std::uint32_t place) { return (r + c.ranks - place) % c.ranks; };
    const Operand queries = Cut::placed(own[r], shard, r, c.own);
    Memory scores(DType::f64, c.ranks * one), probabilities(DType::f64, c.ranks * one), ds(DType::f64, c.ranks * one);
    Memory context(DType::f64, c.own * c.batch * features), given = c.part(dcontext, r);
    dq.emplace_back(DType::f64, c.own * c.batch * features);
    for (std::uint32_t p = 0; p < c.ranks; ++p) {
      run(kernel_of(KernelKind::attention_scores_forward, c.own, p),
          {queries, Cut::placed(key[holder(p)], shard, r, c.own), piece(scores, p)});
    }
    run(kernel_of(KernelKind::attention_softmax_forward, all, 0), {scores.operand(), probabilities.operand()});
    for (std::uint32_t p = 0; p < c.ranks; ++p) {
      run(kernel_of(KernelKind::attention_values_forward, c.own, p),
          {piece(probabilities, p), value[holder(p)].operand(), context.operand(p > 0)});
      run(kernel_of(KernelKind::attention_values_backward, c.own, p),
          {given.operand(), value[holder(p)].operand(), piece(ds, p)});
    }
    CHECK(error(context, c.part(whole, r)) <= tolerance(DType::f64));
    run(kernel_of(KernelKind::attention_softmax_backward, all, 0), {probabilities.operand(), ds.operand(true)});
    for (std::uint32_t p = 0; p < c.ranks; ++p) {
      run(kernel_of(KernelKind::attention_scores_backward, c.own, p),
          {piece(ds, p), key[holder(p)].operand(), dq[r].operand(p > 0)});
    }
    Memory made(DType::f64, dkv.count());
    run(kernel_of(KernelKind::attention_pairs_backward, all, 0),
        {given.operand(), queries, probabilities.operand(), ds.operand(), made.operand()});
    run(kernel(KernelKind::add_to, DType::f64, 1, dkv.count()), {made.operand(), dkv.operand(true)});
  }
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    Operand mine = dkv.operand();
    mine.data = static_cast<double*>(mine.data) + r * 2 * keys;
    mine.count = 2 * keys;
    Memory dqkv(DType::f64, c.own * c.batch * c.width());
    run(c.kernel_of(KernelKind::unpack_gradients, c.own), {dq[r].operand(), mine, dqkv.operand()});
    CHECK(error(dqkv, c.part(dwhole, r)) <= tolerance(DType::f64));
  }
}

// A causal mask hides all of the second rank's keys from the first one's queries.
TEST_CASE("queries that see no key of a part get nothing and weigh nothing", "[kernels]") {
  const Cut c{2, 1, 3, 1, 1, 2, false, true};
  const Shard shard = c.shard();
  Memory qkv = Memory::random(DType::f64, 6 * c.width(), 1);
  Memory own = c.part(qkv, 0), other = c.part(qkv, 1);
  Memory kv(DType::f64, 3 * 2 * 2), context = Memory::random(DType::f64, 6, 3), lse = Memory::random(DType::f64, 3, 4);
  run(c.kernel_of(KernelKind::pack_keys_values, 3), {other.operand(), kv.operand()});
  Kernel k = c.kernel_of(KernelKind::attention_part_forward, 3);
  k.site = 1;
  Memory part(DType::f64, 6), part_lse(DType::f64, 3);
  run(k, {Cut::placed(own, shard, 0, 3), Cut::placed(kv, shard, 0, 3), part.operand(), part_lse.operand()});
  CHECK(part == Memory(DType::f64, 6));
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(part_lse[i] == -INFINITY);
  const Memory context_before = context, lse_before = lse;
  run(c.kernel_of(KernelKind::attention_merge, 3),
      {context.operand(true), lse.operand(true), part.operand(), part_lse.operand()});
  CHECK(context == context_before);
  CHECK(lse == lse_before);
}
