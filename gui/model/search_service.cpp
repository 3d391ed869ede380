#include "gui/model/search_service.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>

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

std::vector<bool> pareto_front(const std::vector<std::pair<double, double>>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return points[a] < points[b]; });
  std::vector<bool> front(points.size(), false);
  double least = std::numeric_limits<double>::infinity();  // second figure of those with a smaller first
  for (std::size_t i = 0; i < order.size();) {
    // Among points with one first figure only those with the least second one can be on the front.
    const auto [x, y] = points[order[i]];
    std::size_t end = i;
    for (; end < order.size() && points[order[end]].first == x; ++end) {
      front[order[end]] = points[order[end]].second == y && y < least;
    }
    least = std::min(least, y);
    i = end;
  }
  return front;
}

}  // namespace orrery::gui
