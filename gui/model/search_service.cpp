#include "gui/model/search_service.hpp"

#include <exception>

namespace orrery::gui {

SearchService::SearchService(QObject* parent) : QObject(parent) {}

SearchService::~SearchService() {
  cancel_ = true;
  if (thread_.joinable()) thread_.join();
}

bool SearchService::start(const PricedRun& on, const SearchWish& wish, Diagnostics& d) {
  if (running_) return false;
  const SearchLimits limits =
      search_space_of(wish.space, on.prices->software.name, on.run.model, on.run.workload, d).limits;
  if (wish.objective == Objective::cost && !on.run.cluster->price_per_gpu_hour) {
    d.error("cli.objective", on.run.cluster->name + " has no price", {"Minimize step-time instead."});
  }
  if (!d.empty()) return false;
  if (thread_.joinable()) thread_.join();  // it has told that it is done
  cancel_ = false;
  running_ = true;
  thread_ = std::thread([this, on, wish, limits] {
    auto end = std::make_shared<SearchEnd>();
    end->on = on;
    const auto post = [this](auto&& emit_it) { QMetaObject::invokeMethod(this, emit_it, Qt::QueuedConnection); };
    try {
      const ClusterSpec& cluster = *on.run.cluster;
      SearchOptions options;
      options.headroom = margin_of(on.settings, cluster, on.prices->calibration);
      options.objective = wish.objective;
      options.top = wish.top;
      options.cancel = &cancel_;
      options.progress = [&](const SearchProgress& p) { post([this, p] { Q_EMIT progressed(p); }); };
      options.found = [&](const FoundPlan& p) { post([this, p] { Q_EMIT found(p); }); };
      options.limits = limits;
      end->result = search(on.run.model, on.run.workload, cluster, on.prices->calibration, options);
      for (FoundPlan& p : end->result.plans) complete_report(p, on);
    } catch (const std::exception& e) {
      end->failure = e.what();
    }
    post([this, done = std::shared_ptr<const SearchEnd>(std::move(end))] {
      running_ = false;
      Q_EMIT finished(done);
    });
  });
  return true;
}

void complete_report(FoundPlan& found, const PricedRun& on) {
  for (Report* report : {&found.report, found.simulated ? &*found.simulated : nullptr}) {
    if (report != nullptr) tell_prices(*report, *on.prices);
  }
}

}  // namespace orrery::gui
