#include "exec/run/execute.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/comm/thread_communicator.hpp"
#include "exec/run/op_text.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {
namespace {

/// The rank stops without a word, as a crashed process would.
class Exits {};

/// One run: its ranks, and what they share.
class Run final : public RunBuffers {
 public:
  Run(const Program& program, const Workload& workload, const DataSource& data, const RunOptions& options)
      : program_(program),
        options_(options),
        world_(static_cast<std::uint32_t>(program.mesh.size()),
               {options.watchdog, [this](Rank r) { return describe_rank(program_, r, runners_[index(r)]->progress()); },
                ends_of(program, options)}) {
    RankOptions how;
    how.concurrent_lanes = options.concurrent_lanes;
    how.poison = options.poison;
    how.disk_folder = options.disk_folder;
    if (options.device_room) how.room[index(Tier::device)] = *options.device_room;
    if (options.host_room) how.room[index(Tier::host)] = *options.host_room;
    if (options.fault) {
      how.before_op = [this](Rank r, OpId op, std::uint64_t step) { inject(r, op, step); };
    }
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      runners_.push_back(std::make_unique<RankRunner>(program, workload, data, world_, Rank{r}, how));
    }
    sent_bytes_.resize(runners_.size());
  }

  RunResult train() {
    std::vector<std::thread> threads;
    try {
      for (std::uint32_t r = 0; r < runners_.size(); ++r) {
        threads.emplace_back([this, r] { live(Rank{r}); });
      }
    } catch (const std::system_error& e) {
      world_.abort(std::string("cannot start a thread per rank: ") + e.what());
    }
    for (std::thread& t : threads) t.join();
    if (world_.aborted()) throw Error(world_.reason());
    for (const auto& runner : runners_) {
      result_.memory.push_back({runner->storage().peak_bytes(), runner->storage().held_bytes(),
                                runner->storage().reserved_bytes(), runner->outside_bytes(),
                                runner->storage().peak_bytes(Tier::host), runner->storage().peak_bytes(Tier::disk)});
    }
    for (std::uint32_t r = 0; r < runners_.size(); ++r) {
      // Tensor ranks, and a row of a grid's, route the same tokens.
      const bool first =
          program_.mesh.coordinate(Rank{r}, Axis::tensor) == 0 && program_.mesh.coordinate(Rank{r}, Axis::column) == 0;
      if (first) add_counts(result_.routing, runners_[r]->routing());
    }
    return std::move(result_);
  }

  [[nodiscard]] std::span<std::byte> find(Rank rank, const Instance& instance) const override {
    return runners_[index(rank)]->storage().find(instance);
  }

 private:
  /// Threads of a rank that communicate: its own, and one for every lane where they run side by side.
  static std::uint32_t ends_of(const Program& program, const RunOptions& options) {
    std::size_t lanes = 0;
    for (std::uint32_t c = 0; options.concurrent_lanes && c < program.classes.size(); ++c) {
      lanes = std::max(lanes, lanes_of(program, representative(program, c)).size());
    }
    return static_cast<std::uint32_t>(1 + lanes);
  }

  [[nodiscard]] std::uint64_t total_steps() const { return options_.warmup_steps + options_.steps; }

  /// A rank's thread, from start to end.
  void live(Rank rank) {
    RankRunner& runner = *runners_[index(rank)];
    try {
      runner.start();
      std::uint64_t step = 0;
      do {
        walk(rank, step);
      } while (pause(rank, step++));
    } catch (const Aborted&) {
      // Another rank's failure is the one to report.
    } catch (const Exits&) {
      world_.leave(rank);
    } catch (const std::system_error& e) {
      world_.abort(std::string("cannot start a thread per lane: ") + e.what());
    } catch (const OpFailed& e) {
      world_.abort("rank " + std::to_string(index(rank)) + " failed in " + e.what());
    } catch (const std::exception& e) {
      world_.abort("rank " + std::to_string(index(rank)) + " failed between steps: " + e.what());
    }
  }

  /// The list of one step (0: setup).
  void walk(Rank rank, std::uint64_t step) {
    RankRunner& runner = *runners_[index(rank)];
    const std::uint64_t sent_before = runner.sent_bytes();
    runner.walk(step, step == 0 ? 0 : options_.first_step + step - 1);
    sent_bytes_[index(rank)] = runner.sent_bytes() - sent_before;
  }

