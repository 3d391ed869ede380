#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"
#include "core/program/program.hpp"
#include "exec/comm/collective_algorithms.hpp"
#include "exec/comm/thread_communicator.hpp"
#include "exec/kernels/convert.hpp"

using namespace orrery;
using Kind = Collective::Kind;

namespace {

/// Runs `body(rank, communicator)` on one thread per rank.
void on_threads(std::uint32_t ranks, const std::function<void(std::uint32_t, Communicator&)>& body) {
  ThreadWorld world(ranks, {Seconds::of(20), {}});
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        body(r, world.communicator(Rank{r}));
      } catch (const Aborted&) {
      }
    });
  }
  for (std::thread& t : threads) t.join();
  INFO(world.reason());
  REQUIRE_FALSE(world.aborted());
}

std::vector<Rank> all_ranks(std::uint32_t n) {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < n; ++r) ranks.push_back(Rank{r});
  return ranks;
}

template <class T>
MemoryView view(std::vector<T>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), std::is_same_v<T, double> ? DType::f64 : DType::f32, v.size()};
}

/// Whole numbers, so that sums are exact in any order.
double value(std::uint32_t rank, std::uint64_t i) { return static_cast<double>(random_bits(rank, 7, i) % 1000) - 400; }

std::vector<double> vector_of(std::uint32_t rank, std::uint64_t n, std::uint64_t from = 0) {
  std::vector<double> v(n);
  for (std::uint64_t i = 0; i < n; ++i) v[i] = value(rank, from + i);
  return v;
}

double sum_at(std::uint32_t ranks, std::uint64_t i) {
  double s = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) s += value(r, i);
  return s;
}

double max_at(std::uint32_t ranks, std::uint64_t i) {
  double m = value(0, i);
  for (std::uint32_t r = 1; r < ranks; ++r) m = std::max(m, value(r, i));
  return m;
}

Collective collective(Kind kind, Collective::Reduction reduction = Collective::Reduction::sum, std::uint32_t root = 0) {
  return {kind, reduction, GroupId{0}, Peer{root}};
}

}  // namespace

// Sizes go from nothing over fewer elements than members to several chunks with a remainder.
TEST_CASE("an all-reduce equals the serial sum or maximum, and sends what the formula says", "[comm]") {
  const auto p = static_cast<std::uint32_t>(GENERATE(range(1, 9)));
  const std::uint64_t n = GENERATE(0, 1, 2, 3, 5, 7, 8, 9, 64, 1001);
  const auto ranks = all_ranks(p);
  std::vector<int> wrong(p, 0);
  std::vector<std::uint64_t> sent(p);
  on_threads(p, [&](std::uint32_t r, Communicator& c) {
    CollectiveScratch scratch;
    std::vector<double> sum = vector_of(r, n);
    std::vector<double> max = vector_of(r, n);
    const Members members{ranks, r, 0};
    const MemoryView sum_view[] = {view(sum)};
    const MemoryView max_view[] = {view(max)};
    run_collective(c, collective(Kind::all_reduce), members, sum_view, scratch, 0);
    sent[r] = c.sent_bytes();
    run_collective(c, collective(Kind::all_reduce, Collective::Reduction::max), members, max_view, scratch, 0);
    for (std::uint64_t i = 0; i < n; ++i) wrong[r] += sum[i] != sum_at(p, i) || max[i] != max_at(p, i);
  });
  for (std::uint32_t r = 0; r < p; ++r) {
    CAPTURE(p, n, r);
    CHECK(wrong[r] == 0);
    CHECK(sent[r] == ring_bytes_sent(Kind::all_reduce, n, 8, p, r));
  }
}

