#include "exec/calibrate/message_rates.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "exec/calibrate/kernel_samples.hpp"
#include "exec/calibrate/sample_programs.hpp"
#include "exec/comm/collective_algorithms.hpp"
#include "exec/comm/thread_communicator.hpp"

namespace orrery {

namespace {

using Clock = std::chrono::steady_clock;

/// Runs `body(rank)` on `ranks` threads and waits for all.
template <class Body>
void on_threads(std::uint32_t ranks, Body body) {
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) threads.emplace_back([&body, r] { body(r); });
  for (std::thread& t : threads) t.join();
}

/// The time of one round of messages among all ranks, averaged over many. `round(communicator, rank)` is called by
/// every rank.
template <class Round>
Seconds time_rounds(std::uint32_t ranks, Round round) {
  // Samples are short, so that some are not disturbed by other programs: the fastest tenth counts.
  constexpr double sample = 0.5e-3;
  constexpr int samples = 25;
  constexpr int warmups = 5;
  ThreadWorld world(ranks, {});
  std::vector<double> took;
  std::uint64_t repeat = 8;
  double fastest = sample;
  std::barrier meet(static_cast<std::ptrdiff_t>(ranks));
  on_threads(ranks, [&](std::uint32_t r) {
    Communicator& communicator = world.communicator(Rank{r});
    for (int s = 0; s < warmups + samples; ++s) {
      meet.arrive_and_wait();
      const auto start = Clock::now();
      for (std::uint64_t i = 0; i < repeat; ++i) round(communicator, r);
      const double each = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(repeat);
      meet.arrive_and_wait();
      if (r != 0) continue;
      if (s < warmups) {
        // The rounds are enough that late starters do not matter; the first samples start threads and touch memory.
        fastest = std::min(fastest, each);
        repeat = static_cast<std::uint64_t>(std::clamp(sample / fastest, 2.0, 1000.0));
      } else {
        took.push_back(each);
      }
    }
  });
  std::sort(took.begin(), took.end());
  return Seconds::of(took[took.size() / 10]);
}

enum class Step { send, copy, add };

/// The time of one step between two ranks: a message from rank 0 to rank 1 and the next time back, or a ring step of an
/// all-gather or a reduce-scatter.
///
/// Large messages are gradients and parameters, which lie outside a core's own
/// caches; small ones are activations, which were just written.  So each round
/// uses the next of 32 places, as far as they fit in 64 MiB.
Seconds time_step(Step step, std::uint64_t bytes) {
  const std::vector<Rank> ranks{Rank{0}, Rank{1}};
  std::vector<std::vector<std::byte>> memory(2);
  const std::uint64_t places = std::clamp<std::uint64_t>((std::uint64_t{64} << 20) / (2 * bytes), 1, 32);
  for (auto& m : memory) m.assign(places * 2 * bytes, std::byte{0});
  std::vector<std::uint64_t> rounds(2);
  std::vector<CollectiveScratch> scratch(2);
  const std::uint64_t count = bytes / 4;
  return time_rounds(2, [&](Communicator& communicator, std::uint32_t r) {
    std::byte* data = memory[r].data() + rounds[r]++ % places * 2 * bytes;
    const Members members{ranks, r, 0};
    const MemoryView part{data + r * bytes, DType::f32, count};
    const MemoryView whole{data, DType::f32, 2 * count};
    Collective collective;
    switch (step) {
      case Step::send: {
        const Piece piece{data, bytes};
        const Message message{r == 0, Rank{1 - r}, 0, std::span(&piece, 1)};
        communicator.exchange(std::span(&message, 1), 0);
        return;
      }
      case Step::copy: {
        collective.kind = Collective::Kind::all_gather;
        const MemoryView views[] = {part, whole};
        run_collective(communicator, collective, members, views, scratch[r], 0);
        return;
      }
      case Step::add: {
        collective.kind = Collective::Kind::reduce_scatter;
        const MemoryView views[] = {whole, part};
        run_collective(communicator, collective, members, views, scratch[r], 0);
        return;
      }
    }
  });
}

/// The time from the start of a send to the end of its receive, where the receiver has waited so long that it sleeps.
Seconds time_wake() {
  constexpr int samples = 25;
  constexpr auto long_wait = std::chrono::microseconds(400);
  ThreadWorld world(2, {});
  std::vector<Clock::time_point> sent(samples);
  std::vector<double> took;
  std::barrier meet(2);
  on_threads(2, [&](std::uint32_t r) {
    std::byte byte{};
    const Piece piece{&byte, 1};
    const Message message{r == 0, Rank{1 - r}, 0, std::span(&piece, 1)};
    for (std::size_t s = 0; s < samples; ++s) {
      meet.arrive_and_wait();
      if (r == 0) {
        const auto start = Clock::now();
        do sent[s] = Clock::now();
        while (sent[s] - start < long_wait);
      }
      world.communicator(Rank{r}).exchange(std::span(&message, 1), 0);
      const auto received = Clock::now();
      meet.arrive_and_wait();  // after this sent[s] may be read
      if (r == 1) took.push_back(std::chrono::duration<double>(received - sent[s]).count());
    }
  });
  std::sort(took.begin(), took.end());
  return Seconds::of(took[took.size() / 10]);
}

/// Rates over message sizes, with the latency taken off.
RateTable step_rates(Step step, Seconds latency) {
  RateTable table;
  table.axes.emplace_back();
  std::vector<Seconds> took;
  for (std::uint64_t bytes = std::uint64_t{4} << 10; bytes <= std::uint64_t{4} << 20; bytes *= 4) {
    table.axes[0].push_back(static_cast<double>(bytes));
    took.push_back(time_step(step, bytes));
  }
  // A message takes no longer than a larger one; disturbances only ever add time.
  for (std::size_t i = took.size() - 1; i-- > 0;) took[i] = std::min(took[i], took[i + 1]);
  for (std::size_t i = 0; i < took.size(); ++i) {
    // Where most of the time is latency, most of it is also the latency's noise, so the bytes count for at least a
    // tenth.
    table.values.push_back(table.axes[0][i] / std::max(took[i] - latency, 0.1 * took[i]).base());
  }
  return table;
}

}  // namespace

