#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <random>

#include "exec/device/arena_pool.hpp"

using namespace orrery;

namespace {

/// An allocator that hands out addresses of one array and counts.
struct Pretended {
  std::uint64_t room = ~std::uint64_t{0};
  std::uint64_t taken = 0;
  int chunks = 0;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  ArenaPool::Source source() {
    return {[this](std::uint64_t bytes) -> std::byte* {
              if (taken + bytes > room) return nullptr;
              taken += bytes;
              ++chunks;
              memory.push_back(std::make_unique<std::byte[]>(bytes));
              return memory.back().get();
            },
            [this](std::byte*) { --chunks; }};
  }
};

}  // namespace

TEST_CASE("an arena's peak is what was out at one time, to the byte", "[arena]") {
  Pretended memory;
  {
    ArenaPool pool(memory.source(), 4096, 1);
    std::byte* a = pool.take(1000);
    std::byte* b = pool.take(1);
    pool.give_back(a, 1000);
    std::byte* c = pool.take(999);
    CHECK(c == a);  // best fit: where a was
    CHECK(pool.peak_bytes() == 1001);
    CHECK(pool.reserved_bytes() == 4096);
    std::byte* none = pool.take(0);  // an instance of no elements has an address of its own
    CHECK(none != b);
    pool.give_back(none, 0);
    pool.give_back(b, 1);
    pool.give_back(c, 999);
    CHECK(pool.take(4096) == a);  // all parts have grown together
    CHECK(memory.chunks == 1);
    pool.give_back(a, 4096);
  }
  CHECK(memory.chunks == 0);  // all went back
}

TEST_CASE("an arena takes less than a chunk where no chunk is left, and says when there is nothing", "[arena]") {
  Pretended memory;
  memory.room = 5000;
  ArenaPool pool(memory.source(), 4096, 1);
  std::byte* a = pool.take(4096);
  REQUIRE(a != nullptr);
  std::byte* b = pool.take(700);  // 4096 more are not there; 768 are
  REQUIRE(b != nullptr);
  CHECK(pool.reserved_bytes() == 4096 + 768);
  CHECK(pool.take(700) == nullptr);
  CHECK(pool.peak_bytes() == 4796);
  pool.give_back(a, 4096);
  pool.give_back(b, 700);
}

// The law that makes reuse safe: a new owner waits for every op of every former
// owner of any byte of it.
TEST_CASE("a block's new owner waits for all ops that used its bytes before", "[arena]") {
  const unsigned seed = GENERATE(1U, 2U, 3U, 4U);
  CAPTURE(seed);
  std::mt19937 random(seed);
  Pretended memory;
  constexpr std::size_t lanes = 3;
  ArenaPool pool(memory.source(), 8192, lanes);
  std::map<std::byte*, std::uint64_t> out;
  std::map<std::byte*, ArenaPool::Marks> last;  // by 256 bytes: what used them last
  std::uint64_t op = 0;
  for (int i = 0; i < 3000; ++i) {
    if (out.size() < 6 || random() % 2 == 0) {
      const std::uint64_t bytes = 1 + random() % 3000;
      std::byte* p = pool.take(bytes);
      REQUIRE(p != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(p) % 16 == 0);
      for (const auto& [other, size] : out) CHECK((p + bytes <= other || other + size <= p));
      out[p] = bytes;
      for (std::uint64_t at = 0; at < bytes; at += ArenaPool::alignment) {
        const auto used = last.find(p + at);
        if (used == last.end()) continue;
        for (std::size_t l = 0; l < lanes; ++l) CHECK(pool.use(p).before[l] >= used->second[l]);
      }
      const std::size_t lane = random() % lanes;
      pool.use(p).used[lane] = ++op;
      for (std::uint64_t at = 0; at < bytes; at += ArenaPool::alignment) {
        ArenaPool::Marks& marks = last.try_emplace(p + at, ArenaPool::Marks(lanes, 0)).first->second;
        marks[lane] = op;
      }
    } else {
      const auto which = std::next(out.begin(), static_cast<std::ptrdiff_t>(random() % out.size()));
      pool.give_back(which->first, which->second);
      out.erase(which);
    }
    if (i == 1500) {  // all has ended: nothing is waited for
      pool.settle();
      last.clear();
      for (const auto& [p, size] : out) CHECK(pool.use(p).before == ArenaPool::Marks(lanes, 0));
    }
  }
  for (const auto& [p, size] : out) pool.give_back(p, size);
}