// 3 + 4 + 6 = 13 elements over 4 members: chunks of 3, 3, 3, 4 cut through the views.
TEST_CASE("several views of an all-reduce travel as one vector", "[comm]") {
  const std::uint32_t p = 4;
  const auto ranks = all_ranks(p);
  std::vector<int> wrong(p, 0);
  std::vector<std::uint64_t> sent(p);
  on_threads(p, [&](std::uint32_t r, Communicator& c) {
    CollectiveScratch scratch;
    std::vector<double> parts[] = {vector_of(r, 3, 0), vector_of(r, 4, 3), vector_of(r, 6, 7)};
    const MemoryView views[] = {view(parts[0]), view(parts[1]), view(parts[2])};
    run_collective(c, collective(Kind::all_reduce), {ranks, r, 0}, views, scratch, 0);
    sent[r] = c.sent_bytes();
    std::uint64_t at = 0;
    for (const auto& part : parts) {
      for (const double x : part) wrong[r] += x != sum_at(p, at++);
    }
  });
  for (std::uint32_t r = 0; r < p; ++r) {
    CHECK(wrong[r] == 0);
    CHECK(sent[r] == ring_bytes_sent(Kind::all_reduce, 13, 8, p, r));
  }
}

TEST_CASE("reduce-scatter leaves chunk i at peer i and all-gather brings the chunks together", "[comm]") {
  const auto p = static_cast<std::uint32_t>(GENERATE(range(1, 9)));
  const std::uint64_t part = GENERATE(0, 1, 3, 40);
  const bool in_place = GENERATE(false, true);  // the part lies inside the whole
  const auto ranks = all_ranks(p);
  std::vector<int> wrong(p, 0);
  std::vector<std::uint64_t> scattered(p), gathered(p);
  on_threads(p, [&](std::uint32_t r, Communicator& c) {
    CollectiveScratch scratch;
    const Members members{ranks, r, 3};
    // Two pairs: one of `part` elements per peer, one of 2.
    std::vector<double> whole[] = {vector_of(r, part * p), vector_of(r, 2 * p, part * p)};
    std::vector<double> own[] = {std::vector<double>(part, -1), std::vector<double>(2, -1)};
    MemoryView parts[2];
    for (int v = 0; v < 2; ++v) {
      parts[v] = view(own[v]);
      if (in_place) parts[v].data = view(whole[v]).data + r * parts[v].count * sizeof(double);
    }
    const MemoryView scatter[] = {view(whole[0]), parts[0], view(whole[1]), parts[1]};
    run_collective(c, collective(Kind::reduce_scatter), members, scatter, scratch, 0);
    scattered[r] = c.sent_bytes();
    const MemoryView gather[] = {parts[0], view(whole[0]), parts[1], view(whole[1])};
    run_collective(c, collective(Kind::all_gather), members, gather, scratch, 0);
    gathered[r] = c.sent_bytes() - scattered[r];
    std::uint64_t at = 0;
    for (const auto& w : whole) {
      for (const double x : w) wrong[r] += x != sum_at(p, at++);
    }
  });
  for (std::uint32_t r = 0; r < p; ++r) {
    CAPTURE(p, part, in_place, r);
    CHECK(wrong[r] == 0);
    CHECK(scattered[r] == ring_bytes_sent(Kind::reduce_scatter, (part + 2) * p, 8, p, r));
    CHECK(gathered[r] == ring_bytes_sent(Kind::all_gather, (part + 2) * p, 8, p, r));
  }
}

TEST_CASE("broadcast spreads the root's vector and reduce sums at the root alone", "[comm]") {
  for (std::uint32_t p = 1; p <= 6; ++p) {
    for (std::uint32_t root = 0; root < p; ++root) {
      const std::uint64_t n = 5;
      const auto ranks = all_ranks(p);
      std::vector<int> wrong(p, 0);
      std::vector<std::uint64_t> broadcast(p), reduced(p);
      on_threads(p, [&](std::uint32_t r, Communicator& c) {
        CollectiveScratch scratch;
        const Members members{ranks, r, 1};
        std::vector<double> x = vector_of(r, n);
        std::vector<double> y = vector_of(r, n);
        const MemoryView x_view[] = {view(x)};
        const MemoryView y_view[] = {view(y)};
        run_collective(c, collective(Kind::broadcast, Collective::Reduction::sum, root), members, x_view, scratch, 0);
        broadcast[r] = c.sent_bytes();
        run_collective(c, collective(Kind::reduce, Collective::Reduction::sum, root), members, y_view, scratch, 0);
        reduced[r] = c.sent_bytes() - broadcast[r];
        for (std::uint64_t i = 0; i < n; ++i) {
          wrong[r] += x[i] != value(root, i);
          wrong[r] += y[i] != (r == root ? sum_at(p, i) : value(r, i));
        }
      });
      for (std::uint32_t r = 0; r < p; ++r) {
        CAPTURE(p, root, r);
        CHECK(wrong[r] == 0);
        CHECK(broadcast[r] == ring_bytes_sent(Kind::broadcast, n, 8, p, r, root));
        CHECK(reduced[r] == ring_bytes_sent(Kind::reduce, n, 8, p, r, root));
      }
    }
  }
}

