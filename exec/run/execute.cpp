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
        world_(
            static_cast<std::uint32_t>(program.mesh.size()),
            {options.watchdog, [this](Rank r) { return describe_rank(program_, r, runners_[index(r)]->progress()); }}) {
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      runners_.push_back(
          std::make_unique<RankRunner>(program, workload, data, world_.communicator(Rank{r}), Rank{r}, options.poison));
      std::size_t ops = 0;
      for_each_op(program, list_of(Rank{r}).step, [&](const OpRun&) { ++ops; });
      ranks_.push_back({std::vector<RankRunner::Times>(ops), 0});
    }
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
      result_.memory.push_back(
          {runner->storage().peak_bytes(), runner->storage().reserved_bytes(), runner->outside_bytes()});
    }
    return std::move(result_);
  }

  [[nodiscard]] std::span<std::byte> find(Rank rank, const Instance& instance) const override {
    return runners_[index(rank)]->storage().find(instance);
  }

 private:
  struct RankState {
    std::vector<RankRunner::Times> times;  ///< of the step under way, by op
    std::uint64_t sent_bytes = 0;          ///< in that step
  };

  [[nodiscard]] const RankClass& list_of(Rank rank) const { return program_.classes[class_of(program_, rank)]; }
  [[nodiscard]] std::uint64_t total_steps() const { return options_.warmup_steps + options_.steps; }

  /// A rank's thread, from start to end.
  void live(Rank rank) {
    RankRunner& runner = *runners_[index(rank)];
    try {
      std::uint64_t step = 0;
      do {
        walk(rank, step);
      } while (pause(rank, step++));
    } catch (const Aborted&) {
      // Another rank's failure is the one to report.
    } catch (const Exits&) {
      world_.leave(rank);
    } catch (const std::exception& e) {
      const std::string op = current_op(program_, rank, runner.progress());
      world_.abort("rank " + std::to_string(index(rank)) + " failed in " + op + ": " + e.what());
    }
  }

  /// The list of one step (0: setup).
  void walk(Rank rank, std::uint64_t step) {
    RankRunner& runner = *runners_[index(rank)];
    RankState& state = ranks_[index(rank)];
    Progress& progress = runner.progress();
    progress.current.store(Progress::none, std::memory_order_relaxed);
    progress.completed.store(Progress::none, std::memory_order_relaxed);
    progress.step.store(step, std::memory_order_relaxed);
    const std::uint64_t sent_before = runner.communicator().sent_bytes();
    const std::uint64_t data_step = step == 0 ? 0 : options_.first_step + step - 1;
    for_each_op(program_, step == 0 ? list_of(rank).setup : list_of(rank).step, [&](const OpRun& run) {
      progress.current.store(index(run.id), std::memory_order_relaxed);
      if (options_.fault && step == options_.fault->step) inject(rank, run.id);
      const RankRunner::Times times = runner.run(run, data_step);
      if (step > 0) state.times[index(run.id)] = times;
      progress.completed.store(index(run.id), std::memory_order_relaxed);
    });
    progress.current.store(Progress::none, std::memory_order_relaxed);
    state.sent_bytes = runner.communicator().sent_bytes() - sent_before;
  }

  void inject(Rank rank, OpId op) {
    const Fault& fault = *options_.fault;
    if (fault.rank != rank || fault.op != op) return;
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
    runners_[index(rank)]->barrier();  // the gate wakes threads one by one; this aligns their starts
    return true;
  }

  /// Between two steps, on rank 0's thread, all others waiting at the gate.
  void take_stock(std::uint64_t step) {
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
    if (step > options_.warmup_steps) result_.traces.push_back(std::move(trace));
    if (step < total_steps() && options_.cancel != nullptr && options_.cancel->load()) {
      result_.cancelled = true;
      stop_ = true;
    }
  }

  Trace trace_of_step() const {
    constexpr std::int64_t picoseconds = 1000;  // per nanosecond
    std::int64_t origin = std::numeric_limits<std::int64_t>::max();
    for (const RankState& state : ranks_) {
      if (!state.times.empty()) origin = std::min(origin, state.times.front().start);
    }
    Trace trace;
    trace.origin = "run threads";
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      RankTrace rank;
      rank.rank = Rank{r};
      rank.spans.reserve(ranks_[r].times.size());
      for (const RankRunner::Times& t : ranks_[r].times) {
        rank.spans.push_back({(t.start - origin) * picoseconds, (t.end - origin) * picoseconds});
      }
      rank.peak_bytes = runners_[r]->storage().peak_bytes();
      rank.sent_bytes = ranks_[r].sent_bytes;
      trace.ranks.push_back(std::move(rank));
    }
    return trace;
  }

  /// The mean loss lies on the last stage.
  [[nodiscard]] double loss() const {
    for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].name != "loss") continue;
      const Rank last{static_cast<std::uint32_t>(program_.mesh.size() - 1)};
      const std::uint32_t stages = program_.mesh.size(Axis::pipeline);
      const Rank rank = stages > 1 ? program_.mesh.moved(last, Axis::pipeline, stages - 1) : last;
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
  std::vector<RankState> ranks_;
  RunResult result_;
  std::mutex gate_mutex_;
  std::condition_variable gate_open_;
  std::uint64_t gate_ = 0;  ///< steps begun so far: the gate of step s opens at s + 1
  bool stop_ = false;
};

}  // namespace

RunResult execute(const Program& program, const ModelSpec& model, const Workload& workload, const Plan& plan,
                  const DataSource& data, const RunOptions& options) {
  ORRERY_ASSERT(program.layers == model.layers && program.mesh == plan.mesh, program.layers, model.layers);
  return Run(program, workload, data, options).train();
}

}  // namespace orrery