MessageRate measure_messages(std::uint32_t cores) {
  MessageRate rates;
  rates.latency = time_step(Step::copy, 8);
  rates.wake = time_wake();
  rates.send = step_rates(Step::send, rates.latency);
  rates.copy = step_rates(Step::copy, rates.latency);
  rates.add = step_rates(Step::add, rates.latency);
  const std::uint32_t many = std::max(4U, cores + 1);
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < many; ++r) ranks.push_back(Rank{r});
  std::vector<CollectiveScratch> scratch(many);
  std::vector<double> value(many, 1.0);
  const Seconds all_reduce = time_rounds(many, [&](Communicator& communicator, std::uint32_t r) {
    const MemoryView view{reinterpret_cast<std::byte*>(&value[r]), DType::f64, 1};
    Collective collective;
    collective.reduction = Collective::Reduction::max;
    run_collective(communicator, collective, {ranks, r, 0}, std::span(&view, 1), scratch[r], 0);
  });
  rates.latency_shared = all_reduce / (2.0 * (many - 1));
  return rates;
}

BusySlowdown measure_slowdown(std::uint32_t cores) {
  if (cores < 2) return {};
  SampleShape shape;
  shape.sequences = 4;
  shape.length = 128;
  shape.head_dim = 128;
  const SampleProgram sample = sample_program(shape, Precision::fp32);
  const auto time_all = [&](std::uint32_t threads, bool gemm) {
    std::vector<double> took(threads);
    std::barrier meet(static_cast<std::ptrdiff_t>(threads));
    on_threads(threads, [&](std::uint32_t t) {
      KernelTimer timer(sample.program, sample.workload);
      meet.arrive_and_wait();
      for (const KernelSample& s : samples_of(sample.program)) {
        const bool matches = gemm ? s.kernel.kind == KernelKind::gemm
                                  : s.kernel.kind == KernelKind::residual_forward ||
                                        s.kernel.kind == KernelKind::adam_update ||
                                        s.kernel.kind == KernelKind::gelu_forward;
        if (matches) took[t] += timer.time(s, {Seconds::of(500e-6), 9, Seconds::of(20e-3)}).typical.base();
      }
    });
    double sum = 0.0;
    for (const double t : took) sum += t;
    return sum / threads;
  };
  const auto ratio = [&](bool gemm) { return std::max(1.0, time_all(cores, gemm) / time_all(1, gemm)); };
  return {ratio(true), ratio(false)};
}

}  // namespace orrery
