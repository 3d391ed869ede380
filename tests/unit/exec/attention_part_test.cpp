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

  [[nodiscard]] Shard shard() const {
    ShardDim positions{ranks * own, ranks * own, {Axis::context}, false};
    if (zigzag) positions.zigzag = ranks;
    return {positions, {batch, batch, {}, false}};
  }
  [[nodiscard]] std::uint64_t width() const { return (heads + 2 * kv_heads) * dim; }
  [[nodiscard]] Kernel kernel_of(KernelKind kind, std::uint64_t positions) const {
    Kernel k = kernel(kind, DType::f64, positions * batch, width());
    const bool part = kind == KernelKind::attention_part_forward || kind == KernelKind::attention_part_backward;
    if (part) k.depth = positions * batch;  // keys; elsewhere a width of values that is not that of keys
    k.batch = batch;
    k.heads = heads;
    k.kv_heads = kv_heads;
    k.head_dim = dim;
    k.options.causal = causal;
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

// Every rank's queries meet the keys of all ranks, its own first, then those of
// the rank before on the ring and so on, merged one by one; backward, gradients
// of keys are summed over the ranks whose queries met them.
TEST_CASE("attention in parts equals attention on whole sequences, forward and backward", "[kernels]") {
  const Cut c = GENERATE(Cut{2, 1, 4, 2, 1, 4, false, true}, Cut{2, 2, 6, 4, 2, 3, true, true},
                         Cut{3, 1, 70, 2, 2, 4, true, true}, Cut{3, 2, 2, 1, 1, 2, false, false},
                         Cut{1, 1, 5, 2, 1, 2, false, true});
  CAPTURE(c.ranks, c.batch, c.own, c.heads, c.kv_heads, c.dim, c.zigzag, c.causal);
  const std::uint64_t all = c.ranks * c.own, rows = all * c.batch;
  const std::uint64_t features = c.heads * c.dim, keys = c.own * c.batch * c.kv_heads * 2 * c.dim;
  Memory qkv = Memory::random(DType::f64, rows * c.width(), 1);
  Memory dcontext = Memory::random(DType::f64, rows * features, 2);
  Memory whole(DType::f64, rows * features), dwhole(DType::f64, rows * c.width());
  const Kernel on_all = c.kernel_of(KernelKind::attention_flash_forward, all);
  reference::attention_forward(on_all, qkv.operand(), whole.operand());
  reference::attention_backward(on_all, dcontext.operand(), qkv.operand(), dwhole.operand());

  const Shard shard = c.shard();
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
      run(k, {Cut::placed(own[r], shard, r, c.own), Cut::placed(from, shard, r, c.own), part.operand(),
              part_lse.operand()});
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
