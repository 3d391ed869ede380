#include <benchmark/benchmark.h>

#include <QElapsedTimer>
#include <QEventLoop>
#include <QTimer>
#include <filesystem>

#include "gui/app/main_window.hpp"
#include "gui/widgets/search_panel.hpp"
#include "planner/search.hpp"

// The window as a person waits for it, without a display:
//
//     QT_QPA_PLATFORM=offscreen perf_window
//
// `first_window` measures from nothing to a window that shows its plan's figures. `slider_step` measures from a wish
// for another value to the new figures on the screen, for Llama-3-405B on 16,384 GPUs. `search_in_window` measures a
// search with the window open and painted, against the same search alone (`alone_ms`).

namespace orrery::gui {
namespace {

constexpr const char* large = "llama-3-405b-16384-h100";

std::unique_ptr<MainWindow> window_on(const char* plan) {
  Dialogs answers;
  answers.may_discard = [](QWidget*) { return true; };
  auto window = std::make_unique<MainWindow>(Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models"),
                                             std::filesystem::path(), 2, answers);
  window->resize(1280, 800);
  if (!window->open(QLatin1String(plan))) throw std::runtime_error("the example plan cannot be opened");
  window->show();
  return window;
}

template <class Holds>
void wait_for(Holds&& holds) {
  QEventLoop loop;
  QTimer look;  // polling without a pause would take the time that is measured
  QObject::connect(&look, &QTimer::timeout, &loop, [&] {
    if (holds()) loop.quit();
  });
  look.start(1);
  loop.exec();
}

void first_window(benchmark::State& state) {
  for (auto _ : state) {
    const auto window = window_on("gpt2-1.5b-dgx-a100");
    wait_for([&] { return window->prediction() != nullptr; });
    benchmark::DoNotOptimize(window->grab());
  }
}

void slider_step(benchmark::State& state) {
  const auto window = window_on(large);
  window->wait_until_settled();
  std::uint64_t turn = 0;
  for (auto _ : state) {
    const PredictionPointer before = window->prediction();
    window->document().wish(dimension("plan.microbatch_size"), turn++ % 2 == 0 ? 2 : 1);
    wait_for([&] { return window->prediction() != before; });
  }
}

void search_in_window(benchmark::State& state) {
  const auto window = window_on(large);
  window->wait_until_settled();
  double alone = 0.0;
  std::uint64_t estimated = 0;
  for (auto _ : state) {
    bool done = false;
    const auto told = QObject::connect(&window->search(), &SearchService::finished, window.get(),
                                       [&](const std::shared_ptr<const SearchEnd>& end) {
                                         estimated = end->result.estimated;
                                         done = true;
                                       });
    Q_EMIT window->search_panel().start_wished();
    wait_for([&] { return done; });
    QObject::disconnect(told);

    state.PauseTiming();
    const PricedRun& on = *window->document().priced();
    const ClusterSpec& cluster = *on.run.cluster;
    SearchOptions options;
    options.top = window->search_panel().wish().top;
    options.limits = plainest_limits();
    QElapsedTimer timer;
    timer.start();
    const SearchResult result = search(on.run.model, on.run.workload, cluster, on.prices->calibration, options);
    alone += static_cast<double>(timer.nsecsElapsed()) * 1e-6;
    benchmark::DoNotOptimize(result.estimated);
    state.ResumeTiming();
  }
  state.counters["alone_ms"] = alone / static_cast<double>(state.iterations());
  state.counters["plans"] = static_cast<double>(estimated);
}

BENCHMARK(first_window)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(slider_step)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(search_in_window)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace orrery::gui
