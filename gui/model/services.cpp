#include "gui/model/services.hpp"

#include <fmt/format.h>

#include <exception>

#include "core/base/units_text.hpp"
#include "core/program/op_count.hpp"

namespace orrery::gui {
namespace {

/// Runs `emit_it` on the thread of `object`, unless it is gone by then.
template <class Emit>
void post(QObject* object, Emit&& emit_it) {
  QMetaObject::invokeMethod(object, std::forward<Emit>(emit_it), Qt::QueuedConnection);
}

}  // namespace

PredictionService::PredictionService(QObject* parent)
    : QObject(parent),
      completions_([this](const PredictionPointer& live, const std::atomic<bool>&) {
        try {
          tell(completed(*live));
        } catch (const std::exception& e) {
          post(this, [this, why = QString::fromStdString(e.what())] { Q_EMIT failed(why); });
        }
      }),
      worker_([this](const std::shared_ptr<const PricedRun>& request, const std::atomic<bool>& outdated) {
        try {
          const auto live = tell(predict_live(request));
          if (!outdated) completions_.submit(live);
        } catch (const std::exception& e) {
          post(this, [this, why = QString::fromStdString(e.what())] { Q_EMIT failed(why); });
        }
      }) {}

PredictionPointer PredictionService::tell(Prediction&& p) {
  auto done = std::make_shared<const Prediction>(std::move(p));
  post(this, [this, done] {
    // An older prediction that becomes complete only now is not reported.
    if (!done->complete || done->of == newest_) Q_EMIT predicted(done);
  });
  return done;
}

void PredictionService::request(std::shared_ptr<const PricedRun> run) {
  newest_ = run;
  completions_.cancel();
  worker_.submit(std::move(run));
}

SimulationService::SimulationService(QObject* parent, bool analyses)
    : QObject(parent), worker_([this, analyses](const PredictionPointer& request, const std::atomic<bool>& outdated) {
        try {
          const std::uint64_t operations = traced_operations(*request->program);
          if (operations > most_drawn_operations) {
            throw Error(fmt::format("The step has {} operations on one rank of each stage; at most {} are drawn.",
                                    with_commas(operations), with_commas(most_drawn_operations)));
          }
          auto done = std::make_shared<SimulatedStep>();
          done->prediction = request;
          done->simulation = simulate_step(*request, outdated);
          done->timeline = make_timeline(*request->program, done->simulation.trace);
          const SimulatedPointer step = std::move(done);
          post(this, [this, step] { Q_EMIT simulated(step); });
          if (analyses && operations <= most_analysed_operations && !outdated) analyse(step, outdated);
        } catch (const SimulationCancelled&) {
          // A newer request waits, or the answer is not wanted any more.
        } catch (const std::exception& e) {
          post(this, [this, why = QString::fromStdString(e.what())] { Q_EMIT failed(why); });
        }
      }) {}

void SimulationService::analyse(const SimulatedPointer& step, const std::atomic<bool>& outdated) {
  const Prediction& p = *step->prediction;
  const CostModel costs = costs_of(p);
  Prices prices;
  price(prices, *p.program, costs);
  StepAnalysis analysis{step, std::make_shared<const Dependencies>(*p.program, prices, timeline_of(step)), {}, {}, {},
                        false};
  const auto tell = [this](const StepAnalysis& a) {
    post(this, [this, told = std::make_shared<const StepAnalysis>(a)] { Q_EMIT analysed(told); });
  };
  // Ranks that take turns on cores are simulated one by one, and those of unlike nodes kind by kind; the trace has only
  // one rank of each class.
  if (prices.core_count == 0 && prices.kinds == 1) {
    analysis.path = critical_path(*p.program, prices, program_classes(*p.program), step->simulation.trace);
    analysis.marks = path_marks(step->timeline, analysis.path);
    tell(analysis);
  }
  if (outdated) return;
  Simulation again = simulate_step(p, outdated, true);
  if (outdated) return;  // gains may be missing
  analysis.path = std::move(*again.critical_path);
  analysis.marks = path_marks(step->timeline, analysis.path);
  analysis.gains = std::move(again.gains);
  analysis.complete = true;
  tell(analysis);
}

void SimulationService::request(PredictionPointer prediction) { worker_.submit(std::move(prediction)); }

std::uint64_t traced_operations(const Program& program) {
  std::uint64_t count = 0;
  for (const RankClass& ranks : program.classes) count += op_count(program, ranks.step);
  return count;
}

}  // namespace orrery::gui