TEST_CASE("all-to-all is the transposition of the parts", "[comm]") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    const std::uint64_t part = 3;
    const auto ranks = all_ranks(p);
    std::vector<int> wrong(p, 0);
    std::vector<std::uint64_t> sent(p);
    on_threads(p, [&](std::uint32_t r, Communicator& c) {
      CollectiveScratch scratch;
      std::vector<double> from = vector_of(r, part * p);
      std::vector<double> to(part * p, -1);
      const MemoryView views[] = {view(from), view(to)};
      run_collective(c, collective(Kind::all_to_all), {ranks, r, 0}, views, scratch, 0);
      sent[r] = c.sent_bytes();
      for (std::uint32_t q = 0; q < p; ++q) {
        for (std::uint64_t i = 0; i < part; ++i) wrong[r] += to[q * part + i] != value(q, r * part + i);
      }
    });
    for (std::uint32_t r = 0; r < p; ++r) {
      CAPTURE(p, r);
      CHECK(wrong[r] == 0);
      CHECK(sent[r] == ring_bytes_sent(Kind::all_to_all, part * p, 8, p, r));
    }
  }
}

TEST_CASE("paired broadcast copies the root's source, paired reduce writes the sum on the root alone", "[comm]") {
  for (std::uint32_t p = 1; p <= 6; ++p) {
    for (std::uint32_t root = 0; root < p; ++root) {
      const std::uint64_t n = 5;
      const auto ranks = all_ranks(p);
      std::vector<int> wrong(p, 0);
      std::vector<std::uint64_t> broadcast(p), reduced(p);
      on_threads(p, [&](std::uint32_t r, Communicator& c) {
        CollectiveScratch scratch;
        const Members members{ranks, r, 1};
        std::vector<double> source = vector_of(r, n);
        std::vector<double> copy(n, -1), result(n, -1);
        MemoryView from = view(source);
        from.use = View::Use::read;
        const MemoryView to_copy[] = {from, view(copy)};
        const MemoryView to_result[] = {from, view(result)};
        run_collective(c, collective(Kind::broadcast, Collective::Reduction::sum, root), members, to_copy, scratch, 0);
        broadcast[r] = c.sent_bytes();
        run_collective(c, collective(Kind::reduce, Collective::Reduction::sum, root), members, to_result, scratch, 0);
        reduced[r] = c.sent_bytes() - broadcast[r];
        for (std::uint64_t i = 0; i < n; ++i) {
          wrong[r] += source[i] != value(r, i);
          wrong[r] += copy[i] != value(root, i);
          wrong[r] += result[i] != (r == root ? sum_at(p, i) : -1);
        }
      });
      for (std::uint32_t r = 0; r < p; ++r) {
        CAPTURE(p, root, r);
        CHECK(wrong[r] == 0);
        CHECK(broadcast[r] == ring_bytes_sent(Kind::broadcast, n, 8, p, r, root));
        CHECK(reduced[r] == ring_bytes_sent(Kind::reduce, n, 8, p, r, root));
      }
    }
  }
}

