#pragma once

#include <QObject>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "framework/search_space.hpp"
#include "gui/model/prediction.hpp"
#include "planner/search.hpp"

namespace orrery::gui {

/// What is searched for.
struct SearchWish {
  Objective objective = Objective::step_time;
  std::uint32_t top = 20;
  SpaceWish space = {};  ///< who launches the plans, and within which limits
};

/// How a search ended.
struct SearchEnd {
  SearchResult result;
  PricedRun on;         ///< whose model, workload and cluster were searched
  std::string failure;  ///< empty: none
};

/// The planner on a thread of its own. Plans stream in as they enter the best so far. A cancelled search keeps its
/// plans.
class SearchService : public QObject {
  Q_OBJECT
 public:
  explicit SearchService(QObject* parent = nullptr);
  ~SearchService() override;

  /// Begins a search for the model, workload and cluster of the run, one at a time; ignored while one is running. Wrong
  /// limits are in the diagnostics, and nothing begins.
  bool start(const PricedRun&, const SearchWish&, Diagnostics&);
  void cancel() { cancel_ = true; }
  [[nodiscard]] bool is_running() const { return running_; }

 Q_SIGNALS:
  void progressed(const orrery::SearchProgress&);
  void found(const orrery::FoundPlan&);
  void finished(const std::shared_ptr<const orrery::gui::SearchEnd>&);

 private:
  std::atomic<bool> cancel_{false};
  bool running_ = false;
  std::thread thread_;
};

/// Compares a found plan's report with the whole device and adds its prices. It leaves out the memory of its process,
/// which takes a quarter of a second for a large plan. A person who takes the plan gets it predicted.
void complete_report(FoundPlan&, const PricedRun&);

}  // namespace orrery::gui
