// Attention on brought keys as a library is asked for it, without the library.

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <set>

#include "core/program/operand_elements.hpp"
#include "exec/kernels/cpu/brought_keys.hpp"
#include "exec/kernels/cpu/seen_keys.hpp"
#include "exec/kernels/cuda/cudnn/part_attention.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "tests/unit/exec/by_strides.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;
using cudnn::AttentionBands;
using cudnn::Band;

namespace {

constexpr std::uint64_t own = 8, batch = 2;  ///< positions of a rank, sequences
constexpr std::uint32_t ranks = 4, heads = 4, kv_heads = 2, dim = 8, value = 16;

/// Positions are in order, or an early and a late chunk on each rank.
Shard shard_of(bool zigzag, std::uint64_t width) {
  const ShardDim positions{ranks * own, ranks * own, {Axis::context}, false, zigzag ? ranks : 0};
  return {positions, {batch, batch, {}, false, 0}, {kv_heads, kv_heads, {}, false, 0}, {width, width, {}, false, 0}};
}
Place place_of(const Shard& s, std::uint64_t first, std::uint64_t count) {
  Place p;
  p.shard = &s;
  p.box.rank = s.rank;
  p.box.offset = {first, 0, 0, 0};
  p.box.extent = {count, batch, kv_heads, s.dims[3].extent};
  return p;
}

/// A rank's queries, and keys of one rank that were passed on, or of all ranks that were gathered.
struct Part {
  bool zigzag, causal, gathered;
  std::uint32_t rank = 0, back = 0;
  std::uint64_t window = 0;
  Shard of_queries = shard_of(zigzag, (heads / kv_heads + 1) * dim + value);
  Shard of_keys = shard_of(zigzag, dim + value);

  [[nodiscard]] Kernel kernel(KernelKind kind) const {
    Kernel k = test::kernel(kind, DType::bf16, own * batch, 0, (gathered ? ranks : 1) * own * batch);
    k.batch = batch;
    k.heads = heads;
    k.kv_heads = kv_heads;
    k.head_dim = dim;
    k.value_dim = value;
    k.options.causal = causal;
    k.window = window;
    k.site = static_cast<std::uint8_t>(back);
    return k;
  }
  [[nodiscard]] Place queries() const { return place_of(of_queries, rank * own, own); }
  [[nodiscard]] Place keys() const {
    return gathered ? place_of(of_keys, 0, ranks * own) : place_of(of_keys, rank * own, own);
  }
};

std::optional<AttentionBands> bands(const Part& p) {
  const Kernel k = p.kernel(KernelKind::attention_part_forward);
  return cudnn::attention_bands(k, p.queries(), cpu::brought_from(k, p.keys()));
}

/// Bodies on the host's threads, in memory of their own.
class OnHost final : public device::AroundLibrary {
 public:
  [[nodiscard]] void* scratch(std::uint64_t bytes) override { return launcher_.scratch(bytes); }
  void move(const device::MovedElements& x) override { device::launch(launcher_, x); }
  void move(const device::MovedSums& x) override { device::launch(launcher_, x); }

 private:
  device::HostLauncher launcher_;
};

/// By the calls that cuDNN would get, and definition in its place.
void run_by_calls(const Kernel& k, const std::vector<Operand>& operands) {
  const NamedOperands o(k, operands);
  REQUIRE(cudnn::why_not(k, o, 90) == nullptr);
  const auto found =
      cudnn::attention_bands(k, o[OperandName::qkv].place, cpu::brought_from(k, o[OperandName::kv].place));
  REQUIRE(found);
  const cudnn::PartAttention part(k, o, *found);
  OnHost host;
  part.run(attend_by_strides, host, static_cast<std::byte*>(host.scratch(part.memory_bytes())));
}

double error_of_sums(Memory a, Memory b) {
  for (std::uint64_t i = 0; i < a.count(); ++i) {
    if (!std::isinf(a[i]) || a[i] != b[i]) continue;
    a.set(i, 0.0);
    b.set(i, 0.0);
  }
  return error(a, b);
}

}  // namespace

// The library's own results are in 16 bits, which the host's kernel does not round to.
TEST_CASE("parts of attention by a library's calls are the host's parts", "[gpu-bodies]") {
  const bool gathered = GENERATE(false, true);
  const bool zigzag = GENERATE(false, true);
  const bool causal = GENERATE(true, false);
  const DType results = GENERATE(DType::f32, DType::bf16);
  const std::uint32_t rank = GENERATE(0U, 1U, 3U);
  const double loose = 2 * bound(DType::bf16);
  for (std::uint32_t back = 0; back < (gathered ? 1 : ranks); ++back) {
    for (const std::uint64_t window : {0, 5}) {
      if (window > 0 && (!causal || !gathered || zigzag)) continue;
      CAPTURE(gathered, zigzag, causal, rank, back, window, name_of(results));
      const Part p{zigzag, causal, gathered, rank, back, window};
      Kernel k = p.kernel(KernelKind::attention_part_forward);
      const auto count = [](double n) { return static_cast<std::uint64_t>(n); };
      Memory qkv = values(DType::bf16, count(elements::qkv(k)), 1),
             kv = values(DType::bf16, count(elements::brought(k)), 2);
      Memory context = values(results, count(elements::contexts(k)), 3),
             lse = values(DType::f32, count(elements::row_sums(k)), 4);
      Memory context_there = context, lse_there = lse;
      const auto placed = [](Operand o, const Place& at) {
        o.place = at;
        return o;
      };
      const auto forward = [&](Memory& c, Memory& sums) {
        return std::vector<Operand>{placed(qkv.operand(), p.queries()), placed(kv.operand(), p.keys()), c.operand(),
                                    sums.operand()};
      };
      run(k, forward(context, lse));
      run_by_calls(k, forward(context_there, lse_there));
      CHECK(error(context_there, context, 1e-6) <= loose);
      CHECK(error_of_sums(lse_there, lse) <= loose);

      // A merged sum is larger than a part's, and finite; its contexts are in 16 bits.
      k.kind = KernelKind::attention_part_backward;
      Memory merged = values(DType::bf16, context.count(), 5), dcontext = values(DType::bf16, context.count(), 6);
      for (std::uint64_t i = 0; i < lse.count(); ++i) lse.set(i, std::isinf(lse[i]) ? 1.0 : lse[i] + 0.5);
      for (const bool add : {false, true}) {
        Memory dq = values(results, count(elements::queries(k)), 7), dkv = values(results, kv.count(), 8);
        Memory dq_there = dq, dkv_there = dkv;
        const auto backward = [&](Memory& of_queries, Memory& of_keys) {
          return std::vector<Operand>{dcontext.operand(),
                                      placed(qkv.operand(), p.queries()),
                                      placed(kv.operand(), p.keys()),
                                      merged.operand(),
                                      lse.operand(),
                                      of_queries.operand(add),
                                      of_keys.operand()};
        };
        run(k, backward(dq, dkv));
        run_by_calls(k, backward(dq_there, dkv_there));
        CHECK(error(dq_there, dq, 1e-6) <= loose);
        CHECK(error(dkv_there, dkv, 1e-6) <= loose);
      }
    }
  }
}

