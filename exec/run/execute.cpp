#include "exec/run/execute.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/comm/slow_world.hpp"
#include "exec/comm/thread_communicator.hpp"
#include "exec/run/op_text.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/run/run_record.hpp"
#include "exec/run/run_threads.hpp"

namespace orrery {
namespace {

/// The rank stops without a word, as a crashed process would.
class Exits {};

/// One run: its ranks, and what they share.
class Run final : public RunBuffers {
 public:
  Run(const Program& program, const RunOptions& options, const ThreadedRanks& ranks)
      : program_(program),
        options_(options),
        world_(static_cast<std::uint32_t>(program.mesh.size()),
               {options.watchdog, [this](Rank r) { return describe_rank(program_, r, runners_[index(r)]->progress()); },
                ranks.ends}),
        record_(program, options, ranks.origin) {
    RankOptions how = rank_options(options);
    if (options.fault) {
      how.before_op = [this](Rank r, OpId op, std::uint64_t step) { inject(r, op, step); };
    }
    if (options.slow_links) slow_.emplace(world_, options.slow_links->rate);
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      runners_.push_back(ranks.make(slow_ ? static_cast<World&>(*slow_) : world_, Rank{r}, how));
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
    if (world_.aborted()) {
      try {
        if (options_.hooks != nullptr) options_.hooks->failure({world_.reason()});
      } catch (const std::exception&) {
        // A hook that also fails must not hide the first failure.
      }
      throw Error(world_.reason());
    }
    for (std::uint32_t r = 0; r < runners_.size(); ++r) {
      record_.add_rank(Rank{r}, runners_[r]->memory(), runners_[r]->routing());
    }
    return record_.take();
  }

  [[nodiscard]] std::span<std::byte> find(Rank rank, const Instance& instance) const override {
    return runners_[index(rank)]->find(instance);
  }

 private:
  /// A rank's thread, from start to end.
  void live(Rank rank) {
    RankWalker& runner = *runners_[index(rank)];
    try {
      runner.start();
      std::uint64_t step = 0;
      do {
        walk(rank, step);
      } while (pause(rank, step++));
    } catch (const Aborted&) {
      // This rank is not the one to report: another rank's failure is.
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

  /// Walks the list of one step (0: setup).
  void walk(Rank rank, std::uint64_t step) {
    RankWalker& runner = *runners_[index(rank)];
    const std::uint64_t sent_before = runner.sent_bytes();
    const std::uint64_t data_step = step == 0 ? 0 : options_.first_step + step - 1;
    if (slow_) slow_->set(data_step >= options_.slow_links->from_step);
    runner.walk(step, data_step);
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
      case Fault::Kind::killed:
      case Fault::Kind::stopped: ORRERY_ASSERT(false, index(rank));  // a thread has no life of its own
    }
  }

  /// Waits until all ranks are here; rank 0 then takes stock. Returns whether another step follows.
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
    if (stop_) return false;
    if (rank == Rank{0}) core_seconds_before_ = program_core_seconds();
    runners_[index(rank)]->barrier();  // the gate wakes threads one by one; this aligns their starts
    return true;
  }

  /// Runs between two steps, on rank 0's thread, while all others wait at the gate.
  void take_stock(std::uint64_t step) {
    std::vector<RankStep> ranks;
    for (std::uint32_t r = 0; r < runners_.size(); ++r) {
      ranks.push_back(
          {runners_[r]->times(), runners_[r]->memory().peak_bytes, sent_bytes_[r], runners_[r]->gradient_squares()});
    }
    stop_ = !record_.take_stock(step, ranks, program_core_seconds() - core_seconds_before_, *this);
    for (const auto& runner : runners_) runner->release_found();
  }

  const Program& program_;
  const RunOptions& options_;
  ThreadWorld world_;
  std::optional<SlowWorld> slow_;
  std::vector<std::unique_ptr<RankWalker>> runners_;
  std::vector<std::uint64_t> sent_bytes_;  // of the last list, by rank
  RunRecord record_;
  std::mutex gate_mutex_;
  std::condition_variable gate_open_;
  std::uint64_t gate_ = 0;  ///< number of steps begun so far: the gate of step s opens at s + 1
  bool stop_ = false;
  double core_seconds_before_ = 0.0;  ///< processor time of the program when the step began
};

}  // namespace

RunResult run_threads(const Program& program, const RunOptions& options, const ThreadedRanks& ranks) {
  return Run(program, options, ranks).train();
}

RunResult execute(const Program& program, const ModelSpec& model, const Workload& workload, const Plan& plan,
                  const DataSource& data, const RunOptions& options) {
  ORRERY_ASSERT(program.layers == numbered_layers(model) && program.mesh == plan.mesh, program.layers, model.layers);
  ThreadedRanks ranks;
  ranks.origin = "run threads";
  ranks.ends = ends_of(program, options.concurrent_lanes);
  ranks.make = [&](World& world, Rank rank, const RankOptions& how) {
    return std::make_unique<RankRunner>(program, workload, data, world, rank, how);
  };
  return run_threads(program, options, ranks);
}

}  // namespace orrery