  void inject(Rank rank, OpId op, std::uint64_t step) {
    const Fault& fault = *options_.fault;
    if (fault.rank != rank || fault.op != op || fault.step != step) return;
    switch (fault.kind) {
      case Fault::Kind::throws: throw Error("injected fault");
      case Fault::Kind::exits: throw Exits{};
      case Fault::Kind::stalls:
        while (!world_.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        throw Aborted{};
    }
  }

  /// Waits until all ranks are here; rank 0 then takes stock.  Whether another step follows.
  bool pause(Rank rank, std::uint64_t step) {
    runners_[index(rank)]->barrier();
    if (rank == Rank{0}) {
      take_stock(step);
      const std::lock_guard lock(gate_mutex_);
      gate_ = step + 1;
      gate_open_.notify_all();
    } else {
      std::unique_lock lock(gate_mutex_);
      while (gate_ <= step) {
        if (world_.aborted()) throw Aborted{};
        gate_open_.wait_for(lock, std::chrono::milliseconds(50));
      }
    }
    if (stop_ || step == total_steps()) return false;
    if (rank == Rank{0}) core_seconds_before_ = program_core_seconds();
    runners_[index(rank)]->barrier();  // the gate wakes threads one by one; this aligns their starts
    return true;
  }

  /// Between two steps, on rank 0's thread, all others waiting at the gate.
  void take_stock(std::uint64_t step) {
    const double step_core_seconds = program_core_seconds() - core_seconds_before_;
    RunEvent event;
    event.step = step;
    event.warmup = step <= options_.warmup_steps;
    event.program = &program_;
    event.buffers = this;
    Trace trace;
    if (step > 0) {
      trace = trace_of_step();
      event.trace = &trace;
      event.loss = loss();
      result_.losses.push_back(*event.loss);
    }
    if (options_.on_event) options_.on_event(event);
    if (step > options_.warmup_steps) {
      result_.cores.needed += needed_core_time(program_, trace, std::max(1U, std::thread::hardware_concurrency()));
      result_.cores.had += step_core_seconds;
      record(std::move(trace), step - options_.warmup_steps - 1);
    }
    if (step < total_steps() && options_.cancel != nullptr && options_.cancel->load()) {
      result_.cancelled = true;
      stop_ = true;
    }
  }

  /// Keeps the trace of recorded step `number` if its turn has come.
  void record(Trace trace, std::uint64_t number) {
    std::int64_t end = 0;
    for (const RankTrace& rank : trace.ranks) {
      for (const Span& span : rank.spans) end = std::max(end, span.end);
    }
    RecordedTimes& times = result_.times;
    times.fastest = times.steps == 0 ? end : std::min(times.fastest, end);
    times.slowest = std::max(times.slowest, end);
    ++times.steps;
    if (number % result_.trace_stride != 0) return;
    std::vector<Trace>& kept = result_.traces;
    if (kept.size() >= std::max<std::size_t>(options_.kept_traces, 2)) {
      for (std::size_t i = 1; 2 * i < kept.size(); ++i) kept[i] = std::move(kept[2 * i]);
      kept.resize((kept.size() + 1) / 2);
      result_.trace_stride *= 2;
      if (number % result_.trace_stride != 0) return;
    }
    kept.push_back(std::move(trace));
  }

  Trace trace_of_step() const {
    constexpr std::int64_t picoseconds = 1000;  // per nanosecond
    std::int64_t origin = std::numeric_limits<std::int64_t>::max();
    for (const auto& runner : runners_) {
      for (const OpTimes& t : runner->times()) origin = std::min(origin, t.start);
    }
    Trace trace;
    trace.origin = "run threads";
    trace.concurrent_lanes = options_.concurrent_lanes;
    for (std::uint32_t r = 0; r < runners_.size(); ++r) {
      RankTrace rank;
      rank.rank = Rank{r};
      rank.spans.reserve(runners_[r]->times().size());
      for (const OpTimes& t : runners_[r]->times()) {
        rank.spans.push_back({(t.start - origin) * picoseconds, (t.end - origin) * picoseconds});
      }
      rank.peak_bytes = runners_[r]->storage().peak_bytes();
      rank.sent_bytes = sent_bytes_[r];
      trace.ranks.push_back(std::move(rank));
    }
    return trace;
  }

  /// A class whose step takes the mean of the loss: the rank that holds the head.
  [[nodiscard]] std::uint32_t loss_class() const {
    for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
      for (const Slot& slot : program_.classes[c].step) {
        for (const Kernel& k : program_[slot.block].kernels) {
          if (k.kind == KernelKind::mean_loss) return c;
        }
      }
    }
    ORRERY_ASSERT(false);
    return 0;
  }

  [[nodiscard]] double loss() const {
    for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].name != "loss") continue;
      const Rank rank = representative(program_, loss_class());
      const std::span<std::byte> bytes = find(rank, {BufferId{b}, 0, 0});
      ORRERY_ASSERT(program_.buffers[b].dtype == DType::f64 && bytes.size() == sizeof(double), bytes.size());
      return *reinterpret_cast<const double*>(bytes.data());
    }
    ORRERY_ASSERT(false);
    return 0.0;
  }

  const Program& program_;
  const RunOptions& options_;
  ThreadWorld world_;
  std::vector<std::unique_ptr<RankRunner>> runners_;
  std::vector<std::uint64_t> sent_bytes_;  // of the last list, by rank
  RunResult result_;
  std::mutex gate_mutex_;
  std::condition_variable gate_open_;
  std::uint64_t gate_ = 0;  ///< steps begun so far: the gate of step s opens at s + 1
  bool stop_ = false;
  double core_seconds_before_ = 0.0;  ///< processor time of the program when the step began
};

}  // namespace

RunResult execute(const Program& program, const ModelSpec& model, const Workload& workload, const Plan& plan,
                  const DataSource& data, const RunOptions& options) {
  ORRERY_ASSERT(program.layers == numbered_layers(model) && program.mesh == plan.mesh, program.layers, model.layers);
  return Run(program, workload, data, options).train();
}

}  // namespace orrery