TEST_CASE("permute passes every vector on by the distance inside its ring", "[comm]") {
  for (const std::uint32_t p : {2U, 3U, 4U, 6U, 8U}) {
    for (std::uint32_t width = 2; width <= p; ++width) {
      if (p % width != 0) continue;
      for (std::uint32_t distance = 1; distance < width; ++distance) {
        const std::uint64_t n = 4;
        const auto ranks = all_ranks(p);
        std::vector<int> wrong(p, 0);
        std::vector<std::uint64_t> sent(p);
        on_threads(p, [&](std::uint32_t r, Communicator& c) {
          CollectiveScratch scratch;
          std::vector<double> from = vector_of(r, n), to(n, -1);
          const MemoryView views[] = {view(from), view(to)};
          Collective permute = collective(Kind::permute, Collective::Reduction::sum, distance);
          permute.width = width == p ? 0 : width;
          run_collective(c, permute, {ranks, r, 0}, views, scratch, 0);
          sent[r] = c.sent_bytes();
          const std::uint32_t first = r / width * width;
          const std::uint32_t origin = first + (r - first + width - distance) % width;
          for (std::uint64_t i = 0; i < n; ++i) wrong[r] += to[i] != value(origin, i);
        });
        for (std::uint32_t r = 0; r < p; ++r) {
          CAPTURE(p, width, distance, r);
          CHECK(wrong[r] == 0);
          CHECK(sent[r] == ring_bytes_sent(Kind::permute, n, 8, p, r));
        }
      }
    }
  }
}

TEST_CASE("reduce-scatter adds to a part that accumulates", "[comm]") {
  for (std::uint32_t p = 1; p <= 5; ++p) {
    const std::uint64_t part = 3;
    const auto ranks = all_ranks(p);
    std::vector<int> wrong(p, 0);
    on_threads(p, [&](std::uint32_t r, Communicator& c) {
      CollectiveScratch scratch;
      std::vector<double> whole = vector_of(r, part * p);
      std::vector<double> own(part, 100.0);
      MemoryView sum = view(own);
      sum.use = View::Use::accumulate;
      const MemoryView views[] = {view(whole), sum};
      run_collective(c, collective(Kind::reduce_scatter), {ranks, r, 0}, views, scratch, 0);
      for (std::uint64_t i = 0; i < part; ++i) wrong[r] += own[i] != 100.0 + sum_at(p, r * part + i);
    });
    for (std::uint32_t r = 0; r < p; ++r) CHECK(wrong[r] == 0);
  }
}

TEST_CASE("nobody leaves a barrier before the last has come, and it sends no bytes", "[comm]") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    const auto ranks = all_ranks(p);
    std::atomic<std::uint32_t> arrived{0};
    std::vector<int> early(p, 0);
    std::vector<std::uint64_t> sent(p);
    on_threads(p, [&](std::uint32_t r, Communicator& c) {
      CollectiveScratch scratch;
      for (std::uint32_t round = 1; round <= 20; ++round) {
        ++arrived;
        run_collective(c, collective(Kind::barrier), {ranks, r, 0}, {}, scratch, 0);
        early[r] += arrived < round * p;
      }
      sent[r] = c.sent_bytes();
    });
    CHECK(early == std::vector<int>(p, 0));
    CHECK(sent == std::vector<std::uint64_t>(p, 0));
  }
}

// Sums of bf16 numbers round after every addition. The ring's order is fixed by the members alone, so all members and
// all runs hold the same bits.
TEST_CASE("a 16-bit all-reduce gives the same bits on all members in every run", "[comm]") {
  const std::uint32_t p = 5;
  const std::uint64_t n = 123;
  const auto ranks = all_ranks(p);
  std::vector<std::uint16_t> first;
  for (int run = 0; run < 5; ++run) {
    std::vector<std::vector<std::uint16_t>> result(p);
    on_threads(p, [&](std::uint32_t r, Communicator& c) {
      CollectiveScratch scratch;
      std::vector<std::uint16_t> x(n);
      for (std::uint64_t i = 0; i < n; ++i) x[i] = bf16_of(static_cast<float>(random_normal(r, 3, i)));
      const MemoryView views[] = {{reinterpret_cast<std::byte*>(x.data()), DType::bf16, n}};
      run_collective(c, collective(Kind::all_reduce), {ranks, r, 0}, views, scratch, 0);
      result[r] = x;
    });
    if (first.empty()) first = result[0];
    for (const auto& x : result) CHECK(x == first);
  }
}

