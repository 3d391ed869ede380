#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/program/program.hpp"
#include "core/record/operation.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// A run, or the simulation of a step, begins.
struct InitEvent {
  std::string origin;  ///< as in Trace: "simulate", "run threads"
  std::uint64_t ranks = 0;
};
/// An op that took time: compute, exchange and copy, or (with its own hook) a collective.
struct OperationEvent {
  std::uint64_t step = 0;
  Rank rank{};
  OpId op{};
  Operation kind{};
  Pass pass = Pass::forward;  ///< of its block
  std::uint32_t layer = 0, microbatch = 0;
  Span span;  ///< from the start of the step
};
/// All ops of a pass of one microbatch on one rank, from the start of the first to the end of the last.
struct MicrobatchEvent {
  std::uint64_t step = 0;
  Rank rank{};
  std::uint32_t microbatch = 0;
  Pass pass = Pass::forward;  ///< forward, recompute, input_gradient, weight_gradient
  Span span;
};
struct StepEvent {
  std::uint64_t step = 0;  ///< counts from 1
  bool warmup = false;
  std::int64_t duration = 0;  ///< picoseconds
  std::optional<double> loss;
};
/// A checkpoint was written (checkpoint), or a run goes on from one (recovery).
struct CheckpointEvent {
  std::uint64_t step = 0;  ///< the last one in it
  std::string path;
};
struct FailureEvent {
  std::string what;  ///< as the error says it
};
/// A run begins anew after a failure.
struct RestartEvent {
  std::uint32_t restart = 0;  ///< counts from 1
  std::uint64_t step = 0;     ///< after which it goes on; 0: from the beginning
  std::uint64_t ranks = 0;
  std::string plan;  ///< as `describe` says it
};
/// The gradient noise of one step (core/record/noise_scale.hpp).
struct NoiseEvent {
  std::uint64_t step = 0;
  double small_batch = 0.0, large_batch = 0.0;    ///< sequences that the two gradients are means over
  double small_square = 0.0, large_square = 0.0;  ///< squares of their norms
  std::optional<double> scale;                    ///< of the steps so far, in sequences; empty: not yet known
};
/// A step's time has left the prediction, and whether that changes the plan (orrery run --adapt); or the plan has been
/// changed, which `took_s` says.
struct AdaptationEvent {
  std::uint64_t step = 0;  ///< the last one that ended
  bool changes = false;
  double measured_s = 0.0, predicted_s = 0.0;  ///< a step under the plan so far
  std::string plan;                            ///< as `describe` says it
  std::optional<std::string> other;            ///< the best of a new search; empty where nothing fits
  double other_s = 0.0;                        ///< its predicted step
  double gain_s = 0.0, cost_s = 0.0;           ///< over the steps left, and of the change
  double latency = 1.0, bytes = 1.0, products = 1.0, others = 1.0;  ///< measured over calibrated times
  std::string why;                                                  ///< the decision in words
  std::optional<double> took_s;                                     ///< the change, once it is done
};
struct ShutdownEvent {
  std::uint64_t steps = 0;  ///< that ended
};

/// Loggers and metrics of one's own override this class: it has one member for each moment in the life of a run, the
/// same for simulated and executed steps.
///
/// Called on one thread, between steps; an exception ends the run. Events of a step come when it has ended, in the
/// order in which they ended: an operation or collective, then the microbatch that it completed, last the step.
class LifecycleHooks {
 public:
  LifecycleHooks() = default;
  LifecycleHooks(const LifecycleHooks&) = delete;
  LifecycleHooks& operator=(const LifecycleHooks&) = delete;
  virtual ~LifecycleHooks() = default;
  virtual void init(const InitEvent&) {}
  virtual void step(const StepEvent&) {}
  virtual void microbatch(const MicrobatchEvent&) {}
  virtual void operation(const OperationEvent&) {}
  virtual void collective(const OperationEvent&) {}
  virtual void checkpoint(const CheckpointEvent&) {}
  virtual void failure(const FailureEvent&) {}
  virtual void recovery(const CheckpointEvent&) {}
  virtual void restart(const RestartEvent&) {}
  virtual void noise(const NoiseEvent&) {}
  virtual void adaptation(const AdaptationEvent&) {}
  virtual void shutdown(const ShutdownEvent&) {}
};

/// Tells the operations, collectives, microbatches and, last, the step of a trace, which may hold some of the ranks
/// only.  The step's duration is taken from the trace.
void tell_step(LifecycleHooks&, const Program&, const Trace&, StepEvent);

/// A log for other programs: one line of JSON for every event. The key "event" says which hook it is; times are in
/// seconds. Each line goes to `write` at once.
[[nodiscard]] std::unique_ptr<LifecycleHooks> lifecycle_log(std::function<void(const std::string&)> write);

}  // namespace orrery
