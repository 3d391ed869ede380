#pragma once

#include <QObject>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gui/model/latest_worker.hpp"
#include "gui/model/services.hpp"

namespace orrery::gui {

/// A change of one decision that makes a plan fit, or brings it nearest to that.
struct Fix {
  std::string change;                    ///< "recompute none → full"
  std::shared_ptr<const PricedRun> run;  ///< with the change; what was open stays open
  Report report;                         ///< of the changed plan, with what its processes hold
};
struct Fixes {
  PredictionPointer of;
  /// The fixes that make the plan fit, least time lost first, no two of one decision. Where no single change does, it
  /// has the one that needs least memory.
  std::vector<Fix> list;
};
using FixesPointer = std::shared_ptr<const Fixes>;

/// Looks for fixes among the single changes of a plan that does not fit. Each is predicted as the current plan will be,
/// and Report::fits judges it. The result is empty once `outdated` is set.
[[nodiscard]] std::vector<Fix> smallest_fixes(const Prediction&, const std::atomic<bool>& outdated,
                                              std::size_t most = 3);

/// The same on a thread of its own; a newer request stops the older.
class FixService : public QObject {
  Q_OBJECT
 public:
  explicit FixService(QObject* parent = nullptr);
  void request(PredictionPointer prediction) { worker_.submit(std::move(prediction)); }
  void cancel() { worker_.cancel(); }

 Q_SIGNALS:
  void found(const orrery::gui::FixesPointer&);

 private:
  LatestWorker<PredictionPointer> worker_;
};

}  // namespace orrery::gui