TEST_CASE("members need not be neighbours, and groups with one rank in common do not mix", "[comm]") {
  // Columns {0, 2, 4} and {1, 3, 5}, then rows {0, 1}, {2, 3}, {4, 5}.
  std::vector<double> result(6);
  on_threads(6, [&](std::uint32_t r, Communicator& c) {
    CollectiveScratch scratch;
    const std::vector<Rank> column = {Rank{r % 2}, Rank{r % 2 + 2}, Rank{r % 2 + 4}};
    const std::vector<Rank> row = {Rank{r / 2 * 2}, Rank{r / 2 * 2 + 1}};
    std::vector<double> x = {static_cast<double>(1U << r)};
    const MemoryView views[] = {view(x)};
    run_collective(c, collective(Kind::all_reduce), {column, r / 2, 0}, views, scratch, 0);
    run_collective(c, collective(Kind::all_reduce), {row, r % 2, 1}, views, scratch, 0);
    result[r] = x[0];
  });
  CHECK(result == std::vector<double>(6, 63.0));
}

TEST_CASE("messages meet in order on each channel, apart from other channels", "[comm]") {
  std::vector<double> got;
  on_threads(2, [&](std::uint32_t r, Communicator& c) {
    double a = 1;
    double b = 2;
    double d = 3;
    const auto piece = [](double& x) { return Piece{reinterpret_cast<std::byte*>(&x), sizeof x}; };
    Piece pieces[] = {piece(a), piece(b), piece(d)};
    const bool send = r == 0;
    const Rank other{1 - r};
    if (!send) a = b = d = 0;
    // The receiver names channel 9 first: it gets the third message there.
    const Message in_order[] = {
        {send, other, 4, {&pieces[0], 1}}, {send, other, 4, {&pieces[1], 1}}, {send, other, 9, {&pieces[2], 1}}};
    const Message other_order[] = {in_order[2], in_order[0], in_order[1]};
    c.exchange(send ? in_order : other_order, 0);
    if (!send) got = {a, b, d};
  });
  CHECK(got == std::vector<double>{1, 2, 3});
}

// Ranks 0 and 1 send to each other. With rendezvous semantics two sends one after the other would wait for ever; one
// exchange does not.
TEST_CASE("opposite transfers of one exchange do not wait for each other", "[comm]") {
  std::vector<double> got(2);
  std::vector<std::int64_t> ready(2);
  on_threads(2, [&](std::uint32_t r, Communicator& c) {
    double out = 10.0 + r;
    double in = 0;
    const Piece send{reinterpret_cast<std::byte*>(&out), sizeof out};
    const Piece receive{reinterpret_cast<std::byte*>(&in), sizeof in};
    const Message messages[] = {{true, Rank{1 - r}, 0, {&send, 1}}, {false, Rank{1 - r}, 0, {&receive, 1}}};
    ready[r] = c.exchange(messages, 100 + r);
    got[r] = in;
  });
  CHECK(got == std::vector<double>{11, 10});
  CHECK(ready == std::vector<std::int64_t>{101, 101});  // the later of the two arrivals
}

TEST_CASE("an aborted world wakes every waiting rank and takes its messages back", "[comm][fault]") {
  ThreadWorld world(3, {Seconds::of(60), [](Rank r) { return "state of rank " + std::to_string(index(r)); }});
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      double x = 0;
      const Piece piece{reinterpret_cast<std::byte*>(&x), sizeof x};
      const Message message{r == 0, Rank{2}, 0, {&piece, 1}};
      try {
        world.communicator(Rank{r}).exchange({&message, 1}, 0);
      } catch (const Aborted&) {
        ++woken;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  world.abort("first reason");
  world.abort("second reason");
  for (std::thread& t : threads) t.join();
  CHECK(woken == 2);
  CHECK(world.reason() == "first reason\n  state of rank 0\n  state of rank 1\n  state of rank 2");
}