TEST_CASE("bands have each key that a query sees, and no other", "[gpu-bodies]") {
  const bool gathered = GENERATE(false, true);
  const bool zigzag = GENERATE(false, true);
  const bool causal = GENERATE(true, false);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t back = 0; back < (gathered ? 1 : ranks); ++back) {
      for (std::uint64_t window = 0; window <= ranks * own; ++window) {
        const Part p{zigzag, causal, gathered, rank, back, window};
        const Kernel k = p.kernel(KernelKind::attention_part_forward);
        const auto found = bands(p);
        if (!found) {
          CHECK(window > 0);
          continue;
        }
        CAPTURE(gathered, zigzag, causal, rank, back, window);
        const Place queries = p.queries(), keys = cpu::brought_from(k, p.keys());
        std::vector<std::uint64_t> ordered(k.depth / batch);
        for (const cudnn::KeyRun& r : found->keys) {
          for (std::int64_t i = 0; i < r.count; ++i) {
            ordered[static_cast<std::size_t>(r.stands + i)] =
                cpu::position_at(keys, static_cast<std::uint64_t>(r.lies + i));
          }
        }
        CHECK(std::is_sorted(ordered.begin(), ordered.end()));
        std::set<std::pair<std::uint64_t, std::uint64_t>> by_bands, seen;
        for (const Band& b : found->bands) {
          for (std::int64_t i = 0; i < b.queries; ++i) {
            const std::int64_t last = b.causal ? b.keys - b.queries + i : b.keys - 1;
            const std::int64_t first = b.window > 0 ? std::max<std::int64_t>(last - b.window + 1, 0) : 0;
            for (std::int64_t j = first; j <= last; ++j) {
              CHECK(by_bands
                        .emplace(cpu::position_at(queries, static_cast<std::uint64_t>(b.first + i)),
                                 ordered[static_cast<std::size_t>(b.first_key + j)])
                        .second);
            }
          }
        }
        const cpu::SeenKeys sight(k);
        for (std::uint64_t i = 0; i < own; ++i) {
          for (const std::uint64_t key : ordered) {
            const std::uint64_t query = cpu::position_at(queries, i);
            if (sight.sees(query, key)) seen.emplace(query, key);
          }
        }
        CHECK(by_bands == seen);
      }
    }
  }
}

TEST_CASE("a rank asks a library for few calls", "[gpu-bodies]") {
  const auto of = [](bool zigzag, bool gathered, std::uint32_t rank, std::uint32_t back, std::uint64_t window = 0) {
    return bands(Part{zigzag, true, gathered, rank, back, window}).value().bands;
  };
  using Bands = std::vector<Band>;
  // Zigzag: chunks of 4; rank 1 has chunks 1 and 6.
  CHECK(of(true, false, 1, 0) == Bands{{0, 8, 0, 8, true, 0}});   // its own: a whole triangle
  CHECK(of(true, false, 1, 1) == Bands{{0, 8, 0, 4, false, 0}});  // chunks 0 and 7: the early one
  CHECK(of(true, false, 1, 2) == Bands{{4, 4, 0, 8, false, 0}});  // chunks 3 and 4, by the late queries
  CHECK(of(true, true, 1, 0) == Bands{{0, 4, 0, 8, true, 0}, {4, 4, 0, 28, true, 0}});
  CHECK(bands(Part{true, true, true, 1}).value().keys.size() == 7);  // chunks 3 and 4 lie side by side
  // In order: rank 2 has [16, 24).
  CHECK(of(false, false, 2, 1) == Bands{{0, 8, 0, 8, false, 0}});
  CHECK(of(false, false, 2, 3).empty());  // keys behind all queries
  CHECK(of(false, true, 2, 0) == Bands{{0, 8, 0, 24, true, 0}});
  CHECK(bands(Part{false, true, true, 2}).value().in_order());
  CHECK(of(false, true, 2, 0, 5) == Bands{{0, 8, 12, 12, true, 5}});  // the first query sees [12, 17)
  CHECK(of(false, true, 0, 0, 5) == Bands{{0, 8, 0, 8, true, 5}});    // it begins within the window
  // The window's far end moves over keys that all end before the queries.
  CHECK(!bands(Part{false, true, false, 2, 1, 5}));
}
