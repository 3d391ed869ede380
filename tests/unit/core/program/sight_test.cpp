#include "core/program/sight.hpp"

#include <catch2/catch.hpp>

#include "core/program/kernel.hpp"

using namespace orrery;

namespace {

/// The rule as its definition reads.
bool sees(const Sight& sight, std::uint64_t query, std::uint64_t key) {
  if (!sight.causal) return true;
  if (key > query) return false;
  if (sight.window == 0) return true;
  return sight.chunked ? key / sight.window == query / sight.window : query - key < sight.window;
}

std::uint64_t counted(const Sight& sight, Positions queries, Positions keys) {
  std::uint64_t n = 0;
  for (std::uint64_t q = queries.first; q < queries.end; ++q) {
    for (std::uint64_t k = keys.first; k < keys.end; ++k) n += sees(sight, q, k) ? 1 : 0;
  }
  return n;
}

}  // namespace

TEST_CASE("pairs that queries see are as many as a count one by one finds", "[kernel]") {
  constexpr std::uint64_t s = 13;
  std::uint64_t wrong = 0;
  for (std::uint64_t window = 0; window <= s + 1; ++window) {
    for (const Sight& sight : {Sight{false, false, 0}, Sight{true, false, window}, Sight{true, window > 0, window}}) {
      for (std::uint64_t a = 0; a <= s; ++a) {
        for (std::uint64_t b = a; b <= s; ++b) {
          for (std::uint64_t c = 0; c <= s; ++c) {
            for (std::uint64_t d = c; d <= s; ++d) {
              wrong += seen_pairs(sight, {a, b}, {c, d}) != counted(sight, {a, b}, {c, d});
            }
          }
        }
      }
    }
  }
  CHECK(wrong == 0);
}

// 4096 positions see 4096 * 4097 / 2 = 8,390,656 pairs. A window of 1024 leaves 1024 * 1025 / 2 + 3072 * 1024 =
// 3,670,528; chunks of 1024 leave 4 * 1024 * 1025 / 2 = 2,099,200; chunks of 1500 leave 2 * 1500 * 1501 / 2 + 1096 *
// 1097 / 2 = 2,852,656.
TEST_CASE("windows and chunks leave the pairs of their formulas", "[kernel]") {
  CHECK(seen_pairs({true, false, 0}, 4096) == 8390656);
  CHECK(seen_pairs({true, false, 1024}, 4096) == 3670528);
  CHECK(seen_pairs({true, true, 1024}, 4096) == 2099200);
  CHECK(seen_pairs({true, true, 1500}, 4096) == 2852656);
  CHECK(seen_pairs({true, false, 5000}, 4096) == 8390656);
  CHECK(seen_pairs({false, false, 0}, 4096) == 4096 * 4096);
}

// 2 sequences of 8 tokens, 3 heads of 5. A window of 3 leaves 6 + 5 * 3 = 21 pairs, chunks of 3 leave 6 + 6 + 3 = 15.
// Scores and context take 2 * 5 FLOPs a pair each: 2 * 3 * 21 * 20 = 2520. Backward doubles that; flash makes scores
// again, + 1260, and so does the derivative of a soft cap.
TEST_CASE("attention counts and executes the pairs that a window leaves", "[kernel]") {
  Kernel k;
  k.kind = KernelKind::attention_flash_forward;
  k.rows = 16;
  k.batch = 2;
  k.heads = 3;
  k.head_dim = 5;
  k.options.causal = true;
  k.window = 3;
  CHECK(flops_of(k).counted == Approx(2520).epsilon(1e-15));
  CHECK(flops_of(k).executed == Approx(2520).epsilon(1e-15));
  k.kind = KernelKind::attention_flash_backward;
  CHECK(flops_of(k).counted == Approx(5040).epsilon(1e-15));
  CHECK(flops_of(k).executed == Approx(6300).epsilon(1e-15));
  k.kind = KernelKind::attention_unfused_backward;
  CHECK(flops_of(k).executed == Approx(5040).epsilon(1e-15));
  k.softcap = 30.0;
  CHECK(flops_of(k).counted == Approx(5040).epsilon(1e-15));
  CHECK(flops_of(k).executed == Approx(6300).epsilon(1e-15));
  k.kind = KernelKind::attention_unfused_forward;
  k.options.chunked = true;
  CHECK(flops_of(k).executed == Approx(1800).epsilon(1e-15));
  // A window of the whole sequence hides nothing.
  k.window = 8;
  const KernelFlops wide = flops_of(k);
  k.window = 0;
  CHECK(wide.counted == flops_of(k).counted);
  CHECK(wide.executed == flops_of(k).executed);
}

// 3 heads of 5 on one sequence: 20 * 3 FLOPs a pair forward.
TEST_CASE("attention on brought keys counts the mean of what ranks see through a window", "[kernel]") {
  Kernel k;
  k.kind = KernelKind::attention_part_forward;
  k.rows = k.depth = 8;
  k.batch = 1;
  k.heads = 3;
  k.head_dim = 5;
  k.options.causal = true;
  k.window = 3;
  k.parameter = 2.5;
  k.columns = 4;
  CHECK(flops_of(k).counted == 150);
  CHECK(flops_of(k).executed == 150);
  CHECK(busiest_flops(k) == 240);
  // No rank sees any of these keys.
  k.parameter = 0.0;
  k.columns = 0;
  CHECK(flops_of(k).counted == 0.0);
  CHECK(busiest_flops(k) == 0.0);
}
